//! Whether this node hears enough of the others to carry the VIPs while the API is silent: [`crate::peers`] has the rule.

use std::net::IpAddr;
use std::time::Duration;

use super::turns::Turns;
use super::unleased::Few;
use super::{Elector, Role};
use crate::action::{Action, Report};
use crate::echo::Change;
use crate::evidence::{Form, Sender};
use crate::mac::Mac;
use crate::peers::{Ask, HEARD};
use crate::planted::planted;
use crate::rules::AWAY;
use crate::time::Time;
use crate::witness::Probe;

/// Too few peers are reported when that has lasted this long: the first probes may have no answer yet.
const REPORTED_AFTER: Duration = Duration::from_secs(1);

impl Elector {
    /// Since when the API has been silent: calls that failed, or one that has waited for [`AWAY`]. An answer to another call ends
    /// the silence.
    pub(super) fn silent_since(&mut self) -> Option<Time> {
        let flight = self.api.flight.as_ref().map(|flight| flight.sent);
        let reading = self.api.reading.as_ref().map(|reading| reading.sent);
        let waiting = flight.into_iter().chain(reading).min().map(|sent| sent.max(self.api.last_answer));
        let waiting = waiting.filter(|since| self.step.due(*since + AWAY));
        self.api.away.into_iter().chain(waiting).min()
    }

    /// Asks the other nodes for their addresses: now and then while the API answers, to know who is there; often while the
    /// API is silent and it matters who is heard.
    pub(super) fn advance_peers(&mut self) {
        if self.process.has_left() || !self.segment.link.is_up() {
            return;
        }
        let matters = self.is_carrying() || self.rules.provisional && self.segment.witness.is_free();
        let silent = self.silent_since().is_some() && matters;
        let me = &self.rules.node;
        let participants = self.lease.view().into_iter().flat_map(|view| &view.notes.participants);
        let others = participants.filter(|(name, _)| *name != me).map(|(name, _)| name.as_str());
        self.segment.peers.set(others);
        let silence = self.silent_since();
        self.segment.peers.note_silence(self.step.at.now, silence);
        for (name, ask) in self.segment.peers.to_ask(self.step.at.now, silent) {
            self.ask_peer(&name, ask);
        }
        if let Some(next) = self.segment.peers.next(silent) {
            self.due(next);
        }
        self.advance_echo();
    }

    /// Whether an answer for that address shows that this node's probes for its VIPs pass: ARP, if any VIP is of IPv4.
    pub(super) fn is_echo(&self, address: IpAddr) -> bool {
        address.is_ipv4() || self.vips.keys().all(IpAddr::is_ipv6)
    }

    /// The third parties whose answers show something of that.
    fn echo_parties(&self) -> impl Iterator<Item = IpAddr> {
        self.gateways_asked().chain(self.peers_asked()).filter(|address| self.is_echo(*address))
    }

    /// The third party that is asked whether anybody answers. Always the first: of those that are never heard, as where ports are isolated,
    /// none puts the gateway off.
    fn echo_party(&self) -> Option<IpAddr> {
        let gateway = self.gateways_asked().find(|address| self.is_echo(*address));
        let peers = || self.peers_asked().filter(|address| self.is_echo(*address));
        gateway.or_else(|| peers().min_by_key(|address| self.last_heard(*address)))
    }

    /// Asks a third party now and then with each sender, to know beforehand which probes the network lets pass.
    fn advance_echo(&mut self) {
        let now = self.step.at.now;
        self.segment.echo.set_bare(self.own_sender() == Sender::Unspecified);
        self.segment.echo.set_pace(self.rules.pace());
        if self.echo_parties().next().is_none() {
            return;
        }
        let is_due = self.segment.echo.next() <= now && !self.is_asked_for() && self.has_room_in_turn();
        if let Some(party) = is_due.then(|| self.echo_party()).flatten() {
            for Probe { address, to, sender } in self.asks_in_turn(now, party) {
                self.segment.echo.asked_in_turn(now, address, sender);
                self.act(Action::Probe { address, to, sender });
            }
        }
        let next = self.segment.echo.next();
        if self.segment.echo.asks() && next > now {
            self.due(next);
        }
        let segment = &mut self.segment;
        match segment.echo.changed(now, &mut segment.echoes) {
            Some(Change::To(state)) => self.report(Report::Echo(state)),
            Some(Change::AsUsual) => self.report(Report::Answered),
            None => {}
        }
    }

    /// What is to be asked of that third party now.
    fn asks_in_turn(&self, now: Time, address: IpAddr) -> Vec<Probe> {
        // A VIP that may be free is looked for by broadcast, so that is what is tried with its sender.
        let probe = |sender| match sender {
            Sender::Own => Probe { address, to: self.mac_of(address), sender: self.own_sender() },
            Sender::Unspecified => Probe { address, to: None, sender },
        };
        self.segment.echo.due(now).map(probe).collect()
    }

