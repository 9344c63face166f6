//! While a node could serve, outage stays within the bound of what happened.

use mooring_agent_core::action::Cause;
use mooring_agent_core::health::Verdict;

use crate::check::{Rule, Single};
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::client::UNCONFIRMED;
use crate::fault::Fault;
use crate::world::World;

/// What happened lately, as far as outages go.
#[derive(Debug, Default)]
pub struct Outages {
    /// When a fault began or ended last.
    pub last: Nanos,
    /// The one fault that hit a settled world, if that is how it is.
    pub single: Option<Single>,
}

impl World<'_, Elector> {
    /// The VIP still does not answer.
    pub fn check_outage(&mut self, vip: usize) {
        let Some(since) = self.checks.client.entries[vip].silent else { return };
        self.check_misled(vip, since);
        let Some((host, able)) = self.able_since() else { return };
        if let Some(single) = self.checks.outage.single
            && able <= single.at
            && since >= single.at
            && self.is_mute_and_renews(single, host)
        {
            // Whatever lets somebody take it is something that happens.
            (self.checks.outage.single, self.checks.outage.last) = (None, self.now);
        } else if let Some(single) = self.checks.outage.single
            && able <= single.at
            && since >= single.at
            && self.now - since > self.bound_of(single, since)
        {
            let text = format!(
                "VIP {vip} has not answered for {} ms; all that happened is fault {}; {} could serve it; the bound is {} ms",
                (self.now - since) / MS,
                single.fault,
                self.names[host],
                self.bound_of(single, since) / MS
            );
            return self.violated(Rule::Outage, text);
        }
        if self.is_kept_from(vip) {
            return;
        }
        let began = since.max(able).max(self.checks.outage.last);
        let took = self.now - began;
        // Excused: who may carry it without the API only by settings that forbid that.
        let rules = &self.plan.settings.rules;
        // And behind a proxy, which answers for holders that are gone, if no holder is watched.
        let watches = !rules.witness_interval.is_zero() || self.plan.settings.network.proxy.is_none();
        let without = rules.provisional && rules.hold_without_api && watches;
        if !(without || self.has_api(host)) {
            return;
        }
        // Excused: a holder that renews its Lease, and that the client does not hear, is replaced only early, by a witness that
        // has heard it in its tenure: not when that is switched off, not when the VIP has moved so often that fabrics would
        // freeze it, and not by who was never on one segment with it. Two segments and one API: the Lease is in one of them.
        if self.renews_elsewhere(host) && !self.is_robbed_by_a_mute() {
            // Its offer, say, lets somebody take it: that is something that happens.
            self.checks.outage.last = self.now;
            return;
        }
        let bound = self.bounds.outage;
        if took > bound {
            let text = format!(
                "VIP {vip} has not answered for {} ms since anything happened; {} could serve it; the bound is {} ms",
                took / MS,
                self.names[host],
                bound / MS
            );
            self.violated(Rule::Outage, text);
        }
    }

    /// Excused: the holder's frames do not leave, it renews its Lease, and the VIP has moved too often for anybody to take it early.
    fn is_mute_and_renews(&self, single: Single, host: usize) -> bool {
        matches!(self.plan.faults[single.fault].fault, Fault::Mute(..))
            && self.renews_elsewhere(host)
            && !self.is_robbed_by_a_mute()
    }

    /// A node that comes back with the VIP, and learns that it is another's by now, may have been believed by the client, whose
    /// neighbour cache corrects itself.
    fn bound_of(&self, single: Single, since: Nanos) -> Nanos {
        let planned = self.plan.faults[single.fault];
        let came_back = planned.lasts > 0
            && matches!(
                planned.fault,
                Fault::Suspend(_) | Fault::Stun(..) | Fault::LinkDown(..) | Fault::Freeze(_) | Fault::Mute(..)
            );
        if came_back && since >= planned.at + planned.lasts {
            single.bound.max(UNCONFIRMED + SECOND)
        } else {
            single.bound
        }
    }

    /// Another node than `host`, which that one cannot replace early, has the Lease and renews it.
    pub(super) fn renews_elsewhere(&self, host: usize) -> bool {
        let Some(holder) = self.names.iter().position(|name| *name == self.api.store.holder()) else { return false };
        let witness = !self.plan.settings.rules.witness_interval.is_zero() && self.checks.witness.may_move(self.now);
        let declared = self.checks.witness.began().max(self.checks.witness.stripped);
        let heard =
            self.hosts[host].agent.as_ref().is_some_and(|a| a.own.heard_holder[holder] > declared.max(a.own.let_go));
        let runs = self.hosts[holder].is_live() || self.hosts[holder].own.rival.is_some();
        let renews = runs && self.has_some_api(holder);
        let ours = self.hosts[holder].own.rival.is_none();
        // Of a holder most of whose frames get lost, an answer comes now and then. A node whose own service fails takes nothing early.
        let lossy = self.segment.way(0, holder, host).lost >= 500 || self.segment.way(0, host, holder).lost >= 500;
        let fails = self.hosts[host].agent.as_ref().is_some_and(|a| a.own.prober.verdict() != Some(Verdict::Healthy));
        holder != host && renews && !(witness && heard && ours && !lossy && !fails)
    }

    /// The holder took the Lease because it heard nobody, and nobody hears it, since before that. It must notice.
    pub(super) fn is_robbed_by_a_mute(&self) -> bool {
        let holder = self.names.iter().position(|name| *name == self.api.store.holder());
        let agent = |host: usize| self.hosts[host].agent.as_ref();
        holder.is_some_and(|host| {
            self.segment.mutes.is_all(host, 0)
                && agent(host)
                    .is_some_and(|a| a.own.took == Some(Cause::Witness) && a.own.began >= self.checks.outage.last)
        })
    }

    /// The VIP answers again.
    pub fn served_again(&mut self, vip: usize, since: Nanos) {
        let took = self.now - since;
        self.note(|_| format!("the client has an answer from VIP {vip} again, after {} ms", took / MS));
    }
}
