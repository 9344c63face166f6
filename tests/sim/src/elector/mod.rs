//! The Elector of one Lease and its VIPs, as the control plane's core drives it, under simulated faults: API servers with
//! etcd behind them, one Lease, a watch of it, health probes, a client with a neighbour cache, perhaps a kube-vip peer.

pub mod api;
pub mod bounds;
pub mod check;
pub mod client;
pub mod fault;
pub mod faults;
pub mod health;
pub mod process;
pub mod queue;
pub mod rival;
pub mod settings;

use std::net::IpAddr;

use mooring_agent_core::control_plane::{Call, ControlPlane, Event, Report};
use mooring_agent_core::mac::Mac;
use mooring_agent_core::rules::Rules;

use crate::bounds::Bounds;
use crate::check::{Limits, Look};
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::Fault as Any;
use crate::host::Host;
use crate::kernel::Standing;
use crate::plan::Pace;
use crate::rng::Rng;
use crate::segment::Frame;
use crate::settings::{Settings, name};
use crate::subject::Subject;
use api::Api;
use check::Checks;
use fault::Fault;
use queue::Item;
use rival::Rival;

/// A plan of the Elector's world.
pub type Plan = crate::plan::Plan<Elector>;
/// The Elector's world.
pub type World<'a> = crate::world::World<'a, Elector>;

/// The Elector is the core under test.
#[derive(Clone, Copy, Debug)]
pub struct Elector;

/// What is kept of a host.
#[derive(Debug)]
pub struct OwnHost {
    /// It runs kube-vip.
    pub rival: Option<Rival>,
    /// Since when it could serve the client, if it can.
    pub able: Option<Nanos>,
    /// Its own health probes fail, though its API server answers all others.
    pub own_probe_fails: bool,
    /// Since when all others that ask it for the VIPs are answered, if they are.
    pub reached: Option<Nanos>,
}

impl Subject for Elector {
    type Core = ControlPlane;
    type Settings = settings::Own;
    type Fault = Fault;
    type Item = Item;
    type Host = OwnHost;
    type Process = process::Process;
    type Api = Api;
    type Checks = Checks;

    const STREAM: u64 = 1;
    const PACE: Pace =
        Pace { first: 9 * SECOND, cold: 150, count: (5, 10), apart: 12 * SECOND, until: 95 * SECOND, enough: 5 };
    const CLOCKS_FAR_OFF: u32 = 200;
    const ANSWERED_AT_ONCE: Nanos = 0;
    const CLIENT_LEARNS: bool = true;
    const PAST_FENCE: Nanos = 2 * MS;

    fn settings(rng: &mut Rng, nodes: Option<usize>) -> Settings<Self> {
        settings::draw(rng, nodes)
    }

    fn draw(rng: &mut Rng, settings: &Settings<Self>) -> Any<Fault> {
        fault::draw(rng, settings)
    }

    const WIDENINGS: usize = 6;

    fn widen(plan: &mut Plan, widening: usize) {
        match widening {
            0 | 1 => fault::widen(plan, widening),
            2 => plan.widen_kernels_and_release(),
            3 => plan.widen_partitions(),
            4 => fault::widen(plan, 2),
            _ => {
                plan.widen_networks();
                fault::widen_networks(plan);
            }
        }
    }

    fn vips(settings: &Settings<Self>) -> usize {
        settings.own.vips.len()
    }

    fn vip(settings: &Settings<Self>, vip: usize) -> IpAddr {
        settings.own.vips[vip]
    }

    fn vip_of(settings: &Settings<Self>, address: IpAddr) -> Option<usize> {
        settings.own.vips.iter().position(|vip| *vip == address)
    }

    fn servers(settings: &Settings<Self>) -> usize {
        settings::servers(settings)
    }

    fn bounds(settings: &Settings<Self>) -> Bounds {
        bounds::of(settings).0
    }

    fn host(n: usize, settings: &Settings<Self>) -> OwnHost {
        let rival = settings.own.rival == Some(n) && !settings.own.takes_over;
        OwnHost { rival: rival.then(Rival::default), able: None, own_probe_fails: false, reached: None }
    }

    fn api(settings: &Settings<Self>) -> Api {
        Api::new(settings)
    }

    fn checks(plan: &Plan) -> Checks {
        Checks::new(plan)
    }

    fn begin(world: &mut World<'_>) {
        world.checks.client.planned = true;
        for (host, at) in world.plan.settings.own.learns.iter().enumerate() {
            world.queue.put(*at, crate::queue::Item::Own(Item::Learns { host }));
        }
    }

    fn is_ours(host: &Host<Self>) -> bool {
        host.own.rival.is_none()
    }

