//! VIPs that no other node is known to have had: a node that is about to carry one asks the segment first.
//!
//! Whoever takes a free or an expired Lease asks for all VIPs before the take. But a VIP may also come while this node holds
//! the Lease (a name resolves to another address, an `IPAddress` object becomes known), and the holder that hands the Lease over
//! may not have had all of the VIPs (its settings are older). Such a VIP is held back until the segment was asked for it. A
//! foreign owner keeps it from being carried; the other VIPs go on.
//!
//! The answer of a node that takes part may mean that a hold has not ended yet. It means that of the nodes that the Lease names as
//! holders, of any while the API server is away and a lease duration after that (no Lease names who carries provisionally), and of no
//! address that the node has for itself: the addresses of living nodes may be shown as a Service's by another load balancer. Any other
//! node is a foreign owner of what it answers for.

use std::net::IpAddr;

use super::ensured::Ensured;
use super::vip::Search;
use super::{Elector, Role, Vip};
use crate::action::{Action, Report};
use crate::look::{Found, Look};
use crate::mac::Mac;
use crate::planted::planted;

impl Elector {
    /// The VIPs that may be on the interface now. A search begins for those that nothing is known about.
    pub(super) fn may_be_carried(&mut self) -> Vec<IpAddr> {
        let may_search = self.rules.conflict_probe && !planted!(CarriesNewUnasked);
        let spacing = self.rules.probe_spacing();
        // Under a limit of frames one VIP is asked for after the other.
        let each = spacing.map(Look::takes).unwrap_or_default();
        let last = self.vips.values().filter_map(Vip::searched_from).max().map(|from| from + each);
        let mut from = last.unwrap_or_default().max(self.step.at.now);
        let mut these = vec![];
        for (address, vip) in &mut self.vips {
            if may_search && matches!(vip.search, Search::Due) && !vip.is_put() {
                vip.search = Search::On(Look::new(from, spacing));
                from = from + each;
                self.step.again = true;
            }
            if !vip.is_held_back() {
                these.push(*address);
            }
        }
        these
    }

    /// Asks the segment for the VIPs that are held back. Those that nobody has are carried, or asked for with the others before
    /// this node takes the Lease.
    pub(super) fn advance_searches(&mut self) {
        let following = matches!(self.role, Role::Following(_)) && !self.process.is_ending();
        let holding = matches!(self.role, Role::Holding(_) | Role::Unleased(_)) && self.deadline_to_restore().is_some();
        if !self.segment.link.is_up() || !following && !holding {
            return;
        }
        let now = self.step.at.now;
        // Once this node looks whether it may take the Lease, the foreign owners that were found are left out of that.
        let leaves = following && !self.is_searching() && self.leaves_owners_to_holder();
        let (mut free, mut wakes) = (vec![], vec![]);
        let limited = self.rules.frames_per_second.is_some();
        let senders = self.segment.echo.looks(now).senders().take(if limited { 1 } else { 2 });
        for (address, vip) in &mut self.vips {
            let Search::On(look) = &mut vip.search else { continue };
            if leaves {
                free.push(*address);
                continue;
            }
            match look.tick(now) {
                Found::Waits => {}
                Found::Ask => {
                    let senders = senders.clone().take(if address.is_ipv4() { 2 } else { 1 });
                    let probe = |sender| Action::Probe { address: *address, to: None, sender };
                    self.step.out.extend(senders.map(probe));
                }
                Found::Nobody => {
                    free.push(*address);
                    continue;
                }
            }
            wakes.push(look.next());
        }
        for address in free {
            if following {
                self.search_one_anew(address);
            } else {
                self.carry_new(address);
            }
        }
        for wake in wakes {
            self.due(wake);
        }
    }

    /// Whether the answer to a broadcast is not believed, and the host that it names is asked alone: by all who carry VIPs, or hand them
    /// over. (A candidate's witness asks such a host itself.)
    pub(super) fn asks_who_is_named(&self) -> bool {
        !matches!(self.role, Role::Following(_)) && !planted!(BelievesBroadcasts)
    }

    /// Asks the hosts that answers to broadcasts named.
    pub(super) fn advance_named(&mut self) {
        for question in self.segment.named.due(self.step.at.now) {
            let sender = self.sender_to(question.to);
            self.act(Action::Probe { address: question.address, to: Some(question.to), sender });
        }
        if let Some(next) = self.segment.named.next() {
            self.due(next);
        }
    }

