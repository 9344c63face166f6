//! What the segment is asked about VIPs: whether another host has a VIP that is carried here, and whether any host has a VIP
//! that this node wants to take.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::SessionVips;
use super::hold::Hold;
use super::record::Object;
use super::segment::Family;
use super::turns::{Asker, Turns};
use super::vip::{Look, Named, Vip};
use crate::core::{Interface, Probe};
use crate::evidence::Sender;
use crate::mac::Mac;
use crate::parties::Party;
use crate::planted::planted;
use crate::rules::{AWAY, SELF_PROBE};
use crate::session::Link;
use crate::time::Time;

/// One round of probes is cut into so many parts.
const PARTS: usize = 5;
/// No part has more probes: 200 a second in all.
const PART: usize = 10;
/// A burst of probes for all VIPs comes no more often.
const BURST: Duration = Duration::from_secs(1);
/// A look that ended so long ago is begun anew.
const STALE: Duration = Duration::from_secs(1);
/// What was heard counts for a look only while its probes follow one another: no later than this, or than so many of them would
/// under a limit of frames.
const APART: (Duration, u32) = (Duration::from_millis(1_500), 6);
/// Where so many other nodes are on a segment, fewer third parties are asked by broadcast.
const MANY: usize = 8;
/// How many third parties are asked beside a VIP.
const THIRD: usize = 4;
/// How many are among many nodes: all of them hear a broadcast.
const THIRD_CROWDED: usize = 2;
/// How many are asked alone beside a host that an answer to a broadcast named.
const ASIDE: usize = 2;
/// How many are under a limit of frames.
const THIRD_LIMITED: usize = 2;

/// Which VIPs are asked for, and when.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// VIPs that are carried here and asked for, each for a reason of its own.
    some: BTreeSet<IpAddr>,
    /// VIPs that are held provisionally.
    pub(super) provisional: BTreeSet<IpAddr>,
    last: Option<IpAddr>,
    next: Time,
    burst: Option<Time>,
    /// When the next of these probes may leave on an interface, under a limit of frames.
    pub(super) spaced: BTreeMap<u32, Time>,
    /// Who waits for that.
    pub(super) turns: Turns,
    /// Which third parties looks ask next, by interface.
    looks: BTreeMap<u32, Rotation>,
    /// Which other nodes are asked next, by interface.
    pub(super) peers: BTreeMap<u32, Rotation>,
    /// While some interfaces wait to ask them: when each is tried again, and whether it has asked.
    pub(super) round: BTreeMap<u32, (Time, bool)>,
    /// When short fences are refreshed next.
    pub(super) refresh: Time,
}

impl Asking {
    pub(super) fn set(&mut self, address: IpAddr, asked: bool) {
        if asked {
            self.some.insert(address);
        } else {
            self.some.remove(&address);
        }
    }

    pub(super) fn forget(&mut self, address: IpAddr) {
        self.some.remove(&address);
        self.provisional.remove(&address);
    }
}

/// Whom to ask next, of more than are asked at a time: others at each moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation(Option<(Time, usize)>);

impl Rotation {
    pub(super) fn turn(self, now: Time) -> usize {
        self.0.map_or(0, |(at, turn)| if at == now { turn } else { turn.wrapping_add(1) })
    }

    /// Those that were asked last.
    pub(super) fn last(self) -> usize {
        self.0.map_or(0, |(_, turn)| turn)
    }

    /// These are asked now.
    pub(super) fn asked(&mut self, now: Time) {
        *self = Self::after(now, self.turn(now));
    }

    /// After those of this turn were asked.
    pub(super) const fn after(now: Time, turn: usize) -> Self {
        Self(Some((now, turn)))
    }
}

/// What a look at the segment gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Not known yet.
    Nothing,
    /// Nobody answered.
    Quiet,
    /// A node with a session has it.
    Peer,
    /// A host has it that is no node with a session.
    Stranger(Mac),
}

