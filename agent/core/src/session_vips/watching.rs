//! The watch over other nodes: on each segment a node is watched by three others. Each of the three watches every segment that it
//! shares with the node.

use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::SessionVips;
use super::apart::OwnAddress;
use super::segment::Family;
use crate::core::Probe;
use crate::evidence::Form;
use crate::mac::Mac;
use crate::parties::Party;
use crate::planted::planted;
use crate::rules::AWAY;
use crate::session::{Incarnation, Link};
use crate::time::Time;
use crate::windows::{Windowed, open_in_turn};
use crate::witness::{Looks, Witness};

/// A VIP is probed only after its holder has had it for this long: a slow kernel is not a dead node.
const STOOD: Duration = Duration::from_secs(2);

/// For so long after a node's last answer, what it says unasked clears misses.
const CLAIMS_CLEAR: Duration = Duration::from_secs(3);

/// So many undeclared MAC addresses of a node are remembered: a bond's ports.
const LEARNED: usize = 8;

/// How many third parties are asked among many nodes: all of them hear a broadcast.
const CROWDED: usize = 3;

/// The watch over one node.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) incarnation: Incarnation,
    /// How many watchers come before this one.
    pub(super) place: u32,
    pub(super) views: Vec<OneLink>,
    /// Since when it has been silent on all segments.
    pub(super) silent_since: Option<Time>,
    /// The node is silent while the API is away, and its VIPs were considered for that reason.
    pub(super) looked_at: bool,
}

/// The watch on one segment.
#[derive(Debug)]
pub(super) struct OneLink {
    /// The own interface.
    pub(super) index: u32,
    /// The node's interface on that segment, as the node declares it.
    pub(super) link: Link,
    pub(super) witness: Witness,
    /// The address that is asked for now.
    pub(super) address: Option<IpAddr>,
    /// Whether that is one of its VIPs.
    pub(super) vip: bool,
    /// MAC addresses that the node has not declared, and from which its own address was answered: a bond takes another port, or
    /// answers by several (`balance-alb`).
    pub(super) macs: Vec<Mac>,
    /// Since when the next window could open, if there is no room for its probes yet.
    pub(super) waits_since: Option<Time>,
    /// An unknown host that answered for the VIP in this window.
    pub(super) claimant: Option<Mac>,
    /// The VIP that an answer to a broadcast has placed at the node: it is asked there, whoever has it by the records. A node that answers
    /// for any VIP is reached, and its fences hold.
    pub(super) placed: Option<IpAddr>,
    /// When the node last answered a probe that went to it alone.
    pub(super) answered: Option<Time>,
    /// Whether the node was heard to have its own address in this window.
    pub(super) reached: bool,
    /// The MAC address at which the node's own address is asked for alone in this window.
    pub(super) own_asked: Option<Mac>,
    /// The MAC address that an answer to a broadcast named for it: it is asked there in the next window.
    pub(super) own_named: Option<Mac>,
    /// It is asked there in this window.
    pub(super) own_verified: Option<Mac>,
    /// A MAC address at which it did not answer then.
    pub(super) own_gone: Option<Mac>,
    /// In how many windows in a row neither the address that is asked for nor the node's own address was answered. The own address
    /// is asked for from the second miss on.
    pub(super) unreached: u32,
    /// How often third parties were asked: other ones each time, unless frames are limited.
    pub(super) turn: usize,
    /// How often those that were asked did not answer. Under a limit of few frames one is asked at a time: another one only then, for
    /// a gateway that never answers would hide each time what the window before has shown.
    pub(super) unheard_parties: usize,
    /// Whether the own address was asked for in the last of them: under a limit of few frames there may be no room, and it is asked for
    /// [apart](super::apart).
    pub(super) asked_own: bool,
}

impl OneLink {
    /// Whether a MAC address is the node's, as far as is known.
    fn is_from_it(&self, mac: Mac) -> bool {
        self.link.macs.contains(&mac) || self.macs.contains(&mac) && !planted!(MacsAreFixed)
    }

    /// Whether what the node says of its own address unasked shows that it is reached. Of one that has answered nothing for a while it does
    /// not: its requests leave, and its answers do not, so clients find no VIP there. A node that has never answered here is not judged.
    fn counts_claims(&self, now: Time) -> bool {
        let clear = CLAIMS_CLEAR.max(self.witness.decides_within());
        self.answered.is_none_or(|at| now.since(at) <= clear) || planted!(ClaimsClearForEver)
    }

