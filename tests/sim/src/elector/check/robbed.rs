//! A holder that lives, and that others reach, is not robbed by what somebody fails to hear.

use mooring_agent_core::action::{Cause, Report};
use mooring_agent_core::lease::Record;

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::segment::What;
use crate::world::{World, nanos};

impl World<'_, Elector> {
    /// Who answers for the VIPs is looked at anew.
    pub fn watch_reached(&mut self) {
        for host in 0..self.hosts.len() {
            let (reached, now) = (self.is_reached(host), self.now);
            let since = &mut self.hosts[host].own.reached;
            *since = if reached { since.or(Some(now)) } else { None };
        }
    }

    /// It has the VIPs, its kernel answers what reaches it, and each frame from and to it arrives, if its sender lets it out.
    fn is_reached(&self, host: usize) -> bool {
        let of = &self.hosts[host];
        of.is_awake()
            && of.plugged[0]
            && self.segment.clean
            && self.segment.mutes.of(host, 0).is_none()
            && (0..self.vips).all(|vip| of.carries(vip))
    }

    /// For so long at least, another node than `by` has answered for the VIPs.
    fn answered_by(&self, by: usize, other: usize) -> Option<Nanos> {
        let rules = &self.plan.settings.rules;
        let window = if rules.witness_interval.is_zero() { 100 * MS } else { nanos(rules.witness_interval) };
        let silence = window * u64::from(rules.witness_misses + 1) + 2 * SECOND;
        // A switch that answers for another host keeps clients and candidates from this one.
        let hidden = (0..self.vips).any(|vip| self.hides(by, 0, What::Vip(vip), other));
        let since = self.hosts[other].own.reached.filter(|_| other != by && !hidden)?;
        // Excused: to a machine that stood still with its clock, what it missed before is as fresh as it was.
        let slept = self.hosts[by].slept > 0 && self.hosts[by].slept + silence > self.now;
        (self.now - since > silence && !slept).then_some(self.now - since)
    }

    /// A node writes that it has the Lease: whose it takes while that one answers, it remembers until it says why it took it.
    pub fn check_take_sent(&mut self, host: usize, record: &Record) {
        let Some(known) = self.hosts[host].agent.as_ref().and_then(|agent| agent.core.snapshot().lease) else { return };
        let holder = self.names.iter().position(|name| *name == known.record.holder);
        let takes = record.holder == self.names[host] && record.holder != known.record.holder;
        let answers = holder.filter(|_| takes).and_then(|holder| Some((holder, self.answered_by(host, holder)?)));
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.own.robs = answers;
        }
    }

    /// A core reports a take.
    pub fn check_robbed(&mut self, host: usize, report: &Report) {
        let robbed = match report {
            Report::Took(Cause::Witness) => self.hosts[host].agent.as_ref().and_then(|agent| agent.own.robs),
            // One that has the Lease by now reports the same.
            Report::Took(Cause::Provisional) if self.api.store.holder() == self.names[host] => None,
            Report::Took(Cause::Provisional) if !self.plan.settings.network.isolated => {
                (0..self.hosts.len()).find_map(|other| Some((other, self.answered_by(host, other)?)))
            }
            _ => None,
        };
        if let Some((other, answered)) = robbed {
            let text = format!(
                "{} takes the VIPs from {}, whose kernel has answered for them for {} ms, and which all hear",
                self.names[host],
                self.names[other],
                answered / MS
            );
            self.violated(Rule::Witness, text);
        }
    }
}
