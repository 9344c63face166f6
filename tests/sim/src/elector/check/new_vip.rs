//! A VIP of which the nodes learn late is not carried while a foreign host has it. The address of a Lease that is given back is
//! gone from the node's interface.

use mooring_agent_core::lease::LeaseView;

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::fault::Fault as Own;
use crate::fault::Fault;
use crate::world::World;

/// The VIP of which the nodes learn late.
const NEW: usize = 1;
/// So long after the foreign host is gone it is looked for again.
const LOOKED_FOR_AGAIN: Nanos = 11 * SECOND;

/// What the check remembers.
#[derive(Debug, Default)]
pub struct NewVip {
    /// A node that could not hear the foreign host carries the VIP, and others may take it from that node.
    taken_beside: bool,
}

impl World<'_, Elector> {
    /// The set of carriers of a VIP has changed.
    pub(in crate::elector) fn check_new_vip(&mut self, vip: usize) {
        let foreign = self.segment.foreign && self.segment.foreign_vip == vip;
        let probes = self.plan.settings.rules.conflict_probe;
        if vip != NEW || !foreign || !probes || self.checks.new_vip.taken_beside {
            return;
        }
        let Some(host) = self.carriers(vip).first().copied() else { return };
        let quiet = self.now > self.checks.outage.last + self.bounds.informed;
        if !quiet || !self.hear_each_other(0, host, self.foreign()) {
            self.checks.new_vip.taken_beside = true;
            return;
        }
        let text = format!("{} carries VIP {vip}, which a foreign host has, and it heard that host", self.names[host]);
        self.violated(Rule::Owners, text);
    }

    /// Whether a VIP cannot be carried yet: a node has not learnt of it, or a foreign host had it until just now. Where nodes do not
    /// probe for foreign owners, none tells that host from a holder that is alive, and while the API is silent none takes any VIP.
    pub(super) fn is_kept_from(&self, vip: usize) -> bool {
        let kept = vip == NEW || !self.plan.settings.rules.conflict_probe;
        let Some(last) = self.plan.settings.own.learns.iter().max().filter(|_| kept) else { return false };
        let foreign = self.plan.faults.iter().find(|planned| planned.fault == Fault::Own(Own::ForeignNew));
        let over = foreign.map_or(0, |planned| planned.at + planned.lasts);
        self.now < over.max(*last) + LOOKED_FOR_AGAIN + self.bounds.outage
    }

    /// A node has given the Lease back. (In a planned hand-over it serves on, and says so.)
    pub(super) fn check_released(&mut self, by: Option<usize>, before: &str, view: &LeaseView) {
        let Some(host) = by.filter(|by| before == self.names[*by] && view.record.holder.is_empty()) else { return };
        if view.notes.handover.is_some() || self.hosts[host].own.rival.is_some() {
            return;
        }
        if let Some(vip) = self.hosts[host].vips.iter().position(|vip| vip.is_some_and(|standing| standing.leased)) {
            let text = format!(
                "{} has given the Lease back at {} ms, and still carries VIP {vip} by it",
                self.names[host],
                self.now / MS
            );
            self.violated(Rule::Fence, text);
        }
    }
}
