//! The VIP follows a healthy API server.

use mooring_agent_core::action::Report;

use crate::check::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::fault::Fault as Own;
use crate::fault::{Fault, Planned};
use crate::queue::Item;
use crate::subject::Subject as _;
use crate::world::World;

/// What ended this long ago has no effect on hand-overs any more.
const LATELY: Nanos = 15 * SECOND;

type PlannedOf = Planned<Own>;

/// A holder whose API server is not ready while another node could serve.
#[derive(Debug, Default)]
pub struct Unfit {
    since: Option<(usize, Nanos)>,
}

impl World<'_, Elector> {
    /// Looks whether the VIPs are with a node that should hand them over, and has had the time for it. Only while that is all
    /// that is wrong.
    pub fn watch_health(&mut self) {
        let Some(holder) = self.unfit_holder() else {
            self.checks.unfit.since = None;
            return;
        };
        let bound = self.bound_of_health();
        let (host, since) = *self.checks.unfit.since.get_or_insert((holder, self.now));
        if host != holder || since < self.checks.outage.last {
            self.checks.unfit.since = Some((holder, self.now));
            self.queue.put(self.now + bound + MS, Item::Look(Look::Again));
        } else if since == self.now {
            self.queue.put(self.now + bound + MS, Item::Look(Look::Again));
        } else if self.now - since > bound {
            let text = format!(
                "{} has the VIPs, and its API server has not been ready for {} ms; the bound is {} ms",
                self.names[host],
                (self.now - since) / MS,
                bound / MS
            );
            self.violated(Rule::Health, text);
        }
    }

    /// A holder hands over: not because of an outage that all API servers shared, if that is all that has been wrong lately. It ends for
    /// all of them at once.
    pub fn check_handed_over(&mut self, host: usize, report: &Report) {
        let is_ending = self.hosts[host].agent.as_ref().is_none_or(|agent| agent.ending);
        if !matches!(report, Report::HandingOver { .. }) || is_ending || self.now < Elector::PACE.first {
            return;
        }
        let all = (1_u64 << self.api.servers.all.len().min(63)) - 1;
        let lately = |fault: &&PlannedOf| fault.at <= self.now && self.now <= fault.at + fault.lasts + LATELY;
        let shared = |fault: &PlannedOf| matches!(fault.fault, Fault::Api(servers, _) if servers & all == all);
        let mut faults = self.plan.faults.iter().filter(lately).peekable();
        if faults.peek().is_some() && faults.all(shared) {
            let text =
                format!("{} hands over, and its API server was away no longer than the others", self.names[host]);
            self.violated(Rule::Health, text);
        }
    }

    /// The holder, if its API server is all that is wrong, and all others are well.
    fn unfit_holder(&self) -> Option<usize> {
        let [only] = self.active[..] else { return None };
        let Fault::Own(Own::Unhealthy(holder)) = self.plan.faults[only].fault else { return None };
        let carries =
            self.names[holder] == self.api.store.holder() && (0..self.vips).all(|v| self.hosts[holder].carries(v));
        let others = (0..self.hosts.len()).filter(|host| *host != holder);
        let mut well = others.map(|host| self.hosts[host].own.able.is_some() && self.is_ready(host) == Some(true));
        let ours = self.plan.settings.own.rival.is_none() && !self.api.servers.remote;
        (ours && carries && self.hosts[holder].is_live() && well.all(|well| well)).then_some(holder)
    }

    /// The probes, three questions to the peers, and the hand-over.
    fn bound_of_health(&self) -> Nanos {
        let health = self.plan.settings.own.health;
        // Where nobody is heard, the Lease goes to a peer that is ready, after some more looks.
        let network = &self.plan.settings.network;
        let unheard = if network.isolated || network.is_odd() { 10 * SECOND } else { 0 };
        u64::from(health.fall + 1) * health.interval.max(health.timeout) + 6 * SECOND + self.bounds.informed + unheard
    }
}
