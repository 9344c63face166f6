//! The API: one linearizable store of sessions and records, calls that get lost before or after they took effect, and a
//! watch of both for each node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mooring_agent_core::event::Failure;
use mooring_agent_core::session::{AddressView, Holder, Member, Standing, View};
use mooring_agent_core::session_vips::{Call as Asked, Event, Input};
use mooring_agent_core::time::Time;

use super::SessionVips;
use super::queue::Item;
use super::settings::{demand, labels};
use super::sizes::{SESSION, objects, size};
use crate::api::Fate;
use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item as Common;
use crate::settings::Settings;
use crate::subject::Subject as _;
use crate::world::{World, nanos};

/// What a call brought.
#[derive(Clone, Debug)]
pub enum Answer {
    Sessions(Vec<View>),
    Addresses(Vec<(usize, Option<AddressView>)>),
    Session(View),
    Address(AddressView),
    Member(Option<Member>),
    Conflict,
    Away,
}

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Message {
    Event(Event),
    /// Everything, as it was when the list was made.
    All(Vec<Event>),
    Broken,
    /// The list or the watch could not be opened.
    Failed,
}

/// What a watch is of: where sessions and all else are watched apart, one may be behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Leases of sessions; and everything, where they are not apart.
    Sessions,
    /// `IPAddress` objects, what is wanted, nodes.
    Others,
    /// Member objects.
    Members,
}

impl Of {
    /// All.
    pub const ALL: [Self; 3] = [Self::Sessions, Self::Others, Self::Members];

    fn event(event: &Event) -> Self {
        match event {
            Event::Input(
                Input::Session(_)
                | Input::SessionDeleted(_)
                | Input::Sessions { .. }
                | Input::Followed { .. }
                | Input::NotUnpublished(_),
            ) => Self::Sessions,
            Event::Input(Input::Member(_) | Input::MemberDeleted(_) | Input::Members(_)) => Self::Members,
            _ => Self::Others,
        }
    }
}

/// A node's watch.
pub type Watch = crate::api::Watch<Event>;

/// A call.
#[derive(Debug)]
pub struct Call {
    /// Whose.
    pub host: usize,
    /// Of which process.
    pub life: u32,
    sent: Time,
    asked: Request,
    over: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
enum Request {
    /// What the core asks for.
    Core(Asked),
    /// Everything, to watch from there on.
    List(Of),
}

/// There is one API server.
const SERVER: usize = 0;

/// Everything that is stored.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Sessions by node.
    pub sessions: BTreeMap<String, View>,
    /// Member objects by node.
    pub members: BTreeMap<String, Member>,
    /// When each session was last written by its own agent.
    pub renewed: BTreeMap<String, Nanos>,
    /// Records by VIP, of those that exist.
    pub addresses: BTreeMap<usize, AddressView>,
    /// The last version given out.
    pub version: u64,
    /// The last uid given out.
    pub uid: u64,
}

impl Store {
    pub(super) fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn new_uid(&mut self) -> String {
        self.uid += 1;
        format!("u{}", self.uid)
    }
}

/// The API.
#[derive(Debug)]
pub struct Api {
    /// What is stored.
    pub store: Store,
    /// What it was at times, for a restored backup.
    pub backups: VecDeque<Store>,
    /// Calls, over or not.
    pub calls: Vec<Call>,
    /// How late each node's watches are.
    pub lag: Vec<[Nanos; 3]>,
    /// Somebody else writes the `IPAddress` just before so many of a thousand record writes.
    pub nudged: u32,
    /// VIPs that should exist.
    pub wanted: BTreeSet<usize>,
    /// Nodes with endpoints.
    pub endpoints: BTreeSet<usize>,
    /// What Kubernetes says of the nodes.
    pub standing: Vec<Standing>,
}