    /// What was missed before says nothing any more.
    pub(super) fn forget(&mut self, now: Time) {
        self.witness.forget(now);
        (self.own_named, self.own_verified, self.own_gone) = (None, None, None);
        self.unreached = 0;
    }

    /// Whether an answer to a broadcast has placed the node's own address where it was not asked yet, or is asked in this window.
    fn is_own_undecided(&self) -> bool {
        self.own_named.or(self.own_verified).is_some_and(|mac| self.own_gone != Some(mac))
    }

    /// Closes the window whose time is over. Answers whether that was a miss.
    fn end_window(&mut self, now: Time) -> bool {
        let unheard = self.witness.hears_no_party();
        let missed = self.witness.end_window(now);
        self.unheard_parties = self.unheard_parties.wrapping_add(usize::from(unheard && self.witness.is_closed()));
        if missed {
            // A network may answer a broadcast for a host that is gone: the next window tells.
            let more = u32::from(!self.is_own_undecided());
            self.unreached = if self.reached { 0 } else { self.unreached.saturating_add(more) };
        }
        if !self.reached && self.witness.is_closed() {
            self.own_gone = self.own_verified.take().or(self.own_gone);
        }
        self.answered_all();
        missed
    }

    /// Without a miss, nothing speaks against the node.
    fn answered_all(&mut self) -> bool {
        let all = self.witness.state().0 == 0;
        if all {
            self.unreached = 0;
        }
        all
    }

    /// The node's own address was answered from this MAC address, which no other node declares: it is the node's. Whatever VIP of
    /// the node was answered from there in this window was answered by the node.
    fn learn(&mut self, now: Time, mac: Mac, form: Form) {
        self.macs.push(mac);
        if self.macs.len() > LEARNED {
            self.macs.remove(0);
        }
        if self.claimant == Some(mac) && !planted!(MacsAreFixed) {
            self.witness.heard_target(now, mac, form);
        }
    }
}

impl Windowed for (&String, &mut OneLink) {
    fn interface(&self) -> u32 {
        self.1.index
    }

    fn witness(&mut self) -> &mut Witness {
        &mut self.1.witness
    }

    fn waits_since(&mut self) -> &mut Option<Time> {
        &mut self.1.waits_since
    }
}

impl Watch {
    /// Silent on every segment, whether or not the node has ever answered.
    fn is_free(&self) -> bool {
        !self.views.is_empty() && self.views.iter().all(|v| v.witness.is_free())
    }

    /// The node was heard on an interface where it is not watched: its own has just come back, and who was cut off from the API does
    /// not know. It lives, whatever it did not answer on the segments where it is watched.
    fn heard_elsewhere(&mut self, now: Time) {
        self.silent_since = None;
        self.views.iter_mut().for_each(|v| v.forget(now));
    }
}

/// What a window of the watch asks for.
enum Window<'a> {
    /// A VIP of the node, or its own address while it has none.
    Vips((&'a String, &'a mut OneLink)),
    /// Its own address, apart from its VIPs.
    Own((&'a String, &'a mut OwnAddress)),
}

impl Windowed for Window<'_> {
    fn interface(&self) -> u32 {
        match self {
            Self::Vips(window) => window.interface(),
            Self::Own(window) => window.interface(),
        }
    }

    fn witness(&mut self) -> &mut Witness {
        match self {
            Self::Vips(window) => window.witness(),
            Self::Own(window) => window.witness(),
        }
    }

    fn waits_since(&mut self) -> &mut Option<Time> {
        match self {
            Self::Vips(window) => window.waits_since(),
            Self::Own(window) => window.waits_since(),
        }
    }
}

impl SessionVips {
    pub(super) fn advance_watches(&mut self) {
        if self.rewatch {
            self.choose_watches();
        }
        let now = self.step.at.now;
        let mut watches = std::mem::take(&mut self.watches);
        for view in watches.values_mut().flat_map(|watch| &mut watch.views) {
            self.step.again |= view.end_window(now);
        }
        let mut apart = std::mem::take(&mut self.apart);
        self.step.again |= apart.end_windows(now);
        self.choose_apart(&watches, &mut apart);
        let views = watches.iter_mut().flat_map(|(node, watch)| watch.views.iter_mut().map(move |view| (node, view)));
        let windows = views.map(Window::Vips).chain(apart.all().map(Window::Own));
        open_in_turn(now, windows, |window| match window {
            Window::Vips((node, view)) => self.open_window(node, view),
            Window::Own((node, own)) => self.open_apart(node, own),
        });
        apart.next().for_each(|next| _ = self.due(next));
        self.apart = apart;
        for (node, watch) in &mut watches {
            for next in watch.views.iter().filter_map(|view| view.witness.next()) {
                self.due(next);
            }
            let silent = !watch.views.is_empty() && self.is_abandoned(node, &watch.views);
            if silent && watch.silent_since.is_none() {
                self.step.again = true;
            }
            watch.silent_since = silent.then(|| watch.silent_since.unwrap_or(now));
        }
        self.watches = watches;
        self.note_deafness();
        self.silence_matters();
    }

