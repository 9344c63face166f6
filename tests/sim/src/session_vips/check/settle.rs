//! When faults stop, exactly one node carries each VIP soon, is in its record, and stays.

use mooring_agent_core::session::{Declared, View};

use crate::check::{Look, Rule};
use crate::clock::{Nanos, SECOND};
use crate::queue::Item;
use crate::session_vips::SessionVips;
use crate::world::{World, nanos};

/// A session tells for a minute which provisional holds have ended, and may cease just now.
fn without_note(view: &View) -> View {
    let declared = view.declared.clone().map(|declared| Declared { let_go: None, ..declared });
    View { declared, ..view.clone() }
}

impl World<'_, SessionVips> {
    /// All should be settled.
    pub fn check_settled(&mut self) {
        match self.settled() {
            Ok(settled) => self.checks.settled = Some(settled),
            Err(text) => self.violated(Rule::Settle, format!("long after the last fault, {text}")),
        }
    }

    /// Nothing but renewals has happened for longer than a Lease: nothing else is to come.
    pub fn check_quiet(&mut self) {
        if self.checks.settled.is_some() {
            return;
        }
        let lease = nanos(self.plan.settings.rules.lease_duration);
        if self.now > self.checks.stirred + lease + 5 * SECOND
            && self.all_can_act()
            && let Ok(settled) = self.settled()
        {
            self.checks.settled = Some(settled);
            self.over = self.now + self.bounds.stay;
            return;
        }
        self.put(SECOND, Item::Look(Look::Quiet));
    }

    /// Every agent runs, with an API, and renews its session.
    fn all_can_act(&self) -> bool {
        let retry = nanos(self.plan.settings.rules.retry_period);
        let renews = |h: usize| {
            let name = &self.names[h];
            self.api.store.sessions.get(name).is_some_and(View::is_live)
                && self.api.store.renewed.get(name).is_some_and(|at: &Nanos| self.now < at + 2 * retry + SECOND)
        };
        self.segment.clean && (0..self.hosts.len()).all(|h| self.hosts[h].is_live() && self.has_api(h) && renews(h))
    }

    /// The carrier of each VIP, if each VIP has exactly one carrier and its record names that node; else the reason.
    fn settled(&self) -> Result<Vec<Option<usize>>, String> {
        self.all_published()?;
        let mut settled = vec![None; self.vips];
        for (vip, settled) in settled.iter_mut().enumerate() {
            let who = self.carriers(vip);
            if self.is_owned(vip) && !who.is_empty() {
                return Err(format!("{} carries VIP {vip}, whose address is a node's own", self.names_of(&who)));
            }
            let [one] = who[..] else {
                let expected = self.api.wanted.contains(&vip) && self.able_since(vip).is_some();
                if expected || who.len() > 1 {
                    return Err(format!("{} carries VIP {vip}", self.names_of(&who)));
                }
                continue;
            };
            let record = self.api.store.addresses.get(&vip).and_then(|a| a.holder.clone());
            let name = &self.names[one];
            let live = self.api.store.sessions.get(name).filter(|s| s.is_live()).map(View::incarnation);
            let named = record.as_ref().filter(|h| h.node == *name && Some(&h.session) == live.as_ref());
            if !self.api.wanted.contains(&vip) || named.is_none() {
                return Err(format!("{name} carries VIP {vip}, and its record says {record:?}"));
            }
            *settled = Some(one);
        }
        Ok(settled)
    }

    /// The member object of each node that has one says what the Lease says; or, if there is none, that the session has ended.
    fn all_published(&self) -> Result<(), String> {
        for (node, lease) in self.api.store.sessions.iter().filter(|(_, lease)| lease.published) {
            let member = self.api.store.members.get(node);
            let (lease, copy) = (without_note(lease), member.map(|member| without_note(&member.copy)));
            if copy.map_or_else(|| lease.is_live(), |copy| !copy.says_as(&lease)) {
                return Err(format!("the member object of {node} says {member:?}, and its Lease {lease:?}"));
            }
        }
        let (members, leases) = (&self.api.store.members, &self.api.store.sessions);
        match members.values().find(|member| member.copy.is_live() && !leases.contains_key(&member.copy.node)) {
            Some(member) => Err(format!("{member:?} says that a session lives, which has no Lease")),
            None => Ok(()),
        }
    }

    /// From then on nothing changes.
    pub fn watch_settled(&mut self, vip: usize) {
        let Some(settled) = &self.checks.settled else { return };
        let (expected, who) = (settled[vip], self.carriers(vip));
        if who.first().copied() != expected || who.len() > 1 {
            let text = format!("all was quiet, and {} carries VIP {vip} now", self.names_of(&who));
            self.violated(Rule::Settle, text);
        }
    }
}
