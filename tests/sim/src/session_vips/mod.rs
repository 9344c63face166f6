//! Session VIPs under simulated faults: the core of a node's many VIPs, with sessions and records on many objects, one or two
//! segments, endpoints that come and go.

pub mod api;
pub mod bounds;
pub mod check;
pub mod fault;
pub mod faults;
mod membership;
pub mod process;
pub mod queue;
pub mod settings;
mod sizes;
pub mod widenings;

use std::net::{IpAddr, Ipv4Addr};

use mooring_agent_core::Probe;
use mooring_agent_core::mac::Mac;
use mooring_agent_core::rules::Rules;
use mooring_agent_core::session_vips::{Call, Event, Report};

use crate::bounds::Bounds;
use crate::check::{Limits, Look};
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault as Any, Planned, has};
use crate::kernel::Standing;
use crate::plan::Pace;
use crate::rng::Rng;
use crate::segment::Frame;
use crate::settings::{Settings, name};
use crate::subject::Subject;
use crate::world::nanos;
use api::Api;
use check::Checks;
use fault::Fault;
use queue::Item;

/// A plan of the world of session VIPs.
pub type Plan = crate::plan::Plan<SessionVips>;
/// The world of session VIPs.
pub type World<'a> = crate::world::World<'a, SessionVips>;

/// Session VIPs are the core under test.
#[derive(Clone, Copy, Debug)]
pub struct SessionVips;

/// VIPs that a burst may add.
pub const BURST: usize = 20;
/// One run of so many goes on to the last moment that anything may take; the others end when all has been quiet for long.
const WHOLE: u64 = 8;

impl Subject for SessionVips {
    type Core = mooring_agent_core::session_vips::SessionVips;
    type Settings = settings::Own;
    type Fault = Fault;
    type Item = Item;
    type Host = ();
    type Process = process::Process;
    type Api = Api;
    type Checks = Checks;

    const STREAM: u64 = 11;
    const PACE: Pace = Pace {
        first: 12 * SECOND,
        cold: 120,
        count: (5, 9),
        apart: 14 * SECOND,
        until: 90 * SECOND,
        enough: usize::MAX,
    };
    const CLOCKS_FAR_OFF: u32 = 0;
    const ANSWERED_AT_ONCE: Nanos = MS;
    const CLIENT_LEARNS: bool = false;
    const PAST_FENCE: Nanos = 3 * MS;

    fn settings(rng: &mut Rng, nodes: Option<usize>) -> Settings<Self> {
        settings::draw(rng, nodes)
    }

    fn draw(rng: &mut Rng, settings: &Settings<Self>) -> Any<Fault> {
        fault::draw(rng, settings)
    }

    const WIDENINGS: usize = 13;

    fn widen(plan: &mut Plan, widening: usize) {
        match widening {
            0 => widenings::widen(plan),
            1 => widenings::widen_nodes(plan),
            2 => widenings::cut_off_one(plan),
            3 => plan.widen_kernels_and_release(),
            4 => widenings::widen_segments(plan),
            5 => widenings::darken_a_segment(plan),
            6 => widenings::widen_addresses(plan),
            7 => widenings::fail_ports(plan),
            8 => widenings::widen_membership(plan),
            9 => widenings::widen_copies(plan),
            10 => widenings::widen_racks(plan),
            11 => widenings::replace_cards(plan),
            _ => {
                plan.widen_networks();
                widenings::crash_beside_a_mute(plan);
            }
        }
    }

    fn vips(settings: &Settings<Self>) -> usize {
        settings.own.vips + BURST
    }

    fn vip(settings: &Settings<Self>, vip: usize) -> IpAddr {
        let [high, low] = u16::try_from(vip).unwrap_or(0).to_be_bytes();
        let segment = u8::try_from(Self::segment_of(settings, vip)).unwrap_or(0);
        IpAddr::V4(Ipv4Addr::new(10, segment, 128 + high, low))
    }

    fn vip_of(settings: &Settings<Self>, address: IpAddr) -> Option<usize> {
        let IpAddr::V4(ip) = address else { return None };
        let [_, _, high, low] = ip.octets();
        let vip = usize::from(u16::from_be_bytes([high.checked_sub(128)?, low]));
        (vip < Self::vips(settings)).then_some(vip)
    }

    fn segment_of(settings: &Settings<Self>, vip: usize) -> usize {
        vip % settings.segments
    }

    fn bounds(settings: &Settings<Self>) -> Bounds {
        bounds::of(settings).0
    }

    fn host(_n: usize, _settings: &Settings<Self>) {}

    fn api(settings: &Settings<Self>) -> Api {
        Api::new(settings)
    }

    fn checks(plan: &Plan) -> Checks {
        Checks::new(plan)
    }

    fn begin(world: &mut World<'_>) {
        for vip in 0..world.plan.settings.own.vips {
            world.want(vip);
        }
    }

    fn plan_looks(world: &mut World<'_>) {
        if !world.plan.seed.is_multiple_of(WHOLE) {
            let quiet = world.plan.faults_end() + SECOND;
            world.queue.put(quiet, crate::queue::Item::Look(Look::Quiet));
        }
    }

    fn process(n: usize, life: u32, settings: &Settings<Self>) -> (Self::Core, process::Process) {
        let rules = Rules { node: name::<Fault>(n), ..settings.rules.clone() };
        (Self::Core::new(rules), process::Process::new(life, settings))
    }

    fn start(world: &mut World<'_>, host: usize) {
        world.own_start(host);
    }