    /// Whether this node is cut off, as far as its watches tell: it asks other nodes and third parties, and nobody answers.
    fn note_deafness(&mut self) {
        let mut views = self.watches.values().flat_map(|watch| &watch.views);
        let (mut deaf, mut is_any_known) = (None, false);
        let all = views.all(|view| {
            deaf = deaf.max(view.witness.deaf_at());
            is_any_known |= view.witness.state().1.is_some();
            view.witness.deaf_at().is_some()
        });
        // Where nobody has ever answered, silence means nothing.
        let Some(at) = deaf.filter(|_| all && is_any_known) else { return };
        let before = self.segment.deaf.replace(at);
        if before.is_none_or(|at| self.own.is_renewed_since(at)) && !self.own.is_renewed_since(at) {
            // Whoever claims a VIP may have it.
            self.claimants_changed();
        }
    }

    /// Opens a window, or answers when to try again.
    fn open_window(&mut self, node: &str, view: &mut OneLink) -> Result<(), Time> {
        let now = self.step.at.now;
        self.aim_next(node, view);
        let is_own = |address: &IpAddr| view.vip && view.link.addresses.contains(address);
        // The node's own address is asked for where an answer to a broadcast has placed it.
        let own_named = view.own_named;
        let probe = |p: crate::witness::Probe| {
            let to = own_named.filter(|_| is_own(&p.address)).or(p.to);
            Probe { interface: view.index, address: p.address, to, sender: p.sender }
        };
        let all: Vec<Probe> = view.witness.probes().into_iter().map(probe).collect();
        let asked_at = all.iter().find(|p| is_own(&p.address)).and_then(|p| p.to);
        let asks: Vec<Probe> = all.into_iter().filter(|ask| !self.batch.probes.contains(ask)).collect();
        // If another watch asks for that address in this step, its probe is this one's too.
        let own_asked = view.witness.probes().iter().any(|p| view.link.addresses.contains(&p.address));
        self.take_watch(view.index, asks.len())?;
        self.batch.probes.extend(asks);
        view.turn = view.turn.wrapping_add(usize::from(view.witness.asks_parties()));
        if view.witness.asks_parties() {
            self.segment.asked(now, view.index, view.witness.asks_as(), view.witness.parties());
        }
        (view.own_asked, view.own_verified) = (asked_at, own_named.filter(|mac| asked_at == Some(*mac)));
        view.own_named = None;
        view.witness.open(now);
        if own_asked && !view.asked_own {
            // One miss may count without that question, no more.
            view.unreached = view.unreached.min(1).min(self.rules.witness_misses.saturating_sub(1));
        }
        view.asked_own = own_asked;
        view.reached = false;
        Ok(())
    }

    /// Whether the node, its links or its agent is gone: its VIPs are silent on all segments, and its own address is too. VIPs alone
    /// may be silent because a living agent has let them go and this node has not been told yet, or because the kernel there
    /// refuses them. So where the node's own address is answered, or was not asked for, its agent counts as gone only when a renewal of
    /// its session has not come: the fence that takes a dead agent's VIPs away ends later than that.
    pub(super) fn is_abandoned(&self, node: &str, views: &[OneLink]) -> bool {
        let needed = self.rules.witness_misses;
        let beside = |view: &OneLink| view.unreached >= needed && view.asked_own && !view.is_own_undecided();
        let unreached = |view: &OneLink| beside(view) || self.apart.is_gone(node, view.index);
        let gone = |view: &OneLink| unreached(view) || self.misses_renewal(node) || planted!(AbandonsWhoLetGo);
        let silent = |view: &OneLink| view.witness.is_silent() && gone(view);
        if planted!(OneSegmentIsEnough) { views.iter().any(silent) } else { views.iter().all(silent) }
    }

