//! What holds for the address task whatever the kernel does: requests fail, or hang until their deadline and are carried out all
//! the same; events are lost; other programs take addresses away and put their own there; the interface comes and goes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use nix::errno::Errno;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestRunner};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::kernel::Kernel;
use super::task::Task;
use super::{AddressTask, LetGo, Needs, Notice, Policy};
use crate::core::Vip as Placed;
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Found, Interface, KernelEvent, Kind, Put, PutAll, RemoveAll, Vip};
use crate::ops::Ops;
use crate::settings::Prefix;

const ETH0: u32 = 2;
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// How long a request waits for the kernel.
const DEADLINE: Duration = Duration::from_secs(1);
/// How far the tests' time goes at once.
const STEP: Duration = Duration::from_millis(100);
/// How long an address is put there for: so long that no refresh stands in for an event that was lost.
const LEASE: Duration = Duration::from_secs(100);
/// When an address is put there again, before its end or after it was lost.
const REFRESH: Duration = Duration::from_secs(66);
const RETRY: Duration = Duration::from_secs(1);
/// After the kernel has worked for so long, all is as it should be.
const SETTLED: Duration = Duration::from_secs(40);

thread_local! {
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time of a case.
fn clock() -> Time {
    Time::default() + START.get().map_or(Duration::ZERO, |start| start.elapsed())
}

fn vip(nth: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + nth))
}

/// How the kernel takes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Works,
    /// It refuses them at once.
    Refuses,
    /// It does not answer in time. `applies`: it carries them out all the same.
    Hangs { applies: bool },
}

/// An interface, and the addresses of tests on it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Default)]
struct State {
    mood: Mood,
    unplugged: bool,
    down: bool,
    /// When the kernel drops it; None: it is another program's.
    there: BTreeMap<IpAddr, Option<Time>>,
    watched: BTreeSet<IpAddr>,
    /// Events are lost, and some were.
    deaf: bool,
    lost: bool,
    /// VIPs that were released after the last request to put them there.
    released: BTreeSet<IpAddr>,
}

#[derive(Clone, Debug)]
struct Model {
    state: Rc<RefCell<State>>,
    events: mpsc::Sender<KernelEvent>,
}

impl Model {
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.borrow_mut())
    }

    fn event(&self, event: KernelEvent) {
        let deaf = self.with(|state| state.deaf);
        if deaf || self.events.try_send(event).is_err() {
            self.with(|state| state.lost = true);
        }
    }

    /// An address goes.
    fn gone(&self, address: IpAddr) {
        let watched = self.with(|state| state.there.remove(&address).is_some() && state.watched.contains(&address));
        if watched {
            self.event(KernelEvent::AddressGone { address, index: ETH0 });
        }
    }

    /// The kernel drops what is due.
    fn drop_due(&self) {
        let now = clock();
        let due = |state: &mut State| {
            let due = state.there.iter().filter(|(_, until)| until.is_some_and(|until| until <= now));
            due.map(|(address, _)| *address).collect::<Vec<_>>()
        };
        for address in self.with(due) {
            self.gone(address);
        }
    }

    /// Takes a request. `Ok`: it may be carried out; `Err`: there is no answer, and whether it is carried out.
    async fn takes(&self) -> Result<(), (bool, Error)> {
        let mood = self.with(|state| state.mood);
        let what = || "ask".to_owned();
        match mood {
            Mood::Works => Ok(()),
            Mood::Refuses => Err((false, Error::Kernel { what: what(), errno: Errno::EBUSY, v6: false })),
            Mood::Hangs { applies } => {
                tokio::time::sleep(DEADLINE).await;
                Err((applies, Error::Deadline { what: what(), deadline: DEADLINE }))
            }
        }
    }

    async fn reads<T>(&self, answer: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        self.takes().await.map_err(|(_, error)| error)?;
        Ok(self.with(answer))
    }

    fn interface_now(state: &State) -> Option<Interface> {
        (!state.unplugged).then(|| Interface {
            index: ETH0,
            name: "eth0".into(),
            altnames: vec![],
            mac: MAC,
            ports: vec![],
            port_of: None,
            up: !state.down,
            addresses: vec!["192.0.2.1/24".parse().unwrap()],
            before_own: vec![],
            link_local: None,
            gateways: vec![],
        })
    }

    /// Puts an address there, as the datapath does: never in another program's place, and for no longer than it may.
    fn put(&self, address: IpAddr, deadline: Time) -> Result<(), Error> {
        let failed = |errno| Err(Error::Kernel { what: "put".into(), errno, v6: false });
        let Some(until) = deadline.since(clock()).checked_sub(Duration::from_millis(1500)).map(|left| clock() + left)
        else {
            self.gone(address);
            return Err(Error::Late { address, interface: "eth0".into() });
        };
        self.with(|state| match state.there.get(&address).copied() {
            _ if state.unplugged => failed(Errno::ENODEV),
            Some(None) => failed(Errno::EEXIST),
            Some(Some(_)) | None => {
                state.there.insert(address, Some(until));
                Ok(())
            }
        })
    }
}

