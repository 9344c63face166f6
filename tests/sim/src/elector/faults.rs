//! Faults of the Elector's world begin and end.

use mooring_agent_core::lease::Notes;

use super::Elector;
use super::api::Message;
use super::fault::Fault;
use super::queue::Item;
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault as Any, How, has};
use crate::queue::Item as Common;
use crate::world::World;

impl World<'_, Elector> {
    pub(super) fn own_strike(&mut self, fault: Any<Fault>) {
        match fault {
            Any::Crash(host) => {
                if let Some(rival) = self.hosts[host].own.rival.take() {
                    self.hosts[host].own.rival = Some(rival.ended());
                }
                self.drop_watches_of_host(host);
            }
            Any::Suspend(host) | Any::Stun(host, _) => self.drop_watches_of_host(host),
            Any::Primary(host) => {
                if self.plan.settings.own.short_prefix && self.hosts[host].own.rival.is_none() {
                    self.fall(host, 0, true, "it went with the node's own address");
                }
            }
            Any::Api(servers, How::Refused) => {
                for server in (0..self.api.servers.all.len()).filter(|s| has(servers, *s)) {
                    self.drop_watches(server, true);
                }
            }
            Any::ApiOf(host, How::Refused) => self.break_watch(host),
            Any::Own(own) => self.strike_objects(own),
            _ => {}
        }
    }

    fn strike_objects(&mut self, fault: Fault) {
        match fault {
            Fault::Restore => self.restore(),
            Fault::Delete => {
                self.api.store.version += 1;
                self.api.store.put(self.now, None);
                self.publish(None);
            }
            Fault::StripNotes => {
                self.checks.witness.stripped = self.now;
                if let Some(lease) = self.api.store.lease.clone() {
                    let view = self.api.store.set(self.now, lease.record, Notes::default());
                    self.publish(Some(&view));
                }
            }
            Fault::WatchBreak(host) => self.break_watch(host),
            Fault::WatchHang(host) => {
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.own.client.watch.silent = true;
                }
            }
            Fault::WatchGone(host) => self.deliver(host, MS, Message::Gone),
            Fault::WatchReplay(host) => {
                for view in self.api.store.before.clone() {
                    self.deliver(host, MS, Message::Changed(Some(view)));
                }
            }
            Fault::ForeignNew => {
                self.segment.foreign = true;
                self.segment.foreign_vip = 1;
            }
            Fault::KubeVip(host) => self.take_over(host),
            Fault::Keeps(_)
            | Fault::NoLeader
            | Fault::WatchLag(..)
            | Fault::Unhealthy(_)
            | Fault::AllUnhealthy
            | Fault::OwnProbe(_)
            | Fault::AllOwnProbes => {}
        }
    }

    /// A fault is over.
    pub(super) fn own_heal(&mut self, fault: Any<Fault>) {
        match fault {
            Any::Own(Fault::ForeignNew) => self.segment.foreign = false,
            Any::Own(Fault::Keeps(host)) => {
                // The task tries again after a while.
                self.hosts[host].keeps = false;
                self.remove_kept(host);
            }
            _ => {}
        }
    }

    fn restore(&mut self) {
        let Some(old) = self.api.store.before.first().cloned() else { return };
        let before = self.api.store.holder().to_owned();
        self.api.store.put(self.now, Some(old.clone()));
        self.api.store.version = old.version.parse().unwrap_or(self.api.store.version);
        self.api.store.before.clear();
        self.written(None, &before, &old);
        // The watches of a store that was restored are broken by its restart.
        for host in 0..self.hosts.len() {
            self.break_watch(host);
        }
    }

    fn drop_watches_of_host(&mut self, host: usize) {
        if !self.api.servers.remote {
            self.drop_watches(host, false);
        }
    }

    fn break_watch(&mut self, host: usize) {
        self.deliver(host, MS, Message::Broken);
    }

    /// A host that stood still for so long goes on.
    pub(super) fn own_wake(&mut self, host: usize, slept: Nanos) {
        if let Some(agent) = &mut self.hosts[host].agent
            && let Some(server) = agent.own.client.watch.server
            && !self.api.servers.remote
            && server != host
            && slept > 30 * SECOND
        {
            agent.own.client.watch.silent = true;
        }
        if let Some(rival) = self.hosts[host].own.rival.clone() {
            self.put(MS, Common::Own(Item::Rival { host, life: rival.life() }));
        }
    }

    /// As if there were no fault.
    pub(super) fn own_mend(&mut self) {
        self.api.servers.no_leader = false;
        for server in &mut self.api.servers.all {
            (server.unready, server.lag) = (false, 0);
        }
        self.hosts.iter_mut().for_each(|host| host.own.own_probe_fails = false);
    }

    /// This fault is there now.
    pub(super) fn own_apply(&mut self, fault: Fault) {
        match fault {
            Fault::NoLeader => self.api.servers.no_leader = true,
            Fault::WatchLag(server, ms) => self.api.servers.all[server].lag = Nanos::from(ms) * MS,
            Fault::Unhealthy(host) if !self.api.servers.remote => self.api.servers.all[host].unready = true,
            Fault::OwnProbe(host) => self.hosts[host].own.own_probe_fails = true,
            Fault::AllOwnProbes => self.hosts.iter_mut().for_each(|host| host.own.own_probe_fails = true),
            Fault::Keeps(host) => self.hosts[host].keeps = true,
            Fault::AllUnhealthy => self.api.servers.all.iter_mut().for_each(|s| s.unready = true),
            _ => {}
        }
    }
}
