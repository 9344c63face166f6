//! Faults of the world of session VIPs begin and end.

use std::collections::BTreeSet;

use mooring_agent_core::session::Standing;
use mooring_agent_core::session_vips::{Event, Input};

use super::api::Of;
use super::fault::Fault;
use super::settings::demand;
use super::{BURST, SessionVips};
use crate::clock::{MS, Nanos};
use crate::fault::{Fault as Any, How};
use crate::subject::Subject as _;
use crate::world::World;

impl World<'_, SessionVips> {
    pub(super) fn own_strike(&mut self, fault: Any<Fault>) {
        match fault {
            Any::Api(_, How::Refused) => (0..self.hosts.len()).for_each(|host| self.break_watch(host, None)),
            Any::ApiOf(host, How::Refused) => self.break_watch(host, None),
            Any::Own(own) => self.strike_objects(own),
            _ => {}
        }
    }

    fn strike_objects(&mut self, fault: Fault) {
        match fault {
            Fault::Restore => self.restore(),
            Fault::DeleteSession(host) => {
                let node = self.names[host].clone();
                if let Some(view) = self.api.store.sessions.remove(&node) {
                    self.api.store.version += 1;
                    self.show_deletion(&view);
                }
            }
            Fault::StripSession(host) => {
                if let Some(view) = self.api.store.sessions.get_mut(&self.names[host]) {
                    self.api.store.version += 1;
                    if view.is_leaving() {
                        self.checks.withdraws(&view.node, self.now);
                    }
                    (view.version, view.declared, view.end) = (self.api.store.version.to_string(), None, None);
                    let view = view.clone();
                    self.show_session(Some(&view), &view);
                    // Until it declares its Node's labels again, nobody knows that it may take VIPs that ask for them.
                    self.able_anew(host);
                }
            }
            Fault::DeleteMember(host) => self.delete_member(&self.names[host].clone()),
            Fault::SetMemberBack(host, old) => self.put_member_back(host, old),
            Fault::StripRecord(vip) => {
                if let Some(view) = self.api.store.addresses.get(&vip).cloned() {
                    self.set_record(vip, view.uid, None);
                }
            }
            Fault::Delete(vip) => self.unwant(vip),
            Fault::Namespace(host) => {
                let name = self.names[host].clone();
                let of = |vip: &usize| {
                    let holder = self.api.store.addresses.get(vip).and_then(|a| a.holder.as_ref());
                    self.api.wanted.contains(vip) && holder.is_some_and(|h| h.node == name)
                };
                let all: Vec<usize> = (0..self.plan.settings.own.vips).filter(of).collect();
                all.into_iter().skip(1).for_each(|vip| self.unwant(vip));
            }
            Fault::Elsewhere(vip) => {
                let segments = self.plan.settings.segments;
                if segments > 1 {
                    let other = (SessionVips::segment_of(&self.plan.settings, vip) + 1) % segments;
                    self.announce(self.foreign(), other, vip);
                }
            }
            Fault::Burst(count) => {
                for vip in (0..count.min(BURST)).map(|n| self.plan.settings.own.vips + n) {
                    if !self.api.wanted.contains(&vip) {
                        self.want(vip);
                    }
                }
            }
            Fault::WatchBreak(host, of) => self.break_watch(host, of),
            Fault::WatchHang(host, only) => {
                for of in self.watches().iter().filter(|of| only.is_none_or(|only| only == **of)) {
                    if let Some(agent) = &mut self.hosts[host].agent {
                        agent.own.watches[*of as usize].silent = true;
                    }
                }
            }
            Fault::Withdraw(vip) => {
                if self.api.wanted.remove(&vip) {
                    self.publish(&Event::Input(Input::Unwanted(SessionVips::vip(&self.plan.settings, vip))));
                    SessionVips::touched_vip(self, vip);
                }
            }
            Fault::Remake(vip) => {
                if self.api.wanted.contains(&vip) {
                    self.unwant(vip);
                    self.want(vip);
                }
            }
            Fault::Drain(host) => self.tell_soon(host, Event::Input(Input::Drain(true))),
            Fault::Rebalance(host) => self.tell_soon(host, Event::Input(Input::Rebalance)),
            _ => {}
        }
    }

    pub(super) fn own_heal(&mut self, fault: Any<Fault>) {
        let Any::Own(fault) = fault else { return };
        match fault {
            Fault::Delete(vip) => {
                if !self.is_own_active(|f| matches!(f, Fault::Delete(v) if *v == vip))
                    && !self.api.wanted.contains(&vip)
                {
                    self.want(vip);
                }
            }
            Fault::Namespace(_) if !self.is_own_active(|f| matches!(f, Fault::Namespace(_))) => {
                for vip in 0..self.plan.settings.own.vips {
                    let deleted = self.is_own_active(|f| matches!(f, Fault::Delete(v) if *v == vip));
                    if !deleted && !self.api.store.addresses.contains_key(&vip) {
                        self.want(vip);
                    }
                }
            }
            Fault::Withdraw(vip) => {
                let gone = |f: &Fault| matches!(f, Fault::Withdraw(v) | Fault::Delete(v) if *v == vip);
                if !self.is_own_active(gone)
                    && self.api.store.addresses.contains_key(&vip)
                    && self.api.wanted.insert(vip)
                {
                    let demand = demand(&self.plan.settings, vip, &self.api.endpoints);
                    self.publish(&Event::Input(Input::Wanted(vec![demand])));
                    SessionVips::touched_vip(self, vip);
                }
            }
            Fault::Burst(_) => {
                if !self.is_own_active(|f| matches!(f, Fault::Burst(_))) {
                    let more: Vec<usize> = self.api.wanted.range(self.plan.settings.own.vips..).copied().collect();
                    for vip in more {
                        self.unwant(vip);
                    }
                }
            }
            // The edge finds it out, because the watch does not show its own writes.
            Fault::WatchHang(..) => self.distrust(),
            Fault::Drain(host) => {
                if !self.is_own_active(|f| matches!(f, Fault::Drain(h) if *h == host)) {
                    self.tell_soon(host, Event::Input(Input::Drain(false)));
                }
            }
            _ => {}
        }
    }

    fn is_own_active(&self, wanted: impl Fn(&Fault) -> bool) -> bool {
        self.is_active(|fault| matches!(fault, Any::Own(own) if wanted(own)))
    }

    /// Endpoints and what Kubernetes says of nodes follow from the faults that are there.
    pub(super) fn endpoints_changed(&mut self) {
        let mut endpoints: BTreeSet<usize> = (0..self.hosts.len()).collect();
        let mut standing = vec![Standing::default(); self.hosts.len()];
        for n in &self.active {
            let Any::Own(fault) = self.plan.faults[*n].fault else { continue };
            match fault {
                Fault::NoEndpoints(host) => {
                    endpoints.remove(&host);
                }
                Fault::NoEndpointsAnywhere => endpoints.clear(),
                Fault::AllUnready => standing.iter_mut().for_each(|s| s.ready = false),
                Fault::Cordon(host) => standing[host].schedulable = false,
                _ => {}
            }
        }
        let before = (self.api.endpoints.clone(), self.api.standing.clone());
        self.api.standing = standing;
        self.api.endpoints = endpoints;
        let labelled = self.plan.settings.own.labelled;
        if before.0 != self.api.endpoints && !labelled {
            let local = self.plan.settings.own.local.iter().filter(|v| self.api.wanted.contains(v));
            let demands = local.map(|v| demand(&self.plan.settings, *v, &self.api.endpoints)).collect();
            self.publish(&Event::Input(Input::Wanted(demands)));
        }
        for host in 0..self.hosts.len() {
            let relabelled = labelled && before.0.contains(&host) != self.api.endpoints.contains(&host);
            if relabelled || before.1[host] != self.api.standing[host] {
                self.show(host, self.node_of(host));
            }
        }
    }

    fn restore(&mut self) {
        let Some(old) = self.api.backups.front().cloned() else { return };
        let wanted: BTreeSet<usize> = old.addresses.keys().copied().collect();
        self.api.store = old;
        self.api.wanted = wanted;
        self.checks.restored = Some(self.now);
        self.api.backups.clear();
        // The watches of a store that was restored are broken by its restart.
        (0..self.hosts.len()).for_each(|host| self.break_watch(host, None));
        (0..self.vips).for_each(|vip| SessionVips::touched_vip(self, vip));
    }

    /// This fault is there now.
    pub(super) fn own_apply(&mut self, fault: Fault) {
        match fault {
            Fault::WatchLag(host, ms, only) => {
                for of in Of::ALL.iter().filter(|of| only.is_none_or(|only| only == **of)) {
                    self.api.lag[host][*of as usize] = Nanos::from(ms) * MS;
                }
            }
            Fault::Nudge(permille) => self.api.nudged = u32::from(permille),
            _ => {}
        }
    }
}
