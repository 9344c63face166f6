//! VIPs that are placed by Leases as kube-vip places them: by one for all of them, or by one for each Service.
//!
//! ```text
//!   what is to be carried by which Lease (assignments) ──┐    ┌─▶ Elector of that Lease ─▶ lists of VIPs: carry, drop, announce
//!   Leases, frames, the kernel ───────────────────┴────┘   (one for each Lease)  ─▶ reads and writes of the Lease
//! ```
//!
//! Every Lease has an elector of its own, so that each VIP has the fence, the challenge and the hand-over of the control
//! plane's. Added here is what several VIPs under one Lease need: one that another host has keeps none of the others from being taken;
//! and what is done is put into lists.

mod input;
mod lease_slot;
mod node_watch;
mod output;
mod parties;
mod turns;

#[cfg(test)]
mod tests;

pub use input::{Assignment, Call, Input, Report};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::core::{self, Core, Interface};
use crate::elector::{Snapshot, Urgency};
use crate::event::{Event as ForElector, Moment, Node};
use crate::evidence::Form;
use crate::lease::Participant;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness;
use lease_slot::LeaseSlot;
use node_watch::NodeWatch;
use output::{Batch, Places};
use turns::{Reason, Turns};

/// An event of this core.
pub type Event = core::Event<Input>;
/// An output of this core.
pub type Output = core::Output<Call, Report>;

/// The VIPs of many Leases.
#[derive(Debug)]
pub struct LeaseVips {
    rules: Rules,
    node: Node,
    /// Where no elector watches its holder.
    watch: NodeWatch,
    slots: BTreeMap<String, LeaseSlot>,
    /// Which Lease each VIP belongs to.
    by_vip: BTreeMap<IpAddr, String>,
    /// The VIPs found on the interfaces at start; None: the assignments are known, and left-overs are adopted or removed
    /// at once.
    left_over: Option<Vec<IpAddr>>,
    shutting_down: bool,
    left: bool,
    places: Places,
    batch: Batch,
    turns: Turns,
}

/// The state of one Lease, for others to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Namespace and name.
    pub name: String,
    /// Its elector; None: this node does not campaign for it.
    pub elector: Option<Snapshot>,
    /// VIPs that are held back, each with the host that has it, if one was heard.
    pub held_back: Vec<(IpAddr, Option<Mac>)>,
}

impl Core for LeaseVips {
    type Input = Input;
    type Call = Call;
    type Report = Report;

    fn step(&mut self, at: Moment, event: Event) -> Vec<Output> {
        let moved = self.moved(&event);
        self.take_in(at, event);
        let mut out = self.finish(at);
        // A VIP that moves to another interface is treated as if another program had removed it from the first.
        if !moved.is_empty() {
            out.push(Output::Remove(moved.clone()));
            for address in moved {
                self.of_vip(at, address, ForElector::Gone { address });
            }
            out.extend(self.finish(at));
        }
        out
    }

    fn wake(&self) -> Option<Time> {
        self.slots
            .values()
            .filter_map(LeaseSlot::wake)
            .chain(self.batch.wake())
            .chain(self.watch.wake())
            .chain(self.turns.next())
            .min()
    }

    fn listens_for(&self) -> BTreeSet<IpAddr> {
        self.slots.values().flat_map(LeaseSlot::listens_for).chain(self.watch.listens_for()).collect()
    }
}

/// What the node declares on Leases: kube-vip treats all its interfaces as one segment.
fn node(interfaces: &[Interface], macs: Vec<Mac>) -> Node {
    let addresses = || interfaces.iter().flat_map(|one| one.link.addresses.iter().copied());
    let first = |v4: bool| addresses().find(|address| address.is_ipv4() == v4);
    let participant = Participant {
        macs: interfaces.iter().flat_map(|one| one.link.macs.iter().copied()).collect(),
        addresses: first(true).into_iter().chain(first(false)).collect(),
        ..Participant::default()
    };
    let gateways = interfaces.iter().flat_map(|one| one.gateways.iter().copied()).collect();
    Node { participant, macs, gateways, bare: false }
}

