//! Whether a program is ready.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What the program waits for. Ready when at least one part has reported its state, and no part waits.
#[derive(Debug)]
pub struct Readiness {
    program: &'static str,
    reasons: Mutex<Option<BTreeMap<&'static str, String>>>,
}

impl Readiness {
    /// The readiness of a starting program; `program`: its name for people.
    #[must_use]
    pub const fn of(program: &'static str) -> Self {
        Self { program, reasons: Mutex::new(None) }
    }

    /// Records that `part` waits for something, as in "waits for /etc/kubernetes/admin.conf", or no longer waits.
    pub fn set(&self, part: &'static str, waits: Option<String>) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = reasons.get_or_insert_default();
        match waits {
            Some(text) => reasons.insert(part, text),
            None => reasons.remove(part),
        };
    }

    /// Why the program is not ready; empty when it is.
    #[must_use]
    pub fn waits(&self) -> Vec<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reasons) = reasons.as_ref() else {
            return vec![format!("{}: starts", self.program)];
        };
        reasons.iter().map(|(part, text)| format!("{part}: {text}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_waited_for() {
        for (program, part, waits) in
            [("agent", "api", "waits for /etc/kubernetes/admin.conf"), ("allocator", "claims", "not served")]
        {
            let readiness = Readiness::of(program);
            assert_eq!(readiness.waits(), [format!("{program}: starts")]);
            readiness.set(part, Some(waits.into()));
            assert_eq!(readiness.waits(), [format!("{part}: {waits}")]);
            readiness.set(part, None);
            assert!(readiness.waits().is_empty());
        }
    }
}
