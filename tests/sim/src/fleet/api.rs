//! The API: one linearizable store of sessions and records, calls that get lost before or after they took effect, and a
//! watch of both for each node.

use std::collections::BTreeMap;

use mooring_core::event::Failure;
use mooring_core::fleet::{Action, Event};
use mooring_core::session::{AddressView, View};
use mooring_core::time::Time;

use super::queue::Item;
use super::settings;
use super::world::World;
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{How, has};

/// What a call brought.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Answer {
    Sessions(Vec<View>),
    Addresses(Vec<(usize, Option<AddressView>)>),
    Session(View),
    Address(AddressView),
    Conflict,
    Away,
    /// A list of everything, for a watch from there on.
    Followed,
}

/// What a watch says.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
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
    /// Sessions; and everything, where they are not apart.
    Sessions,
    /// `IPAddress` objects, what is wanted, nodes.
    Others,
}

impl Of {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Sessions, Self::Others];

    fn event(event: &Event) -> Self {
        if matches!(event, Event::Session(_) | Event::SessionDeleted(_) | Event::Sessions { .. }) {
            Self::Sessions
        } else {
            Self::Others
        }
    }
}

/// A node's watch.
#[derive(Debug, Default)]
pub struct Watch {
    /// Which connection: what an earlier one says is not heard.
    pub connection: u32,
    open: bool,
    last: Nanos,
    /// It is dead, and nobody knows.
    pub silent: bool,
    missed: Vec<Event>,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// Whose.
    pub host: usize,
    /// Of which process.
    pub life: u32,
    sent: Time,
    action: Action,
    /// It is a watch's list.
    follows: Option<Of>,
    over: bool,
}

/// Everything that is stored.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Sessions by node.
    pub sessions: BTreeMap<String, View>,
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
    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn new_uid(&mut self) -> String {
        self.uid += 1;
        format!("u{}", self.uid)
    }
}

/// How a request fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes(Nanos),
    Fails(Nanos),
    Lost,
}

