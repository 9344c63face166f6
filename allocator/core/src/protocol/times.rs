//! Times as text.

/// Seconds since 1970 as RFC 3339 writes them, in UTC.
pub(super) fn moment_text(seconds: u64) -> String {
    let (days, left) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so the leap day is their last day. From Howard Hinnant's "chrono-compatible low-level date
    // algorithms". Years beyond 9999 do not matter.
    let days = days.min(2_932_896) + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", left / 3600, left / 60 % 60, left % 60)
}

#[cfg(test)]
mod tests {
    use super::moment_text;

    #[test]
    fn as_date_prints_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_168_800, "2026-11-20T10:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(moment_text(seconds), text);
        }
    }
}
