//! A node that runs kube-vip: client-go's leader election, an address without a lifetime, an announcement now and then. It
//! polls, compares nothing but what it has seen change, keeps annotations it does not know, looks at no segment, and never
//! yields but to the Lease.

use std::time::Duration;

use mooring_agent_core::lease::{Notes, Record};
use mooring_agent_core::time::{Time, WallTime};

use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::queue::Item;
use crate::queue::Item as Common;
use crate::world::World;

/// kube-vip's defaults in kubeadm's static pods: 5, 3 and 1 s.
const DURATION: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(3);
const RETRY: Nanos = SECOND;
/// Its announcements.
const AGAIN: Nanos = 3 * SECOND;

/// A kube-vip.
#[derive(Clone, Debug, Default)]
pub struct Rival {
    life: u32,
    leads: bool,
    renewed: Time,
    seen: Option<(Record, Time)>,
    announced: Nanos,
    /// The last record that it wrote.
    wrote: Option<Record>,
}

impl Rival {
    /// Its process is gone.
    #[must_use]
    pub fn ended(self) -> Self {
        Self { life: self.life + 1, wrote: self.wrote, ..Self::default() }
    }

    /// Whether it wrote that record last.
    #[must_use]
    pub fn wrote(&self, record: &Record) -> bool {
        self.wrote.as_ref() == Some(record)
    }

    /// Which process.
    #[must_use]
    pub fn life(&self) -> u32 {
        self.life
    }
}

impl World<'_, Elector> {
    /// It takes the place of the node's agent, which is killed: at once, or when the node boots.
    pub(super) fn take_over(&mut self, host: usize) {
        if self.hosts[host].asleep.is_some() {
            return;
        }
        let wanted = self.hosts[host].wanted;
        self.kill(host);
        self.hosts[host].wanted = wanted;
        self.hosts[host].own.rival = Some(Rival::default());
        if self.hosts[host].is_awake() {
            self.own_start_rival(host);
        }
    }

    /// It starts.
    pub(super) fn own_start_rival(&mut self, host: usize) {
        let Some(rival) = &mut self.hosts[host].own.rival else { return };
        *rival = std::mem::take(rival).ended();
        let life = rival.life;
        for vip in 0..self.vips {
            // What an earlier run left is removed at the start.
            self.fall(host, vip, false, "kube-vip starts");
        }
        let wait = self.rng.below(SECOND);
        self.put(wait, Common::Own(Item::Rival { host, life }));
    }

    /// Its turn: one read and one write.
    pub fn rival_turn(&mut self, host: usize, life: u32) {
        let moment = self.hosts[host].moment(self.now);
        let Some(mut rival) = self.hosts[host].own.rival.clone().filter(|r| r.life == life) else { return };
        if !self.hosts[host].is_awake() {
            return;
        }
        let asked = self.has_api(host);
        self.counts.requests(self.now, host);
        let led = rival.leads;
        if asked {
            self.rival_elects(host, &mut rival, moment.now, moment.wall);
        }
        if rival.leads && moment.now.since(rival.renewed) > DEADLINE {
            rival.leads = false;
        }
        let leads = rival.leads;
        let announces = leads && (!led || self.now >= rival.announced + AGAIN);
        if announces {
            rival.announced = self.now;
        }
        self.hosts[host].own.rival = Some(rival);
        for vip in 0..self.vips {
            match (led, leads) {
                (false, true) => self.stand_for_ever(host, vip),
                (true, false) => self.fall(host, vip, false, "kube-vip lost the Lease"),
                _ => {}
            }
            if announces {
                self.announce(host, 0, vip);
            }
        }
        // Whoever looks for a chance spreads its tries by up to 1.2; who has lost ends, and is started again.
        let spread = self.rng.below(200 * MS);
        let wait = if led && !leads { 5 * SECOND } else { RETRY + if leads { 0 } else { spread } };
        self.put(wait, Common::Own(Item::Rival { host, life }));
    }

    fn rival_elects(&mut self, host: usize, rival: &mut Rival, now: Time, wall: WallTime) {
        let me = self.names[host].clone();
        let Some(server) = (0..self.api.servers.all.len()).find(|s| self.reaches(host, *s) && self.serves(*s)) else {
            return;
        };
        if self.api_faults.servers[server].is_some() {
            return;
        }
        let lease = self.api.store.lease.clone();
        let record = lease.as_ref().map(|l| l.record.clone());
        if let Some(record) = &record
            && rival.seen.as_ref().is_none_or(|(known, _)| known != record)
        {
            rival.seen = Some((record.clone(), now));
        }
        let free = match (&record, &rival.seen) {
            (Some(record), Some((_, at))) => {
                record.holder.is_empty() || record.holder == me || now.since(*at) >= record.duration
            }
            _ => true,
        };
        if !free {
            rival.leads = false;
            return;
        }
        let old = record.unwrap_or_default();
        let mine = old.holder == me;
        let record = Record {
            holder: me,
            duration: DURATION,
            acquired: if mine { old.acquired } else { Some(wall) },
            renewed: Some(wall),
            transitions: if mine || lease.is_none() { old.transitions } else { old.transitions + 1 },
        };
        let before = old.holder;
        let view = self.api.store.set(self.now, record.clone(), lease.map_or_else(Notes::default, |l| l.notes));
        rival.wrote = Some(record.clone());
        rival.seen = Some((record, now));
        rival.leads = true;
        rival.renewed = now;
        self.written(Some(host), &before, &view);
        self.publish(Some(&view));
    }
}