impl LeaseVips {
    /// The core of a node that has seen nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let batch = Batch::new(&rules);
        Self {
            turns: Turns::new(&rules),
            watch: NodeWatch::new(Rules { witness_interval: Duration::ZERO, ..rules.clone() }),
            rules,
            node: Node::default(),
            slots: BTreeMap::new(),
            by_vip: BTreeMap::new(),
            left_over: Some(vec![]),
            shutting_down: false,
            left: false,
            places: Places::default(),
            batch,
        }
    }

    /// Electors do not watch their holders: each holder's node is watched instead, with this interval between two probes.
    #[must_use]
    pub fn watching_nodes(mut self, interval: Duration) -> Self {
        self.watch = NodeWatch::new(Rules { witness_interval: interval, ..self.rules.clone() });
        self.rules.witness_interval = Duration::ZERO;
        self
    }

    fn take_in(&mut self, at: Moment, event: Event) {
        self.watch.begin(at.now);
        match event {
            Event::Tick => {}
            Event::Link { interface, .. } => {
                let forgotten = self.watch.forget(at.now, Some(interface));
                self.heard_again(at, forgotten);
            }
            Event::Node { interfaces, macs } => {
                self.node = node(&interfaces, macs);
                self.places.interfaces = interfaces;
                self.watch.changed();
                for (name, slot) in &mut self.slots {
                    let node = self.places.seen_from(&self.node, &slot.interfaces().collect());
                    slot.step(at, name, ForElector::Node(node), &mut self.batch);
                }
            }
            Event::Heard { interface, address, mac, form } => {
                // On another segment the address may be a host's by right.
                let own = self.places.of_vip(address);
                if own.is_some_and(|own| own != interface) {
                    return;
                }
                let form = self.batch.judge(at.now, interface, (address, mac), form, own.is_some());
                let is_gateway = self.places.interfaces.iter().any(|one| one.gateways.contains(&address));
                let answering = self.watch.heard(at.now, interface, address, mac, form, is_gateway);
                self.heard_again(at, answering);
                self.heard(at, interface, address, mac, form);
            }
            Event::LeftOver(vips) => {
                let addresses = vips.into_iter().map(|vip| vip.address);
                match &mut self.left_over {
                    Some(waiting) => waiting.extend(addresses),
                    None => self.adopt_late(at, &addresses.collect::<Vec<_>>()),
                }
            }
            Event::Ensured(addresses) => {
                for address in addresses {
                    self.of_vip(at, address, ForElector::Put { address });
                }
            }
            Event::NotRefreshed(addresses) => {
                for address in addresses {
                    self.of_vip(at, address, ForElector::NotRefreshed { address });
                }
            }
            Event::EnsureFailed { address, reason } => {
                self.of_vip(at, address, ForElector::PutFailed { address, reason });
            }
            Event::Gone(address) => self.of_vip(at, address, ForElector::Gone { address }),
            Event::Removed(addresses) => {
                for address in addresses {
                    let removed = ForElector::Removed { address };
                    if self.by_vip.contains_key(&address) {
                        self.of_vip(at, address, removed);
                    } else {
                        // It is assigned no more, and the release of its Lease may wait for it.
                        self.all(at, &removed);
                    }
                }
            }
            Event::RemoveFailed { address, reason } => {
                self.of_vip(at, address, ForElector::RemoveFailed { address, reason });
            }
            Event::ClockJump(by) => {
                let forgotten = self.watch.forget(at.now, None);
                self.heard_again(at, forgotten);
                self.all(at, &ForElector::ClockJump(by));
            }
            Event::Shutdown => {
                self.shutting_down = true;
                self.all(at, &ForElector::Shutdown);
            }
            Event::Input(Input::Assignments(assignments)) => {
                self.watch.changed();
                self.take_assignments(at, assignments);
            }
            Event::Input(Input::Lease { name, event }) => {
                self.watch.changed();
                self.one(at, &name, event);
            }
        }
    }

    /// Of third parties, an elector is told only those on the interface of the VIPs that it asks for: whether one segment works says
    /// nothing about another.
    fn heard(&mut self, at: Moment, interface: u32, address: IpAddr, mac: Mac, form: Form) {
        let heard = ForElector::Heard { address, mac, form };
        if self.by_vip.contains_key(&address) {
            self.of_vip(at, address, heard);
            return;
        }
        let by_all = self.watch.is_passed_on(at.now, address, form);
        for (name, slot) in &mut self.slots {
            let here = slot.asks_on(&self.places, interface);
            // What others say unasked is no answer that a window waits for.
            if here && (by_all || form.is_answer() && slot.waits_for_parties()) {
                slot.step(at, name, heard.clone(), &mut self.batch);
            }
        }
    }

    /// The silence of these nodes says nothing any more.
    fn heard_again(&mut self, at: Moment, nodes: Vec<String>) {
        for node in nodes {
            self.all(at, &ForElector::NodeHeard { node });
        }
    }

    /// Watches the nodes of holders, and tells the electors of silent ones.
    fn watch_nodes(&mut self, at: Moment) {
        if self.watch.is_to_choose(at.now) {
            let campaigns = self.slots.iter().filter_map(|(name, slot)| slot.campaign(name));
            let unwatched = self.watch.choose(at.now, &self.rules.node, campaigns, &self.places);
            self.heard_again(at, unwatched);
        }
        let batch = &mut self.batch;
        self.watch.advance(at.now, &self.places, |interface, probes| batch.watch(at.now, interface, probes));
        if !self.watch.has_silent() {
            return;
        }
        let is_suspecting = |name: &str| self.slots.get(name).is_some_and(LeaseSlot::is_suspecting);
        let room =
            self.watch.most_suspects().saturating_sub(self.slots.keys().filter(|name| is_suspecting(name)).count());
        for (name, node) in self.watch.suspects(at.now, room, |name| !is_suspecting(name)) {
            self.one(at, &name, ForElector::NodeSilent { node });
        }
    }

    /// Opens the windows whose turn it is.
    fn give_turns(&mut self, at: Moment) {
        // Whose VIPs of one Lease are missed may be gone, though its node answers: its agent may have died.
        let is_missed = |slot: &&LeaseSlot| slot.waits_for_turn() == Some(Urgency::Deciding);
        let missed: BTreeSet<&str> = self.slots.values().filter(is_missed).map(LeaseSlot::holder).collect();
        let waiting = self.slots.iter().filter_map(|(name, slot)| {
            let urgency = slot.waits_for_turn()?;
            let answers = self.watch.answers_for(name) && !missed.contains(slot.holder());
            Some((name.clone(), Reason::of(urgency, answers)))
        });
        self.turns.wait(at.now, waiting);
        self.batch.looks_wait(self.turns.is_pressing());
        for (name, reason) in self.turns.due(at.now) {
            let Some(slot) = self.slots.get_mut(&name) else { continue };
            let window = slot.window();
            if let Err(later) = self.batch.look(at.now, reason, &window, &self.places) {
                self.turns.is_full(at.now, later);
                return;
            }
            slot.open(at, &name, window, &mut self.batch);
            self.turns.opened(at.now, &name);
            self.batch.looks_wait(self.turns.is_pressing());
        }
    }

    /// Where frames are limited: asks third parties for all electors whether they answer, one after the other. Only what has left counts
    /// as asked, for all who know that third party.
    fn ask_in_turn(&mut self, at: Moment) {
        let now = at.now;
        let is_limited = self.rules.frames_per_second.is_some();
        let places = &self.places;
        let hears = |slot: &LeaseSlot, address| places.near(address).is_some_and(|near| slot.asks_on(places, near));
        let mut questions = self.slots.values().filter_map(|slot| {
            let question = slot.question(now);
            // The answer of a host on another interface shows nothing.
            question.first().is_some_and(|first| hears(slot, first.address)).then_some(question)
        });
        let Some(question) = questions.next().filter(|_| is_limited) else {
            return self.batch.asks_nothing_in_turn();
        };
        for witness::Probe { address, sender, .. } in self.batch.ask_in_turn(now, &question, places) {
            for (name, slot) in &mut self.slots {
                if hears(slot, address) {
                    slot.step(at, name, ForElector::Asked { address, sender }, &mut self.batch);
                }
            }
        }
    }

    /// Does everything that is due, and returns the outputs.
    fn finish(&mut self, at: Moment) -> Vec<Output> {
        self.watch_nodes(at);
        for (name, slot) in &mut self.slots {
            slot.advance(at, name, &mut self.batch);
        }
        self.give_turns(at);
        self.ask_in_turn(at);
        self.slots.retain(|_, slot| !slot.is_over());
        let mut out = self.batch.flush(at.now, &self.places);
        if self.shutting_down && !self.left && self.slots.values().all(|slot| !slot.campaigns()) {
            self.left = true;
            out.push(Output::Exit);
        }
        out
    }

    /// VIPs that are carried here, and that the event moves to another interface.
    fn moved(&self, event: &Event) -> Vec<IpAddr> {
        let Event::Input(Input::Assignments(assignments)) = event else { return vec![] };
        let moved = self.places.moved(assignments).into_iter();
        let is_asked_for = |address: &IpAddr| {
            let slot = self.slot_of(*address);
            slot.is_some_and(|slot| slot.is_carrying() && slot.given().any(|one| one == *address))
        };
        moved.filter(is_asked_for).collect()
    }

    /// The Leases to watch.
    pub fn leases(&self) -> impl Iterator<Item = &str> {
        self.slots.keys().map(String::as_str)
    }

    /// The VIPs that a Lease gives to this node, and that the kernel took, each with that Lease.
    pub fn held(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        self.slots.iter().flat_map(|(name, slot)| slot.held().map(move |address| (address, name.as_str())))
    }

    fn slot_of(&self, address: IpAddr) -> Option<&LeaseSlot> {
        self.by_vip.get(&address).and_then(|name| self.slots.get(name))
    }

    /// Whether this node carries a VIP, for whatever reason. One that the kernel has refused it does not carry.
    #[must_use]
    pub fn is_carried(&self, address: IpAddr) -> bool {
        self.slot_of(address).is_some_and(|slot| slot.put().any(|one| one == address))
    }

    /// Whether this node carries the VIPs of a Lease, as far as it can.
    #[must_use]
    pub fn is_carrying(&self, name: &str) -> bool {
        self.slots.get(name).is_some_and(LeaseSlot::is_carrying)
    }

    /// How many VIPs there are for this node, and how many of them it carries.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let carried = self.slots.values().map(|slot| slot.put().count());
        (self.by_vip.len(), carried.sum())
    }

    /// How many of the VIPs belong to Leases that another program (kube-vip) has.
    #[must_use]
    pub fn of_other_program(&self, now: Time) -> usize {
        self.slots.values().map(|slot| slot.of_other_program(now)).sum()
    }

    /// The holder of a Lease, as last seen; empty: none.
    #[must_use]
    pub fn holder(&self, name: &str) -> &str {
        self.slots.get(name).map_or("", LeaseSlot::holder)
    }

    /// The version of a Lease as last seen.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&str> {
        self.slots.get(name)?.version()
    }

    /// All Leases, for others to read.
    #[must_use]
    pub fn states(&self) -> Vec<LeaseState> {
        self.slots.iter().map(|(name, slot)| slot.state(name)).collect()
    }

    fn take_assignments(&mut self, at: Moment, assignments: BTreeMap<String, Assignment>) {
        let left_over = self.left_over.take();
        self.places.assign(&assignments);
        self.by_vip.clear();
        for (name, assignment) in &assignments {
            self.by_vip.extend(assignment.vips.keys().map(|address| (*address, name.clone())));
        }
        // A VIP is taken from its old Lease before its new Lease gets it.
        for (name, slot) in &mut self.slots {
            slot.take_away(at, name, assignments.get(name), &mut self.batch);
        }
        for (name, assignment) in assignments {
            let slot = self.slots.entry(name.clone()).or_insert_with(|| LeaseSlot::new(&self.rules));
            let found = left_over.as_deref().unwrap_or_default();
            let may_begin = !self.shutting_down;
            let node = self.places.seen_from(&self.node, &assignment.vips.values().copied().collect());
            slot.give(at, &name, assignment, may_begin.then_some((node, found)), &mut self.batch);
        }
        self.drop_left_overs(&left_over.unwrap_or_default());
    }

    /// Left-overs are found after the electors began, as when the default route comes late.
    fn adopt_late(&mut self, at: Moment, found: &[IpAddr]) {
        for (name, slot) in &mut self.slots {
            slot.adopt(at, name, found, &mut self.batch);
        }
        self.drop_left_overs(found);
    }

    /// Removes the left-overs that no elector has adopted.
    fn drop_left_overs(&mut self, found: &[IpAddr]) {
        for address in found {
            if !self.slot_of(*address).is_some_and(LeaseSlot::is_carrying) {
                self.batch.drop(*address);
            }
        }
    }

    fn one(&mut self, at: Moment, name: &str, event: ForElector) {
        if let Some(slot) = self.slots.get_mut(name) {
            slot.step(at, name, event, &mut self.batch);
        }
    }

    fn all(&mut self, at: Moment, event: &ForElector) {
        for (name, slot) in &mut self.slots {
            slot.step(at, name, event.clone(), &mut self.batch);
        }
    }

    fn of_vip(&mut self, at: Moment, address: IpAddr, event: ForElector) {
        if let Some(name) = self.by_vip.get(&address).cloned() {
            self.one(at, &name, event);
        }
    }
}
