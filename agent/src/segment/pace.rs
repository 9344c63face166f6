//! The queue of announcements and its rate limit. Pure: takes the time and returns the frames that may be sent.
//!
//! All frames count for the limit. Probes do not wait: the core keeps them to their share ([`probes_of`]). Announcements wait, for
//! their own share and for the limit: so probes that follow them within the second find room. But they do not wait for ever: a holder
//! without the API may have to ask more than its share, and clients find the VIP by its announcements.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::error::Kind;
use crate::core::rules::{LATE, probes_of};
use crate::core::time::Time;

/// The window the limit counts in, as switches with ARP inspection do.
const WINDOW: Duration = Duration::from_secs(1);

/// So long the first frame that waits leaves room to probes beyond their share.
const PATIENCE: Duration = WINDOW;

/// A frame that waits to be sent.
pub(super) type Waiting = (Kind, IpAddr);

/// Never lets more frames go than the limit in any one second. Frames above the limit wait in order, each frame once.
#[derive(Debug)]
pub(super) struct Pace {
    limit: Option<Limit>,
    /// All frames of the last second.
    sent: VecDeque<Time>,
    /// Those of them that had waited.
    waited: VecDeque<Time>,
    queue: VecDeque<Waiting>,
    /// Since when the first frame of the queue is the first.
    first_since: Option<Time>,
    /// When the first frame of the queue may be sent.
    due: Time,
}

/// How many frames may leave within a second.
#[derive(Clone, Copy, Debug)]
struct Limit {
    frames: usize,
    /// Those of them that wait for it. At least one, else a limit of one would leave none to them.
    waiting: usize,
}

impl Pace {
    /// At most `limit` frames a second; `None` means no limit. A limit of zero counts as one.
    pub(super) fn new(limit: Option<u32>) -> Self {
        let size = |frames: u32| usize::try_from(frames.max(1)).unwrap_or(usize::MAX);
        let limit =
            limit.map(|limit| Limit { frames: size(limit), waiting: size(limit.saturating_sub(probes_of(limit))) });
        let (sent, waited) = (VecDeque::new(), VecDeque::new());
        Self { limit, sent, waited, queue: VecDeque::new(), first_since: None, due: Time::default() }
    }

    /// Puts a frame at the end of the queue, unless the frame waits there already.
    pub(super) fn push(&mut self, now: Time, frame: Waiting) {
        if self.queue.contains(&frame) {
            return;
        }
        if self.queue.is_empty() {
            self.first_since = Some(now);
            self.due = now + self.room(now);
        }
        self.queue.push_back(frame);
    }

    /// A frame was sent that does not wait for the limit.
    pub(super) fn note(&mut self, now: Time) {
        if self.limit.is_some() {
            self.sent.push_back(now);
            self.due = self.due.max(now + self.room(now));
        }
    }

    /// The next frame that may be sent now; it counts as sent.
    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        // The process or the machine stood still: other nodes may have the VIPs by now. The core announces again what it still
        // has.
        if !self.queue.is_empty() && now > self.due + LATE {
            self.queue.clear();
        }
        if self.queue.is_empty() || self.room(now) > Duration::ZERO {
            return None;
        }
        if self.limit.is_some() {
            self.sent.push_back(now);
            self.waited.push_back(now);
        }
        let frame = self.queue.pop_front();
        self.first_since = (!self.queue.is_empty()).then_some(now);
        self.due = now + self.room(now);
        frame
    }

    /// How long until the next frame may be sent; `None` when none waits.
    pub(super) fn wait(&mut self, now: Time) -> Option<Duration> {
        self.queue.front()?;
        Some(self.room(now))
    }

    /// How long until the limit allows a frame that waits.
    fn room(&mut self, now: Time) -> Duration {
        let Some(limit) = self.limit else { return Duration::ZERO };
        let all = room(&mut self.sent, limit.frames, now);
        let patience = self.first_since.map_or(Duration::MAX, |since| (since + PATIENCE).since(now));
        room(&mut self.waited, limit.waiting, now).max(all.min(patience))
    }

    /// Drops all waiting frames.
    pub(super) fn forget_all(&mut self) {
        self.queue.clear();
    }

    /// Drops the waiting frames of an address that is not ours to announce any more.
    pub(super) fn forget(&mut self, now: Time, address: IpAddr) {
        let first = self.queue.front().copied();
        self.queue.retain(|(_, waiting)| *waiting != address);
        if self.queue.front().copied() != first {
            // The next frame has not been the first for as long.
            self.first_since = Some(now);
            self.due = now + self.room(now);
        }
    }
}