    /// Whether somebody else asks third parties for the electors of all Leases, one after the other: frames are limited.
    pub(super) fn is_asked_for(&self) -> bool {
        self.segment.turns != Turns::Alone && self.rules.frames_per_second.is_some()
    }

    /// Whether frames are spent on what is only good to know. Limited ones are not while the API is silent: nodes have to hear one
    /// another then, and nothing could be offered.
    fn has_room_in_turn(&self) -> bool {
        self.rules.frames_per_second.is_none() || self.api.away.is_none()
    }

    /// What is to be asked now by whoever asks for all electors.
    #[must_use]
    pub fn question(&self, now: Time) -> Vec<Probe> {
        let may = self.is_asked_for() && self.segment.link.is_up() && !self.process.has_left();
        let echo = &self.segment.echo;
        if may && self.has_room_in_turn() && echo.asks() && echo.next() <= now {
            self.echo_party().map(|party| self.asks_in_turn(now, party)).unwrap_or_default()
        } else {
            vec![]
        }
    }

    /// A third party was asked, for this elector or for another one on the same interface: both will hear the answer.
    pub(super) fn was_asked_in_turn(&mut self, address: IpAddr, sender: Sender) {
        if self.segment.link.is_up() && self.echo_parties().any(|one| one == address) {
            self.segment.echo.asked_in_turn(self.step.at.now, address, sender);
        }
    }

    fn ask_peer(&mut self, name: &str, ask: Ask) {
        let Some(peer) = self.lease.view().and_then(|view| view.notes.participants.get(name)) else { return };
        let (now, sender) = (self.step.at.now, self.own_sender());
        // Answers of the other family say nothing about the VIPs'.
        let asked = |address: &&IpAddr| !self.vips.contains_key(*address) && self.is_of_vips(**address);
        let addresses: Vec<IpAddr> = peer.addresses.iter().filter(asked).copied().collect();
        let to = match ask {
            Ask::Alone => addresses.first().and_then(|address| self.mac_of(*address)),
            Ask::At(mac) => Some(mac),
            Ask::Everybody => None,
        };
        if !addresses.is_empty() {
            self.segment.echo.asked(now, Sender::Own, addresses.iter().copied());
        }
        self.step.out.extend(addresses.into_iter().map(|address| Action::Probe { address, to, sender }));
    }

    /// A host answered for an address that is no VIP's: a gateway's, or a peer's own. Each host counts as one peer, although the Lease
    /// may still name a node that is gone and whose address the host has now. A bond may answer from a MAC address that nobody declared.
    pub(super) fn third_party_answered(&mut self, address: IpAddr, mac: Mac, form: Form) {
        let now = self.step.at.now;
        let alone = form.is_alone() || planted!(ClaimsEntitle);
        // Only addresses that may be asked for are remembered: others must not fill the memory.
        if self.node.gateways.contains(&address) || self.peers().any(|peer| peer == address) {
            self.segment.third_heard.insert(address, (now, mac));
        }
        let participants = self.lease.view().into_iter().flat_map(|view| &view.notes.participants);
        let having = participants.filter(|(_, peer)| peer.addresses.contains(&address));
        if let Some((name, _)) = having.min_by_key(|(_, peer)| !peer.macs.contains(&mac)) {
            self.segment.peers.answered(now, name, mac, alone);
            self.step.again = true;
        }
    }

    /// How many others were heard since then, and how many were known when the API fell silent. None: the API answers.
    fn peers_heard(&mut self, since: Time) -> Option<(usize, usize)> {
        let silent = self.silent_since();
        self.segment.peers.count(since, silent)
    }

    /// Whether this node may go on without the API, as far as the other nodes tell.
    pub(super) fn hears_enough(&mut self) -> bool {
        self.heard_enough_since(self.step.at.now - HEARD)
    }

    /// The same by those that were heard since then.
    pub(super) fn heard_enough_since(&mut self, since: Time) -> bool {
        let quorum = self.rules.quorum;
        self.peers_heard(since).is_none_or(|(heard, known)| quorum.is_reached(heard, known))
    }

    /// Whether too few others have been heard for long enough to tell people, and the numbers.
    fn too_few(&mut self, since: Time) -> Option<(usize, usize)> {
        if self.due(since + REPORTED_AFTER) { self.peers_heard(self.step.at.now - HEARD) } else { None }
    }

    /// Reports once that too few others are heard, until enough were heard again.
    pub(super) fn note_few(&mut self, enough: bool) {
        let now = self.step.at.now;
        let Role::Unleased(unleased) = &mut self.role else { return };
        if enough {
            unleased.few = None;
            return;
        }
        let few = *unleased.few.get_or_insert(Few { since: now, told: false });
        if !few.told
            && let Some((heard, known)) = self.too_few(few.since)
        {
            self.report(Report::TooFewHeard { heard, known });
            if let Role::Unleased(unleased) = &mut self.role {
                unleased.few = Some(Few { told: true, ..few });
            }
        }
    }
}