impl SessionVips {
    /// The interface for a VIP here, whether or not its link is up.
    pub(super) fn link_for(&self, vip: &Vip) -> Option<&Interface> {
        use crate::placement::Interface as On;
        let demand = vip.demand.as_ref()?;
        match &demand.interface {
            On::First => self.node.interfaces.first(),
            On::Named(name) => self.node.interfaces.iter().find(|i| i.link.is_named(name)),
            On::Subnet => self.node.interfaces.iter().find(|i| i.link.contains(demand.address)),
        }
    }

    /// Whether this node has doubts about all that it carries: another node may have taken it, and this one would not know.
    fn doubts_all(&mut self) -> bool {
        if self.own.is_lapsed() || self.own.tenure.as_ref().is_some_and(|t| t.in_doubt) || self.api.away.is_some() {
            return true;
        }
        let unanswered = self.own.calls.flight.as_ref().map(|f| f.sent + AWAY);
        unanswered.is_some_and(|at| self.due(at))
    }

    /// Asks for another owner of what is carried here, in rounds of 250 ms, or as long as 200 probes a second take.
    pub(super) fn advance_asking(&mut self) {
        if self.own.has_left() {
            return;
        }
        self.advance_unsure();
        self.advance_short();
        if self.index.carried.is_empty() {
            return;
        }
        let all = self.doubts_all();
        let scope = if all { &self.index.carried } else { &self.asking.some };
        if scope.is_empty() || planted!(NoSessionProbe) {
            return;
        }
        let count = scope.len();
        let next = self.asking.next;
        if !self.due(next) {
            return;
        }
        let spacing = self.rules.probe_spacing();
        let scope = if all { &self.index.carried } else { &self.asking.some };
        let part = if spacing.is_some() { 1 } else { count.div_ceil(PARTS).min(PART) };
        let after = self.asking.last.map_or(Bound::Unbounded, Bound::Excluded);
        let round = scope.range((after, Bound::Unbounded)).chain(scope.iter());
        let these: Vec<IpAddr> = round.take(part.min(count)).copied().collect();
        let on = these.first().and_then(|address| self.vips.get(address)?.hold).map(|hold| hold.interface);
        if let Some(Err(later)) = on.map(|on| self.take_turn(on, 1, Asker::Carried)) {
            self.asking.next = later;
            self.due(later);
            return;
        }
        self.asking.last = these.last().copied();
        let parts = u32::try_from(PARTS.min(count)).unwrap_or(1).max(1);
        self.asking.next = self.step.at.now + (SELF_PROBE / parts).max(spacing.unwrap_or_default());
        self.due(self.asking.next);
        self.ask_for(&these);
    }

    fn ask_for(&mut self, these: &[IpAddr]) {
        for address in these {
            if let Some(hold) = self.vips.get(address).and_then(|v| v.hold) {
                let interface = hold.interface;
                let senders = self.senders_of(&hold).into_iter().take(if address.is_ipv6() { 1 } else { 2 });
                let address = *address;
                self.batch.probes.extend(senders.map(|sender| Probe { interface, address, to: None, sender }));
            }
        }
    }

    /// With which senders another owner of a carried VIP is looked for: with both until one is known to pass, and where no session keeps
    /// others away. (A third party that answers one of them shows that it passes to that host. It may not pass to all: switches that
    /// suppress ARP flood no probes from 0.0.0.0.) Under a limit of frames, with one after the other.
    fn senders_of(&self, hold: &Hold) -> BTreeSet<Sender> {
        let now = self.step.at.now;
        let looks = self.segment.looks(now, hold.interface);
        let unsure = !hold.basis.is_by_session() || self.own.is_lapsed();
        let both = [Sender::Unspecified, self.own_sender(hold.interface)];
        if looks.works && !unsure {
            return BTreeSet::from([looks.first]);
        }
        if self.rules.frames_per_second.is_none() {
            return BTreeSet::from(both);
        }
        let round = now.as_nanos() / u64::try_from(self.round().as_nanos()).unwrap_or(u64::MAX).max(1);
        BTreeSet::from([if round.is_multiple_of(2) { both[0] } else { both[1] }])
    }

