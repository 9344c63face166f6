//! Which addresses this node probes on the segment, and which frames it needs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::turns::Turns;
use super::{Elector, Vip};
use crate::action::{Action, Report};
use crate::core::{NO_INTERFACE, Probe};
use crate::evidence::Sender;
use crate::lease::{Declaration, LeaseView};
use crate::mac::Mac;
use crate::parties::{PARTIES, Party, at_most};
use crate::rules::SELF_PROBE;
use crate::time::Time;
use crate::witness::Target;

/// How many of the holder's VIPs are probed at a time.
pub(crate) const WITNESSED: usize = 2;

/// How many third parties are asked at a time under a limit of frames.
const PARTIES_LIMITED: usize = 1;

impl Elector {
    pub(super) fn advance_witness(&mut self) {
        let watches = self.watches_holder();
        let (now, me) = (self.step.at.now, &self.rules.node);
        let following = !self.is_carrying() && self.segment.link.is_up() && !self.process.is_ending();
        let declaration = self.lease.view().and_then(LeaseView::declaration).filter(|d| d.holder != *me);
        let target = match declaration {
            _ if !following => Target::Nothing,
            Some(declaration) if watches && !self.searches_beside_a_suspicion() => Target::Holder(declaration),
            _ if self.is_searching() || self.api.away.is_some() => Target::Anybody,
            _ => Target::Nothing,
        };
        // A few of a holder's VIPs suffice to tell whether the holder is there: those that it declares, of those known here.
        let (declared, most) = match target {
            Target::Holder(declaration) => (self.known_of(declaration), WITNESSED),
            Target::Anybody | Target::Nothing => (&[][..], self.most_looked_for()),
        };
        // A VIP that a foreign owner has would answer for a holder that is gone. A VIP whose link is down here answers for nobody.
        let unheard = &self.segment.unheard;
        let asked = |(address, vip): &(&IpAddr, &Vip)| {
            let is_asked = declared.is_empty() || declared.contains(*address);
            is_asked && !vip.is_held_back() && !unheard.contains(*address)
        };
        let vips = self.vips.iter().filter(asked).map(|(address, _)| *address);
        self.segment.witness.set_senders(self.own_sender(), self.segment.echo.looks(now));
        let proxies = self.proxies();
        self.segment.witness.set_proxies(proxies);
        let participants = self.lease.view().into_iter().flat_map(|view| &view.notes.participants);
        let peers =
            participants.filter(|(name, _)| **name != self.rules.node).flat_map(|(_, p)| p.macs.iter().copied());
        self.segment.witness.set_peers(peers.collect());
        self.segment.witness.aim(now, target, vips.take(most));
        self.vouch();
        if self.segment.witness.end_window(now) {
            self.report(Report::ProbeMissed);
            self.step.again = true;
        }
        if !self.segment.witness.opens(now) {
            self.needs_no_turn();
        } else if !self.takes_turn() {
            // Whoever gives the turns has to know all that is asked.
            let parties = self.third_parties();
            self.segment.witness.set_parties(parties);
            return;
        } else {
            self.segment.turn = self.segment.turn.wrapping_add(usize::from(self.segment.witness.was_deaf()));
            let parties = self.third_parties();
            if self.segment.witness.asks_parties() && !parties.is_empty() {
                let asked = parties.iter().map(|party| party.address);
                self.segment.echo.asked(now, self.segment.witness.asks_as(), asked);
            }
            self.segment.witness.set_parties(parties);
            let probes = self.segment.witness.probes().into_iter();
            self.step.out.extend(probes.map(|p| Action::Probe { address: p.address, to: p.to, sender: p.sender }));
            self.segment.witness.open(now);
        }
        if let Some(next) = self.segment.witness.next() {
            self.due(next);
        }
    }

    /// So many VIPs are looked for at a time. Under a limit of frames, as many as may leave with a third party: those that were not
    /// asked for before a take are asked for after it.
    pub(super) fn most_looked_for(&self) -> usize {
        self.rules.probes_each().map_or(usize::MAX, |each| each.saturating_sub(PARTIES_LIMITED).max(1))
    }

    /// The probes of this step leave, those later that would leave beside a broadcast for the same address.
    pub(super) fn send_probes(&mut self) {
        let mut probes = vec![];
        self.step.out.retain(|action| {
            let Action::Probe { address, to, sender } = *action else { return true };
            probes.push(Probe { interface: NO_INTERFACE, address, to, sender });
            false
        });
        let leave = self.segment.broadcasts.leave(self.step.at.now, probes).into_iter();
        self.step.out.extend(leave.map(|Probe { address, to, sender, .. }| Action::Probe { address, to, sender }));
        if let Some(next) = self.segment.broadcasts.next() {
            self.due(next);
        }
    }

