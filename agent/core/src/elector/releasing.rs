//! A holder that lets its VIPs go gives the Lease back. The next holder asks nobody whether the VIPs are gone: they must be gone
//! from this node's interface before the Lease is released. The kernel may refuse a removal, or take its time; then the fence
//! ends the VIPs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::carrying::CANNOT_CARRY;
use super::{Elector, Role};
use crate::action::Why;
use crate::planted::planted;
use crate::time::Time;

/// The Lease is to be released.
#[derive(Debug)]
pub(super) struct Releasing {
    /// The interface refused the VIPs. They are not taken back before the Lease is released: with each try the wait would begin
    /// anew, and no other node could ever have them.
    refused: bool,
    /// This node had no VIP by the Lease any more: nobody waits for the release, and a new elector of the Lease waits for this one's end.
    nothing: bool,
    /// These VIPs may still be on the interface.
    waits_for: BTreeSet<IpAddr>,
    /// The kernel has dropped the VIPs by then: the deadline of their fence.
    at_latest: Time,
    /// How many releases were not answered, in a row; and the next one is not sent before.
    unanswered: u32,
    not_before: Time,
}

/// The pause after a release that was not answered doubles so many times.
const MOST_DOUBLED: u32 = 4;

impl Elector {
    /// This node is to take part no longer. What nobody wants is not handed over: whoever took the Lease by a hand-over would take what this
    /// node has by another Lease for VIPs of this one.
    pub(super) fn withdraw(&mut self, unwanted: bool) {
        self.process.withdraw();
        if unwanted && matches!(self.role, Role::Holding(_)) && !planted!(HandsOverNothing) {
            self.let_go_and_release(Why::NotWanted);
        }
    }

    /// Carries the VIPs no longer, and releases the Lease, if this node holds it, when they are gone.
    pub(super) fn let_go_and_release(&mut self, why: Why) {
        if let Role::Holding(holding) = &self.role {
            let at_latest = holding.sent + self.rules.lease_duration;
            let waits_for =
                if planted!(ReleasesAtOnce) { BTreeSet::new() } else { self.vips.keys().copied().collect() };
            let (refused, not_before) = (why == Why::CannotCarry, self.step.at.now);
            self.releasing = Some(Releasing {
                refused,
                nothing: self.vips.is_empty(),
                waits_for,
                at_latest,
                unanswered: 0,
                not_before,
            });
        }
        self.let_go(why);
    }

    /// A VIP that was to be removed is not on the interface.
    pub(super) fn was_removed(&mut self, address: IpAddr) {
        if let Some(releasing) = &mut self.releasing {
            releasing.waits_for.remove(&address);
            self.step.again = true;
        }
    }

    pub(super) fn advance_releasing(&mut self) {
        let Some(releasing) = &self.releasing else { return };
        let (gone, at_latest) = (releasing.waits_for.is_empty(), releasing.at_latest);
        let (repeated, not_before) = (releasing.unanswered > 0, releasing.not_before);
        let refused = releasing.refused && !gone;
        // After some time this node may be able to carry the VIPs again: then it goes on with its Lease.
        let adopts = repeated && self.is_able() && self.step.at.now >= self.candidacy.refused_until;
        if self.is_carrying() || adopts || !self.is_mine() {
            self.releasing = None;
            return;
        }
        // A renewal that is under way comes first: the release is based on what it wrote.
        // Once the API answers again, the release does not wait.
        let due = repeated && self.api.away.is_none() || self.due(not_before);
        if (gone || self.due(at_latest)) && due && self.api.may_write() {
            if refused && !repeated {
                // Other nodes come first: an interface that does not remove the VIPs may have used up the pause.
                self.candidacy.hold_off = self.candidacy.hold_off.max(self.step.at.now + CANNOT_CARRY);
            }
            self.release(None);
        }
    }

    /// The release was not answered: it is sent again, less and less often. Until it is answered or the Lease ends, no other node
    /// may take the VIPs. A process that is to end does not wait for that. (After a conflict the release is sent again at once:
    /// perhaps only an annotation has changed.)
    pub(super) fn release_unanswered(&mut self) {
        let pause = self.rules.retry_period / 8;
        if !self.process.goes_on() || self.releasing.as_ref().is_some_and(|releasing| releasing.nothing) {
            self.releasing = None;
        } else if let Some(releasing) = &mut self.releasing {
            releasing.not_before = self.step.at.now + pause * (1 << releasing.unanswered.min(MOST_DOUBLED));
            releasing.unanswered = releasing.unanswered.saturating_add(1);
        }
    }

    /// Whether the Lease is yet to be released because the interface refused the VIPs.
    pub(super) fn is_releasing_refused(&self) -> bool {
        self.releasing.as_ref().is_some_and(|releasing| releasing.refused)
    }

    /// Whether the Lease is yet to be released.
    pub(super) fn is_releasing(&self) -> bool {
        self.releasing.is_some()
    }
}