    /// Asks for all VIPs at once: another node has one of them by now, and may have the others too.
    pub(super) fn burst(&mut self) {
        let now = self.step.at.now;
        if self.asking.burst.is_none_or(|at| now.since(at) >= BURST) && !planted!(NoSessionProbe) {
            self.asking.burst = Some(now);
            if self.rules.frames_per_second.is_some() {
                // The limit leaves room for rounds only: one begins now.
                self.asking.next = now;
                return;
            }
            let all: Vec<IpAddr> = self.index.carried.iter().copied().collect();
            self.ask_for(&all);
        }
    }

    /// Whether any host has a VIP that is not carried here: as many probes as a witness would miss. `sure`: silence counts
    /// only if a third party answered a probe of the same form meanwhile. If none did, the other sender has its turn.
    pub(super) fn look(&mut self, vip: &mut Vip, sure: bool) -> Found {
        let now = self.step.at.now;
        let Some(index) = self.link_for(vip).map(|i| i.index) else { return Found::Nothing };
        if planted!(TakesVipWithoutLooking) {
            return Found::Quiet;
        }
        let looks = self.segment.looks(now, index);
        let mut look = vip.taking.look.filter(|l| now <= l.next + STALE).unwrap_or_else(|| Look::new(now, looks));
        if let Some(found) = self.look_answered(vip, &mut look, index) {
            vip.taking.look = None;
            self.asking.turns.ended(index, look.since, vip.address);
            return found;
        }
        if !self.due(look.next) {
            vip.taking.look = Some(look);
            return Found::Nothing;
        }
        let needed = self.rules.witness_misses.max(1);
        let done = look.sent >= needed;
        if !done && look.last.is_some_and(|last| now.since(last) > self.look_apart()) {
            look.counts = None;
        }
        let third = self.segment.third_heard(index, vip.address, look.sender);
        let heard = look.counts.zip(third).is_some_and(|(counts, at)| at >= counts);
        let other = sure || self.rules.frames_per_second.is_none();
        if done && !heard && other && self.look_with_other_sender(&mut look, vip.address, index) {
            vip.taking.look = Some(look);
            return self.look(vip, sure);
        }
        if done {
            vip.taking.look = Some(look);
            self.asking.turns.ended(index, look.since, vip.address);
            if sure && !(heard && self.is_heard_alone(&look, index, vip.address)) && !planted!(DeafWatcher) {
                vip.taking.look = None;
                vip.hold_off = now + Duration::from_millis(500);
                return Found::Nothing;
            }
            return Found::Quiet;
        }
        // Frames that are limited are not spent on what is known.
        let limited = self.rules.frames_per_second.is_some();
        let asks = !heard && (sure || !limited) || sure && !limited;
        let room = self.rules.probes_each().map_or(usize::MAX, |most| most - 1);
        let room = if sure { room } else { room.min(1) };
        let turn = self.asking.looks.entry(index).or_default().turn(now);
        let mut parties =
            if asks { self.third_parties(index, Family::of(vip.address), None, room, turn) } else { vec![] };
        parties.truncate(room.min(if self.is_crowded(index) { THIRD_CROWDED } else { usize::MAX }));
        if let Err(later) = self.take_turn(index, 1 + parties.len(), Asker::Look(look.since, vip.address)) {
            look.next = later;
            vip.taking.look = Some(look);
            self.due(later);
            return Found::Nothing;
        }
        look.sent += 1;
        look.next = now + self.rules.probe_interval();
        look.last = Some(now);
        look.counts.get_or_insert(now);
        vip.taking.look = Some(look);
        self.due(look.next);
        let sender = look.sender;
        if !parties.is_empty() {
            self.asking.looks.entry(index).or_default().asked(now);
        }
        // Some are asked alone at last: a network answers broadcasts for hosts that are out of reach. Their answers would not be told from
        // those to broadcasts of the same moment.
        let last = sure && !limited && look.sent == needed && needed > 1;
        let (alone, all): (Vec<Party>, Vec<Party>) = parties.into_iter().partition(|party| last && party.mac.is_some());
        look.alone |= !alone.is_empty();
        vip.taking.look = Some(look);
        let own = self.own_sender(index);
        for (sender, parties) in [(sender, &all), (Sender::Own, &alone)] {
            if !parties.is_empty() {
                self.segment.asked(now, index, sender, parties);
            }
        }
        let alone = alone.into_iter().map(|p| Probe { interface: index, address: p.address, to: p.mac, sender: own });
        self.batch.probes.extend(alone);
        let addresses = [vip.address].into_iter().chain(all.into_iter().map(|party| party.address));
        for address in addresses {
            let ask = Probe { interface: index, address, to: None, sender };
            if !self.batch.probes.contains(&ask) {
                self.batch.probes.push(ask);
            }
        }
        Found::Nothing
    }

