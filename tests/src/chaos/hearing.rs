//! Whether two hosts can hear each other: a pure function of the faults.

use std::time::Duration;

use super::class::Class;
use super::seen::{Happened, Seen};
use crate::observe::timeline::Interval;

/// An agent that was resumed or restarted needs this long to see the state of the segment.
const AWAKE: Duration = Duration::from_secs(2);
/// nft and netlink finish a fault before its time is taken; at the end of a fault the order is the other way round.
const SLACK: Duration = Duration::from_millis(100);

/// The intervals in which `a` and `b` may not hear each other in both directions.
#[must_use]
pub fn deaf(seen: &Seen, a: &str, b: &str) -> Vec<Interval> {
    // If only the agent cannot act, the fence must end its hold. If frames are lost as well, another host may rightly
    // take the VIP early.
    let lost = seen.faults.iter().any(|fault| fault.class.is_of_the_segment());
    let begins = |fault: &Happened| fault.from - SLACK;
    let mut all: Vec<Interval> = Vec::new();
    for fault in &seen.faults {
        let of = |host: &str| fault.host == host || fault.peer.as_deref() == Some(host);
        let between = match fault.class {
            Class::Cut | Class::CutOneWay => of(a) && of(b),
            class => class.is_of_the_segment() && (of(a) || of(b)),
        };
        if between {
            all.push(Interval { from: begins(fault), to: fault.to });
        }
        if lost && fault.class.stops_the_agent() && (of(a) || of(b)) {
            all.push(Interval { from: begins(fault), to: fault.to + AWAKE });
        }
    }
    all.sort_unstable();
    all
}

/// The intervals without the parts that other intervals cover.
#[must_use]
pub fn without(intervals: Vec<Interval>, out: &[Interval]) -> Vec<Interval> {
    out.iter().fold(intervals, |left, hole| {
        let cut = |one: Interval| {
            let before = Interval { from: one.from, to: one.to.min(hole.from) };
            let after = Interval { from: one.from.max(hole.to), to: one.to };
            [before, after].into_iter().filter(|piece| piece.from < piece.to)
        };
        left.into_iter().flat_map(cut).collect()
    })
}
