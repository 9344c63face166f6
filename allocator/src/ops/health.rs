//! Whether the allocator lives, and whether it is ready.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock;

/// The loop goes round at least so often; a list of many objects may keep it for a while.
const MOST: Duration = Duration::from_mins(1);

/// When the loop last went round.
#[derive(Debug, Default)]
pub struct Liveness {
    last: AtomicU64,
}

impl Liveness {
    /// Says: the loop went round.
    pub fn beat(&self) {
        self.last.store(clock::now().as_secs(), Ordering::Relaxed);
    }

    /// Why it does not live; before the first beat it does.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let last = self.last.load(Ordering::Relaxed);
        let age = Duration::from_secs(clock::now().as_secs().saturating_sub(last));
        if last == 0 || age <= MOST {
            return Vec::new();
        }
        vec![format!("the loop has not gone round for {age:?}; {MOST:?} are allowed")]
    }
}

/// What is waited for. Ready as soon as nothing is, and as something once said so.
#[derive(Debug, Default)]
pub struct Readiness {
    reasons: Mutex<Option<BTreeMap<&'static str, String>>>,
}

impl Readiness {
    /// Notes that `part` waits for something, or no longer does.
    pub fn set(&self, part: &'static str, waits: Option<String>) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = reasons.get_or_insert_default();
        match waits {
            Some(text) => reasons.insert(part, text),
            None => reasons.remove(part),
        };
    }

    /// Why the allocator is not ready; empty when it is.
    #[must_use]
    pub fn waits(&self) -> Vec<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reasons) = reasons.as_ref() else {
            return vec!["allocator: starts".into()];
        };
        reasons.iter().map(|(part, text)| format!("{part}: {text}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_waited_for() {
        let readiness = Readiness::default();
        assert_eq!(readiness.waits(), ["allocator: starts"]);
        readiness.set("claims", Some("not served".into()));
        assert_eq!(readiness.waits(), ["claims: not served"]);
        readiness.set("claims", None);
        assert!(readiness.waits().is_empty());
    }

    #[test]
    fn alive_before_and_after_a_beat() {
        let liveness = Liveness::default();
        assert!(liveness.failures().is_empty());
        liveness.beat();
        assert!(liveness.failures().is_empty());
        liveness.last.store(1, Ordering::Relaxed);
        assert_eq!(liveness.failures().is_empty(), clock::now() < MOST);
    }
}