    /// Whether a third party that was asked alone since the look's first probe has answered.
    fn is_heard_alone(&self, look: &Look, index: u32, vip: IpAddr) -> bool {
        let heard = self.segment.third_alone(index, vip);
        !look.alone || look.counts.zip(heard).is_some_and(|(counts, at)| at >= counts)
    }

    /// Who has the VIP, by what was heard since the look began. An answer to a broadcast names a host, which is asked alone: a network
    /// may answer for hosts that are gone. If it does not answer, and a third party that was asked alone does, it is not there.
    fn look_answered(&mut self, vip: &Vip, look: &mut Look, index: u32) -> Option<Found> {
        let now = self.step.at.now;
        let (at, mac, form) = vip.answered.filter(|(at, ..)| *at >= look.since)?;
        let found = if self.may_carry(mac, vip) { Found::Peer } else { Found::Stranger(mac) };
        if !form.is_answer() || planted!(BelievesBroadcasts) {
            return Some(found);
        }
        let (since, tries) = match look.named {
            Some(Named::Gone(gone)) if gone == mac => return None,
            Some(Named::Asked(asked, since, tries)) if asked == mac => (since, tries),
            _ => (now, 0),
        };
        if tries > 0 && at > since && form.is_alone() {
            return Some(found);
        }
        if tries > 0 && now < look.next {
            return None;
        }
        let heard = self.segment.third_alone(index, vip.address).is_some_and(|at| at >= since);
        if tries > 0 && !heard {
            // Nothing shows that the host would be heard.
            return Some(found);
        }
        if tries >= self.rules.witness_misses.max(1) {
            look.named = Some(Named::Gone(mac));
            return None;
        }
        // A frame may get lost: the host is asked as often as makes silence.
        let turn = usize::try_from(tries).unwrap_or_default();
        let mut parties = self.third_parties(index, Family::of(vip.address), None, THIRD, turn);
        parties.retain(|party| party.mac.is_some_and(|one| one != mac));
        // One of them may be gone: others are asked each time.
        let first = turn.checked_rem(parties.len()).unwrap_or_default();
        parties.rotate_left(first);
        parties.truncate(if self.rules.frames_per_second.is_some() { 1 } else { ASIDE });
        if parties.is_empty() || self.take_turn(index, 1 + parties.len(), Asker::Peers).is_err() {
            return Some(found);
        }
        look.named = Some(Named::Asked(mac, if tries == 0 { now } else { since }, tries + 1));
        look.next = now + self.rules.probe_interval();
        let sender = self.own_sender(index);
        let asked = parties.into_iter().map(|party| (party.address, party.mac));
        for (address, to) in asked.chain([(vip.address, Some(mac))]) {
            self.batch.probes.push(Probe { interface: index, address, to, sender });
        }
        None
    }