    /// The VIPs that a holder declares, if this node knows any of them: only those are probed.
    fn known_of<'a>(&self, declaration: &'a Declaration) -> &'a [IpAddr] {
        if self.may_judge(declaration) { &declaration.vips } else { &[] }
    }

    /// Whether the silence of VIPs that are known here says that the holder is gone. After a change of VIPs, the holder may have
    /// let go of what this node still knows.
    pub(super) fn may_judge(&self, declaration: &Declaration) -> bool {
        let vips = &declaration.vips;
        vips.is_empty() || vips.iter().any(|address| self.vips.contains_key(address))
    }

    /// Third parties that are asked beside the holder: gateways, then the nodes that take part, those heard last first; never
    /// the own addresses or a VIP. The last of them is another one each time; under a limit of frames, another one after it was
    /// not heard.
    pub(super) fn third_parties(&self) -> Vec<Party> {
        let is_limited = self.rules.frames_per_second.is_some();
        let most = if is_limited || self.is_paced() { PARTIES_LIMITED } else { PARTIES };
        let window = self.rules.witness_interval.max(Duration::from_millis(1)).as_nanos();
        let windows = usize::try_from(u128::from(self.step.at.now.as_nanos()) / window).unwrap_or(0);
        let mut all: Vec<IpAddr> = self.gateways_asked().collect();
        let mut peers: Vec<IpAddr> = self.peers_asked().collect();
        peers.sort_by_cached_key(|address| self.last_heard(*address));
        all.extend(peers);
        let these = at_most(all, most, if is_limited { self.segment.turn } else { windows });
        these.into_iter().map(|address| self.party(address)).collect()
    }

    /// As it is asked.
    pub(super) fn party(&self, address: IpAddr) -> Party {
        Party { address, mac: self.mac_of(address) }
    }

    /// The gateways that may be third parties.
    pub(super) fn gateways_asked(&self) -> impl Iterator<Item = IpAddr> {
        self.node.gateways.iter().copied().filter(|address| self.may_be_asked(*address))
    }

    /// The addresses of other nodes that may be third parties.
    pub(super) fn peers_asked(&self) -> impl Iterator<Item = IpAddr> {
        self.peers().filter(|address| self.may_be_asked(*address))
    }

    /// Orders third parties: those heard last come first.
    pub(super) fn last_heard(&self, address: IpAddr) -> Reverse<Option<Time>> {
        Reverse(self.segment.third_heard.get(&address).map(|(at, _)| *at))
    }

    fn may_be_asked(&self, address: IpAddr) -> bool {
        !self.node.participant.addresses.contains(&address)
            && !self.vips.contains_key(&address)
            && self.is_of_vips(address)
    }

    /// The MAC address at which another host is asked: the one that it answered from last, else the one that it declares.
    pub(super) fn mac_of(&self, address: IpAddr) -> Option<Mac> {
        let heard = self.segment.third_heard.get(&address).map(|(_, mac)| *mac);
        let participants = || self.lease.view().into_iter().flat_map(|view| view.notes.participants.values());
        let declared = || participants().find(|p| p.addresses.contains(&address))?.macs.first().copied();
        heard.or_else(declared)
    }

    /// Whether an address is of the family of a VIP: whether ARP passes says nothing about neighbour discovery.
    pub(super) fn is_of_vips(&self, address: IpAddr) -> bool {
        let vips = || self.vips.keys();
        vips().next().is_none() || vips().any(|vip| vip.is_ipv4() == address.is_ipv4())
    }

    /// What [`Sender::Own`] amounts to on this interface.
    pub(super) fn own_sender(&self) -> Sender {
        let own = self.node.participant.addresses.iter().any(IpAddr::is_ipv4);
        if own && !self.node.bare { Sender::Own } else { Sender::Unspecified }
    }

    /// The addresses whose frames mean something here: the VIPs, the gateways, and the nodes that take part.
    #[must_use]
    pub fn listens_for(&self) -> BTreeSet<IpAddr> {
        let known = self.node.gateways.iter().chain(self.vips.keys()).copied();
        known.chain(self.peers()).collect()
    }

    /// The VIPs that are asked for at this moment.
    #[must_use]
    pub fn asked(&self) -> &[IpAddr] {
        self.segment.witness.addresses()
    }

    /// Whether an answer of a third party is waited for at this moment.
    #[must_use]
    pub fn waits_for_parties(&self) -> bool {
        self.segment.witness.waits_for_parties()
    }

    /// Whether that third party is asked beside a VIP at this moment.
    #[must_use]
    pub fn asks_beside(&self, address: IpAddr) -> bool {
        self.segment.witness.asks_beside(address)
    }

    /// The addresses of all other nodes that take part.
    pub(super) fn peers(&self) -> impl Iterator<Item = IpAddr> {
        let participants = self.lease.view().into_iter().flat_map(|v| &v.notes.participants);
        let others = participants.filter(|(name, _)| **name != self.rules.node);
        others.flat_map(|(_, p)| p.addresses.iter().copied())
    }

    /// Asks for all VIPs of this node.
    pub(super) fn probe_vips(&mut self) {
        let probes = self.own_probes();
        self.step.out.extend(probes);
    }

    /// The same again and again, while another host may have the VIPs too. Returns when the next probes are due. Where frames are limited,
    /// one leaves at a time, in as much of the limit as is for a kind of probes; whoever takes turns with other Leases waits for room anyway.
    pub(super) fn probe_vips_in_turn(&mut self) -> Time {
        let now = self.step.at.now;
        let spacing = self.rules.probe_spacing().filter(|_| self.segment.turns == Turns::Alone);
        let Some(spacing) = spacing else {
            self.probe_vips();
            return now + SELF_PROBE;
        };
        let probes = self.own_probes();
        self.segment.own_turn = self.segment.own_turn.wrapping_add(1);
        let turn = self.segment.own_turn.checked_rem(probes.len()).unwrap_or_default();
        self.step.out.extend(probes.into_iter().nth(turn));
        now + spacing
    }

    fn own_probes(&self) -> Vec<Action> {
        // A third party that answers one of them shows that it passes to that host. It may not pass to all: switches that suppress ARP
        // flood no probes from 0.0.0.0.
        let senders = BTreeSet::from([Sender::Unspecified, self.own_sender()]);
        let carried = self.vips.iter().filter(|(_, vip)| !vip.is_held_back()).map(|(address, _)| *address);
        let of = |address: IpAddr| {
            let senders = senders.iter().copied().take(if address.is_ipv4() { 2 } else { 1 });
            senders.map(move |sender| Action::Probe { address, to: None, sender })
        };
        carried.flat_map(of).collect()
    }
}
