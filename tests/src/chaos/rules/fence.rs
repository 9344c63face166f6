//! No host keeps the VIP past its fence, and every hold has a fence.

use std::time::Duration;

use mooring_agent::core::time::Time;

use super::super::bounds::{KERNEL, LIFETIME, NOTICED};
use super::super::floor::EVERY;
use super::super::seen::Seen;
use super::{Breach, Rule, breach};

/// A hold that went on after its last lifetime had ended, for longer than [`KERNEL`].
struct Late<'a> {
    host: &'a str,
    /// When the lifetime ended.
    end: Time,
    /// When the hold ended.
    to: Time,
    /// Until when the kernel kept an address of the lab's own that ended about the same time.
    kept: Option<Time>,
}

impl Late<'_> {
    /// Until when the hold is no fault of the agent.
    fn allowed(&self) -> Time {
        let kept = self.kept.map(|kept| kept + NOTICED);
        kept.into_iter().fold(self.end + KERNEL, Time::max)
    }
}

/// Judges lifetimes and holds.
pub fn fence(seen: &Seen) -> Vec<Breach> {
    let mut found = Vec::new();
    for one in seen.lifetimes.iter().filter(|one| one.at >= seen.from) {
        if one.valid > LIFETIME || one.preferred != 0 {
            let detail = format!(
                "{}: lifetime {} s (at most {LIFETIME}), preferred {} s (0)",
                one.host, one.valid, one.preferred
            );
            found.push(breach(Rule::Fence, one.at, detail));
        }
    }
    for late in late(seen).filter(|late| late.to > late.allowed()) {
        let (allowed, host) = (late.allowed(), late.host);
        let (by, ms) = (late.to.since(allowed).as_millis(), allowed.since(late.end).as_millis());
        let detail = format!("{host} had the VIP {by} ms longer than it was told, and {ms} ms for the kernel");
        found.push(breach(Rule::Fence, allowed, detail));
    }
    found
}

/// What [`fence`] allowed because the kernel was late, in words.
#[must_use]
pub fn allowances(seen: &Seen) -> Vec<String> {
    let allowed = late(seen).filter(|late| late.to <= late.allowed());
    let words = |late: Late<'_>| {
        let (ms, kept) =
            (late.to.since(late.end).as_millis(), late.kept.unwrap_or(late.to).since(late.end).as_millis());
        format!(
            "{} had the VIP {ms} ms after the end of its lifetime: so long ({kept} ms) the kernel also kept an address of the lab",
            late.host
        )
    };
    allowed.map(words).collect()
}

fn late(seen: &Seen) -> impl Iterator<Item = Late<'_>> {
    let holds = seen.holds.holds().iter().filter(|hold| hold.to.is_none_or(|to| to >= seen.from));
    holds.filter_map(|hold| {
        let to = hold.to.unwrap_or(seen.to).min(seen.to);
        let last = seen.lifetimes.iter().rfind(|one| one.host == hold.host && one.at <= to)?;
        let end = last.at + Duration::from_secs(last.valid.into());
        (to > end + KERNEL).then(|| Late { host: &hold.host, end, to, kept: kept(seen, &hold.host, end) })
    })
}

/// Until when the kernel kept an address of the lab's own on that host. Only an address whose lifetime ended no later than the next
/// one after `end` counts.
fn kept(seen: &Seen, host: &str, end: Time) -> Option<Time> {
    let own = seen.floor.iter().filter(|lapse| lapse.host == host && lapse.end <= end + EVERY);
    own.map(|lapse| lapse.gone.unwrap_or(seen.to)).filter(|gone| *gone > end).max()
}
