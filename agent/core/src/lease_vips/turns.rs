//! Which Lease's elector asks the segment next.
//!
//! While the API server is away, the elector of each Lease that another node has asks every second whether anybody has its VIPs. With
//! many Leases that would fill the segment. So windows open in turn, as many as the segment bears: first those of Leases that may
//! have lost their holder. A holder whose node answers the node watch most likely still has its VIPs: their windows open now and then,
//! one after the other, for a node may live on when its agent has died.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::elector::Urgency;
use crate::rules::Rules;
use crate::time::Time;

/// Where frames are not limited, VIPs are looked for in an outage as if so many frames a second might leave: probes are two thirds of them.
const FRAMES: u32 = 240;
/// When there was no room, so much time is left for room to become free.
const TOGETHER: Duration = Duration::from_millis(100);
/// The time between two windows that are a matter of routine.
const ROUTINE: Duration = Duration::from_millis(100);
/// The same under a limit of frames, as a multiple of the time between two frames of one kind.
const ROUTINE_LIMITED: u32 = 5;

/// Why a Lease's VIPs are asked for. The first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The API server would let this node take the Lease, if the segment says that nobody has its VIPs.
    Taking,
    /// The VIPs did not answer.
    Deciding,
    /// Nobody watches the holder's node.
    Unwatched,
    /// The holder's node answers.
    Routine,
}

impl Reason {
    pub(super) const fn of(urgency: Urgency, answers: bool) -> Self {
        match (urgency, answers) {
            (Urgency::Taking, _) => Self::Taking,
            (Urgency::Deciding, _) => Self::Deciding,
            (Urgency::Routine, false) => Self::Unwatched,
            (Urgency::Routine, true) => Self::Routine,
        }
    }
}

/// The Leases whose windows wait for their turn.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: BTreeMap<String, (Reason, Time)>,
    routine: Duration,
    next_routine: Time,
    /// There is no room before.
    full_until: Time,
}

impl Turns {
    pub(super) fn new(rules: &Rules) -> Self {
        let routine = rules.probe_spacing().map_or(ROUTINE, |spacing| spacing * ROUTINE_LIMITED);
        Self { waiting: BTreeMap::new(), routine, next_routine: Time::default(), full_until: Time::default() }
    }

    /// Where frames are not limited: by which rules looks are paced all the same.
    pub(super) fn pace(rules: &Rules) -> Rules {
        Rules { frames_per_second: Some(FRAMES), ..rules.clone() }
    }

    /// These Leases have a window that waits, each for that reason.
    pub(super) fn wait(&mut self, now: Time, these: impl Iterator<Item = (String, Reason)>) {
        let before = std::mem::take(&mut self.waiting);
        let since = |name: &str| before.get(name).map_or(now, |(_, since)| *since);
        self.waiting = these
            .map(|(name, reason)| {
                let since = since(&name);
                (name, (reason, since))
            })
            .collect();
    }

    /// The Leases whose window may open now if there is room, in their order.
    pub(super) fn due(&self, now: Time) -> Vec<(String, Reason)> {
        if now < self.full_until {
            return vec![];
        }
        let is_due = |reason: Reason| reason != Reason::Routine || now >= self.next_routine;
        let mut due: Vec<_> = self.waiting.iter().filter(|(_, (reason, _))| is_due(*reason)).collect();
        due.sort_by_key(|(_, place)| **place);
        // One window that is a matter of routine at a time.
        let routine = due.iter().position(|(_, (reason, _))| *reason == Reason::Routine);
        due.truncate(routine.map_or(due.len(), |first| first + 1));
        due.into_iter().map(|(name, (reason, _))| (name.clone(), *reason)).collect()
    }

    /// A window has opened.
    pub(super) fn opened(&mut self, now: Time, name: &str) {
        if let Some((Reason::Routine, _)) = self.waiting.remove(name) {
            self.next_routine = now + self.routine;
        }
    }

    /// Whether a window waits that is not a matter of routine.
    pub(super) fn is_pressing(&self) -> bool {
        self.waiting.values().any(|(reason, _)| *reason != Reason::Routine)
    }

    /// There is no room before that time. Then several windows open at once: they ask the same third parties.
    pub(super) fn is_full(&mut self, now: Time, until: Time) {
        self.full_until = until.max(now + TOGETHER);
    }

    /// When the next window may open.
    pub(super) fn next(&self) -> Option<Time> {
        let of = |reason: Reason| if reason == Reason::Routine { self.next_routine } else { Time::default() };
        self.waiting.values().map(|(reason, _)| of(*reason)).min().map(|next| next.max(self.full_until))
    }
}