    /// Whether a node's session was to be renewed, and was not: for two periods. Who does not follow its Lease cannot say.
    pub(super) fn misses_renewal(&self, node: &str) -> bool {
        let Some(peer) = self.sessions.get(node) else { return true };
        self.sessions.is_followed(node) && self.step.at.now.since(peer.changed) >= self.rules.retry_period * 2
    }

    /// What the next window asks for: the node's next VIP there, or its own address while it has none.
    fn aim_next(&self, node: &str, view: &mut OneLink) {
        let leaving = self.sessions.get(node).is_some_and(|p| p.view.is_leaving());
        let placed = view.placed.take().filter(|_| view.witness.is_verifying());
        let same = view.address.filter(|vip| view.vip && view.witness.is_verifying() && self.stands(node, view, *vip));
        let same = placed.or(same);
        let vip = if leaving { None } else { same.or_else(|| self.next_vip(node, view)) };
        // Its own address of the VIP's family, if it has one.
        let near = |address: &&IpAddr| vip.is_none_or(|vip| Family::of(vip) == Family::of(**address));
        let own = view.link.addresses.iter().find(near).copied();
        if view.address != vip.or(own) && placed.is_none() {
            view.witness.forget_named();
        }
        view.placed = placed;
        view.vip = vip.is_some();
        view.address = vip.or(own);
        view.claimant = None;
        view.witness.set_addresses(view.address);
        view.witness.set_senders(self.own_sender(view.index), Looks::default());
        if !view.witness.asks_parties() {
            return;
        }
        let room = self.rules.probes_each().map_or(usize::MAX, |most| most - 1);
        let of = view.address.map_or_else(|| self.family_on(view.index), Family::of);
        let turn = if self.rules.frames_per_second.is_some() { view.unheard_parties } else { view.turn };
        // Under a limit of frames gateways come first: the own address must not take the place of the next one in turn.
        let third = room - usize::from(view.vip && own.is_some() && room > 1);
        let mut parties = self.third_parties(view.index, of, Some(node), third, turn);
        if view.vip {
            // The node's own address tells whether the segment works, and whether the node is still there. Another party is asked
            // first: under a limit of few frames there is room for one only.
            let second = parties.len().min(1);
            let known = own.and_then(|own| self.segment.macs.get(&own).copied());
            let mac = known.or_else(|| view.link.macs.first().copied());
            parties.splice(second..second, own.map(|address| Party { address, mac }));
        }
        parties.truncate(room.min(if self.is_crowded(view.index) { CROWDED } else { usize::MAX }));
        view.witness.set_parties(parties);
    }

    /// The VIP after the one asked for last that the record has long named that node for, on that segment.
    fn next_vip(&self, node: &str, view: &OneLink) -> Option<IpAddr> {
        let held = self.index.held.get(node)?;
        let after = view.address.filter(|_| view.vip).map_or(Bound::Unbounded, Bound::Excluded);
        let round = held.range((after, Bound::Unbounded)).chain(held.iter());
        round.take(held.len().min(64)).find(|address| self.stands(node, view, **address)).copied()
    }

    /// Whether the record has long named that node for a VIP, on that segment.
    fn stands(&self, node: &str, view: &OneLink, address: IpAddr) -> bool {
        let (Some(vip), Some(peer)) = (self.vips.get(&address), self.sessions.get(node)) else { return false };
        let holder = vip.holder().filter(|h| h.to.is_none() && peer.view.is_of(&h.session));
        let link = vip.demand.as_ref().and_then(|d| d.link_of(peer.view.links()));
        let here = link.map(|l| l.name == view.link.name);
        holder.is_some() && here == Some(true) && self.step.at.now.since(vip.record.changed) >= STOOD
    }

