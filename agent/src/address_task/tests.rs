//! The address task against a model of the kernel that fails, loses events, and reports without end.

mod first_interface;
mod ports;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::kernel::Kernel;
use super::task::Task;
use super::{AddressTask, Job, LetGo, Needs, Notice, Policy};
use crate::core::Vip as Placed;
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Found, Interface, KernelEvent, Kind, Put, PutAll, RemoveAll, Vip};
use crate::ops::Ops;
use crate::settings::Prefix;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 10));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 20));
const ETH0: u32 = 2;
const ETH1: u32 = 3;
/// The agent counts as dead after this long without a heartbeat.
const STUCK: Duration = Duration::from_secs(15);
/// In the tests' time, which passes at once when nothing else is to do.
const LONG: Duration = Duration::from_mins(10);

thread_local! {
    static START: tokio::time::Instant = tokio::time::Instant::now();
}

/// The tests' time.
fn clock() -> Time {
    Time::default() + START.with(tokio::time::Instant::elapsed)
}

/// Two interfaces, and the addresses of ours on them. While `fails` is true no request is answered; while `keeps` is true no
/// removal succeeds.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
#[derive(Debug, Default)]
struct State {
    up: bool,
    fails: bool,
    keeps: bool,
    /// Requests to put VIPs there are not answered.
    puts_fail: bool,
    /// Another program has put the VIPs on another interface.
    stranger: bool,
    /// The deadlines of those that were.
    deadlines: Vec<Time>,
    ours: BTreeSet<(IpAddr, u32)>,
    /// How often all interfaces were read.
    looks: usize,
    /// How often a removal was asked for.
    removals: usize,
    /// The interface of the default route.
    route: Option<u32>,
    /// The first interface does not exist any more.
    lost: bool,
    /// What the first interface is a port of.
    port_of: Option<String>,
    /// What stands before the first interface's own addresses.
    before_own: Vec<IpAddr>,
    /// Pods have interfaces on this node.
    pods: bool,
    /// Addresses are not read.
    hides: bool,
}

impl State {
    fn first(&self) -> Interface {
        Interface { port_of: self.port_of.clone(), before_own: self.before_own.clone(), ..interface(ETH0, self.up) }
    }

    fn remove(&mut self, which: impl Fn(IpAddr, u32) -> bool) -> RemoveAll {
        self.removals += 1;
        let (gone, stays): (BTreeSet<_>, _) = self.ours.iter().partition(|(address, index)| which(*address, *index));
        if self.keeps {
            let error = || Error::Deadline { what: "remove".into(), deadline: Duration::from_secs(1) };
            return RemoveAll {
                removed: vec![],
                failed: gone.iter().map(|(address, _)| (*address, error())).collect(),
            };
        }
        self.ours = stays;
        RemoveAll { removed: gone.into_iter().map(|(address, _)| address).collect(), failed: vec![] }
    }
}

fn interface(index: u32, up: bool) -> Interface {
    Interface {
        index,
        name: format!("eth{}", index - ETH0),
        altnames: vec![],
        mac: Mac([2, 0, 0, 0, 0, u8::try_from(index).unwrap()]),
        ports: vec![],
        port_of: None,
        up,
        addresses: vec![format!("192.0.{index}.1/24").parse().unwrap()],
        before_own: vec![],
        link_local: None,
        gateways: vec![],
    }
}

#[derive(Clone, Debug)]
struct Model(Rc<RefCell<State>>);

impl Model {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.borrow_mut());
    }

    fn ask<T>(&self, answer: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let mut state = self.0.borrow_mut();
        if state.fails {
            return Err(Error::Deadline { what: "ask".into(), deadline: Duration::from_secs(1) });
        }
        Ok(answer(&mut state))
    }
}

impl Kernel for Model {
    fn watch_addresses(&self, _: impl IntoIterator<Item = IpAddr>) {}

    fn current_name(&self, index: u32) -> Option<String> {
        Some(format!("eth{}", index - ETH0))
    }