impl Kernel for Model {
    fn watch_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.with(|state| state.watched = addresses.into_iter().collect());
    }

    fn current_name(&self, _: u32) -> Option<String> {
        self.with(|state| (!state.unplugged).then(|| "eth0".into()))
    }

    async fn interface(&self, _: &str) -> Result<Interface, Error> {
        self.reads(|state| Self::interface_now(state)).await?.ok_or(Error::NoDefaultRoute)
    }

    async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        self.reads(|state| Self::interface_now(state).into_iter().collect()).await
    }

    async fn default_interface(&self, _: bool) -> Result<u32, Error> {
        self.interface("eth0").await.map(|found| found.index)
    }

    async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        self.reads(|_| vec![MAC]).await
    }

    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error> {
        let ours = |state: &mut State| {
            let ours = state.there.iter().filter(|(_, until)| until.is_some());
            ours.map(|(address, _)| (Vip::host(*address), ETH0)).collect()
        };
        self.reads(ours).await
    }

    async fn find(&self, address: IpAddr) -> Result<Vec<Found>, Error> {
        let found = |state: &mut State| {
            let kind = match state.there.get(&address)? {
                Some(until) => Kind::Ours { left: until.since(clock()) },
                None => Kind::NodesOwn,
            };
            Some(Found { index: ETH0, interface: "eth0".into(), prefix: 32, kind })
        };
        Ok(self.reads(found).await?.into_iter().collect())
    }

    async fn put_all(&mut self, vips: &[(Vip, u32)], deadline: Time) -> PutAll {
        let released = self.with(|state| vips.iter().any(|(vip, _)| state.released.contains(&vip.address)));
        assert!(!released, "put on the interface after it was released: {vips:?}");
        let mut out = PutAll::default();
        let taken = self.takes().await;
        for placed in vips {
            let address = placed.0.address;
            if let Err((applies, _)) = &taken {
                if *applies {
                    let _ = self.put(address, deadline);
                }
                out.unchanged.push((address, Error::Deadline { what: "put".into(), deadline: DEADLINE }));
                continue;
            }
            match self.put(address, deadline) {
                Ok(()) => out.there.push((*placed, Put::Added)),
                Err(error) => out.failed.push((address, error)),
            }
        }
        out
    }

    async fn remove_many(&mut self, addresses: &[IpAddr]) -> RemoveAll {
        let mut out = RemoveAll::default();
        let taken = self.takes().await;
        for address in addresses {
            let is_ours = self.with(|state| state.there.get(address).is_some_and(Option::is_some));
            if is_ours && !matches!(taken, Err((false, _))) {
                self.gone(*address);
            }
            match &taken {
                Ok(()) => out.removed.push(*address),
                Err(_) => {
                    out.failed.push((*address, Error::Deadline { what: "remove".into(), deadline: DEADLINE }));
                }
            }
        }
        out
    }

    async fn remove_at(&mut self, places: &[(Vip, u32)]) -> RemoveAll {
        // There is one interface.
        let addresses: Vec<IpAddr> = places.iter().map(|(vip, _)| vip.address).collect();
        self.remove_many(&addresses).await
    }

    async fn remove_kube_vip(&mut self, _: IpAddr) -> Result<(), Error> {
        panic!("nothing of kube-vip's is there");
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// The core wants a VIP, or no longer.
    Want(u8),
    Release(u8),
    Wait(u32),
    Mood(Mood),
    Deaf(bool),
    /// Another program removes a VIP, or puts an address of its own there, or takes that back.
    Taken(u8),
    Stranger(u8),
    StrangerGoes(u8),
    Link(bool),
    Plugged(bool),
    /// The kernel reports that events were lost.
    Resync,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let n = || 0..3_u8;
    let mood = prop_oneof![
        2 => Just(Mood::Works),
        1 => Just(Mood::Refuses),
        1 => any::<bool>().prop_map(|applies| Mood::Hangs { applies }),
    ];
    let op = prop_oneof![
        4 => n().prop_map(Op::Want),
        3 => n().prop_map(Op::Release),
        6 => (1..40_u32).prop_map(Op::Wait),
        3 => mood.prop_map(Op::Mood),
        2 => any::<bool>().prop_map(Op::Deaf),
        2 => n().prop_map(Op::Taken),
        1 => n().prop_map(Op::Stranger),
        1 => n().prop_map(Op::StrangerGoes),
        1 => any::<bool>().prop_map(Op::Link),
        1 => any::<bool>().prop_map(Op::Plugged),
        1 => Just(Op::Resync),
    ];
    vec(op, 1..60)
}

