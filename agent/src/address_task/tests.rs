//! The address task against a model of the kernel that fails, loses events, and reports without end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::kernel::Kernel;
use super::task::Task;
use super::{Job, LetGo, Needs, Notice, Policy};
use crate::core::Vip as Placed;
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Found, Interface, KernelEvent, Put, PutAll, RemoveAll, Vip};
use crate::ops::Ops;
use crate::settings::Prefix;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 10));
const ETH0: u32 = 2;
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

/// One interface, and the VIPs on it. While `fails` is true no request is answered.
#[derive(Debug, Default)]
struct State {
    up: bool,
    fails: bool,
    vips: BTreeSet<IpAddr>,
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

    fn current_name(&self, _: u32) -> Option<String> {
        Some("eth0".into())
    }

    async fn interface(&self, _: Option<&str>) -> Result<Interface, Error> {
        self.ask(|state| Interface {
            index: ETH0,
            name: "eth0".into(),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            ports: vec![],
            up: state.up,
            addresses: vec!["192.0.2.1/24".parse().unwrap()],
            link_local: None,
            gateways: vec![],
        })
    }

    async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        Ok(vec![self.interface(None).await?])
    }

    async fn default_interface(&self) -> Result<u32, Error> {
        self.ask(|_| ETH0)
    }

    async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        self.ask(|_| vec![Mac([2, 0, 0, 0, 0, 1])])
    }

    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error> {
        self.ask(|state| state.vips.iter().map(|vip| (Vip::host(*vip), ETH0)).collect())
    }

    async fn find(&self, _: IpAddr) -> Result<Vec<Found>, Error> {
        self.ask(|_| vec![])
    }

    async fn put_all(&mut self, vips: &[(Vip, u32)], _: Time) -> PutAll {
        self.set(|state| state.vips.extend(vips.iter().map(|(vip, _)| vip.address)));
        PutAll { there: vips.iter().map(|placed| (*placed, Put::Added)).collect(), failed: vec![] }
    }

    async fn remove_many(&mut self, _: &[IpAddr]) -> RemoveAll {
        RemoveAll::default()
    }

    async fn remove_kube_vip(&mut self, _: IpAddr) -> Result<(), Error> {
        Ok(())
    }
}

/// The other ends of a task.
struct Ends {
    model: Model,
    jobs: mpsc::UnboundedSender<Job>,
    events: mpsc::Sender<KernelEvent>,
    notices: mpsc::Receiver<Notice>,
    ops: Arc<Ops>,
}

impl Ends {
    async fn notice(&mut self) -> Notice {
        tokio::time::timeout(LONG, self.notices.recv()).await.expect("nothing was told").unwrap()
    }

    async fn event(&self, event: KernelEvent) {
        self.events.send(event).await.unwrap();
    }

    /// The next report of the interface: whether its link is up.
    async fn interface(&mut self) -> bool {
        loop {
            if let Notice::Interfaces(found, _) = self.notice().await {
                return found[0].up;
            }
        }
    }
}

/// Runs a test beside a task that has found its interface.
async fn beside(policy: Policy, test: impl AsyncFnOnce(Ends)) {
    let model = Model(Rc::new(RefCell::new(State { up: true, ..State::default() })));
    let (jobs, work) = mpsc::unbounded_channel();
    let (notice, notices) = mpsc::channel(256);
    let (events, kernel) = mpsc::channel(256);
    let ops = Ops::new(clock, "n1");
    let heart = ops.liveness.watch("datapath", STUCK);
    let needs = Needs { first: Some("eth0".into()), ..Needs::default() };
    let task = Task::new(model.clone(), policy, needs, LetGo::default(), notice, ops.clone(), heart);
    let mut ends = Ends { model, jobs, events, notices, ops };
    tokio::select! {
        () = task.run(work, kernel) => panic!("the task has ended"),
        () = async {
            assert!(ends.interface().await);
            test(ends).await;
        } => {}
    }
}

const POLICIES: [Policy; 2] = [Policy::ControlPlane(Prefix { v4: 32, v6: 128 }), Policy::Services];

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_after_lost_events_is_made_again() {
    for policy in POLICIES {
        beside(policy, async |mut ends: Ends| {
            let vip = Placed { address: VIP, interface: ETH0 };
            ends.jobs.send(Job::Ensure { vips: vec![vip], deadline: clock() + LONG }).unwrap();
            assert!(matches!(ends.notice().await, Notice::Ensured(_)));
            // The events of the link and of the VIP are lost, and the kernel does not answer at first.
            ends.model.set(|state| *state = State { up: false, fails: true, vips: BTreeSet::new() });
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
