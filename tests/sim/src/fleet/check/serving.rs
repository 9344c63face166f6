//! Whether each VIP answers a client, and who could make it.

use super::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::fleet::bounds::PING;
use crate::fleet::fault::Fault;
use crate::fleet::queue::Item;
use crate::fleet::settings;
use crate::fleet::world::World;

/// Between two backups of the store.
const BACKUP: Nanos = 5 * SECOND;

impl World<'_> {
    /// The client looks again soon.
    pub fn touch_client(&mut self) {
        if !self.checks.planned {
            self.checks.planned = true;
            let next = (self.now / PING + 1) * PING;
            self.queue.put(next, Item::Ping);
        }
    }

    /// The client asks all VIPs.
    pub fn ping(&mut self) {
        self.checks.planned = false;
        let mut quiet = true;
        for vip in 0..self.most {
            if !self.wanted.contains(&vip) {
                self.checks.silent[vip] = None;
                continue;
            }
            if self.serves_client(vip).is_some() {
                if let Some(since) = self.checks.silent[vip].take() {
                    let took = (self.now - since) / MS;
                    self.say(|_| format!("VIP {vip} answers, after {took} ms"));
                }
                continue;
            }
            quiet = false;
            let now = self.now;
            if self.checks.silent[vip].is_none() {
                self.say(|_| format!("VIP {vip} does not answer"));
                self.checks.silent[vip] = Some(now);
            }
            self.check_outage(vip);
        }
        self.back_up();
        if !quiet {
            self.touch_client();
        }
    }

    fn back_up(&mut self) {
        let wanted = self.plan.faults.iter().any(|p| p.fault == Fault::Restore);
        let due = self.now / BACKUP != (self.now - PING.min(self.now)) / BACKUP;
        if wanted && due && self.store.sessions.len() == self.hosts.len() {
            self.backups.push_back(self.store.clone());
            if self.backups.len() > 3 {
                self.backups.pop_front();
            }
        }
    }

    /// Who could serve what is looked at anew.
    pub fn eligible(&mut self) {
        for host in 0..self.hosts.len() {
            for vip in 0..self.most {
                let able = self.could_serve(host, vip);
                let now = self.now;
                let since = &mut self.checks.able[host][vip];
                *since = if able { since.or(Some(now)) } else { None };
            }
        }
    }

    /// Its kernel takes the address, its agent can act and is to stay, it has an API, the VIP's conditions allow it, and it and
    /// the client hear each other.
    fn could_serve(&self, host: usize, vip: usize) -> bool {
        let (of, segment) = (&self.hosts[host], self.plan.settings.segment_of(vip));
        of.is_live()
            && of.agent.as_ref().is_some_and(|a| !a.ending && !a.drained)
            && of.starved == 0
            && of.kernel == 0
            && !of.refuses
            && of.told.get(segment) == Some(&true)
            && self.has_api(host)
            && self.has_endpoint(host, vip)
            && self.hear_each_other(segment, host, self.client())
            && !(self.wire.foreign && vip == 0)
    }

    /// Who could serve a VIP, and since when.
    #[must_use]
    pub fn able_since(&self, vip: usize) -> Option<(usize, Nanos)> {
        let able = (0..self.hosts.len()).filter_map(|h| self.checks.able[h][vip].map(|since| (h, since)));
        able.min_by_key(|(_, since)| *since)
    }

    fn check_outage(&mut self, vip: usize) {
        let Some(since) = self.checks.silent[vip] else { return };
        let Some((host, able)) = self.able_since(vip) else { return };
        if let Some(single) = self.checks.single
            && able <= single.at
            && since >= single.at
            && self.now - since > single.bound
        {
            let (took, bound) = ((self.now - since) / MS, single.bound / MS);
            let text = format!(
                "VIP {vip} has not answered for {took} ms; all that happened is fault {}; {} could serve it; the bound is {bound} ms",
                single.fault,
                settings::name(host)
            );
            return self.violated(Rule::Outage, text);
        }
        // Excused: what comes between hosts may keep a holder alive that the client does not hear.
        let segment = self.plan.settings.segment_of(vip);
        if self.active.iter().any(|n| self.plan.faults[*n].fault.may_hide_holders(segment)) {
            return;
        }
        let took = self.now - since.max(able).max(self.checks.last);
        if took > self.checks.bounds.outage {
            let text = format!(
                "VIP {vip} has not answered for {} ms since anything happened; {} could serve it; the bound is {} ms",
                took / MS,
                settings::name(host),
                self.checks.bounds.outage / MS
            );
            self.violated(Rule::Outage, text);
        }
    }
}
