//! How many probes may leave on an interface under a limit of frames.
//!
//! A switch that counts frames shuts the port down when one second has too many, whatever the frames are. So there is no second
//! with more probes than [`Rules::most_probes`]; the rest of the limit is for announcements, which wait for it at the edge.
//!
//! The watch over other nodes has one half of the probes, and all other probes have the other half. While nothing else is
//! asked, the watch may have both halves: when several nodes fall silent at once, it needs several probes for each of them. A
//! probe that may not leave yet waits, and the caller tries again: no window is open meanwhile, and nothing counts as missed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::planted::planted;
use crate::rules::Rules;
use crate::time::Time;

/// The limit counts frames within this time, as switches do.
const WINDOW: Duration = Duration::from_secs(1);

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To know whether another node is there.
    Watch,
    /// To know whether another host has a VIP, or whether anybody is there at all.
    Other,
}

/// The probes of the last second, by interface.
#[derive(Debug, Default)]
pub(crate) struct Frames(BTreeMap<u32, Sent>);

#[derive(Debug, Default)]
struct Sent {
    probes: VecDeque<(Time, Purpose)>,
    /// When a probe that is not the watch's was last asked for, whether or not it might leave.
    other: Option<Time>,
}

impl Frames {
    /// A probe that is not the watch's is asked for, whether or not it may leave.
    pub(crate) fn wanted(&mut self, now: Time, interface: u32) {
        self.0.entry(interface).or_default().other = Some(now);
    }

    /// So many probes that wait for nothing leave now, and are not the watch's.
    pub(crate) fn leave(&mut self, now: Time, interface: u32, rules: &Rules, probes: usize) {
        if rules.frames_per_second.is_some() {
            self.wanted(now, interface);
            let sent = self.0.entry(interface).or_default();
            sent.probes.retain(|(at, _)| now.since(*at) < WINDOW);
            sent.probes.extend(std::iter::repeat_n((now, Purpose::Other), probes));
        }
    }

    /// A probe that was counted before leaves only now: a second that begins in between has it, too.
    pub(crate) fn leaves_late(&mut self, now: Time, interface: u32, rules: &Rules) {
        if rules.frames_per_second.is_some() {
            self.0.entry(interface).or_default().probes.push_back((now, Purpose::Other));
        }
    }

    /// So many probes are to leave now: all of them may, and count as sent; or none, and this answers when to try again. More
    /// probes than [`Rules::probes_each`] never may.
    pub(crate) fn take(
        &mut self,
        now: Time,
        interface: u32,
        rules: &Rules,
        purpose: Purpose,
        probes: usize,
    ) -> Result<(), Time> {
        let (Some(most), Some(each)) = (rules.most_probes(), rules.probes_each()) else { return Ok(()) };
        if planted!(WatchBeyondLimit) && purpose == Purpose::Watch {
            return Ok(());
        }
        let sent = self.0.entry(interface).or_default();
        sent.probes.retain(|(at, _)| now.since(*at) < WINDOW);
        let alone = purpose == Purpose::Watch && sent.other.is_none_or(|at| now.since(at) >= WINDOW);
        if purpose == Purpose::Other {
            sent.other = Some(now);
        }
        let same = sent.probes.iter().filter(|(_, of)| *of == purpose).count();
        if sent.probes.len() + probes > most || !alone && same + probes > each {
            return Err(sent.probes.front().map_or(now, |(at, _)| *at) + WINDOW);
        }
        sent.probes.extend(std::iter::repeat_n((now, purpose), probes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn limit(frames: u32) -> Rules {
        Rules { frames_per_second: Some(frames), ..Rules::default() }
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut frames = Frames::default();
        assert_eq!(frames.take(at(0), 2, &Rules::default(), Purpose::Watch, 1_000), Ok(()));
    }

    #[test]
    fn the_watch_has_the_other_half_while_nobody_else_needs_it() {
        let (mut frames, rules) = (Frames::default(), limit(15));
        for t in 0..10 {
            assert_eq!(frames.take(at(t), 2, &rules, Purpose::Watch, 1), Ok(()));
        }
        assert_eq!(frames.take(at(10), 2, &rules, Purpose::Watch, 1), Err(at(1_000)));
        assert_eq!(frames.take(at(10), 3, &rules, Purpose::Watch, 1), Ok(()), "another interface");
        // Somebody else needs it: from now on the watch leaves it to them.
        assert_eq!(frames.take(at(500), 2, &rules, Purpose::Other, 1), Err(at(1_000)));
        assert_eq!(frames.take(at(1_003), 2, &rules, Purpose::Watch, 1), Err(at(1_004)), "five of its own are left");
        assert_eq!(frames.take(at(1_003), 2, &rules, Purpose::Other, 4), Ok(()));
        assert_eq!(frames.take(at(1_009), 2, &rules, Purpose::Watch, 5), Ok(()));
        assert_eq!(frames.take(at(1_010), 2, &rules, Purpose::Other, 2), Err(at(2_003)));
    }

    proptest! {
        #[test]
        fn no_second_has_more_than_the_limit_leaves(
            frames in 1_u32..40,
            asks in prop::collection::vec((0_u64..150, any::<bool>(), 1_usize..5), 1..200),
        ) {
            let (mut all, rules, mut now) = (Frames::default(), limit(frames), 0);
            let (most, each) = (rules.most_probes().unwrap(), rules.probes_each().unwrap());
            let mut sent: Vec<u64> = vec![];
            for (later, watch, probes) in asks {
                now += later;
                let purpose = if watch { Purpose::Watch } else { Purpose::Other };
                let probes = probes.min(each);
                match all.take(at(now), 2, &rules, purpose, probes) {
                    Ok(()) => sent.extend(std::iter::repeat_n(now, probes)),
                    Err(again) => assert!(again > at(now)),
                }
            }
            for start in &sent {
                let within = sent.iter().filter(|t| (*start..*start + 1_000).contains(*t)).count();
                assert!(within <= most, "{within} probes, {most} may leave");
            }
        }
    }
}
