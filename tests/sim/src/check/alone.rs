//! What a node does that carries VIPs without the API: it answers and does not call, and it goes on only while it hears enough of
//! the others, and only if the settings say so.

use mooring_agent_core::peers::{HEARD, Quorum};
use mooring_agent_core::rules::{MARGIN, SHORT_FENCE};
use mooring_agent_core::schedule::BURST;
use mooring_agent_core::time::Time;

use super::{Look, Rule};
use crate::clock::{MS, SECOND};
use crate::fault::{Fault, How, Planned, has};
use crate::queue::Item;
use crate::subject::{FaultOf, Subject};
use crate::world::{World, nanos};

impl<S: Subject> World<'_, S> {
    /// A VIP is announced. An agent whose last renewal is too old to count, by what it was shown, announces only what it has just
    /// taken.
    pub fn check_call(&mut self, host: usize, now: Time, vip: usize) {
        let rules = &self.plan.settings.rules;
        let confirmed = self.hosts[host].agent.as_ref().and_then(|agent| agent.confirmed);
        let ago = confirmed.map(|sent| now.since(sent));
        // A step may come a little late, and its announcement with it.
        if ago.is_some_and(|ago| ago <= rules.lapses_after() + 2 * MARGIN) {
            return;
        }
        // A kernel that takes its time is asked for the VIP long before it has it.
        let Some(standing) = self.hosts[host].vips[vip] else { return };
        // And one that does not answer still has what the agent let go of, and takes anew.
        if self.hosts[host].unanswered > 0 {
            return;
        }
        // A standstill that no clock shows is nothing that the agent can know of.
        let since = standing.since.max(self.hosts[host].clock.went_on());
        if self.now > since + nanos(BURST) + SECOND {
            let (name, ago) = (&self.names[host], ago.map(|ago| ago.as_millis()));
            let text =
                format!("{name} announces VIP {vip}, which it has had for long; its last renewal is {ago:?} ms ago");
            self.violated(Rule::Alone, text);
        }
    }

    /// In a settled world, some nodes are cut off from the others and from the API: when their Leases have ended, they carry
    /// nothing.
    pub fn watch_cut_off(&mut self, fault: usize) {
        let rules = &self.plan.settings.rules;
        let Fault::Partition(_, None, true) = self.plan.faults[fault].fault else { return };
        // Who hears nobody at any time is not judged.
        if rules.quorum == Quorum::Nobody || self.plan.settings.network.isolated {
            return;
        }
        // Who heard the others just before lapses with a short fence.
        let fence = rules.lease_duration.max(HEARD + SHORT_FENCE);
        let bound = nanos(fence + rules.retry_period) + SECOND;
        self.put(bound, Item::Look(Look::CutOff { fault, since: self.now }));
    }

    pub(super) fn check_cut_off(&mut self, fault: usize, since: crate::clock::Nanos) {
        let Fault::Partition(set, ..) = self.plan.faults[fault].fault else { return };
        let alone = self.active == [fault] && self.plan.faults.iter().all(|p| p.at <= since || p.at >= self.now);
        let nodes = self.hosts.len();
        let inside: Vec<usize> = (0..nodes).filter(|host| has(set, *host)).collect();
        if !alone || !S::is_cut_off(&self.plan.settings, &inside) {
            return;
        }
        for host in inside {
            let Some(vip) = (0..self.vips).find(|vip| self.hosts[host].carries(*vip)) else { continue };
            if S::has_any_api(self, host) {
                continue;
            }
            let ago = (self.now - since) / MS;
            let text = format!("{} has been cut off for {ago} ms, and still carries VIP {vip}", self.names[host]);
            return self.violated(Rule::Alone, text);
        }
    }

    /// The API servers of some or all nodes answer nothing from now on. With `release` these nodes carry nothing, soon.
    pub fn watch_release_setting(&mut self, fault: usize) {
        let rules = &self.plan.settings.rules;
        let silent = matches!(
            self.plan.faults[fault].fault,
            Fault::Api(_, How::Refused | How::Hangs) | Fault::ApiOf(_, How::Refused | How::Hangs)
        );
        if !silent || rules.hold_without_api {
            return;
        }
        // A hand-over may begin just before the last Lease ends, and has a short fence.
        let bound = rules.lease_duration + rules.handover_grace + SHORT_FENCE + rules.retry_period;
        self.put(nanos(bound) + 2 * SECOND, Item::Look(Look::Released { fault, since: self.now }));
    }

    pub(super) fn check_release_setting(&mut self, number: usize, since: crate::clock::Nanos) {
        let fault = self.plan.faults[number].fault;
        let is_api = |fault: &FaultOf<S>| matches!(fault, Fault::Api(..) | Fault::ApiOf(..));
        let apart = |(n, p): (usize, &Planned<S::Fault>)| {
            n == number || !is_api(&p.fault) || p.at >= self.now || p.at + p.lasts <= since
        };
        if !self.active.contains(&number) || !self.plan.faults.iter().enumerate().all(apart) {
            return;
        }
        for host in 0..self.hosts.len() {
            let of = &self.hosts[host];
            let without = match fault {
                Fault::Api(servers, _) => (0..S::servers(&self.plan.settings)).all(|server| has(servers, server)),
                Fault::ApiOf(node, _) => node == host,
                _ => false,
            };
            // The kernel's lifetimes stand still with a machine that does; and a kernel may be slow to remove an address.
            let late =
                of.slept > since || of.asleep.is_some() || of.kernel > 0 || of.unanswered > 0 || of.slow_until > since;
            if !without || late || !S::is_ours(of) {
                continue;
            }
            let Some(vip) = (0..self.vips).find(|vip| of.carries(*vip)) else { continue };
            let ago = (self.now - since) / MS;
            let text = format!(
                "{} has had no API for {ago} ms, and still carries VIP {vip}: the settings say release",
                self.names[host]
            );
            return self.violated(Rule::Alone, text);
        }
    }
}
