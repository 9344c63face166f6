//! Whether the agent is alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Clock;
use crate::core::time::Time;

/// Heartbeats of the loops that must never stop. A loop whose last beat is too old makes `/livez` fail. The kubelet
/// then restarts the agent. The restart costs no traffic: the fence holds the VIP and the new agent adopts it.
#[derive(Debug)]
pub struct Liveness {
    clock: Clock,
    loops: Mutex<Vec<Watched>>,
}

#[derive(Debug)]
struct Watched {
    name: &'static str,
    most: Duration,
    last: Arc<AtomicU64>,
}

/// The handle by which a loop beats. A beat is cheap, from any thread.
#[derive(Clone, Debug)]
pub struct Heart {
    clock: Clock,
    last: Arc<AtomicU64>,
}

impl Heart {
    /// Records that the loop went round.
    pub fn beat(&self) {
        self.last.store((self.clock)().as_nanos(), Ordering::Relaxed);
    }
}

/// A loop that has not beaten for too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the loop {name:?} has not gone round for {age:?}; {most:?} are allowed")]
pub struct Stale {
    /// The loop.
    pub name: &'static str,
    /// The time since its last beat.
    pub age: Duration,
    /// How old the last beat may be.
    pub most: Duration,
}

impl Liveness {
    pub(super) const fn new(clock: Clock) -> Self {
        Self { clock, loops: Mutex::new(Vec::new()) }
    }

    /// Watches a loop from now on; its last beat may be `most` old. The same name again replaces the earlier heart.
    pub fn watch(&self, name: &'static str, most: Duration) -> Heart {
        let last = Arc::new(AtomicU64::new((self.clock)().as_nanos()));
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|watched| watched.name != name);
        loops.push(Watched { name, most, last: Arc::clone(&last) });
        Heart { clock: self.clock, last }
    }

    /// The loops that have stopped beating.
    #[must_use]
    pub fn stale(&self) -> Vec<Stale> {
        let now = (self.clock)();
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |watched: &Watched| now.since(Time::from_nanos(watched.last.load(Ordering::Relaxed)));
        let stale = loops.iter().map(|watched| Stale { name: watched.name, age: age(watched), most: watched.most });
        stale.filter(|stale| stale.age > stale.most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_loop_that_stands_still_is_named() {
        let liveness = Liveness::new(|| Time::from_nanos(NOW.load(Ordering::Relaxed)));
        let second = Duration::from_secs(1);
        let core = liveness.watch("core", second);
        let _datapath = liveness.watch("datapath", 5 * second);
        assert_eq!(liveness.stale(), []);
        NOW.store(1_500_000_000, Ordering::Relaxed);
        let stale = Stale { name: "core", age: Duration::from_millis(1500), most: second };
        assert_eq!(liveness.stale(), [stale]);
        core.beat();
        assert_eq!(liveness.stale(), []);
    }
}