/// How long until fewer than `most` of the frames that were sent are of the last second.
fn room(sent: &mut VecDeque<Time>, most: usize, now: Time) -> Duration {
    while sent.front().is_some_and(|&sent| now.since(sent) >= WINDOW) {
        sent.pop_front();
    }
    let leaves = sent.len().checked_sub(most).and_then(|n| sent.get(n));
    leaves.map_or(Duration::ZERO, |&sent| (sent + WINDOW).since(now))
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
            pace.push(at(0), frame(nth));
        }
        assert_eq!((0..100).filter_map(|_| pace.pop(at(0))).count(), 100);
        assert_eq!(pace.wait(at(0)), None);
    }

    #[test]
    fn a_frame_waits_once_and_is_forgotten() {
        let mut pace = Pace::new(Some(1));
        for nth in [1, 2, 2, 3] {
            pace.push(at(0), frame(nth));
        }
        assert_eq!(pace.pop(at(0)), Some(frame(1)));
        assert_eq!(pace.pop(at(999)), None);
        assert_eq!(pace.wait(at(400)), Some(Duration::from_millis(600)));
        pace.forget(at(400), frame(2).1);
        assert_eq!(pace.pop(at(1000)), Some(frame(3)));
        assert_eq!(pace.wait(at(1000)), None);
    }

    #[test]
    fn announcements_wait_for_probes() {
        let mut pace = Pace::new(Some(3));
        for millis in [0, 10, 20, 30] {
            pace.note(at(millis));
        }
        pace.push(at(40), frame(1));
        assert_eq!((pace.pop(at(40)), pace.wait(at(40))), (None, Some(Duration::from_millis(970))));
        assert_eq!(pace.pop(at(1_010)), Some(frame(1)));
    }

    /// A holder without the API asks more than its share, all the time.
    #[test]
    fn announcements_wait_for_no_probes_for_ever() {
        let mut pace = Pace::new(Some(15));
        let mut sent = vec![];
        for millis in (0..10_000).step_by(50) {
            pace.note(at(millis));
            if millis == 5_000 {
                (0..3).for_each(|nth| pace.push(at(millis), frame(nth)));
            }
            sent.extend(pace.pop(at(millis)).map(|_| millis));
        }
        assert_eq!(sent, [6_000, 7_000, 8_000]);
    }

    /// The frame that has waited long is not wanted any more.
    #[test]
    fn the_next_frame_waits_for_probes_as_long_as_the_first_one() {
        let mut pace = Pace::new(Some(15));
        let mut sent = vec![];
        for millis in (0..4_000).step_by(50) {
            pace.note(at(millis));
            match millis {
                1_000 => [1, 2].into_iter().for_each(|nth| pace.push(at(millis), frame(nth))),
                1_900 => pace.forget(at(millis), frame(1).1),
                _ => {}
            }
            sent.extend(pace.pop(at(millis)).map(|next| (millis, next)));
        }
        assert_eq!(sent, [(2_900, frame(2))]);
    }

    #[test]
    fn announcements_leave_room_for_the_probes_that_follow() {
        let mut pace = Pace::new(Some(15));
        for nth in 0..30 {
            pace.push(at(0), frame(nth));
        }
        let sent = std::iter::from_fn(|| pace.pop(at(0))).count();
        assert_eq!(sent, 5);
        // The core sends as many probes as it may, in the same second.
        (0..10).for_each(|nth| pace.note(at(nth * 50)));
        assert_eq!((pace.pop(at(999)), pace.wait(at(999))), (None, Some(Duration::from_millis(1))));
        assert!(pace.pop(at(1_000)).is_some());
    }

    #[test]
    fn announcements_of_before_a_standstill_do_not_leave() {
        let mut pace = Pace::new(Some(1));
        for nth in [1, 2, 3] {
            pace.push(at(0), frame(nth));
        }
        assert_eq!(pace.pop(at(0)), Some(frame(1)));
        // A little late is no standstill.
        assert_eq!(pace.pop(at(1_400)), Some(frame(2)));
        assert_eq!((pace.pop(at(5_000)), pace.wait(at(5_000))), (None, None));
        pace.push(at(5_000), frame(4));
        assert_eq!(pace.pop(at(5_000)), Some(frame(4)));
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_in_a_second(limit in 1_u32..20, steps in prop::collection::vec(0_u64..300, 1..200)) {
            let mut pace = Pace::new(Some(limit));
            let (mut now, mut sent) = (0, Vec::new());
            for (nth, step) in steps.iter().enumerate() {
                now += step;
                pace.push(at(now), frame(u8::try_from(nth % 256).unwrap()));
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