impl World<'_> {
    /// Whether a host's packets reach the API at all.
    #[must_use]
    pub fn reaches(&self, host: usize) -> bool {
        self.hosts[host].is_awake() && !has(self.islands, host)
    }

    fn hows(&self, host: usize) -> impl Iterator<Item = How> + use<> {
        [self.api, self.api_of[host]].into_iter().flatten()
    }

    /// Whether a host has an API to speak to.
    #[must_use]
    pub fn has_api(&self, host: usize) -> bool {
        self.reaches(host) && self.hows(host).next().is_none()
    }

    fn fate(&mut self, host: usize) -> Fate {
        if !self.reaches(host) {
            return if self.rng.chance(500) { Fate::Lost } else { Fate::Fails(SECOND) };
        }
        let (low, high) = self.plan.settings.api;
        let mut wait = self.rng.between(low, high);
        for how in self.hows(host) {
            match how {
                How::Refused => return Fate::Fails(MS / 5),
                How::Errors | How::Forbidden => return Fate::Fails(2 * MS),
                How::Hangs => return Fate::Lost,
                How::Slow(ms) => wait += Nanos::from(ms) * MS,
                How::LosesRequests(p) if self.rng.chance(u32::from(p)) => return Fate::Lost,
                How::LosesRequests(_) | How::LosesAnswers(_) => {}
            }
        }
        Fate::Goes(wait)
    }

    /// An agent calls.
    pub fn call(&mut self, host: usize, sent: Time, action: Action) {
        self.request(host, sent, action, None);
    }

    fn request(&mut self, host: usize, sent: Time, action: Action, follows: Option<Of>) {
        let within = match &action {
            Action::ReadSessions { within, .. }
            | Action::ReadAddresses { within, .. }
            | Action::WriteSession { within, .. }
            | Action::WriteHolder { within, .. } => Self::nanos(*within),
            _ => 5 * SECOND,
        };
        let life = self.hosts[host].life;
        self.calls.push(Call { host, life, sent, action, follows, over: false });
        self.counts.requests(self.now, host);
        let call = self.calls.len() - 1;
        self.put(within, Item::Deadline { call });
        match self.fate(host) {
            Fate::Goes(wait) => self.put(wait, Item::Arrive { call }),
            Fate::Fails(wait) => self.put(wait, Item::Answer { call, answer: Box::new(Answer::Away) }),
            Fate::Lost => {}
        }
    }

    /// A request reaches the API.
    pub fn arrive(&mut self, call: usize) {
        let (host, life, sent) = (self.calls[call].host, self.calls[call].life, self.calls[call].sent);
        let answer = match self.calls[call].action.clone() {
            Action::ReadSessions { .. } => Answer::Sessions(self.store.sessions.values().cloned().collect()),
            Action::ReadAddresses { addresses, .. } => {
                let vips = addresses.iter().filter_map(|a| self.vip_of(*a));
                Answer::Addresses(vips.map(|v| (v, self.store.addresses.get(&v).cloned())).collect())
            }
            Action::WriteSession { node, base, record, declared, end, .. } => {
                let known = self.store.sessions.get(&node).cloned();
                let blind = base.as_deref() == Some("");
                if blind && known.is_some() || known.as_ref().map(|v| v.version.as_str()) == base.as_deref() {
                    let uid = known.as_ref().map_or_else(|| self.store.new_uid(), |v| v.uid.clone());
                    let version = self.store.next();
                    let view = View { node: node.clone(), uid, version, record, declared, end };
                    self.check_session_write(host, known.as_ref(), &view);
                    let own = node == settings::name(host);
                    self.store.sessions.insert(node.clone(), view.clone());
                    if own {
                        self.store.renewed.insert(node, self.now);
                        let same = self.hosts[host].life == life;
                        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|_| same) {
                            agent.effects.push_back((view.record.clone(), sent));
                            if agent.effects.len() > 32 {
                                agent.effects.pop_front();
                            }
                        }
                    }
                    self.publish(&Event::Session(view.clone()));
                    Answer::Session(view)
                } else {
                    Answer::Conflict
                }
            }
            Action::WriteHolder { address, base, holder, .. } => {
                let Some(vip) = self.vip_of(address) else { return };
                match self.store.addresses.get(&vip).cloned() {
                    Some(known) if self.nudged > 0 && self.rng.chance(self.nudged) => {
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
            // The list of a watch.
            _ => Answer::Followed,
        };
        if matches!(answer, Answer::Followed) {
            return self.followed(call);
        }
        match self.fate(host) {
            Fate::Goes(wait) => {
                for how in self.hows(host) {
                    if let How::LosesAnswers(p) = how
                        && self.rng.chance(u32::from(p))
                    {
                        if self.rng.chance(500) {
                            self.put(wait, Item::Answer { call, answer: Box::new(Answer::Away) });
                        }
                        return;
                    }
                }
                self.put(wait, Item::Answer { call, answer: Box::new(answer) });
            }
            Fate::Fails(wait) => self.put(wait, Item::Answer { call, answer: Box::new(Answer::Away) }),
            Fate::Lost => {}
        }
    }

    /// The record of a VIP, as it is now; every watch shows it.
    pub fn set_record(
        &mut self,
        vip: usize,
        uid: String,
        holder: Option<mooring_core::session::Holder>,
    ) -> AddressView {
        self.stirred();
        let view = AddressView { uid, version: self.store.next(), holder };
        self.store.addresses.insert(vip, view.clone());
        let address = self.plan.settings.vip(vip);
        self.publish(&Event::Address { listed: false, address, view: Some(view.clone()) });
        view
    }

    /// A VIP is wanted from now on.
    pub fn want(&mut self, vip: usize) {
        let uid = self.store.new_uid();
        let demand = self.plan.settings.demand(vip, &self.endpoints);
        self.wanted.insert(vip);
        self.publish(&Event::Wanted(vec![demand]));
        self.set_record(vip, uid, None);
        self.touched_vip(vip);
    }

    /// It is wanted no longer.
    pub fn unwant(&mut self, vip: usize) {
        self.wanted.remove(&vip);
        self.store.addresses.remove(&vip);
        self.store.next();
        let address = self.plan.settings.vip(vip);
        self.publish(&Event::Unwanted(address));
        self.publish(&Event::Address { listed: false, address, view: None });
        self.touched_vip(vip);
    }

    /// An answer reaches the agent, or the call is given up.
    pub fn answered(&mut self, call: usize, answer: Answer) {
        let of = &mut self.calls[call];
        let host = of.host;
        if of.over || self.hosts[host].life != of.life {
            return;
        }
        of.over = true;
        let away = Err(Failure::Away);
        let event = match (&of.action, answer) {
            (Action::ReadSessions { id, .. }, Answer::Sessions(views)) => {
                Event::Sessions { id: Some(*id), result: Ok(views) }
            }
            (Action::ReadSessions { id, .. }, _) => Event::Sessions { id: Some(*id), result: Err(Failure::Away) },
            (Action::ReadAddresses { id, .. }, Answer::Addresses(all)) => {
                let all = all.into_iter().map(|(v, view)| (self.plan.settings.vip(v), view)).collect();
                Event::Addresses { id: *id, result: Ok(all) }
            }
            (Action::ReadAddresses { id, .. }, _) => Event::Addresses { id: *id, result: Err(Failure::Away) },
            (Action::WriteSession { id, .. }, Answer::Session(view)) => {
                Event::WroteSession { id: *id, result: Ok(view) }
            }
            (Action::WriteSession { id, .. }, Answer::Conflict) => {
                Event::WroteSession { id: *id, result: Err(Failure::Conflict) }
            }
            (Action::WriteSession { id, .. }, _) => Event::WroteSession { id: *id, result: away },
            (Action::WriteHolder { id, .. }, Answer::Address(view)) => Event::WroteHolder { id: *id, result: Ok(view) },
            (Action::WriteHolder { id, .. }, Answer::Conflict) => {
                Event::WroteHolder { id: *id, result: Err(Failure::Conflict) }
            }
            (Action::WriteHolder { id, .. }, _) => Event::WroteHolder { id: *id, result: Err(Failure::Away) },
            _ => {
                let of = of.follows.unwrap_or(Of::Sessions);
                let connection = self.hosts[host].agent.as_ref().map_or(0, |a| a.watches[of as usize].connection);
                return self.watched(host, of, connection, Message::Failed);
            }
        };
        self.tell(host, event);
    }

    /// The watches that a node has.
    #[must_use]
    pub fn watches(&self) -> &'static [Of] {
        if self.plan.settings.apart { &Of::BOTH } else { &Of::BOTH[..1] }
    }

    fn watch_of(&self, event: &Event) -> Of {
        if self.plan.settings.apart { Of::event(event) } else { Of::Sessions }
    }

    /// A node lists everything, to watch from there on.
    pub fn follow(&mut self, host: usize, of: Of) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.watches[of as usize];
        watch.connection += 1;
        watch.open = false;
        watch.silent = false;
        watch.missed.clear();
        self.request(host, Time::default(), Action::Exit, Some(of));
    }

    /// The list is made, and the watch is open.
    fn followed(&mut self, call: usize) {
        let (host, life) = (self.calls[call].host, self.calls[call].life);
        if self.hosts[host].life != life || self.calls[call].over {
            return;
        }
        self.calls[call].over = true;
        let of = self.calls[call].follows.unwrap_or(Of::Sessions);
        let mut all = vec![Event::Sessions { id: None, result: Ok(self.store.sessions.values().cloned().collect()) }];
        let (wanted, other): (Vec<usize>, Vec<usize>) = (0..self.most).partition(|v| self.wanted.contains(v));
        let demands = wanted.iter().map(|v| self.plan.settings.demand(*v, &self.endpoints)).collect();
        all.push(Event::Wanted(demands));
        all.extend(other.into_iter().map(|v| Event::Unwanted(self.plan.settings.vip(v))));
        for vip in 0..self.most {
            let (address, view) = (self.plan.settings.vip(vip), self.store.addresses.get(&vip).cloned());
            all.push(Event::Address { listed: true, address, view });
        }
        for node in 0..self.hosts.len() {
            all.push(Event::Standing { node: settings::name(node), standing: Some(self.standing[node]) });
        }
        all.push(Event::Synced);
        all.retain(|event| self.watch_of(event) == of);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.watches[of as usize].open = true;
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
        self.reaches(host) && !self.hows(host).any(|how| matches!(how, How::Hangs | How::Refused))
    }

    fn show(&mut self, host: usize, event: Event) {
        let (flows, of) = (self.flows(host), self.watch_of(&event));
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.watches[of as usize];
        if !watch.open || watch.silent {
            return;
        }
        if flows && watch.missed.is_empty() {
            let (low, high) = self.plan.settings.api;
            let wait = self.rng.between(low, high) + self.lag[host][of as usize];
            self.deliver(host, of, wait, Message::Event(event));
        } else {
            watch.missed.push(event);
        }
    }

    /// In order: nothing overtakes what was said before.
    fn deliver(&mut self, host: usize, of: Of, wait: Nanos, message: Message) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.watches[of as usize];
        watch.last = (now + wait).max(watch.last + 1);
        let (at, connection) = (watch.last, watch.connection);
        self.queue.put(at, Item::Watch { to: host, of, connection, message: Box::new(message) });
    }

    /// Ways have changed: what was held up comes now, after a while.
    pub fn unblock(&mut self) {
        for host in 0..self.hosts.len() {
            let flows = self.flows(host);
            for of in self.watches().iter().copied() {
                let Some(agent) = &mut self.hosts[host].agent else { continue };
                let watch = &mut agent.watches[of as usize];
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

    /// The watch says something to the agent.
    pub fn watched(&mut self, host: usize, of: Of, connection: u32, message: Message) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.watches[of as usize];
        if watch.connection != connection {
            return;
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
                watch.open = false;
                let connection = watch.connection;
                self.tell(host, Event::WatchLost);
                let wait = self.rng.between(200, 600) * MS;
                self.put(wait, Item::Follow { host, of, connection });
            }
        }
    }

    /// A read shows what the watch did not: as the edge, which opens a watch anew that its own writes do not come through.
    pub fn distrust(&mut self) {
        for host in 0..self.hosts.len() {
            for of in self.watches() {
                let behind = self.hosts[host].agent.as_ref().is_some_and(|a| a.watches[*of as usize].silent);
                if behind {
                    self.break_watch(host, Some(*of));
                }
            }
        }
    }
}