    fn start_rival(world: &mut World<'_>, host: usize) {
        world.own_start_rival(host);
    }

    fn process(n: usize, life: u32, settings: &Settings<Self>) -> (ControlPlane, process::Process) {
        let rules = Rules { node: name::<Fault>(n), ..settings.rules.clone() };
        (ControlPlane::new(rules), process::Process::new(n, life, settings))
    }

    fn start(world: &mut World<'_>, host: usize) {
        world.own_start(host);
    }

    fn ended(world: &mut World<'_>, _host: usize) {
        Self::touched(world);
    }

    fn before_step(world: &mut World<'_>, host: usize, event: &Event) {
        world.own_before_step(host, event);
    }

    fn is_idle(core: &ControlPlane) -> bool {
        core.snapshot().role == "following"
    }

    fn role(core: &ControlPlane) -> &'static str {
        core.snapshot().role
    }

    fn knows(core: &ControlPlane, mac: Mac) -> bool {
        core.snapshot().lease.is_some_and(|lease| lease.participant_with(mac).is_some())
    }

    fn call(world: &mut World<'_>, host: usize, call: Call) {
        world.own_call(host, call);
    }

    fn reported(world: &mut World<'_>, host: usize, report: Report) {
        world.own_reported(host, &report.what);
    }

    fn process_of(world: &World<'_>, item: &Item) -> Option<Option<usize>> {
        world.own_process_of(item)
    }

    fn is_answer(item: &Item) -> bool {
        matches!(item, Item::Answer { .. })
    }

    fn is_watched(item: &Item) -> bool {
        matches!(item, Item::Watch { .. })
    }

    fn stall_watches(world: &mut World<'_>, host: usize) {
        world.stall_watch(host);
    }

    fn happen(world: &mut World<'_>, item: Item) {
        world.own_happen(item);
    }

    fn frame_arrives(world: &mut World<'_>, frame: &Frame) {
        world.own_frame_arrives(frame);
    }

    fn frame_taken(world: &mut World<'_>, frame: &Frame) -> bool {
        world.own_frame_taken(frame);
        true
    }

    fn client_hears(world: &mut World<'_>, vip: usize, from: usize) {
        world.client_heard(vip, from);
    }

    fn strike(world: &mut World<'_>, fault: Any<Fault>) {
        world.own_strike(fault);
    }

    fn heal(world: &mut World<'_>, fault: Any<Fault>) {
        world.own_heal(fault);
    }

    fn wake(world: &mut World<'_>, host: usize, slept: Nanos) {
        world.own_wake(host, slept);
    }

    fn mend(world: &mut World<'_>) {
        world.own_mend();
    }

    fn apply(world: &mut World<'_>, fault: Fault) {
        world.own_apply(fault);
    }

    fn applied(world: &mut World<'_>) {
        world.elect();
        world.unblock();
        world.wake_probers();
        Self::touched(world);
        world.touch_client();
    }

    fn touched(world: &mut World<'_>) {
        for vip in 0..world.vips {
            world.watch_owners(vip);
        }
        world.watch_able();
        world.watch_reached();
        world.watch_health();
        world.watch_settled();
        world.touch_client();
    }

    fn touched_vip(world: &mut World<'_>, vip: usize) {
        world.check_new_vip(vip);
        Self::touched(world);
    }

    fn disturbed(world: &mut World<'_>, fault: usize) {
        world.note_disturbance(fault);
        world.checks.witness.disturbed();
    }

    fn look(world: &mut World<'_>, look: Look) {
        match look {
            Look::Again => {
                world.wake_probers();
                Self::touched(world);
            }
            Look::Settled => world.check_settled(),
            _ => {}
        }
    }

    fn ping(world: &mut World<'_>) {
        world.own_ping();
    }

    fn owners_bound(world: &World<'_>, a: usize, b: usize) -> Nanos {
        world.own_owners_bound(a, b)
    }

    fn is_cut_off(settings: &Settings<Self>, inside: &[usize]) -> bool {
        2 * inside.len() <= settings.nodes
    }

    fn has_any_api(world: &World<'_>, host: usize) -> bool {
        world.has_some_api(host)
    }

    fn excuses(world: &World<'_>, host: usize, standing: &Standing) -> bool {
        // A process that began after the machine stood still finds the address, and leaves it to the kernel.
        world.hosts[host].slept > 0 && world.hosts[host].life != standing.life
    }

    fn limits(world: &World<'_>) -> Limits {
        let nodes = world.hosts.len();
        Limits { steps: 20_000, outputs: 64 + 16 * nodes, waiting: 4_000 * (1 + nodes) }
    }
}
