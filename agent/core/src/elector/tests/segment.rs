//! The world's segment, kernels and API server, and what tests do to them.

use std::net::IpAddr;
use std::time::Duration;

use super::{Api, GATEWAY, Item, ROUTER, ROUTER_TOO, STRANGER, VIP, World, ms};
use crate::action::Report;
use crate::elector::Elector;
use crate::event::{Event, Failure};
use crate::evidence::{Form, Sender};
use crate::health::Verdict;
use crate::lease::{LeaseView, Notes, Record};
use crate::mac::Mac;
use crate::rules::Rules;

impl World {
    pub(super) fn carry(&mut self, n: usize, address: IpAddr, until: crate::time::Time) {
        let left = until.since(self.now).saturating_sub(ms(1_500)).as_secs();
        let host = &mut self.hosts[n];
        if host.kernel_hangs && host.carries.contains_key(&address) {
            self.put(ms(0), Item::To(n, Event::NotRefreshed { address }));
            return;
        }
        if host.kernel_hangs || host.refuses.contains(&address) || left == 0 {
            host.carries.remove(&address);
            let reason = "refused".into();
            self.put(ms(0), Item::To(n, Event::PutFailed { address, reason }));
            return;
        }
        host.carries.insert(address, self.now + Duration::from_secs(left) + self.kernel_late);
        self.put(ms(0), Item::To(n, Event::Put { address }));
    }

    pub(super) fn drop(&mut self, n: usize, address: IpAddr) {
        let event = if self.hosts[n].keeps {
            Event::RemoveFailed { address, reason: "kept".into() }
        } else {
            self.hosts[n].carries.remove(&address);
            Event::Removed { address }
        };
        self.put(ms(0), Item::To(n, event));
    }

    /// The kernel of a host removes addresses again, and what waited is removed.
    pub(in super::super) fn removes_again(&mut self, n: usize) {
        self.hosts[n].keeps = false;
        for address in std::mem::take(&mut self.hosts[n].carries).into_keys() {
            self.tell(n, Event::Removed { address });
        }
    }

    pub(super) fn announce(&mut self, n: usize, address: IpAddr) {
        self.hosts[n].announced.push(self.now);
        let (mac, group, has) = (self.hosts[n].mac, self.hosts[n].group, self.hosts[n].carries.contains_key(&address));
        self.suppressed.iter_mut().filter(|(of, _)| has && *of == address).for_each(|(_, known)| *known = mac);
        for m in (0..self.hosts.len()).filter(|m| has && *m != n) {
            let (is_lost, is_filtered) = (self.is_lost(), self.without_v6 && address.is_ipv6());
            let is_deaf = self.hosts[m].deaf || self.hosts[n].deaf || self.hosts[n].unheard_by.contains(&m);
            let heard = !is_lost && !is_filtered && !is_deaf;
            if self.hosts[m].group == group && heard {
                self.put(self.wire, Item::To(m, Event::Heard { address, mac, form: Form::Claim }));
            }
        }
    }

    pub(super) fn probe(&mut self, n: usize, address: IpAddr, to: Option<Mac>, sender: Sender) {
        self.hosts[n].probes += 1;
        let asker = &self.hosts[n];
        if asker.deaf || asker.asks_in_vain {
            return;
        }
        if self.without_v6 && address.is_ipv6() {
            return;
        }
        let mut answers: Vec<Mac> = vec![];
        let both_ways = |m: usize, h: &super::Host| !asker.unheard_by.contains(&m) && !h.unheard_by.contains(&n);
        let near = |m: usize, h: &super::Host| m != n && h.group == asker.group && !h.deaf && both_ways(m, h);
        for (_, host) in self.hosts.iter().enumerate().filter(|(m, h)| near(*m, h)) {
            let has = host.up && (host.address == address || host.carries.contains_key(&address));
            answers.extend(has.then_some(host.mac));
        }
        answers.extend(
            (address == GATEWAY && self.gateway && asker.group == 0 && !asker.unheard_by.contains(&ROUTER_TOO))
                .then_some(ROUTER),
        );
        answers.extend((address == VIP && self.gateway_has_vip && asker.group == 0).then_some(ROUTER));
        let foreign = address == VIP && self.stranger || self.foreign.contains(&address);
        answers.extend((foreign && asker.group == 0).then_some(STRANGER));
        let suppressed = self.suppressed.iter().find(|(of, mac)| *of == address && to.is_none() && *mac != asker.mac);
        let late = if suppressed.is_some() { self.suppressed_late } else { ms(0) };
        if let Some((_, mac)) = suppressed {
            answers = vec![*mac];
        }
        let proxied = self.gateway && asker.group == 0 && sender == Sender::Own && to.is_none_or(|to| to == ROUTER);
        let others = address.is_ipv4() && address != GATEWAY && address != asker.address;
        if let Some(by) = self.local_proxy.filter(|_| proxied && others) {
            let after = if to.is_some() { ms(0) } else { by };
            let event = Event::Heard { address, mac: ROUTER, form: Form::Answer(sender) };
            self.put(self.wire + after, Item::To(n, event));
        }
        for mac in answers.into_iter().filter(|mac| to.is_none_or(|to| to == *mac)) {
            if self.is_lost() || self.is_lost() {
                continue;
            }
            let after = if self.foreign_first && mac == STRANGER { self.wire } else { self.wire * 2 };
            self.put(after + late, Item::To(n, Event::Heard { address, mac, form: Form::Answer(sender) }));
        }
    }

