//! A client that believes a node which has let go of a provisional hold is told soon who has the VIP.

use mooring_agent_core::rules::MARGIN;

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::world::{World, nanos};

impl World<'_, Elector> {
    /// The client has had no answer from a VIP since then.
    pub fn check_misled(&mut self, vip: usize, since: Nanos) {
        let entry = self.checks.client.entries[vip];
        let (Some(station), Some(life)) = (entry.station, entry.provisional) else { return };
        let of = &self.hosts[station];
        let Some(agent) = of.agent.as_ref().filter(|_| of.life == life && of.is_live()) else { return };
        let follows = agent.core.snapshot().role == "following" && !agent.ending;
        if !follows || of.carries(vip) || of.starved > 0 || !self.has_api(station) {
            return;
        }
        let Some(holder) = self.names.iter().position(|name| *name == self.api.store.holder()) else { return };
        let Some(holding) = self.hosts[holder].agent.as_ref() else { return };
        let since = since.max(agent.own.let_go).max(holding.own.began).max(self.checks.outage.last);
        let bound = self.misled_bound();
        if holder != station && self.tells_client(holder, vip) && self.now > since + bound {
            let text = format!(
                "the client has asked {} for VIP {vip} for {} ms, which let go of a provisional hold; {} has it; the bound is {} ms",
                self.names[station],
                (self.now - since) / MS,
                self.names[holder],
                bound / MS
            );
            self.violated(Rule::Outage, text);
        }
    }

    /// A holder by Lease that can tell the client.
    fn tells_client(&self, host: usize, vip: usize) -> bool {
        let of = &self.hosts[host];
        let holds = of.agent.as_ref().is_some_and(|agent| agent.core.snapshot().role == "holding" && !agent.ending);
        holds
            && of.is_live()
            && of.starved == 0
            && of.kernel == 0
            && of.unanswered == 0
            && of.carries(vip)
            && self.has_api(host)
            && self.hear_each_other(0, host, self.client())
    }

    /// A call that hangs, two tries to write the note, and the holder's next renewal, which meets the note if its watch does not.
    fn misled_bound(&self) -> Nanos {
        let rules = &self.plan.settings.rules;
        let tries = 2 * nanos(rules.retry_period / 4 + rules.provisional_spread);
        SECOND + nanos(MARGIN) + tries + nanos(rules.retry_period) + 8 * self.plan.settings.api.1 + 200 * MS
    }
}