/// Does what a core does: puts VIPs there again before they end, and after the task has said that one is not there.
struct Driver {
    model: Model,
    task: AddressTask,
    notices: mpsc::Receiver<Notice>,
    /// When a VIP is put there next.
    wanted: BTreeMap<IpAddr, Time>,
    /// VIPs that are there, as the task says.
    told: BTreeSet<IpAddr>,
    /// The latest time until which a VIP may be there.
    most: BTreeMap<IpAddr, Time>,
}

impl Driver {
    fn apply(&mut self, op: Op) {
        let model = self.model.clone();
        match op {
            Op::Want(nth) => {
                model.with(|state| state.released.remove(&vip(nth)));
                self.wanted.entry(vip(nth)).or_insert_with(clock);
            }
            Op::Release(nth) => self.release(vip(nth)),
            Op::Wait(_) => {}
            Op::Mood(mood) => model.with(|state| state.mood = mood),
            Op::Deaf(deaf) => self.hears(!deaf),
            Op::Taken(nth) => {
                if model.with(|state| state.there.get(&vip(nth)).is_some_and(Option::is_some)) {
                    model.gone(vip(nth));
                }
            }
            Op::Stranger(nth) => model.with(|state| {
                if !state.unplugged {
                    state.there.entry(vip(nth)).or_insert(None);
                }
            }),
            Op::StrangerGoes(nth) => {
                if model.with(|state| state.there.get(&vip(nth)).is_some_and(Option::is_none)) {
                    model.gone(vip(nth));
                }
            }
            Op::Link(up) => {
                if model.with(|state| std::mem::replace(&mut state.down, !up) == up && !state.unplugged) {
                    self.link();
                }
            }
            Op::Plugged(plugged) => {
                if model.with(|state| std::mem::replace(&mut state.unplugged, !plugged) != plugged) {
                    return;
                }
                if plugged {
                    self.link();
                } else {
                    let all: Vec<IpAddr> = model.with(|state| state.there.keys().copied().collect());
                    for address in all {
                        model.gone(address);
                    }
                    model.event(KernelEvent::LinkGone { index: ETH0, name: "eth0".into() });
                }
            }
            Op::Resync => model.event(KernelEvent::Resync),
        }
    }

    fn link(&self) {
        let up = self.model.with(|state| !state.down);
        self.model.event(KernelEvent::Link { index: ETH0, name: "eth0".into(), up, mac: Some(MAC) });
    }

    /// Whether events arrive. When they do again, the kernel says that some were lost.
    fn hears(&self, hears: bool) {
        let lost = self.model.with(|state| {
            state.deaf = !hears;
            hears && std::mem::take(&mut state.lost)
        });
        if lost {
            self.model.event(KernelEvent::Resync);
        }
    }

    fn release(&mut self, address: IpAddr) {
        self.wanted.remove(&address);
        self.told.remove(&address);
        self.model.with(|state| state.released.insert(address));
        self.task.remove(vec![address]);
    }

    /// A moment passes.
    async fn step(&mut self) {
        let now = clock();
        for (address, next) in self.wanted.iter_mut().filter(|(_, next)| **next <= now) {
            let deadline = now + LEASE;
            *next = now + if self.told.contains(address) { REFRESH } else { RETRY };
            self.most.insert(*address, deadline);
            self.task.ensure(vec![Placed { address: *address, interface: ETH0 }], deadline);
        }
        tokio::time::sleep(STEP).await;
        self.model.drop_due();
        while let Ok(notice) = self.notices.try_recv() {
            self.hear(notice);
        }
        let there = self.model.with(|state| state.there.clone());
        for (address, until) in there {
            let Some(until) = until else { continue };
            let most = self.most.get(&address).copied().unwrap_or_default();
            assert!(until <= most, "{address} is there until {until:?}, and may be until {most:?}");
        }
    }