    /// Goes on with the other sender, if it had no turn yet and a third party has not shown lately that the first one is answered.
    fn look_with_other_sender(&mut self, look: &mut Look, address: IpAddr, index: u32) -> bool {
        let works = look.looks.works && look.sender == look.looks.first;
        let other = if look.sender == Sender::Unspecified { self.own_sender(index) } else { Sender::Unspecified };
        let changes = !look.both && !works && other != look.sender && address.is_ipv4() && !planted!(OneSenderIsEnough);
        if changes {
            (look.sender, look.both, look.sent, look.counts) = (other, true, 0, None);
        }
        changes
    }

    /// Whether the host that answers for the VIP may have it by a session. A node that has one, or had one, may have the VIP by
    /// kube-vip's Leases.
    fn may_carry(&self, mac: Mac, vip: &Vip) -> bool {
        let by_lease = matches!(&vip.record.object, Object::There(view) if view.by_lease);
        !by_lease && self.carrier_with(mac, vip).is_some()
    }

    /// The longest time between two probes of a look that belong together.
    fn look_apart(&self) -> Duration {
        let (apart, probes) = APART;
        self.rules.probe_spacing().map_or(Duration::MAX, |spacing| apart.max(spacing * probes))
    }

    /// Third parties to ask on one interface: all gateways, and a few nodes with a session. Under a limit of frames, no more than
    /// there is `room` for. Each `turn` asks other ones.
    pub(super) fn third_parties(
        &self,
        index: u32,
        of: Family,
        but: Option<&str>,
        room: usize,
        turn: usize,
    ) -> Vec<Party> {
        let (gateways, peers) = (self.gateways_on(index, of), self.peers_on(index, of, but));
        if self.rules.frames_per_second.is_some() {
            return by_turns(&gateways, &peers, room.min(THIRD_LIMITED), turn);
        }
        let mut all = gateways;
        // However many gateways there are, one peer is asked too: the gateways may not answer.
        all.extend(a_few(&peers, THIRD.saturating_sub(all.len()).max(1), turn));
        all.dedup();
        all
    }

    /// Which third party is asked whether it answers: a gateway if there is one. Nodes are asked all the time, and may never be heard.
    pub(super) fn party_in_turn(&self, index: u32) -> Option<Party> {
        let of = self.family_on(index);
        self.gateways_on(index, of).first().copied().or_else(|| self.peers_on(index, of, None).first().copied())
    }

    /// Whom to ask on one interface to hear other nodes. Under a limit of frames gateways are left out, unless there is no room for
    /// them beside a VIP either: a look counts on them.
    pub(super) fn others_to_ask(&self, index: u32, turn: usize) -> Vec<Party> {
        match self.rules.most_probes().zip(self.rules.probes_each()) {
            Some((most, each)) if each > 1 => {
                let room = each.min(most - each).clamp(1, THIRD_LIMITED);
                a_few(&self.peers_on(index, self.family_on(index), None), room, turn)
            }
            _ => self.third_parties(index, self.family_on(index), None, 1, turn),
        }
    }

    /// Whether anybody should answer on one interface: a gateway, or a node whose link there is up as far as its session says.
    pub(super) fn expects_third_parties(&self, index: u32) -> bool {
        let Some(own) = self.node.interfaces.iter().find(|i| i.index == index) else { return false };
        let others = self.sessions.live().filter(|(node, _)| *node != self.rules.node);
        let mut links = others.flat_map(|(_, peer)| peer.view.links());
        !own.gateways.is_empty() || links.any(|link| link.up && link.shares(&own.link))
    }

    fn gateways_on(&self, index: u32, of: Family) -> Vec<Party> {
        let own = self.node.interfaces.iter().find(|i| i.index == index);
        let all = own.into_iter().flat_map(|own| &own.gateways).filter(|address| Family::of(**address) == of);
        all.map(|address| Party { address: *address, mac: self.segment.macs.get(address).copied() }).collect()
    }

