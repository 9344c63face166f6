//! What is known of the API: since when it has not answered, or since when it answers again.

use std::time::Duration;

use super::SessionVips;
use super::hold::Basis;
use super::vip::Vip;
use crate::placement::seed;
use crate::planted::planted;
use crate::rules::AWAY;
use crate::time::Time;

/// After the API was away, takes look at the segment first for so long.
const LOOK_LONGER: Duration = Duration::from_secs(5);

/// All agents see the API come back at the same moment. Those with nothing to take list the sessions within this time.
pub(super) const SPREAD: Duration = Duration::from_secs(30);

/// The API, as far as this node's calls tell. `away` and `back` may both be there: the API was back, and before all was
/// known anew it fell silent again.
#[derive(Debug, Default)]
pub(super) struct Api {
    /// Since when no call has been answered.
    pub(super) away: Option<Time>,
    /// When the API was back: what was known before may be over, the own session too. Nothing is taken before that was
    /// renewed and all sessions were listed since.
    pub(super) back: Option<Time>,
    /// After the API was away, takes look at the segment first, until then.
    pub(super) looks_until: Time,
}

/// How long after the API was back a node lists the sessions, if nothing waits for the list.
pub(super) fn spread(node: &str) -> Duration {
    Duration::from_nanos(seed(node) % u64::try_from(SPREAD.as_nanos()).unwrap_or(u64::MAX))
}

impl SessionVips {
    /// How long this node waits with a call that all nodes make for the same reason. The more nodes there are, the longer: 1,000 of them
    /// take [`SPREAD`].
    pub(super) fn apart(&self) -> Duration {
        let nodes = u32::try_from(self.sessions.live().count().min(1_000)).unwrap_or(1_000);
        spread(&self.rules.node) * nodes / 1_000
    }

    /// Whether any VIP waits for this node to know all sessions.
    pub(super) fn is_any_unsettled(&self) -> bool {
        let unsettled = |vip: &Vip| vip.demand.is_none() || vip.hold.is_some_and(|hold| hold.basis != Basis::Recorded);
        !self.index.open.is_empty() || self.vips.values().any(|vip| unsettled(vip))
    }

    /// Since when the API has not answered: calls that failed, or one that waits for so long.
    pub(super) fn away_since(&self) -> Option<Time> {
        let waiting = self.own.calls.flight.as_ref().map(|f| f.sent);
        let waiting = waiting.into_iter().chain(self.calls.ends.values().map(|end| end.sent)).min();
        let waiting = waiting.filter(|sent| self.step.at.now >= *sent + AWAY);
        match (self.api.away, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether the API is away and the settings say `release`: no short fence is refreshed then.
    pub(super) fn is_released(&mut self) -> bool {
        let strict = !self.rules.hold_without_api && !planted!(HoldsThoughReleased);
        strict && self.away_since().is_some_and(|since| self.due(since + AWAY))
    }

    /// Whether what is known was learned, or confirmed, since the API was back.
    pub(super) fn knows_since_back(&self) -> bool {
        self.api.back.is_none_or(|at| self.own.is_renewed_since(at) && self.sessions.is_listed_since(at))
    }

    /// What is known may have been confirmed just now, for the first time since the API was back.
    pub(super) fn consider_up_to_date(&mut self) {
        if self.api.back.is_some() && self.knows_since_back() {
            self.api.back = None;
            self.index.dirty.extend(self.index.open.iter().copied());
            self.index.dirty.extend(self.index.carried.iter().copied());
            self.step.again = true;
        }
    }

    /// A call has not been answered that was sent then.
    pub(super) fn not_answered(&mut self, sent: Time) {
        if self.api.away.is_none() {
            self.rewatch = true;
            self.index.dirty.extend(self.index.open.iter().chain(&self.index.carried).copied());
        }
        self.api.away.get_or_insert(sent);
        self.step.again = true;
    }

    /// The API has answered.
    pub(super) fn api_answered(&mut self) {
        if let Some(since) = self.api.away.take() {
            self.rewatch = true;
            self.publish_own_soon();
            if self.step.at.now.since(since) > AWAY {
                self.api.looks_until = self.step.at.now + self.rules.lease_duration.max(LOOK_LONGER);
                self.api.back = Some(self.step.at.now);
                self.own.challenged = self.step.at.now;
            }
            if self.own.is_lapsed() || self.api.back == Some(self.step.at.now) {
                self.own.calls.next_write = self.step.at.now.max(self.own.calls.next_try);
            }
            self.all_dirty();
            self.step.again = true;
        }
    }
}
