//! How long to wait before the next try.

use std::time::Duration;

/// Waits that double from the first to the longest. Each wait is up to a fifth longer or shorter, so that nodes and
/// replicas do not act in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// A backoff that begins with `first`.
    #[must_use]
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// The try succeeded: the next wait is the first again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }

    /// How long to wait now.
    pub fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.most);
        jitter(wait)
    }
}

/// `base` with up to a fifth more or less.
#[must_use]
pub fn jitter(base: Duration) -> Duration {
    let part = u32::try_from(random() % 401).unwrap_or(200);
    base * (800 + part) / 1000
}

/// A part of a time, by chance: who does so much at the same moment does not come all at once.
#[must_use]
pub fn part_of(most: Duration) -> Duration {
    most * u32::try_from(random() % 1000).unwrap_or(0) / 1000
}

/// An unpredictable number.
#[must_use]
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Each RandomState has keys of its own: this is random enough here, and needs no crate.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        for expected in [100, 200, 350, 350] {
            let wait = backoff.wait().as_millis();
            assert!((expected * 8 / 10..=expected * 12 / 10).contains(&wait), "{wait} for {expected}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(120));
    }
}