    fn search_one_anew(&mut self, address: IpAddr) {
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.search = Search::Due;
            self.step.again = true;
        }
    }

    /// Carries a VIP that was held back.
    fn carry_new(&mut self, address: IpAddr) {
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.search = Search::Done;
        }
        // If too little is left for a lifetime, the next renewal brings the VIP.
        if let Some(deadline) = self.deadline_to_restore()
            && Ensured::until(self.step.at.now, deadline).is_some()
        {
            self.act(Action::Carry { address, deadline });
        }
    }

    /// Another host claims a VIP. True: the VIP is held back here, and the frame says nothing about the others.
    pub(super) fn heard_while_searching(&mut self, address: IpAddr, mac: Mac) -> bool {
        let now = self.step.at.now;
        let peer = self.may_still_have(address, mac);
        let following = matches!(self.role, Role::Following(_));
        let holding = matches!(self.role, Role::Holding(_));
        let is_node = self.is_peer(mac);
        let Some(vip) = self.vips.get_mut(&address) else { return false };
        if peer && following {
            vip.search = Search::Done;
            return false;
        }
        let Search::On(look) = &mut vip.search else {
            if following {
                self.note_claim(address, mac);
            }
            return false;
        };
        if peer {
            // The last holder still has the VIP: the holder by Lease takes it over. Without a valid Lease this node yields.
            if holding {
                self.carry_new(address);
            }
            return holding;
        }
        if look.hear(now, mac, is_node) {
            self.report(Report::ForeignOwner { address, mac });
        }
        true
    }

    /// The participant with that MAC address, if this Lease names it as a holder, or did so last: it may answer for VIPs a little longer.
    pub(super) fn holder_with(&self, mac: Mac) -> Option<&str> {
        let view = self.lease.view()?;
        // Void or not: it says who declared last.
        let declared = view.notes.tenure.as_ref().map(|tenure| &tenure.declared);
        if let Some(last) = declared.filter(|last| last.macs.contains(&mac)) {
            return Some(&last.holder);
        }
        let from = view.handover().map(|handover| handover.from.as_str());
        let last = declared.map(|declared| declared.holder.as_str());
        let names = [Some(view.record.holder.as_str()), from, last];
        let before = self.candidacy.last_holders();
        view.participant_with(mac).filter(|name| names.contains(&Some(name)) || before.contains(name))
    }

    /// Whether an answer from there means that a node has the VIP by this election: a holder that the Lease names, or one that carries
    /// the VIPs provisionally. Of an address that the node has for itself it does not mean that.
    pub(super) fn may_still_have(&self, address: IpAddr, mac: Mac) -> bool {
        let participants = self.lease.view().map(|view| &view.notes.participants);
        let own =
            |name: &str| participants.and_then(|all| all.get(name)).is_some_and(|p| p.addresses.contains(&address));
        // A foreign owner that was found when nobody could carry the VIPs provisionally remains one.
        let is_known = self.vips.get(&address).and_then(Vip::foreign_owner) == Some(mac);
        let provisional = || self.provisional_with(mac).filter(|_| !is_known);
        self.holder_with(mac).or_else(provisional).is_some_and(|name| !own(name))
    }

    /// The participant with that MAC address, if it may carry the VIPs provisionally: the API server was away lately, or the last holder
    /// was lost. No Lease names it. While this node has carried the VIPs, no other node took them for free.
    fn provisional_with(&self, mac: Mac) -> Option<&str> {
        let (now, lately) = (self.step.at.now, self.rules.lease_duration);
        let replaces =
            matches!(&self.role, Role::Holding(holding) if holding.returns_until.is_some_and(|end| now < end));
        let began = self.api.away_began();
        let carried_on = self.carrying_since.is_some_and(|since| began.is_some_and(|began| since < began));
        let may_be = self.rules.provisional && (replaces || self.api.was_away(now, lately) && !carried_on);
        self.lease.view()?.participant_with(mac).filter(|_| may_be && !planted!(OnlyHoldersCarry))
    }

    /// Nothing more has to be asked about these VIPs.
    pub(super) fn was_asked_for(&mut self, these: &[IpAddr]) {
        for (_, vip) in self.vips.iter_mut().filter(|(address, _)| these.contains(address)) {
            vip.search = Search::Done;
        }
    }

    /// Another node has the Lease that this node had. What this node knew of the VIPs says nothing about that node's tenure.
    pub(super) fn search_anew(&mut self) {
        for vip in self.vips.values_mut().filter(|vip| !vip.is_held_back()) {
            vip.search = Search::Due;
        }
    }

    /// Whether the VIP is held back until the segment was asked for it, or because another host has it.
    #[must_use]
    pub fn is_held_back(&self, address: IpAddr) -> bool {
        self.vips.get(&address).is_some_and(Vip::is_held_back)
    }

    /// Whether the VIP is on this node's interface, as far as the kernel has answered.
    #[must_use]
    pub fn is_put(&self, address: IpAddr) -> bool {
        self.vips.get(&address).is_some_and(Vip::is_put)
    }

    /// The VIPs that are held back, each with the host that has it, if one does.
    pub fn held_back(&self) -> impl Iterator<Item = (IpAddr, Option<Mac>)> {
        let held_back = self.vips.iter().filter(|(_, vip)| vip.is_held_back());
        held_back.map(|(address, vip)| (*address, vip.foreign_owner()))
    }
}