    async fn interface(&self, name: &str) -> Result<Interface, Error> {
        self.ask(|state| if name == "eth0" { state.first() } else { interface(ETH1, true) })
    }

    async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        self.ask(|state| {
            state.looks += 1;
            let first = (!state.lost).then(|| state.first());
            let pods = state.pods.then(|| Interface { addresses: vec![], ..interface(ETH1 + 1, true) });
            first.into_iter().chain([interface(ETH1, true)]).chain(pods).collect()
        })
    }

    async fn default_interface(&self, _: bool) -> Result<u32, Error> {
        self.ask(|state| state.route)?.ok_or(Error::NoDefaultRoute)
    }

    async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        self.ask(|_| vec![interface(ETH0, true).mac, interface(ETH1, true).mac])
    }

    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error> {
        if self.0.borrow().hides {
            return Err(Error::Deadline { what: "list addresses".into(), deadline: Duration::from_secs(1) });
        }
        self.ask(|state| state.ours.iter().map(|(vip, index)| (Vip::host(*vip), *index)).collect())
    }

    async fn find(&self, address: IpAddr) -> Result<Vec<Found>, Error> {
        let found = |index: u32| Found {
            index,
            interface: format!("eth{}", index - ETH0),
            prefix: 32,
            kind: Kind::Ours { left: Duration::from_secs(5) },
        };
        self.ask(|state| state.ours.iter().filter(|(vip, _)| *vip == address).map(|(_, index)| found(*index)).collect())
    }

    async fn put_all(&mut self, vips: &[(Vip, u32)], deadline: Time) -> PutAll {
        if self.0.borrow().puts_fail {
            let error = || Error::Deadline { what: "put".into(), deadline: Duration::from_secs(1) };
            let unchanged = vips.iter().map(|(vip, _)| (vip.address, error())).collect();
            return PutAll { unchanged, ..PutAll::default() };
        }
        if self.0.borrow().stranger {
            let (interface, look) = ("lo".to_owned(), "permanent".to_owned());
            let error = |address| Error::Stranger { address, interface: interface.clone(), look: look.clone() };
            let failed = vips.iter().map(|(vip, _)| (vip.address, error(vip.address))).collect();
            return PutAll { failed, ..PutAll::default() };
        }
        self.set(|state| {
            state.ours.extend(vips.iter().map(|(vip, index)| (vip.address, *index)));
            state.deadlines.push(deadline);
        });
        PutAll { there: vips.iter().map(|placed| (*placed, Put::Added)).collect(), ..PutAll::default() }
    }

    async fn remove_many(&mut self, addresses: &[IpAddr]) -> RemoveAll {
        self.0.borrow_mut().remove(|address, _| addresses.contains(&address))
    }

    async fn remove_at(&mut self, places: &[(Vip, u32)]) -> RemoveAll {
        let is_one = |address, index| places.iter().any(|(vip, at)| (vip.address, *at) == (address, index));
        self.0.borrow_mut().remove(is_one)
    }

    async fn remove_kube_vip(&mut self, _: IpAddr) -> Result<(), Error> {
        Ok(())
    }
}

/// The other ends of a task.
struct Ends {
    model: Model,
    jobs: mpsc::UnboundedSender<Job>,
    task: AddressTask,
    events: mpsc::Sender<KernelEvent>,
    notices: mpsc::Receiver<Notice>,
    ops: Arc<Ops>,
}

impl Ends {
    async fn notice(&mut self) -> Notice {
        tokio::time::timeout(LONG, self.notices.recv()).await.expect("nothing was told").unwrap()
    }

    async fn put(&mut self, vip: IpAddr) {
        let vips = vec![Placed { address: vip, interface: ETH0 }];
        self.task.ensure(vips, clock() + LONG);
        while !matches!(self.notice().await, Notice::Ensured(_)) {}
    }

    fn ours(&self) -> Vec<(IpAddr, u32)> {
        self.model.0.borrow().ours.iter().copied().collect()
    }

    async fn event(&self, event: KernelEvent) {
        self.events.send(event).await.unwrap();
    }

