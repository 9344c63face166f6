//! A node's watch of the Lease, as `common/src/api/follow.rs` has it: a list, then a watch from there on, and again.

use std::ops::{Deref, DerefMut};

use mooring_agent_core::control_plane::{Event, Input};
use mooring_agent_core::lease::LeaseView;

use super::Kind;
use crate::api::Fate;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::queue::Item;
use crate::queue::Item as Common;
use crate::world::World;

/// To open a watch, or to list before one.
const WITHIN: Nanos = 5 * SECOND;
/// Waits before a broken watch is opened again: at first, and at most.
const BACKOFF: (Nanos, Nanos) = (250 * MS, 2 * SECOND);

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Message {
    /// It is open.
    Open(usize),
    /// It could not be opened.
    Failed,
    /// The Lease changed.
    Changed(Option<LeaseView>),
    /// The connection broke.
    Broken,
    /// 410: the version it began at is gone.
    Gone,
}

/// A node's watch of the Lease.
#[derive(Debug, Default)]
pub struct Watch {
    common: crate::api::Watch<Option<LeaseView>>,
    opened: Nanos,
    listed: u64,
    wait: Nanos,
}

impl Watch {
    /// That of a process that has just begun.
    #[must_use]
    pub fn of_process(life: u32) -> Self {
        Self { common: crate::api::Watch::of_process(life), ..Self::default() }
    }
}

impl Deref for Watch {
    type Target = crate::api::Watch<Option<LeaseView>>;

    fn deref(&self) -> &Self::Target {
        &self.common
    }
}

impl DerefMut for Watch {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.common
    }
}

impl World<'_, Elector> {
    /// Lists, to watch from there on.
    pub fn follow(&mut self, host: usize) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.own.client.watch.begin();
        self.call(host, 0, Kind::List, WITHIN);
    }

    /// The list has come, or has not.
    pub fn listed(&mut self, host: usize, server: usize, view: Option<Option<LeaseView>>) {
        let Some(view) = view else {
            return self.watch_lost(host);
        };
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.own.client.watch.listed =
            view.as_ref().and_then(|v| v.version.parse().ok()).unwrap_or(self.api.store.version);
        let connection = agent.own.client.watch.connection;
        self.counts.requests(self.now, host);
        self.tell(host, Event::Input(Input::Seen(view)));
        let (wait, message) = match self.fate(host, server) {
            Fate::Goes(wait) if self.serves(server) => (2 * wait, Message::Open(server)),
            Fate::Goes(_) | Fate::Hangs => (WITHIN, Message::Failed),
            _ => (MS, Message::Failed),
        };
        self.put(wait, Common::Own(Item::Watch { to: host, connection, message: Box::new(message) }));
    }

    /// Shows the current state of the store to all watches.
    pub fn publish(&mut self, view: Option<&LeaseView>) {
        for host in 0..self.hosts.len() {
            self.show(host, view.cloned());
        }
    }

    /// Whether what a server shows reaches a host's watch now.
    fn flows(&self, host: usize, server: usize) -> bool {
        self.reaches(host, server)
            && self.api.servers.all[server].stored
            && (self.api.servers.remote || self.hosts[server].is_awake())
            && !self.api_faults.silences(host, server)
    }

    fn show(&mut self, host: usize, view: Option<LeaseView>) {
        let Some(agent) = &self.hosts[host].agent else { return };
        let Some(server) = agent.own.client.watch.server.filter(|_| !agent.own.client.watch.silent) else { return };
        if self.flows(host, server) && agent.own.client.watch.missed.is_empty() {
            let (low, high) = self.plan.settings.api;
            let wait = self.rng.between(low, high) + self.api.servers.all[server].lag;
            self.deliver(host, wait, Message::Changed(view));
        } else if let Some(agent) = &mut self.hosts[host].agent {
            agent.own.client.watch.missed.push(view);
            if agent.own.client.watch.missed.len() > 64 {
                agent.own.client.watch.missed.remove(0);
            }
        }
    }

    /// In order: nothing overtakes what was said before.
    pub fn deliver(&mut self, host: usize, wait: Nanos, message: Message) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.client.watch;
        let (at, connection) = (watch.arrival(now, wait), watch.connection);
        self.queue.put(at, Common::Own(Item::Watch { to: host, connection, message: Box::new(message) }));
    }

    /// Ways or servers have changed: what was held up comes now, after a while (packets are sent again ever more seldom).
    pub fn unblock(&mut self) {
        for host in 0..self.hosts.len() {
            let Some(agent) = &self.hosts[host].agent else { continue };
            let Some(server) = agent.own.client.watch.server.filter(|_| !agent.own.client.watch.missed.is_empty())
            else {
                continue;
            };
            if agent.own.client.watch.silent || !self.flows(host, server) {
                continue;
            }
            let wait = self.rng.between(200, 3_000) * MS;
            let missed = self.hosts[host].agent.as_mut().map(|a| std::mem::take(&mut a.own.client.watch.missed));
            for view in missed.unwrap_or_default() {
                self.deliver(host, wait, Message::Changed(view));
            }
        }
    }

    /// A server is gone for good, or was: its watches break, or are dead without knowing it.
    pub fn drop_watches(&mut self, server: usize, known: bool) {
        for host in 0..self.hosts.len() {
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            if agent.own.client.watch.server != Some(server) {
                continue;
            }
            if known && self.reaches(host, server) {
                self.deliver(host, MS, Message::Broken);
            } else if let Some(agent) = &mut self.hosts[host].agent {
                agent.own.client.watch.silent = true;
            }
        }
    }

    /// The host has stood still: its connections go on a little later.
    pub fn stall_watch(&mut self, host: usize) {
        let until = self.now + self.rng.between(50, 3_000) * MS;
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.own.client.watch.stall(until);
        }
    }

    /// The watch says something to the agent.
    pub fn watched(&mut self, host: usize, connection: u32, message: Message) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.client.watch;
        if watch.connection != connection {
            return;
        }
        if let Some(at) = watch.heard_at(now) {
            return self.queue.put(at, Common::Own(Item::Watch { to: host, connection, message: Box::new(message) }));
        }
        match message {
            Message::Open(server) => {
                (watch.server, watch.opened) = (Some(server), now);
                let behind = watch.listed != self.api.store.version;
                if behind {
                    self.show(host, self.api.store.lease.clone());
                }
            }
            Message::Changed(view) => self.tell(host, Event::Input(Input::Seen(view))),
            Message::Failed | Message::Broken => self.watch_lost(host),
            Message::Gone => self.watch_again(host),
        }
    }

    /// A read showed what the watch had not: it is not believed any more.
    pub fn distrust_watch(&mut self, host: usize) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        if let Some(server) = agent.own.client.watch.server {
            agent.own.client.bad(server, now);
            self.watch_lost(host);
        }
    }

    fn watch_lost(&mut self, host: usize) {
        self.tell(host, Event::Input(Input::WatchLost));
        self.watch_again(host);
    }

    fn watch_again(&mut self, host: usize) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let watch = &mut agent.own.client.watch;
        watch.connection += 1;
        let worked = watch.server.take().is_some() && now > watch.opened + SECOND;
        let wait = if worked {
            watch.wait = BACKOFF.0;
            0
        } else {
            let wait = watch.wait.max(BACKOFF.0);
            watch.wait = (wait * 2).min(BACKOFF.1);
            wait / 1_000 * self.rng.between(800, 1_200)
        };
        let Some(agent) = &self.hosts[host].agent else { return };
        let connection = agent.own.client.watch.connection;
        self.put(wait, Common::Own(Item::WatchAgain { host, connection }));
    }
}