    /// A frame may be the answer of a node that is watched, or of a third party.
    pub(super) fn watches_heard(&mut self, index: u32, address: IpAddr, (mac, form): (Mac, Form), vip: bool) {
        let (now, mut peer) = (self.step.at.now, false);
        for (node, watch) in &mut self.watches {
            if watch.views.iter().all(|v| v.index != index) {
                let declared = self.sessions.get(node).and_then(|peer| peer.view.declared());
                let is_its =
                    declared.is_some_and(|declared| declared.links.iter().any(|link| link.macs.contains(&mac)));
                if is_its || watch.views.iter().any(|v| v.is_from_it(mac)) {
                    watch.heard_elsewhere(now);
                    self.apart.forget(node);
                    peer = true;
                }
            }
            for view in watch.views.iter_mut().filter(|v| v.index == index) {
                if !view.is_from_it(mac) && self.sessions.with_mac(mac).is_none_or(|owner| owner == node) {
                    if view.link.addresses.contains(&address) {
                        view.learn(now, mac, form);
                    } else if view.address == Some(address) {
                        view.claimant = Some(mac);
                    }
                }
                let from_it = view.is_from_it(mac);
                peer |= from_it;
                if from_it && form.is_alone() {
                    view.answered = Some(now);
                }
                let is_said = form.is_answer() || view.counts_claims(now);
                if is_said || !from_it {
                    self.apart.heard(now, (node, index), address, (mac, form), from_it);
                }
                if from_it && view.link.addresses.contains(&address) {
                    let alone = form.is_alone() && view.own_asked == Some(mac);
                    let claims = !form.is_answer() && is_said;
                    if claims || alone || planted!(BelievesBroadcasts) {
                        (view.reached, view.unreached) = (true, 0);
                        (view.own_named, view.own_verified, view.own_gone) = (None, None, None);
                    } else if form.is_answer() {
                        view.own_named = Some(mac);
                    }
                }
                // Any VIP on its interface, rightful or not, shows that the node is reached and that its fences hold.
                let counts = vip || !view.vip && view.link.addresses.contains(&address) && is_said;
                match view.address {
                    Some(asked) if from_it && counts => {
                        // It answered a look for another VIP, which had asked it alone: it lives, whatever this window asks.
                        let form = if asked != address && form.is_alone() { Form::Claim } else { form };
                        view.witness.heard_target(now, mac, form);
                        if vip && view.witness.is_verifying() {
                            view.placed = Some(address);
                        }
                    }
                    // Another host's answer for the VIP says nothing about the node.
                    Some(asked) if asked == address => {}
                    _ => view.witness.heard(now, address, mac, form),
                }
                if view.answered_all() {
                    watch.silent_since = None;
                }
            }
        }
        if peer && (form.is_answer() || planted!(ClaimsEntitle)) {
            self.peer_answered(mac, form.is_alone() || planted!(ClaimsEntitle));
        }
    }

    /// Whether a node's VIPs are silent: enough to carry one while the API cannot be asked.
    pub(super) fn is_silent_free(&self, node: &str) -> bool {
        self.watches.get(node).is_some_and(Watch::is_free)
    }

    /// Whether a node has never answered: where nodes do not hear each other, its silence shows nothing.
    pub(super) fn is_never_heard(&self, node: &str) -> bool {
        let views = self.watches.get(node).map(|watch| &watch.views);
        let watched = views.is_some_and(|views| views.iter().any(|view| view.answered.is_some()));
        // It may have answered before it was watched.
        let own =
            self.sessions.get(node).into_iter().flat_map(|peer| peer.view.links()).flat_map(|link| &link.addresses);
        !watched && !own.into_iter().any(|address| self.segment.macs.contains_key(address))
    }

    pub(super) fn forget_witness(&mut self, node: &str) {
        self.apart.forget(node);
        if let Some(watch) = self.watches.get_mut(node) {
            watch.silent_since = None;
            for view in &mut watch.views {
                view.forget(self.step.at.now);
            }
        }
    }

    /// A step begins: a node that stood still for a while judges nothing by what it missed before.
    pub(super) fn begin_watches(&mut self) {
        let now = self.step.at.now;
        self.apart.begin(now);
        for watch in self.watches.values_mut() {
            for view in &mut watch.views {
                view.witness.begin(now);
                if view.answered_all() {
                    watch.silent_since = None;
                }
            }
        }
    }

    pub(super) fn forget_witnesses(&mut self) {
        let all: Vec<String> = self.watches.keys().cloned().collect();
        for node in all {
            self.forget_witness(&node);
        }
    }

    /// A node has fallen silent while the API does not answer: the VIPs that it holds are considered.
    fn silence_matters(&mut self) {
        let waiting = self.own.calls.flight.as_ref().map(|f| f.sent).into_iter();
        let waiting = waiting.chain(self.calls.ends.values().map(|end| end.sent)).min();
        let away = self.away_since().is_some();
        if let (Some(sent), false) = (waiting, away)
            && self.watches.values().any(Watch::is_free)
        {
            self.due(sent + AWAY);
        }
        for (node, watch) in &mut self.watches {
            let free = away && watch.is_free();
            if free && !watch.looked_at {
                self.index.dirty.extend(self.index.held.get(node).into_iter().flatten());
                self.step.again = true;
            }
            watch.looked_at = free;
        }
    }
}