    /// The next report of interfaces.
    async fn interfaces(&mut self) -> Vec<Interface> {
        loop {
            if let Notice::Interfaces(found, _) = self.notice().await {
                return found;
            }
        }
    }
}

/// Runs a test beside a task that has found its interface.
async fn beside(policy: Policy, test: impl AsyncFnOnce(Ends)) {
    let needs = Needs { first: Some("eth0".into()), ..Needs::default() };
    beside_with(policy, needs, BTreeSet::new(), test).await;
}

/// The same with these needs, and what an earlier run left.
async fn beside_with(policy: Policy, needs: Needs, ours: BTreeSet<(IpAddr, u32)>, test: impl AsyncFnOnce(Ends)) {
    let state = State { up: true, route: Some(ETH0), ours, ..State::default() };
    run_with(policy, needs, state, async |mut ends: Ends| {
        assert!(ends.interfaces().await[0].up);
        test(ends).await;
    })
    .await;
}

/// Runs a test beside a task that has just begun.
async fn run_with(policy: Policy, needs: Needs, state: State, test: impl AsyncFnOnce(Ends)) {
    let model = Model(Rc::new(RefCell::new(state)));
    let (jobs, work) = mpsc::unbounded_channel();
    let (notice, notices) = mpsc::channel(256);
    let (events, kernel) = mpsc::channel(256);
    let ops = Ops::new(clock, "n1");
    let heart = ops.liveness.watch("datapath", STUCK);
    let let_go = LetGo::default();
    let task = Task::new(model.clone(), policy, needs, let_go.clone(), notice, ops.clone(), heart);
    let front = AddressTask { jobs: jobs.clone(), let_go };
    let ends = Ends { model, jobs, task: front, events, notices, ops };
    tokio::select! {
        () = task.run(work, kernel) => panic!("the task has ended"),
        () = test(ends) => {}
    }
}

const POLICIES: [Policy; 2] = [Policy::ControlPlane(Prefix { v4: 32, v6: 128 }), Policy::Services];

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_after_lost_events_is_made_again() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            let vip = Placed { address: VIP, interface: ETH0 };
            ends.task.ensure(vec![vip], clock() + LONG);
            assert!(matches!(ends.notice().await, Notice::Ensured(_)));
            // The events of the link and of the VIP are lost, and the kernel does not answer at first.
            ends.model.set(|state| *state = State { up: false, fails: true, ..State::default() });
            ends.event(KernelEvent::Resync).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            ends.model.set(|state| state.fails = false);
            let (mut down, mut gone) = (false, false);
            while !down || !gone {
                match ends.notice().await {
                    Notice::Interfaces(found, _) => down |= !found[0].up,
                    Notice::Gone(address) => gone |= address == VIP,
                    _ => {}
                }
            }
            let waits = ends.ops.readiness.waits();
            assert!(waits.iter().all(|text| !text.contains("no answer from the kernel")), "{waits:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_heart_beats_however_many_events_there_are() {
    for policy in POLICIES {
        beside(policy, async |ends: Ends| {
            // Interfaces of pods come and go, and there is always another event.
            let event = |n: u32| KernelEvent::Link { index: 100 + n, name: format!("veth{n}"), up: true, mac: None };
            let (mut n, start) = (0, clock());
            while clock().since(start) < 4 * STUCK {
                while ends.events.try_send(event(n)).is_ok() {
                    n += 1;
                }
                tokio::time::advance(Duration::from_millis(100)).await;
                assert_eq!(ends.ops.liveness.stale(), [], "after {n} events");
            }
            assert!(n > 10_000, "{n} events");
        })
        .await;
    }
}

/// VIPs that name no interface go to the interface of the default route; `eth1` is needed for another VIP.
async fn beside_by_route(policy: Policy, test: impl AsyncFnOnce(Ends)) {
    let needs = Needs { named: BTreeSet::from(["eth0".into(), "eth1".into()]), ..Needs::default() };
    beside_with(policy, needs, BTreeSet::new(), test).await;
}

