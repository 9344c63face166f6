//! Watching the holder only when it is suspected.
//!
//! Where each Service has a Lease of its own, nobody probes all VIPs of all holders all the time. A few nodes watch each node
//! instead, by its own address. When that is silent, the elector of each of its Leases probes that Lease's VIPs, and judges by their
//! silence as it does where it watches the holder always.

use std::time::Duration;

use super::Elector;
use super::looking::WITNESSED;
use crate::lease::{Declaration, LeaseView};
use crate::time::Time;

/// For so long after the node was found silent its VIPs are probed, or for as many probes as are needed and two.
const SUSPECTED: Duration = Duration::from_secs(3);

/// A holder that may be gone.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    of: Option<Declaration>,
    until: Time,
}

impl Elector {
    /// The node was found silent, and had answered before.
    pub(super) fn suspect(&mut self, node: &str) {
        let declared = self.lease.view().and_then(LeaseView::declaration);
        let of =
            declared.filter(|declared| declared.holder == node && !self.is_carrying() && self.is_anothers()).cloned();
        // Without the API nothing can be taken early: who may carry the VIPs then asks everybody for them, and not so often.
        if of.is_some() && self.api.away.is_none() {
            let probes = self.rules.witness_interval_for(WITNESSED) * (self.rules.witness_misses + 2);
            self.suspicion = Suspicion { of, until: self.step.at.now + SUSPECTED.max(probes) };
            self.step.again = true;
        }
    }

    /// The node answers after all.
    pub(super) fn suspect_no_more(&mut self, node: &str) {
        if self.suspicion.of.as_ref().is_some_and(|of| of.holder == node) {
            self.suspicion = Suspicion::default();
            self.step.again = true;
        }
    }

    /// A probe that had to wait for its turn leaves. After one that was not answered, the next ones are still sent.
    pub(super) fn goes_on_suspecting(&mut self) {
        if self.segment.witness.is_deciding() {
            let probes = self.rules.witness_interval_for(WITNESSED) * 2;
            self.suspicion.until = self.suspicion.until.max(self.step.at.now + probes);
        }
    }

    /// Whether the holder is probed: always, by the settings, or because its node was found silent.
    pub(super) fn watches_holder(&mut self) -> bool {
        !self.rules.witness_interval.is_zero() || self.is_suspected()
    }

    /// The Lease has ended meanwhile, and everybody is asked for the VIPs: what is probed then does not change because the holder is
    /// suspected too.
    pub(super) fn searches_beside_a_suspicion(&self) -> bool {
        self.rules.witness_interval.is_zero() && self.is_searching()
    }

    /// Whether the holder's node was found silent lately. What was found of one tenure says nothing about the next.
    fn is_suspected(&mut self) -> bool {
        let until = self.suspicion.until;
        self.suspects() && (self.waits() || !self.due(until))
    }

    /// As [`Elector::is_suspected`], by the time of the last step.
    #[must_use]
    pub fn is_suspecting(&self) -> bool {
        self.suspects() && (self.waits() || self.step.at.now < self.suspicion.until)
    }

    fn suspects(&self) -> bool {
        let tenure = |declared: &Declaration| (declared.holder.clone(), declared.transitions, declared.acquired);
        let now = self.lease.view().and_then(LeaseView::declaration).map(tenure);
        self.api.away.is_none() && now.is_some() && now == self.suspicion.of.as_ref().map(tenure)
    }

    /// The holder's node has answered before it fell silent: that stands for the answers of the VIPs, which nobody asked for then.
    pub(super) fn vouch(&mut self) {
        if self.is_suspected() {
            self.segment.witness.vouch();
        }
    }
}
