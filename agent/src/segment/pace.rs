//! The queue of announcements and its rate limit. Pure: takes the time and returns the frames that may be sent.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::error::Kind;
use crate::core::time::Time;

/// The window the limit counts in, as switches with ARP inspection do.
const WINDOW: Duration = Duration::from_secs(1);

/// A frame that waits to be sent.
pub(super) type Waiting = (Kind, IpAddr);

/// Never sends more than the limit in any one second. Frames above the limit wait in order, each frame once.
#[derive(Debug)]
pub(super) struct Pace {
    limit: Option<usize>,
    sent: VecDeque<Time>,
    queue: VecDeque<Waiting>,
}

impl Pace {
    /// At most `limit` frames a second; `None` means no limit. A limit of zero counts as one.
    pub(super) fn new(limit: Option<u32>) -> Self {
        let limit = limit.map(|limit| usize::try_from(limit.max(1)).unwrap_or(usize::MAX));
        Self { limit, sent: VecDeque::new(), queue: VecDeque::new() }
    }

    /// Puts a frame at the end of the queue, unless the frame waits there already.
    pub(super) fn push(&mut self, frame: Waiting) {
        if !self.queue.contains(&frame) {
            self.queue.push_back(frame);
        }
    }

    /// The next frame that may be sent now; it counts as sent.
    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        if self.queue.is_empty() || self.wait(now) > Some(Duration::ZERO) {
            return None;
        }
        if self.limit.is_some() {
            self.sent.push_back(now);
        }
        self.queue.pop_front()
    }

    /// How long until the next frame may be sent; `None` when none waits.
    pub(super) fn wait(&mut self, now: Time) -> Option<Duration> {
        self.queue.front()?;
        while self.sent.front().is_some_and(|&sent| now.since(sent) >= WINDOW) {
            self.sent.pop_front();
        }
        let full = self.limit.is_some_and(|limit| self.sent.len() >= limit);
        let oldest = self.sent.front().filter(|_| full);
        Some(oldest.map_or(Duration::ZERO, |&sent| (sent + WINDOW).since(now)))
    }

    /// Drops the waiting frames of an address that is not ours to announce any more.
    pub(super) fn forget(&mut self, address: IpAddr) {
        self.queue.retain(|(_, waiting)| *waiting != address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::{prop, proptest};

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn frame(last: u8) -> Waiting {
        (Kind::ArpRequest, Ipv4Addr::new(192, 0, 2, last).into())
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut pace = Pace::new(None);
        for nth in 0..100 {
            pace.push(frame(nth));
        }
        assert_eq!((0..100).filter_map(|_| pace.pop(at(0))).count(), 100);
        assert_eq!(pace.wait(at(0)), None);
    }

    #[test]
    fn a_frame_waits_once_and_is_forgotten() {
        let mut pace = Pace::new(Some(1));
        for nth in [1, 2, 2, 3] {
            pace.push(frame(nth));
        }
        assert_eq!(pace.pop(at(0)), Some(frame(1)));
        assert_eq!(pace.pop(at(999)), None);
        assert_eq!(pace.wait(at(400)), Some(Duration::from_millis(600)));
        pace.forget(frame(2).1);
        assert_eq!(pace.pop(at(1000)), Some(frame(3)));
        assert_eq!(pace.wait(at(1000)), None);
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_in_a_second(limit in 1_u32..20, steps in prop::collection::vec(0_u64..300, 1..200)) {
            let mut pace = Pace::new(Some(limit));
            let (mut now, mut sent) = (0, Vec::new());
            for (nth, step) in steps.iter().enumerate() {
                now += step;
                pace.push(frame(u8::try_from(nth % 256).unwrap()));
                while pace.pop(at(now)).is_some() {
                    sent.push(now);
                }
                let waits = pace.wait(at(now));
                assert!(waits.is_none() || waits > Some(Duration::ZERO));
            }
            for &start in &sent {
                let within = sent.iter().filter(|&&t| t >= start && t < start + 1000).count();
                assert!(within <= usize::try_from(limit).unwrap());
            }
        }
    }
}