    /// The addresses of other nodes with a session on one interface.
    fn peers_on(&self, index: u32, of: Family, but: Option<&str>) -> Vec<Party> {
        let macs = &self.segment.macs;
        let party = |link: &Link| {
            let address = *link.addresses.iter().find(|address| Family::of(**address) == of)?;
            Some(Party { address, mac: macs.get(&address).or_else(|| link.macs.first()).copied() })
        };
        self.links_on(index, but).filter_map(party).collect()
    }

    /// The other node that answered from that MAC address last.
    pub(super) fn party_at(&self, index: u32, mac: Mac) -> Option<Party> {
        let of = self.family_on(index);
        self.peers_on(index, of, None).into_iter().find(|party| party.mac == Some(mac))
    }

    /// The family in which other hosts on an interface are asked whether they are there: ARP where the interface has an IPv4 address.
    pub(super) fn family_on(&self, index: u32) -> Family {
        let own = self.node.interfaces.iter().find(|i| i.index == index);
        let is_ipv6 = own.is_some_and(|own| own.link.addresses.iter().all(IpAddr::is_ipv6));
        if is_ipv6 { Family::V6 } else { Family::V4 }
    }

    /// What [`Sender::Own`] amounts to on an interface.
    pub(super) fn own_sender(&self, index: u32) -> Sender {
        let own = self.node.interfaces.iter().find(|i| i.index == index);
        own.map_or(Sender::Own, |own| own.link.own_sender())
    }

    /// Whether so many other nodes are on a segment that only a few hear of what is asked.
    pub(super) fn is_crowded(&self, index: u32) -> bool {
        self.links_on(index, None).nth(MANY - 1).is_some()
    }

    /// The interfaces of other nodes with a session on the segment of an own one.
    fn links_on<'a>(&'a self, index: u32, but: Option<&'a str>) -> impl Iterator<Item = &'a Link> + Clone {
        let own = self.node.interfaces.iter().find(|i| i.index == index);
        let me = self.rules.node.as_str();
        let others = self.sessions.live().filter(move |(node, _)| *node != me && Some(*node) != but);
        let links = others.flat_map(|(_, peer)| peer.view.links());
        links.filter(move |link| own.is_some_and(|own| link.shares(&own.link)))
    }

    /// How long a round of probes for all VIPs that are carried takes.
    pub(super) fn round(&self) -> Duration {
        let carried = u32::try_from(self.index.carried.len()).unwrap_or(u32::MAX);
        self.rules.probe_spacing().map_or(SELF_PROBE, |spacing| SELF_PROBE.max(spacing.saturating_mul(carried)))
    }
}

/// At most `room` of a list, which may be empty. The next `turn` gives those that follow.
fn a_few<P: Copy>(list: &[P], room: usize, turn: usize) -> Vec<P> {
    if list.len() <= room && !(planted!(ManyGateways) && list.len() < room) {
        return list.to_vec();
    }
    (0..room).map(|n| list[turn.wrapping_mul(room).wrapping_add(n) % list.len()]).collect()
}

/// At most `room` of both lists, by turns. The next `turn` gives those that follow.
fn by_turns<P: Copy + PartialEq>(gateways: &[P], peers: &[P], room: usize, turn: usize) -> Vec<P> {
    let pick = |n: usize| match (gateways, peers) {
        ([], list) | (list, []) => list.get(n.checked_rem(list.len())?),
        _ if n.is_multiple_of(2) => gateways.get(n / 2 % gateways.len()),
        _ => peers.get(n / 2 % peers.len()),
    };
    let mut all: Vec<P> = (0..room).filter_map(|n| pick(turn.wrapping_mul(room).wrapping_add(n))).copied().collect();
    all.dedup();
    all
}
