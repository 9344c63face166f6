//! The annotations that only the allocator writes: to text and back.

use k8s_openapi::jiff::Timestamp;
use mooring_allocator_core::names::Uid;
use mooring_allocator_core::protocol::{Attempt, Rest};

/// The value of `mooring.dev/attempt`.
#[must_use]
pub fn attempt(attempt: &Attempt) -> String {
    let adopted = if attempt.adopted { " adopted" } else { "" };
    format!("{} {}{adopted}", attempt.claim, attempt.number)
}

/// Reads `mooring.dev/attempt`; `uid` makes a uid from a text. None for an invalid value: the object counts as made by
/// somebody else.
pub fn read_attempt(text: &str, uid: impl FnOnce(&str) -> Uid) -> Option<Attempt> {
    let mut parts = text.split(' ');
    let (claim, number) = (parts.next()?, parts.next()?.parse().ok()?);
    let adopted = match parts.next() {
        None => false,
        Some("adopted") => true,
        Some(_) => return None,
    };
    (!claim.is_empty() && parts.next().is_none()).then(|| Attempt { claim: uid(claim), number, adopted })
}

/// The value of `mooring.dev/quarantined-until`.
#[must_use]
pub fn moment(seconds: u64) -> String {
    let second = i64::try_from(seconds).ok().and_then(|s| Timestamp::from_second(s).ok());
    second.unwrap_or(Timestamp::MAX).to_string()
}

/// Seconds since 1970 of a time as Kubernetes writes it (RFC 3339).
#[must_use]
pub fn read_moment(text: &str) -> Option<u64> {
    let at: Timestamp = text.parse().ok()?;
    u64::try_from(at.as_second()).ok()
}

/// Reads a tombstone's annotations. If the end cannot be read, the address rests for ever: that is safer than handing the
/// address out.
#[must_use]
pub fn read_rest(of: &str, until: Option<&str>) -> Rest {
    Rest { of: Uid::from(of), until: until.and_then(read_moment).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for adopted in [false, true] {
            let attempt = Attempt { claim: Uid::from("u-1"), number: 7, adopted };
            assert_eq!(read_attempt(&super::attempt(&attempt), |uid| Uid::from(uid)), Some(attempt));
        }
        assert_eq!(moment(1_795_168_800), "2026-11-20T10:00:00Z");
        assert_eq!(read_moment("2026-11-20T10:00:00Z"), Some(1_795_168_800));
        assert_eq!(read_moment(&moment(u64::MAX)), Some(253_402_207_200));
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "u", "u x", "u 1 y", "u 1 adopted more", " 1", "u -1"] {
            assert_eq!(read_attempt(text, |uid| Uid::from(uid)), None, "{text}");
        }
        assert_eq!(read_rest("u", Some("soon")).until, u64::MAX);
    }
}
