//! While a node could serve, outage stays within the bound of what happened.

use super::Rule;
use crate::clock::{MS, Nanos};
use crate::world::World;

/// The one fault that hit a settled world.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    /// Which of the plan's.
    pub fault: usize,
    /// Who held the VIP.
    pub holder: usize,
}

/// What happened lately, as far as outages go.
#[derive(Debug, Default)]
pub struct Outages {
    last: Nanos,
    single: Option<Single>,
    /// The longest outage that counted, by whether it was from a settled world.
    pub longest: [Nanos; 2],
}

impl World<'_> {
    /// A fault begins or ends.
    pub fn note_disturbance(&mut self, fault: Option<usize>) {
        let now = self.now;
        let quiet = now.saturating_sub(self.checks.outage.last);
        let single = self.checks.outage.single;
        let alone = self.active.is_empty() && quiet > self.checks.bounds.settle;
        let same = single.is_some_and(|s| Some(s.fault) == fault);
        self.checks.outage.last = now;
        if same {
            return;
        }
        let holder = self.plan.names.iter().position(|name| *name == self.store.holder());
        let settled = holder.filter(|h| alone && (0..self.plan.settings.vips.len()).all(|v| self.hosts[*h].carries(v)));
        self.checks.outage.single =
            settled.zip(fault).map(|(holder, fault)| Single { fault, holder });
    }

    /// The VIP still does not answer.
    pub fn check_outage(&mut self, vip: usize) {
        let Some(since) = self.client.entries[vip].silent else { return };
        let Some((host, able)) = self.able_since() else { return };
        let began = since.max(able).max(self.checks.outage.last);
        let took = self.now - began;
        let bound = self.checks.bounds.outage;
        if took > bound {
            let text = format!(
                "VIP {} has not answered for {} ms since anything happened; cp{} could serve it; the bound is {} ms",
                vip + 1,
                took / MS,
                host + 1,
                bound / MS
            );
            self.violated(Rule::Outage, text);
        }
    }

    /// The VIP answers again.
    pub fn served_again(&mut self, vip: usize, since: Nanos) {
        let took = self.now - since;
        self.say(|_| format!("the client has an answer from VIP {} again, after {} ms", vip + 1, took / MS));
    }
}
