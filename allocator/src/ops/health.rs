//! Liveness of the allocator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock;

/// The loop must go round at least this often; a list of many objects may take a while.
const MOST: Duration = Duration::from_mins(1);

/// The time of the last loop round.
#[derive(Debug, Default)]
pub struct Liveness {
    last: AtomicU64,
}

impl Liveness {
    /// Records a loop round.
    pub fn beat(&self) {
        self.last.store(clock::now().as_secs(), Ordering::Relaxed);
    }

    /// Why the allocator is not alive; before the first round it counts as alive.
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

#[cfg(test)]
mod tests {
    use super::*;

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
