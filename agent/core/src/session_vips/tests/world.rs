//! A small world for session VIPs: sessions and records on one API, a segment, kernels with fences, and what can go wrong with
//! them. Deterministic: the same test runs the same way every time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::core::{Core as _, Interface, Vip};
use crate::event::{Failure, Moment};
use crate::evidence::{Form, Sender};
use crate::mac::Mac;
use crate::placement::{self, Demand};
use crate::rules::Rules;
use crate::session::{AddressView, Declared, Holder, Link, Member, Subnet, View};
use crate::session_vips::{Call, Event, Input, Output, Report, SessionVips};
pub(super) use crate::test_world::{Api, STRANGER, ms};
use crate::test_world::{GATEWAY, Owners, Queue, ROUTER};
use crate::time::{Time, WallTime};

/// The n-th VIP.
pub(super) fn vip(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100 + n))
}

/// The n-th VIP of the second network.
pub(super) fn second_vip(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 100 + n))
}

/// The interfaces, the same on each host.
const FIRST: u32 = 2;
const SECOND: u32 = 3;

/// The interface on whose network an address is.
fn interface_of(address: IpAddr) -> u32 {
    let is_second = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 198);
    if is_second { SECOND } else { FIRST }
}

fn demand_of(address: IpAddr) -> Demand {
    let interface =
        if interface_of(address) == FIRST { placement::Interface::First } else { placement::Interface::Subnet };
    Demand { interface, ..Demand::of(address) }
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent faults, not one state")]
pub(super) struct Host {
    pub(super) session_vips: SessionVips,
    pub(super) name: String,
    pub(super) mac: Mac,
    pub(super) address: IpAddr,
    /// More addresses of its own, and the control plane's VIPs that it has: its kernel answers for them.
    pub(super) own: Vec<IpAddr>,
    pub(super) control_plane: Vec<IpAddr>,
    pub(super) api: Api,
    pub(super) delay: Duration,
    /// How much later than sessions it sees `IPAddress` objects, and which VIPs are wanted.
    pub(super) behind: Duration,
    pub(super) up: bool,
    pub(super) running: bool,
    pub(super) exited: bool,
    pub(super) frozen: Option<Vec<Event>>,
    /// Hosts of one group hear each other; the gateway is in group 0.
    pub(super) group: u8,
    pub(super) deaf: bool,
    /// Its frames are lost; it hears the others.
    pub(super) unheard: bool,
    /// Its requests are lost. What its kernel answers is not.
    pub(super) asks_in_vain: bool,
    /// Its kernel answers no probe: requests and announcements leave, and replies do not.
    pub(super) unanswering: bool,
    /// Its kernel answers for none of these, though it has them.
    pub(super) hushed: Vec<IpAddr>,
    /// After so many questions for its own address one is lost.
    pub(super) loses_own: Option<usize>,
    /// The cable of its first interface is pulled.
    pub(super) pulled: bool,
    pub(super) refuses: Vec<IpAddr>,
    /// The datapath does what it is told, and tells nothing.
    pub(super) mute: bool,
    /// Its kernel removes no address.
    pub(super) keeps: bool,
    /// Its kernel does not answer: what is on the interface keeps the lifetime it has, and nothing can be added.
    pub(super) kernel_hangs: bool,
    /// How long its kernel takes to put an address on the interface.
    pub(super) kernel_takes: Duration,
    pub(super) carries: BTreeMap<IpAddr, Time>,
    pub(super) calls: usize,
    pub(super) probes: usize,
    /// What was asked for, in order.
    pub(super) asked: Vec<IpAddr>,
    /// Those of them that it asked the whole segment for.
    pub(super) broadcast: Vec<IpAddr>,
    pub(super) announced: Vec<(Time, IpAddr)>,
    pub(super) reports: Vec<(Time, Report)>,
    /// The nodes whose Leases it follows by name.
    pub(super) follows: BTreeSet<String>,
    events: usize,
    /// When it listed all sessions.
    pub(super) lists: Vec<Time>,
    /// When it wrote a member object, and whose.
    pub(super) publishes: Vec<(Time, String)>,
    /// The numbers of these calls.
    pub(super) publish_ids: Vec<u64>,
    /// When it tried to end another's session, and whose.
    pub(super) ends: Vec<(Time, String)>,
    /// The answer to the next end that it writes of another's session is lost.
    pub(super) loses_end: bool,
    /// The answers to its writes of records are lost.
    pub(super) loses_records: bool,
}

impl Host {
    fn address_on(&self, interface: u32) -> IpAddr {
        match self.address {
            IpAddr::V4(first) if interface == SECOND => IpAddr::V4(Ipv4Addr::new(198, 51, 100, first.octets()[3])),
            address => address,
        }
    }
}

enum Item {
    To(usize, Event),
    Call(usize, Output, bool),
    Late(usize, Output),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    Open,
    /// No host hears another one; all hear the gateway.
    Isolated,
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent faults, not one state")]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) hosts: Vec<Host>,
    pub(super) sessions: BTreeMap<String, View>,
    pub(super) members: BTreeMap<String, Member>,
    pub(super) addresses: BTreeMap<IpAddr, AddressView>,
    version: u64,
    uid: u64,
    /// How often a record has gone from one node to another.
    pub(super) moves: usize,
    /// A host that has the first VIP, and is no candidate.
    pub(super) stranger: Option<Mac>,
    /// The network answers broadcasts for these addresses with these MAC addresses, whoever is there (ARP suppression). An announcement
    /// changes that.
    pub(super) suppressed: Vec<(IpAddr, Mac)>,
    /// Such an answer comes so much later.
    pub(super) suppressed_late: Duration,
    pub(super) ports: Ports,
    /// Reads of `IPAddress` objects fail at once; other calls are answered.
    pub(super) reads_refused: bool,
    /// All writes fail at once; reads are answered.
    pub(super) read_only: bool,
    /// Nobody may write member objects.
    pub(super) publish_refused: Option<Failure>,
    /// Writes of this node's member object are refused.
    pub(super) publish_refused_for: Option<String>,
    /// The gateway answers nothing.
    pub(super) gateway_is_silent: bool,
    /// Each host has a second interface, on a network of its own.
    pub(super) second_network: bool,
    pub(super) wire: Duration,
    pub(super) kernel_late: Duration,
    queue: Queue<Item>,
    owners: BTreeMap<IpAddr, Owners>,
}

impl World {
    pub(super) fn new(count: u8, rules: &Rules) -> Self {
        let mut world = Self {
            now: Time::default() + ms(60_000),
            hosts: vec![],
            sessions: BTreeMap::new(),
            members: BTreeMap::new(),
            addresses: BTreeMap::new(),
            version: 100,
            uid: 0,
            moves: 0,
            stranger: None,
            suppressed: vec![],
            suppressed_late: ms(0),
            ports: Ports::Open,
            reads_refused: false,
            read_only: false,
            publish_refused: None,
            publish_refused_for: None,
            gateway_is_silent: false,
            second_network: false,
            wire: Duration::from_micros(200),
            kernel_late: ms(1_000),
            queue: Queue::default(),
            owners: BTreeMap::new(),
        };
        for n in 1..=count {
            let name = format!("node{n}");
            world.hosts.push(Host {
                session_vips: SessionVips::new(Rules { node: name.clone(), ..rules.clone() }),
                name,
                mac: Mac([2, 0, 0, 0, 0, n]),
                address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
                own: vec![],
                control_plane: vec![],
                api: Api::Up,
                delay: ms(2),
                behind: ms(0),
                up: true,
                running: true,
                exited: false,
                frozen: None,
                group: 0,
                deaf: false,
                unheard: false,
                asks_in_vain: false,
                unanswering: false,
                hushed: vec![],
                loses_own: None,
                pulled: false,
                refuses: vec![],
                mute: false,
                keeps: false,
                kernel_hangs: false,
                kernel_takes: Duration::ZERO,
                carries: BTreeMap::new(),
                calls: 0,
                probes: 0,
                asked: vec![],
                broadcast: vec![],
                announced: vec![],
                reports: vec![],
                follows: BTreeSet::new(),
                events: 0,
                lists: vec![],
                publishes: vec![],
                publish_ids: vec![],
                ends: vec![],
                loses_end: false,
                loses_records: false,
            });
        }
        world
    }

    /// A world in which each of so many VIPs is carried by one node, and nothing happens.
    pub(super) fn settled(count: u8, vips: u8, rules: &Rules) -> Self {
        let mut world = Self::new(count, rules);
        world.begin(ms(1_000), vips, ms(12_000));
        world.each_is_carried(vips);
        world
    }

    /// A host's own addresses, on each of its networks.
    pub(super) fn own_addresses(&self, n: usize) -> Vec<IpAddr> {
        let indexes = [FIRST, SECOND].into_iter().take(if self.second_network { 2 } else { 1 });
        indexes.map(|index| self.hosts[n].address_on(index)).collect()
    }

    /// All agents start. After a while there are so many VIPs, and they have time to be taken.
    pub(super) fn begin(&mut self, first: Duration, vips: u8, then: Duration) {
        for n in 0..self.hosts.len() {
            self.start(n);
        }
        self.run(first);
        for v in 0..vips {
            self.create(vip(v));
        }
        self.run(then);
    }

    /// Each of so many VIPs is carried by one node.
    pub(super) fn each_is_carried(&self, vips: u8) {
        for v in 0..vips {
            assert_eq!(self.carriers(vip(v)).len(), 1, "{}", vip(v));
        }
    }

    /// An agent starts: it is told of its interface, all `IPAddress` objects and all sessions.
    pub(super) fn start(&mut self, n: usize) {
        self.tell_node(n);
        self.tell(
            n,
            Event::LeftOver(self.hosts[n].carries.keys().map(|a| Vip { address: *a, interface: 2 }).collect()),
        );
        self.follow(n, ms(4));
    }

    /// An agent is told of its interfaces.
    pub(super) fn tell_node(&mut self, n: usize) {
        let host = &self.hosts[n];
        let link = Link {
            name: "eth0".into(),
            altnames: vec![],
            macs: vec![host.mac],
            addresses: std::iter::once(host.address).chain(host.own.iter().copied()).collect(),
            subnets: vec![Subnet::of(host.address, 24)],
            up: !host.pulled,
            unheard: false,
        };
        let mut interfaces = vec![Interface { index: FIRST, link, gateways: vec![GATEWAY] }];
        if self.second_network {
            let address = host.address_on(SECOND);
            let link = Link {
                name: "eth1".into(),
                altnames: vec![],
                macs: vec![host.mac],
                addresses: vec![address],
                subnets: vec![Subnet::of(address, 24)],
                up: true,
                unheard: false,
            };
            interfaces.push(Interface { index: SECOND, link, gateways: vec![] });
        }
        let macs = vec![host.mac];
        self.tell(n, Event::Node { interfaces, macs });
    }

    /// The cable of a host's first interface is pulled.
    pub(super) fn pull(&mut self, n: usize) {
        self.hosts[n].pulled = true;
        self.note_owners();
        self.tell_node(n);
    }

    /// The interface of a host is gone, and all addresses with it; the agent is told.
    pub(super) fn interface_gone(&mut self, n: usize) {
        self.tell(n, Event::Node { interfaces: vec![], macs: vec![] });
        for address in self.hosts[n].carries.keys().copied().collect::<Vec<_>>() {
            self.set_carried(n, address, None);
            self.tell(n, Event::Gone(address));
        }
    }

    fn follow(&mut self, n: usize, after: Duration) {
        let demands = self.addresses.keys().map(|a| demand_of(*a)).collect();
        self.put(after, Item::To(n, Event::Input(Input::Wanted(demands))));
        self.put(after, Item::To(n, Event::Input(Input::Synced)));
        for (address, view) in self.addresses.clone() {
            self.put(after, Item::To(n, Event::Input(Input::Address { listed: false, address, view: Some(view) })));
        }
        let views = self.sessions.values().filter(|view| !view.published).cloned().collect();
        self.put(after, Item::To(n, Event::Input(Input::Sessions { id: None, result: Ok(views) })));
        let members = self.members.values().cloned().collect();
        self.put(after, Item::To(n, Event::Input(Input::Members(members))));
        for node in self.hosts[n].follows.clone() {
            self.show_followed(n, node, after);
        }
    }

    /// A watch of a Lease begins.
    fn show_followed(&mut self, n: usize, node: String, after: Duration) {
        let view = self.sessions.get(&node).cloned();
        self.put(after, Item::To(n, Event::Input(Input::Followed { node, view })));
    }

    /// Everybody who can sees what happens to a Lease: if it has a member object, those that follow it.
    fn show_session(&mut self, node: &str, published: bool, input: &Input) {
        for n in 0..self.hosts.len() {
            let host = &self.hosts[n];
            if host.api == Api::Up && (!published || host.follows.contains(node)) {
                self.put(host.delay, Item::To(n, Event::Input(input.clone())));
            }
        }
    }

    /// Changes a member object: every watch shows it.
    pub(super) fn store_member(&mut self, copy: View) -> Member {
        self.version += 1;
        let member = Member { version: self.version.to_string(), copy };
        self.members.insert(member.copy.node.clone(), member.clone());
        for n in (0..self.hosts.len()).filter(|n| self.hosts[*n].api == Api::Up).collect::<Vec<_>>() {
            self.put(self.hosts[n].delay, Item::To(n, Event::Input(Input::Member(member.clone()))));
        }
        member
    }

    /// Somebody makes an `IPAddress`.
    pub(super) fn create(&mut self, address: IpAddr) {
        self.version += 1;
        self.uid += 1;
        let view =
            AddressView { uid: self.uid.to_string(), version: self.version.to_string(), holder: None, by_lease: false };
        self.demand(&demand_of(address));
        self.show_address(address, Some(&view));
    }

    pub(super) fn demand(&mut self, demand: &Demand) {
        for n in 0..self.hosts.len() {
            self.put(self.sees_after(n), Item::To(n, Event::Input(Input::Wanted(vec![demand.clone()]))));
        }
    }

    fn show_address(&mut self, address: IpAddr, view: Option<&AddressView>) {
        match view {
            Some(view) => self.addresses.insert(address, view.clone()),
            None => self.addresses.remove(&address),
        };
        for n in 0..self.hosts.len() {
            if self.hosts[n].api == Api::Up {
                self.put(
                    self.sees_after(n),
                    Item::To(n, Event::Input(Input::Address { listed: false, address, view: view.cloned() })),
                );
            }
        }
    }

    /// An event for a host, now.
    pub(super) fn tell(&mut self, n: usize, event: Event) {
        if let Some(waiting) = &mut self.hosts[n].frozen {
            waiting.push(event);
        } else if self.hosts[n].up && self.hosts[n].running {
            let wall = WallTime(i64::try_from(self.now.as_nanos() / 1_000).unwrap());
            self.hosts[n].events += 1;
            let actions = self.hosts[n].session_vips.step(Moment { now: self.now, wall }, event);
            let wake = self.hosts[n].session_vips.wake();
            assert!(wake.is_none_or(|w| w > self.now), "a wake in the past is a busy loop");
            for action in actions {
                match self.hosts[n].kernel_takes {
                    takes if matches!(action, Output::Ensure { .. }) && !takes.is_zero() => {
                        self.put(takes, Item::Late(n, action));
                    }
                    _ => self.act(n, action),
                }
            }
        }
    }

    /// Time passes.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0_u64;
        loop {
            let wakes = self.hosts.iter().filter(|h| h.up && h.running && h.frozen.is_none());
            let wakes = wakes.filter_map(|h| h.session_vips.wake());
            let fences = self.hosts.iter().flat_map(|h| h.carries.values().copied());
            let queued = self.queue.next();
            let next = wakes.chain(fences).chain(queued).min().unwrap_or(end).max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            self.turn();
            steps += 1;
            assert!(steps < 2_000 * (10 + time.as_secs()), "the world spins");
        }
        self.now = end;
    }

    fn turn(&mut self) {
        while let Some(item) = self.queue.take(self.now) {
            match item {
                Item::To(n, Event::Input(Input::WroteSession { result: Ok(view), .. }))
                    if self.hosts[n].loses_end && view.node != self.hosts[n].name && !view.is_live() =>
                {
                    self.hosts[n].loses_end = false;
                }
                Item::To(n, Event::Input(Input::WroteHolder { result: Ok(_), .. })) if self.hosts[n].loses_records => {}
                Item::To(n, event) => self.tell(n, event),
                Item::Call(n, action, lost) => self.answer(n, action, lost),
                Item::Late(n, action) => self.act(n, action),
            }
        }
        for n in 0..self.hosts.len() {
            let over: Vec<IpAddr> =
                self.hosts[n].carries.iter().filter(|(_, end)| **end <= self.now).map(|(a, _)| *a).collect();
            for address in over {
                self.set_carried(n, address, None);
                if !self.hosts[n].mute {
                    self.tell(n, Event::Gone(address));
                }
            }
            if self.hosts[n].frozen.is_none() && self.hosts[n].session_vips.wake().is_some_and(|at| at <= self.now) {
                self.tell(n, Event::Tick);
            }
        }
    }

    fn put(&mut self, after: Duration, item: Item) {
        self.queue.put(self.now + after, item);
    }

    fn act(&mut self, n: usize, action: Output) {
        match action {
            Output::Report(report) => self.hosts[n].reports.push((self.now, report)),
            Output::Exit => (self.hosts[n].running, self.hosts[n].exited) = (false, true),
            Output::Remove(_) if self.hosts[n].keeps => {}
            Output::Remove(addresses) => {
                for address in &addresses {
                    self.set_carried(n, *address, None);
                }
                if !self.hosts[n].mute {
                    self.put(ms(0), Item::To(n, Event::Removed(addresses)));
                }
            }
            Output::Ensure { vips, deadline } => {
                let left = deadline.since(self.now).saturating_sub(ms(1_500)).as_secs();
                let (mut there, mut unchanged) = (vec![], vec![]);
                for Vip { address, .. } in vips {
                    let hangs = self.hosts[n].kernel_hangs;
                    if hangs && self.hosts[n].carries.contains_key(&address) {
                        unchanged.push(address);
                    } else if hangs || self.hosts[n].refuses.contains(&address) || left == 0 {
                        self.set_carried(n, address, None);
                        self.put(ms(0), Item::To(n, Event::EnsureFailed { address, reason: "refused".into() }));
                    } else {
                        self.set_carried(n, address, Some(self.now + Duration::from_secs(left) + self.kernel_late));
                        there.push(address);
                    }
                }
                if !self.hosts[n].mute {
                    self.put(ms(0), Item::To(n, Event::Ensured(there)));
                }
                if !unchanged.is_empty() {
                    self.put(ms(0), Item::To(n, Event::NotRefreshed(unchanged)));
                }
            }
            Output::Announce(vips) => {
                for Vip { address, .. } in vips {
                    self.hosts[n].announced.push((self.now, address));
                    let has = self.hosts[n].carries.contains_key(&address);
                    let mac = self.hosts[n].mac;
                    let known = self.suppressed.iter_mut().filter(|(of, _)| has && *of == address);
                    known.for_each(|(_, known)| *known = mac);
                    for m in (0..self.hosts.len()).filter(|m| has && *m != n) {
                        self.frame(n, m, address);
                    }
                }
            }
            Output::Probe(asks) => {
                self.hosts[n].probes += asks.len();
                self.hosts[n].asked.extend(asks.iter().map(|ask| ask.address));
                self.hosts[n].broadcast.extend(asks.iter().filter(|ask| ask.to.is_none()).map(|ask| ask.address));
                for ask in asks {
                    self.probe(n, ask.address, ask.to, ask.sender);
                }
            }
            Output::Call(Call::Follow { nodes }) => {
                let before = std::mem::replace(&mut self.hosts[n].follows, nodes.clone());
                for node in
                    nodes.difference(&before).filter(|_| self.hosts[n].api == Api::Up).cloned().collect::<Vec<_>>()
                {
                    self.show_followed(n, node, self.hosts[n].delay * 2);
                }
            }
            call @ Output::Call(_) => {
                self.hosts[n].calls += 1;
                match &call {
                    Output::Call(Call::ReadSessions { .. }) => self.hosts[n].lists.push(self.now),
                    Output::Call(Call::Publish { id, copy, .. }) => {
                        self.hosts[n].publish_ids.push(*id);
                        self.hosts[n].publishes.push((self.now, copy.node.clone()));
                    }
                    Output::Call(Call::WriteSession { end: Some(_), node, .. }) if *node != self.hosts[n].name => {
                        self.hosts[n].ends.push((self.now, node.clone()));
                    }
                    _ => {}
                }
                let (failed, within) = failed(&call);
                let writes = !matches!(&call, Output::Call(Call::ReadSessions { .. } | Call::ReadAddresses { .. }));
                match self.hosts[n].api {
                    Api::Up if self.read_only && writes => self.put(self.hosts[n].delay, Item::To(n, failed)),
                    Api::Up => self.put(self.hosts[n].delay, Item::Call(n, call, false)),
                    Api::Lossy => self.put(self.hosts[n].delay, Item::Call(n, call, true)),
                    Api::Refused => self.put(ms(1), Item::To(n, failed)),
                    Api::Hanging => self.put(within, Item::To(n, failed)),
                }
            }
        }
    }

    fn hears(&self, from: usize, to: usize, interface: u32) -> bool {
        let (a, b) = (&self.hosts[from], &self.hosts[to]);
        let passes = interface != FIRST || !a.pulled && !b.pulled;
        passes && self.ports == Ports::Open && a.group == b.group && !a.deaf && !b.deaf && a.up && !a.unheard
    }

    /// What a host says unasked of an address that it has.
    pub(super) fn frame(&mut self, from: usize, to: usize, address: IpAddr) {
        let interface = interface_of(address);
        if self.hears(from, to, interface) {
            let mac = self.hosts[from].mac;
            self.put(self.wire, Item::To(to, Event::Heard { interface, address, mac, form: Form::Claim }));
        }
    }

    fn probe(&mut self, n: usize, address: IpAddr, to: Option<Mac>, sender: Sender) {
        if let Some(asked) = self.hosts.iter_mut().find(|host| host.address == address) {
            let before = asked.loses_own;
            asked.loses_own = before.and_then(|more| more.checked_sub(1));
            if before == Some(0) {
                return;
            }
        }
        let asker = &self.hosts[n];
        let interface = interface_of(address);
        if asker.deaf || asker.unheard || asker.asks_in_vain || interface == FIRST && asker.pulled {
            return;
        }
        let others = self.hosts.iter().enumerate().filter(|(m, _)| *m != n && self.hears(*m, n, interface));
        let has = others.filter(|(_, h)| {
            let own = h.own.iter().chain(&h.control_plane).any(|own| *own == address);
            !h.unanswering
                && !h.hushed.contains(&address)
                && (own || h.address_on(interface) == address || h.carries.contains_key(&address))
        });
        let mut answers: Vec<Mac> = has.map(|(_, h)| h.mac).collect();
        let is_gateway = address == GATEWAY && !self.gateway_is_silent;
        answers.extend((is_gateway && asker.group == 0).then_some(ROUTER));
        answers.extend(self.stranger.filter(|_| address == vip(0) && asker.group == 0));
        let mut late = ms(0);
        if let Some((_, mac)) =
            self.suppressed.iter().find(|(of, mac)| *of == address && to.is_none() && *mac != asker.mac)
        {
            answers = vec![*mac];
            late = self.suppressed_late;
        }
        for mac in answers.into_iter().filter(|mac| to.is_none_or(|to| to == *mac)) {
            self.put(
                self.wire * 2 + late,
                Item::To(n, Event::Heard { interface, address, mac, form: Form::Answer(sender) }),
            );
        }
    }

    fn answer(&mut self, n: usize, call: Output, lost: bool) {
        let conflict = Err(Failure::Conflict);
        let (failed, _) = failed(&call);
        let lost = lost || self.reads_refused && matches!(call, Output::Call(Call::ReadAddresses { .. }));
        let answer = match call {
            Output::Call(Call::ReadSessions { id, .. }) => {
                Event::Input(Input::Sessions { id: Some(id), result: Ok(self.sessions.values().cloned().collect()) })
            }
            Output::Call(Call::ReadAddresses { id, addresses, .. }) => {
                let all = addresses.into_iter().map(|a| (a, self.addresses.get(&a).cloned()));
                Event::Input(Input::Addresses { id, result: Ok(all.collect()) })
            }
            Output::Call(Call::WriteSession { id, node, base, record, declared, end, .. }) => {
                let known = self.sessions.get(&node);
                let result = if known.map(|v| v.version.as_str()) == base.as_deref() {
                    let uid = known.map(|v| v.uid.clone());
                    Ok(self.store(node, uid, record, declared, end))
                } else {
                    conflict.clone()
                };
                Event::Input(Input::WroteSession { id, result })
            }
            Output::Call(Call::Publish { id, copy, .. }) if self.publish_refused_for.as_ref() == Some(&copy.node) => {
                Event::Input(Input::Published { id, result: Err(Failure::Refused) })
            }
            Output::Call(Call::Publish { id, .. }) if self.publish_refused.is_some() => {
                Event::Input(Input::Published { id, result: Err(self.publish_refused.unwrap_or(Failure::Refused)) })
            }
            Output::Call(Call::Publish { id, base, copy, .. }) => {
                let known = self.members.get(&copy.node);
                let same = known.map(|member| member.version.as_str()) == base.as_deref();
                let result = if same { Some(self.store_member(copy)) } else { known.cloned() };
                Event::Input(Input::Published { id, result: Ok(result) })
            }
            Output::Call(Call::WriteHolder { id, address, base, holder, .. }) => {
                let result = match self.addresses.get(&address) {
                    Some(known) if known.version == base => Ok(self.store_holder(address, holder)),
                    _ => Err(Failure::Conflict),
                };
                Event::Input(Input::WroteHolder { id, result })
            }
            _ => return,
        };
        self.put(self.hosts[n].delay, Item::To(n, if lost { failed } else { answer }));
    }

    /// Changes a session's Lease on the API server: every watch shows it.
    pub(super) fn store(
        &mut self,
        node: String,
        uid: Option<String>,
        record: crate::lease::Record,
        declared: Option<Declared>,
        end: Option<crate::session::End>,
    ) -> View {
        self.version += 1;
        self.uid += 1;
        let uid = uid.unwrap_or_else(|| self.uid.to_string());
        let view =
            View { node: node.clone(), uid, version: self.version.to_string(), record, declared, end, published: true };
        self.sessions.insert(node, view.clone());
        self.show_session(&view.node, view.published, &Input::Session(view.clone()));
        view
    }

    pub(super) fn store_holder(&mut self, address: IpAddr, holder: Option<Holder>) -> AddressView {
        self.version += 1;
        let node = |holder: &Holder| holder.node.clone();
        let known = self.addresses.get(&address).and_then(|known| known.holder.as_ref()).map(node);
        self.moves += usize::from(known.is_some() && known != holder.as_ref().map(node));
        let uid = self.addresses.get(&address).map(|v| v.uid.clone()).unwrap_or_default();
        let view = AddressView { uid, version: self.version.to_string(), holder, by_lease: false };
        self.show_address(address, Some(&view));
        view
    }

    /// An agent that places VIPs by Leases writes its Lease into the record.
    pub(super) fn store_by_lease(&mut self, address: IpAddr) {
        let view = AddressView { by_lease: true, ..self.store_holder(address, None) };
        self.show_address(address, Some(&view));
    }

    /// Somebody deletes an `IPAddress`.
    pub(super) fn delete(&mut self, address: IpAddr) {
        self.show_address(address, None);
        for n in 0..self.hosts.len() {
            self.put(self.sees_after(n), Item::To(n, Event::Input(Input::Unwanted(address))));
        }
    }

    /// How long after a change of an `IPAddress` a host is told.
    fn sees_after(&self, n: usize) -> Duration {
        self.hosts[n].delay + self.hosts[n].behind
    }

    /// Somebody deletes a session's Lease.
    pub(super) fn delete_session(&mut self, node: &str) {
        let published = self.sessions.remove(node).is_some_and(|view| view.published);
        self.show_session(node, published, &Input::SessionDeleted(node.into()));
    }

    /// Somebody deletes a member object.
    pub(super) fn delete_member(&mut self, node: &str) {
        self.members.remove(node);
        for n in (0..self.hosts.len()).filter(|n| self.hosts[*n].api == Api::Up).collect::<Vec<_>>() {
            self.put(self.hosts[n].delay, Item::To(n, Event::Input(Input::MemberDeleted(node.into()))));
        }
    }

    fn set_carried(&mut self, n: usize, address: IpAddr, until: Option<Time>) {
        match until {
            Some(until) => self.hosts[n].carries.insert(address, until),
            None => self.hosts[n].carries.remove(&address),
        };
        let owners = self.carriers(address);
        self.owners.entry(address).or_default().note(self.now, owners);
    }

    fn note_owners(&mut self) {
        for address in self.owners.keys().copied().collect::<Vec<_>>() {
            let owners = self.carriers(address);
            self.owners.entry(address).or_default().note(self.now, owners);
        }
    }

    pub(super) fn carriers(&self, address: IpAddr) -> Vec<usize> {
        let is_pulled = |host: &Host| host.pulled && interface_of(address) == FIRST;
        let has = |host: &Host| host.up && !is_pulled(host) && host.carries.contains_key(&address);
        (0..self.hosts.len()).filter(|n| has(&self.hosts[*n])).collect()
    }

    /// How long exactly so many hosts carried a VIP since then.
    pub(super) fn time_with(&self, address: IpAddr, since: Time, wanted: impl Fn(usize) -> bool) -> Duration {
        let Some(owners) = self.owners.get(&address) else { return self.now.since(since) };
        owners.time_with(since, self.now, wanted)
    }

    /// The same, of the VIP for which it was longest.
    pub(super) fn worst(&self, vips: u8, since: Time, wanted: impl Fn(usize) -> bool) -> Duration {
        (0..vips).map(|v| self.time_with(vip(v), since, &wanted)).max().unwrap_or_default()
    }

    pub(super) fn reported(&self, n: usize, wanted: impl Fn(&Report) -> bool) -> usize {
        self.hosts[n].reports.iter().filter(|(_, r)| wanted(r)).count()
    }

    /// The node crashes: kernel and agent are gone at once.
    pub(super) fn crash(&mut self, n: usize) {
        self.hosts[n].up = false;
        for address in self.hosts[n].carries.keys().copied().collect::<Vec<_>>() {
            self.set_carried(n, address, None);
        }
    }

    /// A new agent starts on the host, and finds what the kernel still has.
    pub(super) fn restart(&mut self, n: usize, rules: &Rules) {
        let node = self.hosts[n].name.clone();
        self.hosts[n].session_vips = SessionVips::new(Rules { node, ..rules.clone() });
        self.hosts[n].follows.clear();
        (self.hosts[n].running, self.hosts[n].up, self.hosts[n].exited) = (true, true, false);
        self.start(n);
    }

    pub(super) fn freeze(&mut self, n: usize) {
        self.hosts[n].frozen = Some(vec![]);
    }

    pub(super) fn thaw(&mut self, n: usize) {
        let waiting = self.hosts[n].frozen.take().unwrap_or_default();
        self.tell(n, Event::Tick);
        for event in waiting {
            self.tell(n, event);
        }
    }

    pub(super) fn set_api(&mut self, n: usize, api: Api) {
        let was = std::mem::replace(&mut self.hosts[n].api, api);
        if api == Api::Up && was != Api::Up {
            self.follow(n, ms(700 + 50 * n as u64));
        } else if api == Api::Refused {
            self.put(ms(1), Item::To(n, Event::Input(Input::WatchLost)));
        }
    }

    pub(super) fn set_api_everywhere(&mut self, api: Api) {
        for n in 0..self.hosts.len() {
            self.set_api(n, api);
        }
    }

    /// How often all sessions were listed.
    pub(super) fn lists(&self) -> usize {
        self.hosts.iter().map(|host| host.lists.len()).sum()
    }

    pub(super) fn calls(&self) -> usize {
        self.hosts.iter().map(|h| h.calls).sum()
    }

    pub(super) fn events(&self) -> usize {
        self.hosts.iter().map(|h| h.events).sum()
    }
}

/// The event by which a call has failed, and when it comes at the latest.
fn failed(call: &Output) -> (Event, Duration) {
    match call {
        Output::Call(Call::ReadSessions { id, within }) => {
            (Event::Input(Input::Sessions { id: Some(*id), result: Err(Failure::Away) }), *within)
        }
        Output::Call(Call::ReadAddresses { id, within, .. }) => {
            (Event::Input(Input::Addresses { id: *id, result: Err(Failure::Away) }), *within)
        }
        Output::Call(Call::WriteSession { id, within, .. }) => {
            (Event::Input(Input::WroteSession { id: *id, result: Err(Failure::Away) }), *within)
        }
        Output::Call(Call::Publish { id, within, .. }) => {
            (Event::Input(Input::Published { id: *id, result: Err(Failure::Away) }), *within)
        }
        Output::Call(Call::WriteHolder { id, within, .. }) => {
            (Event::Input(Input::WroteHolder { id: *id, result: Err(Failure::Away) }), *within)
        }
        _ => (Event::Tick, Duration::ZERO),
    }
}