    fn ended(world: &mut World<'_>, _host: usize) {
        Self::touched(world);
        world.eligible();
    }

    fn before_step(world: &mut World<'_>, host: usize, event: &Event) {
        world.own_before_step(host, event);
    }

    fn after_step(world: &mut World<'_>, host: usize) {
        world.own_after_step(host);
    }

    fn role(core: &Self::Core) -> &'static str {
        core.snapshot().session
    }

    fn knows(core: &Self::Core, mac: Mac) -> bool {
        core.node_with(mac).is_some()
    }

    fn call(world: &mut World<'_>, host: usize, call: Call) {
        world.check_end_sent(host, &call);
        world.check_take_sent(host, &call);
        world.call(host, call);
    }

    fn reported(world: &mut World<'_>, host: usize, report: Report) {
        world.own_reported(host, &report);
    }

    fn asks(world: &mut World<'_>, host: usize, probe: &Probe) {
        world.note_asked(host, probe);
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
        world.stall_watches(host);
    }

    fn happen(world: &mut World<'_>, item: Item) {
        world.own_happen(item);
    }

    fn frame_taken(world: &mut World<'_>, frame: &Frame) -> bool {
        world.own_frame_taken(frame)
    }

    fn strike(world: &mut World<'_>, fault: Any<Fault>) {
        world.own_strike(fault);
        world.endpoints_changed();
    }

    fn heal(world: &mut World<'_>, fault: Any<Fault>) {
        world.own_heal(fault);
        world.endpoints_changed();
    }

    fn mend(world: &mut World<'_>) {
        world.api.lag.fill([0; 3]);
        world.api.nudged = 0;
    }

    fn apply(world: &mut World<'_>, fault: Fault) {
        world.own_apply(fault);
    }

    fn applied(world: &mut World<'_>) {
        world.unblock();
        world.eligible();
        Self::touched(world);
    }

    fn touched(world: &mut World<'_>) {
        for vip in 0..world.vips {
            Self::touched_vip(world, vip);
        }
    }

    fn touched_vip(world: &mut World<'_>, vip: usize) {
        world.stirred();
        world.watch_owners(vip);
        world.watch_settled(vip);
        world.touch_client();
    }

    fn disturbed(world: &mut World<'_>, fault: usize) {
        world.note_single(fault);
        world.checks.last = world.now;
        world.checks.moves.fill(0);
    }

    fn look(world: &mut World<'_>, look: Look) {
        match look {
            Look::Again => Self::touched(world),
            Look::Settled => world.check_settled(),
            Look::Quiet => world.check_quiet(),
            Look::Fence { .. } | Look::Pair { .. } | Look::CutOff { .. } | Look::Released { .. } => {}
        }
    }

    fn ping(world: &mut World<'_>) {
        world.own_ping();
    }

    fn owners_bound(world: &World<'_>, a: usize, b: usize) -> Nanos {
        let (bounds, now) = (&world.bounds, world.now);
        let mut bound = bounds.owners;
        if [a, b].iter().any(|h| world.hosts[*h].slept > 0 && now < world.hosts[*h].slept + SECOND) {
            bound = bound.max(bounds.owners_after_sleep);
        }
        if !world.knows(a, b) || !world.knows(b, a) {
            bound = bound.max(bounds.owners_unknown);
        }
        // A node that was cut off between two of its renewals learns by the next one that its session has ended.
        let cuts_off = |p: &Planned<Fault>, h: usize| matches!(p.fault, Any::Partition(set, ..) if has(set, h));
        let retry = nanos(world.plan.settings.rules.retry_period);
        let between = |p: &Planned<Fault>| p.lasts < retry && p.was_there(now, retry);
        if world.plan.faults.iter().any(|p| between(p) && (cuts_off(p, a) || cuts_off(p, b))) {
            bound = bound.max(bounds.owners + retry);
        }
        // Excused: a machine that stood still with its clocks defends what it had against a host that it cannot tell from a stranger, as
        // long as its session lasts in its own time, and no API tells it better.
        let lease = nanos(world.plan.settings.rules.lease_duration);
        let blind = |h: usize, other: usize| {
            let slept = world.hosts[h].slept;
            slept > 0 && now < slept + lease && !world.knows(h, other) && !world.has_api(h)
        };
        if blind(a, b) || blind(b, a) {
            bound = bound.max(lease);
        }
        bound
    }

    fn is_cut_off(settings: &Settings<Self>, inside: &[usize]) -> bool {
        let [alone] = inside else { return false };
        // A node that has its segments to itself hears nobody at any time.
        let is_there = |node: usize, segment: usize| settings.is_on(node, segment) && settings.is_wired(node, segment);
        let others = |segment: usize| (0..settings.nodes).any(|node| node != *alone && is_there(node, segment));
        (0..settings.segments).any(|segment| is_there(*alone, segment) && others(segment))
    }

    fn has_any_api(world: &World<'_>, host: usize) -> bool {
        world.has_api(host)
    }

    fn excuses(world: &World<'_>, host: usize, _standing: &Standing) -> bool {
        // Requests that the slow kernel has already taken still take that long.
        world.hosts[host].slow_until > world.now
    }

    fn owns(settings: &Settings<Self>, node: usize, vip: usize) -> bool {
        settings.own.owned == Some((node, vip))
    }

    fn calls_allowed(world: &World<'_>) -> u32 {
        world.own_calls_allowed()
    }

    fn limits(world: &World<'_>) -> Limits {
        Limits { steps: 30_000, outputs: 100 + 4 * world.vips, waiting: 8_000 * (1 + world.hosts.len()) }
    }
}