impl Api {
    /// At the beginning.
    #[must_use]
    pub fn new(settings: &Settings<SessionVips>) -> Self {
        let nodes = settings.nodes;
        Self {
            store: Store { version: 1_000, ..Store::default() },
            backups: VecDeque::new(),
            calls: vec![],
            lag: vec![[0; 3]; nodes],
            nudged: 0,
            wanted: BTreeSet::new(),
            endpoints: (0..nodes).collect(),
            standing: vec![Standing::default(); nodes],
        }
    }
}

impl World<'_, SessionVips> {
    /// What the watch of a host's Node shows.
    pub(super) fn node_of(&self, host: usize) -> Event {
        let labels = labels(&self.plan.settings, host, &self.api.endpoints);
        Event::Input(Input::Node { standing: self.api.standing[host], labels })
    }

    /// Whether a host's packets reach the API at all.
    #[must_use]
    pub fn reaches(&self, host: usize) -> bool {
        self.hosts[host].is_awake() && !self.api_faults.is_island(host)
    }

    /// Whether a host has an API to speak to.
    #[must_use]
    pub fn has_api(&self, host: usize) -> bool {
        self.reaches(host) && self.api_faults.hows(host, SERVER).next().is_none()
    }

    fn fate(&mut self, host: usize) -> Fate {
        let reaches = self.reaches(host);
        self.fate_of(host, SERVER, reaches)
    }

    /// An agent calls.
    pub fn call(&mut self, host: usize, asked: Asked) {
        if let Asked::Follow { nodes } = asked {
            return self.follow_by_name(host, &nodes);
        }
        self.request(host, Request::Core(asked));
    }

    fn request(&mut self, host: usize, asked: Request) {
        let within = match &asked {
            Request::Core(
                Asked::ReadSessions { within, .. }
                | Asked::ReadAddresses { within, .. }
                | Asked::WriteSession { within, .. }
                | Asked::Publish { within, .. }
                | Asked::WriteHolder { within, .. },
            ) => nanos(*within),
            Request::Core(Asked::Follow { .. }) | Request::List(_) => 5 * SECOND,
        };
        let (life, sent) = (self.hosts[host].life, self.hosts[host].moment(self.now).now);
        self.api.calls.push(Call { host, life, sent, asked, over: false });
        self.counts.requests(self.now, host);
        let call = self.api.calls.len() - 1;
        self.put(within, Common::Own(Item::Deadline { call }));
        match self.fate(host) {
            Fate::Goes(wait) => self.put(wait, Common::Own(Item::Arrive { call })),
            fate => self.fails(call, fate),
        }
    }

    /// A call fails on its way there or back: the agent may be told.
    fn fails(&mut self, call: usize, fate: Fate) {
        if let Some(wait) = fate.fails_after() {
            self.answer_after(wait, call, Answer::Away);
        }
    }

    fn answer_after(&mut self, wait: Nanos, call: usize, answer: Answer) {
        self.put(wait, Common::Own(Item::Answer { call, answer: Box::new(answer) }));
    }

    /// A request reaches the API.
    pub fn arrive(&mut self, call: usize) {
        let (host, life, sent) = (self.api.calls[call].host, self.api.calls[call].life, self.api.calls[call].sent);
        let asked = match self.api.calls[call].asked.clone() {
            Request::Core(asked) => asked,
            Request::List(of) => return self.followed(call, of),
        };
        let answer = match asked {
            Asked::ReadSessions { .. } => Answer::Sessions(self.sessions_for(host)),
            Asked::ReadAddresses { addresses, .. } => {
                let vips = addresses.iter().filter_map(|a| self.vip_of(*a));
                Answer::Addresses(vips.map(|v| (v, self.api.store.addresses.get(&v).cloned())).collect())
            }
            Asked::WriteSession { node, base, record, declared, end, .. } => {
                let known = self.api.store.sessions.get(&node).cloned();
                let blind = base.as_deref() == Some("");
                if blind && known.is_some() || known.as_ref().map(|v| v.version.as_str()) == base.as_deref() {
                    let uid = known.as_ref().map_or_else(|| self.api.store.new_uid(), |v| v.uid.clone());
                    let version = self.api.store.next();
                    let own = node == self.names[host];
                    let published = self.is_published_after((host, life), own, known.as_ref());
                    let declared = self.declared_by((host, life), declared);
                    let view = View { node: node.clone(), uid, version, record, declared, end, published };
                    self.check_session_write(host, known.as_ref(), &view);
                    self.api.store.sessions.insert(node.clone(), view.clone());
                    if own {
                        self.api.store.renewed.insert(node, self.now);
                        let same = self.hosts[host].life == life;
                        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|_| same) {
                            agent.took_effect(view.record.clone(), sent);
                        }
                    }
                    self.show_session(known.as_ref(), &view);
                    Answer::Session(self.view_for(host, view))
                } else {
                    Answer::Conflict
                }
            }
            Asked::Publish { base, copy, .. } => self.write_member(host, base.as_deref(), copy),
            Asked::Follow { .. } => return,
            Asked::WriteHolder { address, base, holder, .. } => {
                let Some(vip) = self.vip_of(address) else { return };
                match self.api.store.addresses.get(&vip).cloned() {
                    Some(known) if self.api.nudged > 0 && self.rng.chance(self.api.nudged) => {
                        self.set_record(vip, known.uid, known.holder);
                        Answer::Conflict
                    }
                    Some(known) if known.version == base || base.is_empty() => {
                        self.check_record_write(host, vip, known.holder.as_ref(), holder.as_ref());
                        let view = self.set_record(vip, known.uid, holder);
                        Answer::Address(view)
                    }
                    _ => Answer::Conflict,
                }
            }
        };
        if let Answer::Sessions(all) = &answer {
            let objects = all.len() as u64;
            self.counts.list(objects, objects * SESSION);
        }
        match self.fate(host) {
            Fate::Goes(wait) => match self.loses_answer(host, SERVER) {
                None => self.answer_after(wait, call, answer),
                Some(true) => self.answer_after(wait, call, Answer::Away),
                Some(false) => {}
            },
            fate => self.fails(call, fate),
        }
    }

    /// The record of a VIP, as it is now; every watch shows it.
    pub fn set_record(&mut self, vip: usize, uid: String, holder: Option<Holder>) -> AddressView {
        self.stirred();
        let view = AddressView { uid, version: self.api.store.next(), holder, by_lease: false };
        self.api.store.addresses.insert(vip, view.clone());
        let address = SessionVips::vip(&self.plan.settings, vip);
        self.publish(&Event::Input(Input::Address { listed: false, address, view: Some(view.clone()) }));
        view
    }

    /// A VIP is wanted from now on.
    pub fn want(&mut self, vip: usize) {
        let uid = self.api.store.new_uid();
        let demand = demand(&self.plan.settings, vip, &self.api.endpoints);
        self.api.wanted.insert(vip);
        self.publish(&Event::Input(Input::Wanted(vec![demand])));
        self.set_record(vip, uid, None);
        SessionVips::touched_vip(self, vip);
    }

    /// It is wanted no longer.
    pub fn unwant(&mut self, vip: usize) {
        self.api.wanted.remove(&vip);
        self.api.store.addresses.remove(&vip);
        self.api.store.next();
        let address = SessionVips::vip(&self.plan.settings, vip);
        self.publish(&Event::Input(Input::Unwanted(address)));
        self.publish(&Event::Input(Input::Address { listed: false, address, view: None }));
        SessionVips::touched_vip(self, vip);
    }

    /// An answer reaches the agent, or the call is given up.
    pub fn answered(&mut self, call: usize, answer: Answer) {
        let of = &mut self.api.calls[call];
        let host = of.host;
        if of.over || self.hosts[host].life != of.life {
            return;
        }
        of.over = true;
        let away = Err(Failure::Away);
        let Request::Core(asked) = &of.asked else {
            let Request::List(of) = of.asked else { return };
            let connection = self.hosts[host].agent.as_ref().map_or(0, |a| a.own.watches[of as usize].connection);
            return self.watched(host, of, connection, Message::Failed);
        };
        let input = match (asked, answer) {
            (Asked::ReadSessions { id, .. }, Answer::Sessions(views)) => {
                Input::Sessions { id: Some(*id), result: Ok(views) }
            }
            (Asked::ReadSessions { id, .. }, _) => Input::Sessions { id: Some(*id), result: Err(Failure::Away) },
            (Asked::ReadAddresses { id, .. }, Answer::Addresses(all)) => {
                let all = all.into_iter().map(|(v, view)| (SessionVips::vip(&self.plan.settings, v), view)).collect();
                Input::Addresses { id: *id, result: Ok(all) }
            }
            (Asked::ReadAddresses { id, .. }, _) => Input::Addresses { id: *id, result: Err(Failure::Away) },
            (Asked::WriteSession { id, .. }, Answer::Session(view)) => {
                Input::WroteSession { id: *id, result: Ok(view) }
            }
            (Asked::WriteSession { id, .. }, Answer::Conflict) => {
                Input::WroteSession { id: *id, result: Err(Failure::Conflict) }
            }
            (Asked::WriteSession { id, .. }, _) => Input::WroteSession { id: *id, result: away },
            (Asked::Publish { id, .. }, Answer::Member(member)) => Input::Published { id: *id, result: Ok(member) },
            (Asked::Publish { id, .. }, _) => Input::Published { id: *id, result: Err(Failure::Away) },
            (Asked::Follow { .. }, _) => return,
            (Asked::WriteHolder { id, .. }, Answer::Address(view)) => Input::WroteHolder { id: *id, result: Ok(view) },
            (Asked::WriteHolder { id, .. }, Answer::Conflict) => {
                Input::WroteHolder { id: *id, result: Err(Failure::Conflict) }
            }
            (Asked::WriteHolder { id, .. }, _) => Input::WroteHolder { id: *id, result: Err(Failure::Away) },
        };
        self.tell(host, Event::Input(input));
    }

    /// The watches that a node has.
    #[must_use]
    pub fn watches(&self) -> &'static [Of] {
        if self.plan.settings.own.apart { &Of::ALL } else { &Of::ALL[..1] }
    }

    fn watch_of(&self, event: &Event) -> Of {
        if self.plan.settings.own.apart { Of::event(event) } else { Of::Sessions }
    }

    /// A node lists everything, to watch from there on.
    pub fn follow(&mut self, host: usize, of: Of) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.own.watches[of as usize].begin();
        self.request(host, Request::List(of));
    }

    /// The list is made, and the watch is open.
    fn followed(&mut self, call: usize, of: Of) {
        let (host, life) = (self.api.calls[call].host, self.api.calls[call].life);
        if self.hosts[host].life != life || self.api.calls[call].over {
            return;
        }
        self.api.calls[call].over = true;
        let mut all = self.membership_for(host);
        let (wanted, other): (Vec<usize>, Vec<usize>) = (0..self.vips).partition(|v| self.api.wanted.contains(v));
        let demands = wanted.iter().map(|v| demand(&self.plan.settings, *v, &self.api.endpoints)).collect();
        all.push(Event::Input(Input::Wanted(demands)));
        all.extend(other.into_iter().map(|v| Event::Input(Input::Unwanted(SessionVips::vip(&self.plan.settings, v)))));
        for vip in 0..self.vips {
            let (address, view) =
                (SessionVips::vip(&self.plan.settings, vip), self.api.store.addresses.get(&vip).cloned());
            all.push(Event::Input(Input::Address { listed: true, address, view }));
        }
        all.push(self.node_of(host));
        all.push(Event::Input(Input::Synced));
        all.retain(|event| self.watch_of(event) == of);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.own.watches[of as usize].server = Some(SERVER);
        let wait = self.rng.between(self.plan.settings.api.0, self.plan.settings.api.1);
        self.deliver(host, of, wait, Message::All(all));
    }

    /// What has happened is shown to all who watch.
    pub fn publish(&mut self, event: &Event) {
        for host in 0..self.hosts.len() {
            self.show(host, event.clone());
        }
    }

    fn flows(&self, host: usize) -> bool {
        self.reaches(host) && !self.api_faults.silences(host, SERVER)
    }

    pub(super) fn show(&mut self, host: usize, event: Event) {
        let (flows, of) = (self.flows(host), self.watch_of(&event));
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.watches[of as usize];
        if watch.server.is_none() || watch.silent {
            return;
        }
        if flows && watch.missed.is_empty() {
            let (low, high) = self.plan.settings.api;
            let wait = self.rng.between(low, high) + self.api.lag[host][of as usize];
            self.deliver(host, of, wait, Message::Event(event));
        } else {
            watch.missed.push(event);
        }
    }

    /// In order: nothing overtakes what was said before.
    fn deliver(&mut self, host: usize, of: Of, wait: Nanos, message: Message) {
        match &message {
            Message::Event(event) => self.counts.event(size(event)),
            Message::All(all) => self.counts.list(all.iter().map(objects).sum(), all.iter().map(size).sum()),
            Message::Broken | Message::Failed => {}
        }
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.watches[of as usize];
        let (at, connection) = (watch.arrival(now, wait), watch.connection);
        let message = Box::new(message);
        self.queue.put(at, Common::Own(Item::Watch { to: host, of, connection, message }));
    }

    /// Ways have changed: what was held up comes now, after a while.
    pub fn unblock(&mut self) {
        for host in 0..self.hosts.len() {
            let flows = self.flows(host);
            for of in self.watches().iter().copied() {
                let Some(agent) = &mut self.hosts[host].agent else { continue };
                let watch = &mut agent.own.watches[of as usize];
                if watch.silent || !flows || watch.missed.is_empty() {
                    continue;
                }
                let missed = std::mem::take(&mut watch.missed);
                let wait = self.rng.between(200, 3_000) * MS;
                for event in missed {
                    self.deliver(host, of, wait, Message::Event(event));
                }
            }
        }
    }

    /// A node's watch breaks, or all do, and it knows.
    pub fn break_watch(&mut self, host: usize, only: Option<Of>) {
        for of in self.watches().iter().copied().filter(|of| only.is_none_or(|only| only == *of)) {
            self.deliver(host, of, MS, Message::Broken);
        }
    }

    /// The host has stood still: its connections go on a little later.
    pub fn stall_watches(&mut self, host: usize) {
        for of in self.watches() {
            let until = self.now + self.rng.between(50, 3_000) * MS;
            if let Some(agent) = &mut self.hosts[host].agent {
                agent.own.watches[*of as usize].stall(until);
            }
        }
    }

    /// The watch says something to the agent.
    pub fn watched(&mut self, host: usize, of: Of, connection: u32, message: Message) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.watches[of as usize];
        if watch.connection != connection {
            return;
        }
        if let Some(at) = watch.heard_at(now) {
            let message = Box::new(message);
            return self.queue.put(at, Common::Own(Item::Watch { to: host, of, connection, message }));
        }
        match message {
            Message::Event(event) => self.tell(host, event),
            Message::All(events) => {
                for event in events {
                    self.tell(host, event);
                }
            }
            Message::Broken | Message::Failed => {
                watch.connection += 1;
                watch.server = None;
                let connection = watch.connection;
                self.tell(host, Event::Input(Input::WatchLost));
                let wait = self.rng.between(200, 600) * MS;
                self.put(wait, Common::Own(Item::WatchAgain { host, of, connection }));
            }
        }
    }

    /// A read shows what the watch did not: as the edge, which opens a watch anew that its own writes do not come through.
    pub fn distrust(&mut self) {
        for host in 0..self.hosts.len() {
            for of in self.watches() {
                let behind = self.hosts[host].agent.as_ref().is_some_and(|a| a.own.watches[*of as usize].silent);
                if behind {
                    self.break_watch(host, Some(*of));
                }
            }
        }
    }
}
