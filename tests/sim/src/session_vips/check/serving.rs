//! Whether each VIP answers a client, and which nodes could serve it.

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault as Any, How};
use crate::queue::Item;
use crate::session_vips::SessionVips;
use crate::session_vips::bounds::PING;
use crate::session_vips::fault::{Fault, may_hide_holders};
use crate::settings::number;
use crate::subject::Subject as _;
use crate::world::World;

/// Between two backups of the store.
const BACKUP: Nanos = 5 * SECOND;

impl World<'_, SessionVips> {
    /// The client looks again soon.
    pub fn touch_client(&mut self) {
        if !self.checks.planned {
            self.checks.planned = true;
            let next = (self.now / PING + 1) * PING;
            self.queue.put(next, Item::Ping);
        }
    }

    /// The client asks all VIPs.
    pub(in crate::session_vips) fn own_ping(&mut self) {
        self.checks.planned = false;
        let mut quiet = true;
        for vip in 0..self.vips {
            if !self.api.wanted.contains(&vip) || self.is_owned(vip) {
                self.checks.silent[vip] = None;
                continue;
            }
            if self.serves_client(vip).is_some() {
                if let Some(since) = self.checks.silent[vip].take() {
                    let took = (self.now - since) / MS;
                    self.note(|_| format!("VIP {vip} answers, after {took} ms"));
                }
                continue;
            }
            quiet = false;
            let now = self.now;
            if self.checks.silent[vip].is_none() {
                self.note(|_| format!("VIP {vip} does not answer"));
                self.checks.silent[vip] = Some(now);
            }
            self.check_outage(vip);
        }
        self.record_served(quiet);
        self.back_up();
        if !quiet {
            self.touch_client();
        }
    }

    fn back_up(&mut self) {
        let wanted = self.plan.faults.iter().any(|p| p.fault == Any::Own(Fault::Restore));
        let due = self.now / BACKUP != (self.now - PING.min(self.now)) / BACKUP;
        if wanted && due && self.api.store.sessions.len() == self.hosts.len() {
            self.api.backups.push_back(self.api.store.clone());
            if self.api.backups.len() > 3 {
                self.api.backups.pop_front();
            }
        }
    }

    /// Updates since when each host could serve each VIP.
    pub fn eligible(&mut self) {
        for host in 0..self.hosts.len() {
            for vip in 0..self.vips {
                let able = self.could_serve(host, vip);
                let now = self.now;
                let since = &mut self.checks.able[host][vip];
                *since = if able { since.or(Some(now)) } else { None };
            }
            let (reached, now) = (self.is_reached(host), self.now);
            let since = &mut self.checks.reached_since[host];
            *since = if reached { since.or(Some(now)) } else { None };
        }
    }

    /// Its kernel answers what reaches it, and each frame from and to it arrives, if its sender lets it out.
    fn is_reached(&self, host: usize) -> bool {
        let (of, settings) = (&self.hosts[host], &self.plan.settings);
        let mut on = (0..settings.segments).filter(|segment| settings.is_on(host, *segment));
        of.is_awake()
            && of.own_address
            && self.segment.clean
            && on.all(|segment| of.plugged[segment] && self.segment.mutes.of(host, segment).is_none())
    }

    /// A host that could serve VIPs can do so only since now.
    pub fn able_anew(&mut self, host: usize) {
        let now = self.now;
        self.checks.able[host].iter_mut().flatten().for_each(|since| *since = now);
    }

    /// Its kernel takes the address, its agent can act and is to stay, it has an API, the VIP's conditions allow it, and it and
    /// the client hear each other.
    fn could_serve(&self, host: usize, vip: usize) -> bool {
        let (of, segment) = (&self.hosts[host], SessionVips::segment_of(&self.plan.settings, vip));
        of.is_live()
            && of.agent.as_ref().is_some_and(|a| !a.ending && !a.own.drained)
            && of.starved == 0
            && of.kernel == 0
            && !of.refuses
            && of.unanswered == 0
            && of.told_up.get(segment) == Some(&true)
            && self.has_api(host)
            && self.has_endpoint(host, vip)
            && self.segment.mutes.of(host, segment).is_none()
            && self.hear_each_other(segment, host, self.client())
            && !(self.segment.foreign && vip == 0)
            && !self.is_owned(vip)
    }

    /// Whether the address of a VIP is a node's own.
    pub(in crate::session_vips) fn is_owned(&self, vip: usize) -> bool {
        self.plan.settings.own.owned.is_some_and(|(_, owned)| owned == vip)
    }

    /// Which nodes could serve a VIP, and since when.
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
                single.fault, self.names[host]
            );
            return self.violated(Rule::Outage, text);
        }
        let rests = self.now - since.max(self.checks.last);
        if able <= since
            && rests > self.checks.bounds.mute
            && let Some(mute) = self.mute_carrier(vip)
        {
            let text = format!(
                "VIP {vip} has rested on {}, whom nobody hears, for {} ms; {} could serve it all the time; the bound is {} ms",
                self.names[mute],
                rests / MS,
                self.names[host],
                self.checks.bounds.mute / MS
            );
            return self.violated(Rule::Outage, text);
        }
        // Excused: a partition may leave a holder that the nodes hear and the client does not.
        let segment = SessionVips::segment_of(&self.plan.settings, vip);
        if self.active.iter().any(|n| may_hide_holders(&self.plan.faults[*n].fault, segment)) {
            return;
        }
        if self.is_kept_by_nobody(vip) {
            return;
        }
        let took = self.now - since.max(able).max(self.checks.last);
        if took > self.bounds.outage {
            let text = format!(
                "VIP {vip} has not answered for {} ms since anything happened; {} could serve it; the bound is {} ms",
                took / MS,
                self.names[host],
                self.bounds.outage / MS
            );
            self.violated(Rule::Outage, text);
        }
    }

    /// A node that carries a VIP, and whose frames do not leave on any segment, while the nodes judge by what they hear and nothing else
    /// is wrong.
    fn mute_carrier(&self, vip: usize) -> Option<usize> {
        let (settings, network) = (&self.plan.settings, &self.plan.settings.network);
        let judged = !settings.rules.witness_interval.is_zero() && !network.isolated;
        let only = self.active.iter().all(|n| match self.plan.faults[*n].fault {
            Any::Mute(_, on, _) => on.is_none(),
            Any::Crash(_) => true,
            _ => false,
        });
        let mute = |host: usize| (0..settings.segments).all(|segment| self.segment.mutes.is_all(host, segment));
        let carries = |host: &usize| self.hosts[*host].vips[vip].is_some() && mute(*host);
        (0..self.hosts.len()).find(carries).filter(|_| judged && only)
    }

    /// Excused: no record of a VIP can be written, or the session that a record names is kept alive by a node whose calls succeed and
    /// which learns that too late. That node takes nothing meanwhile, and no other may.
    fn is_kept_by_nobody(&self, vip: usize) -> bool {
        let holder = self.api.store.addresses.get(&vip).and_then(|address| address.holder.as_ref());
        let holder = holder.and_then(|holder| number::<Fault>(&holder.node));
        let how = holder.and_then(|holder| self.api_faults.nodes[holder]);
        let learns_late = matches!(how, Some(How::Slow(400..) | How::LosesAnswers(_)));
        learns_late || self.api.nudged >= 1_000
    }

    /// Whether a host has the endpoint that a VIP needs: without an endpoint of its own, a node drops the VIP's traffic.
    fn has_endpoint(&self, host: usize, vip: usize) -> bool {
        !self.plan.settings.own.local.contains(&vip) || self.api.endpoints.contains(&host)
    }

    /// Which host answers the client for a VIP, if any does.
    fn serves_client(&self, vip: usize) -> Option<usize> {
        let (segment, client) = (SessionVips::segment_of(&self.plan.settings, vip), self.client());
        let passes = |a: usize, b: usize| {
            let lost = !self.segment.clean && self.segment.way(segment, a, b).lost >= 1_000;
            !lost && !self.is_cut(segment, a, b)
        };
        (0..self.hosts.len()).find(|h| {
            self.hosts[*h].vips[vip].is_some()
                && self.has_endpoint(*h, vip)
                && self.is_plugged(*h, segment)
                && passes(*h, client)
                && passes(client, *h)
        })
    }
}