    fn hear(&mut self, notice: Notice) {
        let again = clock() + RETRY;
        if let Notice::Ensured(all) = &notice {
            for address in all {
                if let Some(next) = self.wanted.get_mut(address) {
                    *next = clock() + REFRESH;
                    self.told.insert(*address);
                }
            }
        } else if let Notice::Gone(address) | Notice::EnsureFailed { address, .. } = &notice {
            self.told.remove(address);
            self.wanted.entry(*address).and_modify(|next| *next = again.min(*next));
        } else if let Notice::NotRefreshed(all) = &notice {
            for address in all {
                self.wanted.entry(*address).and_modify(|next| *next = again.min(*next));
            }
        } else if let Notice::Removed(removed) = notice {
            for address in self.task.confirmed(removed) {
                assert!(!self.wanted.contains_key(&address), "{address} is wanted again");
            }
        } else if let Notice::LeftOver(vips) = notice {
            for Placed { address, .. } in vips {
                if !self.wanted.contains_key(&address) {
                    self.release(address);
                }
            }
        } else if let Notice::Interfaces(..) | Notice::Link { .. } = notice {
            // The VIPs are put there again, as when the link of the control plane's interface has changed.
            for next in self.wanted.values_mut() {
                *next = again.min(*next);
            }
        }
    }
}

async fn case(policy: Policy, ops: Vec<Op>) {
    START.set(Some(Instant::now()));
    let (events, kernel) = mpsc::channel(256);
    let model = Model { state: Rc::default(), events };
    let (jobs, work) = mpsc::unbounded_channel();
    let (notice, notices) = mpsc::channel(256);
    let ops_page = Ops::new(clock, "n1");
    let heart = ops_page.liveness.watch("addresses", Duration::from_secs(15));
    let needs = Needs { first: Some("eth0".into()), vips: (0..3).map(vip).collect(), ..Needs::default() };
    let let_go = LetGo::default();
    let task = Task::new(model.clone(), policy, needs, let_go.clone(), notice, ops_page.clone(), heart);
    let mut driver = Driver {
        model,
        task: AddressTask { jobs, let_go },
        notices,
        wanted: BTreeMap::new(),
        told: BTreeSet::new(),
        most: BTreeMap::new(),
    };
    let test = async {
        for op in ops {
            driver.apply(op);
            let steps = if let Op::Wait(steps) = op { steps } else { 0 };
            for _ in 0..steps {
                driver.step().await;
            }
        }
        driver.apply(Op::Mood(Mood::Works));
        driver.hears(true);
        driver.apply(Op::Plugged(true));
        let healed = clock();
        while clock().since(healed) < SETTLED {
            driver.step().await;
        }
        assert!(driver.task.flush().await.is_err(), "the sender is dropped when all jobs are done");
        assert_eq!(ops_page.liveness.stale(), []);
        let there = driver.model.with(|state| state.there.clone());
        for address in (0..3).map(vip) {
            let is_strangers = there.get(&address).is_some_and(Option::is_none);
            let is_ours = there.get(&address).is_some_and(Option::is_some);
            let is_wanted = driver.wanted.contains_key(&address) && !is_strangers;
            // One that was released when the kernel did not work goes with its lifetime at the latest.
            assert!(is_ours || !is_wanted, "{address} is not on the interface");
            assert_eq!(driver.told.contains(&address), is_wanted, "{address}, as the task says");
        }
        driver.wanted.clear();
        tokio::time::sleep(LEASE).await;
        driver.model.drop_due();
        let left = driver.model.with(|state| state.there.values().flatten().count());
        assert_eq!(left, 0, "addresses that nobody puts there again are gone");
    };
    tokio::select! {
        () = task.run(work, kernel) => panic!("the task has ended"),
        () = test => {}
    }
}

#[test]
fn the_kernel_has_what_is_wanted_as_soon_as_it_works() {
    for policy in [Policy::ControlPlane(Prefix { v4: 32, v6: 128 }), Policy::Services] {
        let config = Config { cases: 100, max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(&ops(), |ops| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            runtime.block_on(case(policy, ops));
            Ok(())
        });
        if let Err(error) = result {
            panic!("{policy:?}: {error}");
        }
    }
}
