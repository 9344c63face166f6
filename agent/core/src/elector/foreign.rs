//! Foreign owners of VIPs that this node is about to take. One VIP that another host has keeps none of the others from being
//! taken: it is held back ([`super::searching`]), and neither the witness nor a search asks for it meanwhile. Where foreign owners
//! have all VIPs, this node takes nothing.

use std::net::IpAddr;
use std::time::Duration;

use super::Elector;
use super::vip::Search;
use crate::action::Report;
use crate::lease::LeaseView;
use crate::look::Look;
use crate::mac::Mac;
use crate::time::Time;

/// A host that goes on answering for this long is a foreign owner, and not a node that is just releasing the VIP.
const GOES_ON: Duration = Duration::from_millis(900);
/// A host that was not heard for this long has released the VIP.
const LET_GO: Duration = Duration::from_secs(3);
/// Answers for several VIPs come within this time.
const TOGETHER: Duration = Duration::from_millis(150);
/// How often a foreign owner is reported.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Another host claims a VIP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    mac: Mac,
    first: Time,
    last: Time,
    /// Since when the host has claimed the VIP for too long.
    foreign: Option<Time>,
    /// When the host was reported.
    told: Option<Time>,
}

impl Elector {
    /// A host that does not take part claims a VIP.
    pub(super) fn note_claim(&mut self, address: IpAddr, mac: Mac) {
        let now = self.step.at.now;
        let let_go = LET_GO.max(self.rules.witness_interval * 2);
        let searching = self.is_searching();
        if !self.claims_count() {
            return;
        }
        let missed = self.segment.witness.misses_holder(now) && !self.is_peer(mac);
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if !searching && !missed && matches!(vip.search, Search::Done) {
            // A participant has the VIP: it defends it, as long as it is there.
            vip.claimed = None;
            return;
        }
        let new = Claimed { mac, first: now, last: now, foreign: None, told: None };
        let claimed = vip.claimed.get_or_insert(new);
        if claimed.mac != mac || now.since(claimed.last) > let_go {
            *claimed = new;
        }
        claimed.last = now;
        if now.since(claimed.first) >= GOES_ON {
            claimed.foreign.get_or_insert(now);
        }
    }

    /// Whether a frame says nothing about the holder that this node watches: a host that does not take part claims a VIP that no
    /// participant was heard to have, while other VIPs are known to be the holder's. (A holder that answers from a MAC address that
    /// it has not declared, as a bond may, is heard by those.)
    pub(super) fn is_foreign_to_witness(&self, address: IpAddr, mac: Mac) -> bool {
        let is_new = self.vips.get(&address).is_some_and(|vip| !matches!(vip.search, Search::Done));
        let knows_others = || self.vips.values().any(|vip| matches!(vip.search, Search::Done));
        is_new
            && !self.is_carrying()
            && self.claims_count()
            && !self.is_searching()
            && knows_others()
            && !self.may_still_have(address, mac)
    }

    /// Whether another host's claim is that of a foreign owner: this node looks whether it may take the Lease, or it watches a
    /// holder whose MAC addresses it knows. (The MAC addresses of a kube-vip that holds the Lease are unknown.)
    fn claims_count(&self) -> bool {
        let declared = self.lease.view().and_then(LeaseView::declaration).is_some();
        self.rules.conflict_probe && (self.is_searching() || declared && self.is_anothers())
    }

    /// Holds back the VIPs that foreign owners have, if others are left.
    pub(super) fn advance_foreign(&mut self) {
        if !self.claims_count() {
            self.vips.values_mut().for_each(|vip| vip.claimed = None);
            return;
        }
        let since = self.vips.values().filter_map(|vip| vip.claimed?.foreign).min();
        if !since.is_some_and(|since| self.due(since + TOGETHER)) {
            return;
        }
        let (now, spacing) = (self.step.at.now, self.rules.probe_spacing());
        let mut found = vec![];
        let lease = self.lease.view();
        for (address, vip) in &mut self.vips {
            let Some(claimed) = &mut vip.claimed else { continue };
            if claimed.foreign.take().is_none() {
                continue;
            }
            // A node may have the VIP by another Lease, and not know yet that it is to have it no longer.
            let is_node = lease.is_some_and(|view| view.participant_with(claimed.mac).is_some());
            let lasts = !is_node || now.since(claimed.first) >= TOLD_AGAIN;
            let tells = lasts && claimed.told.is_none_or(|told| now.since(told) >= TOLD_AGAIN);
            if tells {
                claimed.told = Some(now);
            }
            found.push((*address, claimed.mac, tells));
        }
        let is_found = |address: &IpAddr| found.iter().any(|(one, ..)| one == address);
        let others = self.vips.iter().any(|(address, vip)| !vip.is_held_back() && !is_found(address));
        for (address, mac, tells) in found {
            if tells {
                self.report(Report::ForeignOwner { address, mac });
            }
            if let Some(vip) = self.vips.get_mut(&address).filter(|_| others) {
                let told = vip.claimed.take().is_some_and(|claimed| claimed.told.is_some());
                vip.search = Search::On(Look::foreign(now, spacing, mac, told));
            }
        }
        self.step.again |= others;
    }

    /// Another node that declares nothing (kube-vip) has the Lease: which VIPs it has is its own matter, and all are asked for
    /// before this node takes the Lease from it.
    pub(super) fn leaves_owners_to_holder(&self) -> bool {
        self.lease.view().is_some_and(|view| view.is_of_other_program(&self.rules.node))
    }
}
