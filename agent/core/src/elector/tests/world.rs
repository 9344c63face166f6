//! A small world for electors: one Lease, one segment, kernels with fences, and everything that can go wrong with them.
//! Deterministic: the same test runs the same way every time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::action::Report;
use crate::elector::Elector;
use crate::event::{Event, Moment, Node};
use crate::health::Verdict;
use crate::lease::{LeaseView, Notes, Participant, Record};
use crate::mac::Mac;
use crate::rules::Rules;
pub(super) use crate::test_world::{Api, GATEWAY, STRANGER, ms};
use crate::test_world::{Owners, Queue, ROUTER};
use crate::time::{Time, WallTime};

pub(super) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));

/// As a host: the gateway.
pub(super) const ROUTER_TOO: usize = usize::MAX;

/// A node with its agent.
#[expect(clippy::struct_excessive_bools, reason = "they are independent faults, not one state")]
pub(super) struct Host {
    pub(super) elector: Elector,
    pub(super) name: String,
    pub(super) mac: Mac,
    pub(super) address: IpAddr,
    pub(super) api: Api,
    /// How long a call takes to the API, or its answer back.
    pub(super) delay: Duration,
    /// The node is up: its kernel answers.
    pub(super) up: bool,
    /// The agent runs.
    pub(super) running: bool,
    pub(super) frozen: Option<Vec<Event>>,
    /// Hosts of one group hear each other; the gateway is in group 0.
    pub(super) group: u8,
    pub(super) deaf: bool,
    /// Its frames do not reach these hosts, whatever it hears from them.
    pub(super) unheard_by: Vec<usize>,
    /// Its requests are lost. What its kernel answers is not.
    pub(super) asks_in_vain: bool,
    /// The verdict of its own probe.
    pub(super) verdict: Verdict,
    /// Where the others find its API server, if not at its own address; and whether that is ready.
    pub(super) api_servers: Vec<IpAddr>,
    pub(super) ready: bool,
    /// Its own probe fails, whatever others find.
    pub(super) own_probe_fails: bool,
    /// What the datapath refuses to put on the interface.
    pub(super) refuses: Vec<IpAddr>,
    /// Its kernel removes no address.
    pub(super) keeps: bool,
    /// Its kernel does not answer: what is on the interface keeps the lifetime it has, and nothing can be added.
    pub(super) kernel_hangs: bool,
    /// The addresses on the interface, and when the kernel drops each.
    pub(super) carries: BTreeMap<IpAddr, Time>,
    pub(super) calls: usize,
    pub(super) writes: usize,
    pub(super) probes: usize,
    /// When it announced the VIP.
    pub(super) announced: Vec<Time>,
    pub(super) reports: Vec<(Time, Report)>,
}

enum Item {
    To(usize, Event),
    Write(usize, u64, Option<String>, Record, Notes, bool),
    Read(usize, u64),
}

/// Hosts, their segment and their API.
#[expect(clippy::struct_excessive_bools, reason = "they are independent faults, not one state")]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) hosts: Vec<Host>,
    pub(super) lease: Option<LeaseView>,
    pub(super) version: u64,
    /// A host that has the VIP, and is no candidate.
    pub(super) stranger: bool,
    /// What that host has beside the VIP, or instead of it.
    pub(super) foreign: Vec<IpAddr>,
    /// The network answers broadcasts for these addresses with these MAC addresses, whoever is there (ARP suppression). An announcement
    /// changes that.
    pub(super) suppressed: Vec<(IpAddr, Mac)>,
    /// Such an answer comes so much later.
    pub(super) suppressed_late: Duration,
    /// Of a thousand frames so many are lost, each way.
    pub(super) loss: u64,
    /// What decides which: never zero.
    pub(super) random: u64,
    /// The foreign host answers before anybody else.
    pub(super) foreign_first: bool,
    /// No host hears another one's neighbour discovery.
    pub(super) without_v6: bool,
    pub(super) gateway: bool,
    /// The gateway answers requests that name a sender for every address: those that went to it at once, broadcasts so much later.
    pub(super) local_proxy: Option<Duration>,
    /// The gateway has the VIP.
    pub(super) gateway_has_vip: bool,
    /// The Lease's namespace exists.
    pub(super) namespace: bool,
    /// Writes are refused, and reads work.
    pub(super) read_only: bool,
    /// API servers that are ready, and on none of the hosts.
    pub(super) external: Vec<IpAddr>,
    /// How long a frame takes.
    pub(super) wire: Duration,
    /// The kernel's timer runs so late.
    pub(super) kernel_late: Duration,
    queue: Queue<Item>,
    owners: Owners,
}

impl World {
    /// So many healthy control planes on one segment, with an API that has no Lease yet.
    pub(super) fn new(count: u8, rules: &Rules) -> Self {
        let mut world = Self {
            now: Time::default() + ms(60_000),
            hosts: vec![],
            lease: None,
            version: 100,
            stranger: false,
            foreign: vec![],
            suppressed: vec![],
            suppressed_late: ms(0),
            loss: 0,
            random: 1,
            foreign_first: false,
            without_v6: false,
            gateway: true,
            local_proxy: None,
            gateway_has_vip: false,
            namespace: true,
            read_only: false,
            external: vec![],
            wire: Duration::from_micros(200),
            kernel_late: ms(1_000),
            queue: Queue::default(),
            owners: Owners::default(),
        };
        for n in 1..=count {
            let name = format!("cp{n}");
            let rules = Rules { node: name.clone(), ..rules.clone() };
            world.hosts.push(Host {
                elector: Elector::new(rules),
                name,
                mac: Mac([2, 0, 0, 0, 0, n]),
                address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
                api: Api::Up,
                delay: ms(2),
                up: true,
                running: true,
                frozen: None,
                group: 0,
                deaf: false,
                unheard_by: vec![],
                asks_in_vain: false,
                verdict: Verdict::Healthy,
                api_servers: vec![],
                ready: true,
                own_probe_fails: false,
                refuses: vec![],
                keeps: false,
                kernel_hangs: false,
                carries: BTreeMap::new(),
                calls: 0,
                writes: 0,
                probes: 0,
                announced: vec![],
                reports: vec![],
            });
        }
        world
    }