    pub(super) fn write(&mut self, n: usize, id: u64, base: Option<&str>, record: Record, notes: Notes, lost: bool) {
        let fits = self.lease.as_ref().map(|l| l.version.as_str()) == base;
        let result = match fits {
            true if base.is_none() && !self.namespace => Err(Failure::NoNamespace),
            true => Ok(self.store(record, notes)),
            false => Err(Failure::Conflict),
        };
        let result = if lost { Err(Failure::Away) } else { result };
        self.put(self.hosts[n].delay, Item::To(n, Event::Wrote { id, result }));
    }

    /// Changes the Lease on the API server: every watch shows it.
    pub(in super::super) fn store(&mut self, record: Record, notes: Notes) -> LeaseView {
        self.version += 1;
        let view = LeaseView { version: self.version.to_string(), record, notes };
        self.lease = Some(view.clone());
        for n in 0..self.hosts.len() {
            if matches!(self.hosts[n].api, Api::Up) {
                self.put(self.hosts[n].delay, Item::To(n, Event::Seen(Some(view.clone()))));
            }
        }
        view
    }

    /// The hosts that have the VIP on their interface.
    pub(in super::super) fn owners(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|n| self.hosts[*n].up && self.hosts[*n].carries.contains_key(&VIP)).collect()
    }

    /// The node that holds the Lease.
    pub(in super::super) fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |l| l.record.holder.as_str())
    }

    pub(in super::super) fn role(&self, n: usize) -> &'static str {
        self.hosts[n].elector.snapshot().role
    }

    pub(in super::super) fn reported(&self, n: usize, wanted: impl Fn(&Report) -> bool) -> usize {
        self.hosts[n].reports.iter().filter(|(_, r)| wanted(r)).count()
    }

    /// The node crashes: kernel and agent are gone at once.
    pub(in super::super) fn crash(&mut self, n: usize) {
        self.hosts[n].up = false;
        self.hosts[n].carries.clear();
        self.note_owners();
    }

    /// The agent crashes, and the node stays.
    pub(in super::super) fn kill(&mut self, n: usize) {
        self.hosts[n].running = false;
    }

    /// The agent of a host is started again, and finds what its kernel still has.
    pub(in super::super) fn restart(&mut self, n: usize, rules: &Rules) {
        self.restart_with(n, rules, &[VIP]);
    }

    /// The same with these VIPs in its settings.
    pub(in super::super) fn restart_with(&mut self, n: usize, rules: &Rules, vips: &[IpAddr]) {
        let node = self.hosts[n].name.clone();
        self.hosts[n].elector = Elector::new(Rules { node, ..rules.clone() });
        self.hosts[n].running = true;
        self.start(n, vips);
        let found = self.hosts[n].carries.keys().copied().collect();
        self.tell(n, Event::LeftOver(found));
    }

    pub(in super::super) fn freeze(&mut self, n: usize) {
        self.hosts[n].frozen = Some(vec![]);
    }

    pub(in super::super) fn thaw(&mut self, n: usize) {
        let waiting = self.hosts[n].frozen.take().unwrap_or_default();
        self.tell(n, Event::Tick);
        for event in waiting {
            self.tell(n, event);
        }
    }

    pub(in super::super) fn set_api(&mut self, n: usize, api: Api) {
        let was = std::mem::replace(&mut self.hosts[n].api, api);
        if api == Api::Up && was != Api::Up {
            self.put(ms(700 + 50 * n as u64), Item::To(n, Event::Seen(self.lease.clone())));
        } else if api == Api::Refused {
            self.put(ms(1), Item::To(n, Event::WatchLost));
        }
    }

    pub(in super::super) fn set_api_everywhere(&mut self, api: Api) {
        for n in 0..self.hosts.len() {
            self.set_api(n, api);
        }
    }

    pub(in super::super) fn set_health(&mut self, n: usize, healthy: bool) {
        self.hosts[n].ready = healthy;
        self.judge(n, if healthy { Verdict::Healthy } else { Verdict::Unhealthy });
    }

    /// What the host's own probe says.
    pub(in super::super) fn judge(&mut self, n: usize, verdict: Verdict) {
        self.hosts[n].verdict = verdict;
        self.tell(n, Event::Health(verdict));
    }

    /// A frame that says that the VIP is at that MAC address.
    pub(in super::super) fn claim(&mut self, n: usize, mac: Mac) {
        self.tell(n, Event::Heard { address: VIP, mac, form: Form::Claim });
    }
}