#[tokio::test(start_paused = true)]
async fn a_default_route_that_is_away_for_a_moment_moves_no_vips() {
    for policy in POLICIES {
        beside_by_route(policy, async |mut ends: Ends| {
            // A network manager sets the interface up anew: first no route, then the other interface's, then a new one.
            for route in [None, Some(ETH1), None, Some(ETH1), Some(ETH0)] {
                ends.model.set(|state| state.route = route);
                // Netlink events are lost meanwhile.
                ends.event(KernelEvent::Resync).await;
                ends.event(KernelEvent::NodeAddress { index: ETH0 }).await;
                tokio::time::sleep(Duration::from_secs(4)).await;
                while let Ok(notice) = ends.notices.try_recv() {
                    let Notice::Interfaces(found, _) = notice else { continue };
                    assert_eq!(found[0].index, ETH0, "the default route is {route:?}");
                }
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_route_that_stays_on_another_interface_takes_vips_along() {
    for policy in POLICIES {
        beside_by_route(policy, async |mut ends: Ends| {
            ends.model.set(|state| state.route = Some(ETH1));
            // The agent may have started before the route of the right interface was there: its address tells.
            ends.event(KernelEvent::NodeAddress { index: ETH1 }).await;
            loop {
                if ends.interfaces().await[0].index == ETH1 {
                    break;
                }
            }
        })
        .await;
    }
}

/// A network manager flushes the interface: the VIP is back before the node's own address.
#[tokio::test(start_paused = true)]
async fn a_vip_is_put_behind_the_interface_s_own_addresses() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            ends.put(VIP).await;
            ends.model.set(|state| {
                state.before_own = vec![OTHER, VIP];
                state.deadlines.clear();
            });
            ends.event(KernelEvent::NodeAddress { index: ETH0 }).await;
            while ends.model.0.borrow().deadlines.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            ends.model.set(|state| state.before_own.clear());
            ends.event(KernelEvent::AddressGone { address: VIP, index: ETH0 }).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let told = std::iter::from_fn(|| ends.notices.try_recv().ok());
            assert_eq!(told.filter(|notice| matches!(notice, Notice::Gone(_))).count(), 0, "nobody removed it");
            assert_eq!(ends.ours(), [(VIP, ETH0)]);
            ends.event(KernelEvent::AddressGone { address: VIP, index: ETH0 }).await;
            while !matches!(ends.notice().await, Notice::Gone(VIP)) {}
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vip_that_cannot_be_put_behind_is_told_as_gone() {
    beside(Policy::Services, async |mut ends: Ends| {
        ends.put(VIP).await;
        ends.model.set(|state| (state.before_own, state.puts_fail) = (vec![VIP], true));
        ends.event(KernelEvent::NodeAddress { index: ETH0 }).await;
        while !matches!(ends.notice().await, Notice::Gone(VIP)) {}
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_is_told_once_and_tried_again_until_the_vip_is_gone() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            ends.put(VIP).await;
            ends.model.set(|state| state.keeps = true);
            ends.task.remove(vec![VIP, OTHER]);
            let Notice::Removed(gone) = ends.notice().await else { panic!("of the one that is not there") };
            assert_eq!(ends.task.confirmed(gone), [OTHER]);
            let Notice::RemoveFailed { address: VIP, reason } = ends.notice().await else { panic!("not told") };
            assert!(reason.contains("no answer from the kernel"), "{reason}");
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(ends.notices.try_recv().is_err(), "it is told once");
            let tries = ends.model.0.borrow().removals;
            assert!((10..40).contains(&tries), "{tries} tries in a minute");
            ends.model.set(|state| state.keeps = false);
            let Notice::Removed(gone) = ends.notice().await else { panic!("it is gone") };
            assert_eq!((ends.task.confirmed(gone), ends.ours()), (vec![VIP], vec![]));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vip_that_ends_while_its_removal_fails_is_reported_as_gone() {
    beside(POLICIES[0], async |mut ends: Ends| {
        ends.put(VIP).await;
        ends.model.set(|state| state.keeps = true);
        ends.task.remove(vec![VIP]);
        assert!(matches!(ends.notice().await, Notice::RemoveFailed { .. }));
        tokio::time::sleep(Duration::from_secs(30)).await;
        // Its lifetime is over.
        ends.model.set(|state| state.ours.clear());
        let since = clock();
        ends.event(KernelEvent::AddressGone { address: VIP, index: ETH0 }).await;
        assert!(matches!(ends.notice().await, Notice::Removed(_)));
        assert!(clock().since(since) < Duration::from_millis(100));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_vip_that_is_wanted_again_is_not_removed_by_an_earlier_try() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            ends.put(VIP).await;
            ends.model.set(|state| state.keeps = true);
            ends.task.remove(vec![VIP]);
            assert!(matches!(ends.notice().await, Notice::RemoveFailed { .. }));
            ends.put(VIP).await;
            ends.model.set(|state| state.keeps = false);
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(ends.ours(), [(VIP, ETH0)]);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vip_whose_removal_failed_is_none_that_an_earlier_run_left() {
    let all = || needs(&[VIP], true);
    beside_with(POLICIES[0], all(), BTreeSet::new(), async |mut ends: Ends| {
        ends.put(VIP).await;
        ends.model.set(|state| state.keeps = true);
        ends.task.remove(vec![VIP]);
        while !matches!(ends.notice().await, Notice::RemoveFailed { .. }) {}
        for _ in 0..5 {
            ends.jobs.send(Job::Needs(needs(&[], true))).unwrap();
            ends.jobs.send(Job::Needs(all())).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        while let Ok(notice) = ends.notices.try_recv() {
            assert!(!matches!(notice, Notice::LeftOver(_)), "{notice:?}");
        }
        ends.model.set(|state| state.keeps = false);
        while !matches!(ends.notice().await, Notice::Removed(gone) if ends.task.confirmed(gone.clone()) == [VIP]) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
        while let Ok(notice) = ends.notices.try_recv() {
            assert!(!matches!(notice, Notice::Gone(_)), "{notice:?}");
        }
    })
    .await;
}

/// Jobs keep coming, and the kernel answers none of them.
#[tokio::test(start_paused = true)]
async fn jobs_that_the_kernel_does_not_answer_are_no_heartbeat() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            for (answers, alive) in [(true, true), (false, false), (true, true)] {
                ends.model.set(|state| (state.fails, state.puts_fail, state.keeps) = (!answers, !answers, !answers));
                let since = clock();
                while clock().since(since) < 2 * STUCK {
                    let vips = vec![Placed { address: VIP, interface: ETH0 }];
                    ends.task.ensure(vips, clock() + LONG);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    ends.task.remove(vec![VIP]);
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    while ends.notices.try_recv().is_ok() {}
                }
                assert_eq!(ends.ops.liveness.stale().is_empty(), alive, "answers: {answers}");
            }
        })
        .await;
    }
}

/// The event loop reads of a removal only after it has asked for another one.
#[tokio::test(start_paused = true)]
async fn the_notice_of_a_removal_says_nothing_about_a_later_one() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            ends.put(VIP).await;
            ends.task.remove(vec![VIP]);
            let Notice::Removed(first) = ends.notice().await else { panic!("it is gone") };
            ends.put(VIP).await;
            ends.model.set(|state| state.keeps = true);
            ends.task.remove(vec![VIP]);
            assert_eq!(ends.task.confirmed(first), [] as [IpAddr; 0]);
            assert!(matches!(ends.notice().await, Notice::RemoveFailed { .. }));
            ends.model.set(|state| state.keeps = false);
            let Notice::Removed(second) = ends.notice().await else { panic!("it is gone") };
            assert_eq!(ends.task.confirmed(second), [VIP]);
            assert!(ends.task.let_go.all().last.is_empty(), "it is forgotten");
        })
        .await;
    }
}

fn needs(vips: &[IpAddr], all_known: bool) -> Needs {
    Needs { first: Some("eth0".into()), vips: vips.iter().copied().collect(), all_known, ..Needs::default() }
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_of_vips_that_are_no_more_is_removed_at_start() {
    let left = BTreeSet::from([(VIP, ETH0), (OTHER, ETH0), (OTHER, ETH1), (VIP, ETH1)]);
    // A name has no answer yet: the other VIP may be that name's.
    beside_with(POLICIES[0], needs(&[VIP], false), left, async |mut ends: Ends| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(ends.ours(), [(VIP, ETH0), (OTHER, ETH0), (OTHER, ETH1)]);
        ends.model.set(|state| state.keeps = true);
        ends.jobs.send(Job::Needs(needs(&[VIP], true))).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        ends.model.set(|state| state.keeps = false);
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(ends.ours(), [(VIP, ETH0)]);
        while let Ok(notice) = ends.notices.try_recv() {
            assert!(!matches!(notice, Notice::Gone(_)), "the VIP that is wanted stays");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_should_not_be_there_is_removed_after_lost_events() {
    for policy in POLICIES {
        beside_with(policy, needs(&[VIP], true), BTreeSet::new(), async |mut ends: Ends| {
            ends.put(VIP).await;
            // Another request of this agent reached the kernel late, or the VIP was elsewhere before.
            ends.model.set(|state| state.ours.extend([(OTHER, ETH0), (VIP, ETH1)]));
            ends.event(KernelEvent::Resync).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(ends.ours(), [(VIP, ETH0)]);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_without_an_answer_is_no_failure_of_a_vip_that_stands() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            let (vip, other) = (Placed { address: VIP, interface: ETH0 }, Placed { address: OTHER, interface: ETH0 });
            ends.put(VIP).await;
            ends.model.set(|state| state.puts_fail = true);
            ends.task.ensure(vec![vip], clock() + LONG);
            assert!(matches!(ends.notice().await, Notice::NotRefreshed(vips) if vips == [VIP]));
            // A VIP that was not there may be absent.
            ends.task.ensure(vec![other], clock() + LONG);
            assert!(matches!(ends.notice().await, Notice::EnsureFailed { address, .. } if address == OTHER));
            // The VIP's end is still reported.
            ends.event(KernelEvent::AddressGone { address: VIP, index: ETH0 }).await;
            assert!(matches!(ends.notice().await, Notice::Gone(address) if address == VIP));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_another_programs_address_in_the_way_of_a_vip_is_reported_once() {
    beside(Policy::Services, async |mut ends: Ends| {
        let vip = Placed { address: VIP, interface: ETH0 };
        ends.model.set(|state| state.stranger = true);
        ends.task.ensure(vec![vip], clock() + LONG);
        assert!(matches!(ends.notice().await, Notice::EnsureFailed { address, .. } if address == VIP));
        ends.task.remove(vec![VIP]);
        assert!(matches!(ends.notice().await, Notice::Removed(_)));
        ends.model.set(|state| state.stranger = false);
        ends.event(KernelEvent::AddressGone { address: VIP, index: 1 }).await;
        assert!(matches!(ends.notice().await, Notice::Gone(address) if address == VIP));
        // Nothing more is said about it.
        ends.event(KernelEvent::AddressGone { address: VIP, index: 1 }).await;
        ends.task.ensure(vec![vip], clock() + LONG);
        assert!(matches!(ends.notice().await, Notice::Ensured(_)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn of_many_jobs_that_waited_only_the_last_deadline_counts() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            let vip = Placed { address: VIP, interface: ETH0 };
            let (old, new) = (clock() + Duration::from_secs(1), clock() + LONG);
            ends.task.ensure(vec![vip], old);
            ends.task.ensure(vec![vip], new);
            assert!(matches!(ends.notice().await, Notice::Ensured(_)));
            ends.task.flush().await.unwrap_err();
            assert_eq!(ends.model.0.borrow().deadlines, [new]);
        })
        .await;
    }
}