    /// A world in which a host holds the VIP, all take part, and nothing happens; and that host.
    pub(super) fn settled(count: u8, rules: &Rules) -> (Self, usize) {
        Self::settled_with(count, rules, |_| vec![])
    }

    /// The same with API servers at these addresses.
    pub(super) fn settled_with(count: u8, rules: &Rules, servers: fn(usize) -> Vec<IpAddr>) -> (Self, usize) {
        let mut world = Self::new(count, rules);
        for n in 0..world.hosts.len() {
            world.hosts[n].api_servers = servers(n);
            world.start(n, &[VIP]);
        }
        world.run(ms(12_000));
        let owners = world.owners();
        assert_eq!(owners.len(), 1, "one holder: {owners:?}");
        assert_eq!(world.holder(), world.hosts[owners[0]].name);
        assert_eq!(world.lease.as_ref().unwrap().notes.participants.len(), usize::from(count));
        (world, owners[0])
    }

    /// The agent of a host is told what the agent is told at start.
    pub(super) fn start(&mut self, n: usize, vips: &[IpAddr]) {
        self.start_without_verdict(n, vips);
        self.tell(n, Event::Health(self.hosts[n].verdict));
    }

    /// The same, but that there is no verdict on its API server yet.
    pub(super) fn start_without_verdict(&mut self, n: usize, vips: &[IpAddr]) {
        let host = &self.hosts[n];
        let node = Node {
            participant: Participant {
                macs: vec![host.mac],
                addresses: vec![host.address],
                api_servers: host.api_servers.clone(),
            },
            macs: vec![host.mac],
            gateways: vec![GATEWAY],
            bare: false,
        };
        self.tell(n, Event::Node(node));
        self.tell(n, Event::Vips(vips.to_vec()));
        self.tell(n, Event::Link { up: true });
    }

    /// An event for a host, now.
    pub(super) fn tell(&mut self, n: usize, event: Event) {
        if let Some(waiting) = &mut self.hosts[n].frozen {
            waiting.push(event);
        } else if self.hosts[n].up && self.hosts[n].running {
            let at = self.moment();
            let actions = self.hosts[n].elector.step(at, event);
            let wake = self.hosts[n].elector.wake();
            assert!(wake.is_none_or(|w| w > self.now), "a wake in the past is a busy loop");
            for action in actions {
                self.act(n, action);
            }
        }
        self.note_owners();
    }

    /// Time passes.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0_u64;
        loop {
            let wakes = self.hosts.iter().filter(|h| h.up && h.running && h.frozen.is_none());
            let wakes = wakes.filter_map(|h| h.elector.wake());
            let fences = self.hosts.iter().flat_map(|h| h.carries.values().copied());
            let queued = self.queue.next();
            let next = wakes.chain(fences).chain(queued).min().unwrap_or(end).max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            self.turn();
            steps += 1;
            assert!(steps < 400 * (10 + time.as_secs()), "the world spins");
            if next == end && queued.is_none_or(|q| q > end) {
                break;
            }
        }
        self.now = end;
    }

    fn turn(&mut self) {
        while let Some(item) = self.queue.take(self.now) {
            match item {
                Item::To(n, event) => self.tell(n, event),
                Item::Write(n, id, base, record, notes, lost) => {
                    self.write(n, id, base.as_deref(), record, notes, lost);
                }
                Item::Read(n, id) => {
                    let result = Ok(self.lease.clone());
                    self.put(self.hosts[n].delay, Item::To(n, Event::Read { id, result }));
                }
            }
        }
        for n in 0..self.hosts.len() {
            let over: Vec<IpAddr> =
                self.hosts[n].carries.iter().filter(|(_, end)| **end <= self.now).map(|(a, _)| *a).collect();
            for address in over {
                self.hosts[n].carries.remove(&address);
                self.tell(n, Event::Gone { address });
            }
            let due = self.hosts[n].elector.wake().is_some_and(|at| at <= self.now);
            if due && self.hosts[n].frozen.is_none() {
                self.tell(n, Event::Tick);
            }
        }
        self.note_owners();
    }

    fn is_lost(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1000 < self.loss
    }

    fn put(&mut self, after: Duration, item: Item) {
        self.queue.put(self.now + after, item);
    }

    fn moment(&self) -> Moment {
        let wall = WallTime(i64::try_from(self.now.as_nanos() / 1_000).unwrap());
        Moment { now: self.now, wall }
    }

    fn note_owners(&mut self) {
        let owners = self.owners();
        self.owners.note(self.now, owners);
    }

    /// How long exactly so many hosts carried the VIP since then.
    pub(super) fn time_with(&self, since: Time, wanted: impl Fn(usize) -> bool) -> Duration {
        self.owners.time_with(since, self.now, wanted)
    }
}

#[path = "effects.rs"]
mod effects;
#[path = "segment.rs"]
mod segment;
