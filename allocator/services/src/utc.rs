//! A moment as text, for messages.

/// The first second after the year 9999.
const FAR: u64 = 253_402_300_800;

/// A moment in seconds since 1970, as RFC 3339 writes it; None: after the year 9999. Source of the arithmetic: Howard
/// Hinnant, chrono-compatible low-level date algorithms.
#[must_use]
pub fn utc(seconds: u64) -> Option<String> {
    if seconds >= FAR {
        return None;
    }
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    Some(format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_written_as_kubernetes_does() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_168_800, "2026-11-20T10:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds).as_deref(), Some(text));
        }
        assert_eq!(utc(u64::MAX), None);
    }
}
