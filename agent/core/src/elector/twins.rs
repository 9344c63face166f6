//! Another machine with this node's name: a cloned machine, or copied settings. A Lease that names this node, and whose holder declares
//! MAC addresses none of which is this machine's, is another's: this node neither adopts nor renews it, and takes it as it would
//! take any other node's.

use super::Elector;
use crate::action::Report;
use crate::lease::LeaseView;
use crate::mac::Mac;

impl Elector {
    /// The MAC addresses that the holder declares, if it has this node's name and is another machine. (A kube-vip declares
    /// nothing: it is an earlier program of this machine.)
    pub(super) fn twin(&self) -> Option<&[Mac]> {
        let own = &self.node.participant.macs;
        let declared = self.lease.view().and_then(LeaseView::declaration).filter(|d| d.holder == self.rules.node)?;
        let ours = |mac: &Mac| self.node.macs.contains(mac) || self.had.contains(mac);
        let anothers = !own.is_empty() && !declared.macs.is_empty() && !declared.macs.iter().any(ours);
        anothers.then_some(declared.macs.as_slice())
    }

    /// Whether the Lease is this machine's. An older agent on another machine may renew the tenure that this one began: it stays
    /// this one's.
    pub(super) fn is_mine(&self) -> bool {
        let record = self.record().filter(|record| record.holder == self.rules.node);
        let began = |tenure| self.tenure == Some(tenure);
        record.is_some_and(|r| self.twin().is_none() || began((r.transitions, r.acquired)))
    }

    /// Whether another machine holds the Lease.
    pub(super) fn is_anothers(&self) -> bool {
        !self.lease.holder().is_empty() && !self.is_mine()
    }

    pub(super) fn tell_of_twin(&mut self) {
        let Some(macs) = self.twin().map(<[Mac]>::to_vec) else { return };
        if self.twin_told.is_due(self.step.at.now, &macs) {
            self.report(Report::NameTaken { macs });
        }
    }
}
