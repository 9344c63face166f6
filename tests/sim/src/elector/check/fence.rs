//! No candidate takes an ended Lease while the last holder still carries the VIP by that Lease.

use mooring_agent_core::action::{Cause, Report};

use crate::check::Rule;
use crate::elector::Elector;
use crate::world::{World, nanos};

impl World<'_, Elector> {
    /// A Lease was taken because it had ended: nobody may carry the VIP any more by that Lease.
    pub fn check_taken_by_end(&mut self, host: usize, report: &Report) {
        if *report != Report::Took(Cause::Expiry) {
            return;
        }
        for other in (0..self.hosts.len()).filter(|o| *o != host) {
            let lease = nanos(self.plan.settings.rules.lease_duration);
            // Excused: a machine that stood still within the Lease carries it longer, in its own time, and knows no better.
            let slept = self.hosts[other].asleep.is_some()
                || self.hosts[other].slept + lease > self.now && self.hosts[other].slept > 0;
            let standing = self.hosts[other].vips.iter().flatten().find(|s| s.leased);
            if let Some(standing) = standing.filter(|_| self.hosts[other].is_awake() && !slept) {
                let text = format!(
                    "cp{} took the Lease by its end, and cp{} still carries the VIP by it, until {} by a clock at {}",
                    host + 1,
                    other + 1,
                    standing.deadline,
                    self.hosts[other].moment(self.now).now
                );
                self.violated(Rule::Fence, text);
            }
        }
    }
}
