//! Faults that only the Elector's world knows: of etcd, of the Lease, of its watch, of the API servers' health.

use std::fmt;

use super::Elector;
use super::Plan;
use super::settings::{VIP4, VIP6, servers};
use crate::clock::{MS, SECOND};
use crate::fault::Planned;
use crate::fault::{Fault as Any, Lasts, OwnFault};
use crate::plan::how;
use crate::rng::Rng;
use crate::settings::{Settings, name};
use crate::subject::Subject as _;

/// The streams of what is drawn apart, one for each time that something was added.
const APART: [u64; 5] = [11, 12, 15, 16, 17];

/// A fault. Hosts and servers are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// etcd has no leader.
    NoLeader,
    /// etcd was restored from a backup: the Lease is as it was some writes ago.
    Restore,
    /// Somebody deletes the Lease.
    Delete,
    /// Somebody strips Mooring's annotations.
    StripNotes,
    /// A node's watch breaks.
    WatchBreak(usize),
    /// A node's watch falls silent without breaking.
    WatchHang(usize),
    /// The API answers a node's watch that its version is too old (410).
    WatchGone(usize),
    /// A node's watch says again what it said before.
    WatchReplay(usize),
    /// An API server shows what happens so many milliseconds late.
    WatchLag(usize, u16),
    /// A node's API server is not ready.
    Unhealthy(usize),
    /// No node's is.
    AllUnhealthy,
    /// A node's own health probes fail, though its API server answers all others.
    OwnProbe(usize),
    /// Those of all nodes do.
    AllOwnProbes,
    /// A node's kernel removes no address.
    Keeps(usize),
    /// A foreign host has the second VIP, of which the nodes learn meanwhile.
    ForeignNew,
    /// A kube-vip takes the place of a node's agent.
    KubeVip(usize),
}

impl OwnFault for Fault {
    const NODE: &str = "cp";

    fn lasts(self) -> Lasts {
        match self {
            Self::Restore
            | Self::Delete
            | Self::StripNotes
            | Self::WatchBreak(_)
            | Self::WatchGone(_)
            | Self::WatchReplay(_)
            | Self::KubeVip(_) => Lasts::Instant,
            Self::NoLeader => Lasts::Millis(500, 6_000),
            _ => Lasts::Any,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoLeader => f.write_str("etcd has no leader"),
            Self::Restore => f.write_str("etcd is restored from a backup"),
            Self::Delete => f.write_str("the Lease is deleted"),
            Self::StripNotes => f.write_str("the Lease's annotations are stripped"),
            Self::WatchBreak(n) => write!(f, "the watch of {} breaks", name::<Self>(n)),
            Self::WatchHang(n) => write!(f, "the watch of {} falls silent", name::<Self>(n)),
            Self::WatchGone(n) => write!(f, "the watch of {} is told 410", name::<Self>(n)),
            Self::WatchReplay(n) => write!(f, "the watch of {} repeats itself", name::<Self>(n)),
            Self::WatchLag(server, ms) => write!(f, "API server {} shows changes {ms} ms late", server + 1),
            Self::Unhealthy(n) => write!(f, "the API server of {} is not ready", name::<Self>(n)),
            Self::AllUnhealthy => f.write_str("no API server is ready"),
            Self::OwnProbe(n) => write!(f, "{} does not reach its own API server", name::<Self>(n)),
            Self::AllOwnProbes => f.write_str("no node reaches its own API server"),
            Self::Keeps(n) => write!(f, "the kernel of {} removes no address", name::<Self>(n)),
            Self::ForeignNew => f.write_str("a foreign host has the VIP that the nodes learn of"),
            Self::KubeVip(n) => write!(f, "kube-vip takes the place of the agent of {}", name::<Self>(n)),
        }
    }
}

/// Draws a fault: how often each comes.
#[must_use]
pub fn draw(rng: &mut Rng, settings: &Settings<Elector>) -> Any<Fault> {
    let nodes = settings.nodes;
    let node = rng.index(nodes);
    let other = (node + 1 + rng.index(nodes.max(2) - 1)) % nodes.max(2);
    let servers = servers(settings);
    let all = |n: usize| (1_u64 << n.min(63)) - 1;
    let some = |rng: &mut Rng, n: usize| (rng.draw() & all(n)).max(1);
    match rng.below(100) {
        0..9 => Any::Crash(node),
        9..16 => Any::Freeze(node),
        16..20 => Any::Kill(node),
        20..23 => Any::Restart(node),
        23 => Any::Upgrade(rng.pick(&[500, 2_000, 4_000])),
        24..27 => Any::Starve(node, rng.pick(&[30, 120, 400, 1_500])),
        27..30 => Any::Suspend(node),
        30..33 => Any::Stun(node, rng.chance(600)),
        33..35 => Any::WallJump(node, rng.pick(&[-86_400, -30, 2, 40, 86_400])),
        35..40 => Any::LinkDown(node, 0, true),
        40..48 => Any::Partition(some(rng, nodes), None, rng.chance(500)),
        48..51 => Any::Loss(node, other, rng.pick(&[200, 600, 1_000, 1_000])),
        51..53 => Any::Noise(node, rng.pick(&[50, 200, 500, 900])),
        53..55 => Any::Delay(node, other, rng.pick(&[3, 40, 150, 600])),
        55 => Any::Twice(node, rng.pick(&[200, 1_000])),
        56..64 => Any::Api(all(servers), how(rng, true)),
        64..67 => Any::Api(some(rng, servers), how(rng, true)),
        67..74 => Any::ApiOf(node, how(rng, true)),
        74..77 => Any::Own(Fault::NoLeader),
        77 => Any::Own(if rng.chance(250) { Fault::Restore } else { Fault::WatchBreak(node) }),
        78 => Any::Own(if rng.chance(300) { Fault::Delete } else { Fault::StripNotes }),
        79 => Any::Own(Fault::WatchBreak(node)),
        80..82 => Any::Own(Fault::WatchHang(node)),
        82 => Any::Own(Fault::WatchGone(node)),
        83 => Any::Own(Fault::WatchReplay(node)),
        84..86 => Any::Own(Fault::WatchLag(rng.index(servers), rng.pick(&[100, 700, 3_000]))),
        86..90 => Any::Own(Fault::Unhealthy(node)),
        90 => Any::Own(Fault::AllUnhealthy),
        91..93 => Any::Strip(node),
        93 => Any::Primary(node),
        94..96 => Any::SlowKernel(node, rng.pick(&[20, 300, 700])),
        96 => Any::Refuse(node),
        97..99 => Any::Foreign(rng.chance(600)),
        _ => Any::Crash(other),
    }
}

/// Draws, apart from the rest, what came later. What a seed stands for stays.
pub fn widen(plan: &mut Plan, widening: usize) {
    let mut rng = Rng::new(plan.seed, APART[widening]);
    match widening {
        0 => api_servers(plan, &mut rng),
        1 => addresses(plan, &mut rng),
        _ => kube_vip(plan, &mut rng),
    }
    plan.faults.sort_by_key(|planned| planned.at);
}

/// A kube-vip declares nothing: behind a proxy nobody can tell without the API that it is gone, and nobody takes from it early if it
/// is mute. Nor does a foreign host that is gone announce that behind a proxy.
///
/// In some runs on odd networks, an API server is not ready for long after all else is over: the holder may be the one beside it. Not
/// beside a node that is mute for good, for then no node may be well.
pub fn widen_networks(plan: &mut Plan) {
    local_proxy(plan);
    let own = &plan.settings.own;
    let rival = own.rival.is_some();
    if rival || !own.learns.is_empty() {
        plan.settings.network.proxy = None;
    }
    let for_good = |planned: &Planned<Fault>| matches!(planned.fault, Any::Mute(..)) && planned.lasts == 0;
    plan.faults.retain(|planned| !rival || !for_good(planned));
    let mute = plan.faults.iter().any(for_good);
    let mut rng = Rng::new(plan.seed, APART[3]);
    let network = &plan.settings.network;
    if mute || !(network.isolated || network.is_odd()) || !rng.chance(500) {
        return;
    }
    let at = plan.faults_end() + 2 * Elector::bounds(&plan.settings).informed + rng.below(5 * SECOND);
    let fault = Any::Own(Fault::Unhealthy(rng.index(plan.settings.nodes)));
    plan.faults.push(Planned { at, lasts: 70 * SECOND, fault });
}

/// Draws, on networks that are plain otherwise, gateways with local proxy ARP: as Linux answers by default, or at once. Some of them
/// are there because ports are kept apart.
fn local_proxy(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, APART[4]);
    let network = &mut plan.settings.network;
    if network.isolated || network.is_odd() || !rng.chance(80) {
        return;
    }
    network.local_proxy = Some(rng.pick(&[0, 0, 800 * MS]));
    network.isolated = rng.chance(150);
}

/// Where API servers listen, and own probes that fail.
fn api_servers(plan: &mut Plan, rng: &mut Rng) {
    let nodes = plan.settings.nodes;
    plan.settings.own.apart = rng.chance(300);
    if !rng.chance(150) {
        return;
    }
    plan.settings.own.own_probes_fail = true;
    let fault = if rng.chance(600) { Fault::AllOwnProbes } else { Fault::OwnProbe(rng.index(nodes)) };
    // Other faults come and go meanwhile.
    let at = rng.below(60 * SECOND);
    let lasts = 10 * SECOND + rng.below(60 * SECOND);
    plan.faults.push(Planned { at, lasts, fault: Any::Own(fault) });
}

/// Kernels that remove no address, while a link goes down; and a VIP of which the nodes learn late.
fn addresses(plan: &mut Plan, rng: &mut Rng) {
    let nodes = plan.settings.nodes;
    if rng.chance(60) {
        let (host, at) = (rng.index(nodes), 9 * SECOND + rng.below(60 * SECOND));
        let lasts = 2 * SECOND + rng.below(10 * SECOND);
        plan.faults.push(Planned { at, lasts, fault: Any::Own(Fault::Keeps(host)) });
        let down = Planned { at: at + rng.below(SECOND), lasts, fault: Any::LinkDown(host, 0, true) };
        plan.faults.push(down);
    }
    if rng.chance(60) && plan.settings.own.rival.is_none() {
        plan.settings.own.vips = vec![VIP4, VIP6];
        let at = 12 * SECOND + rng.below(30 * SECOND);
        plan.settings.own.learns = (0..nodes).map(|_| at + rng.below(3 * SECOND)).collect();
        plan.faults.retain(|planned| !matches!(planned.fault, Any::Foreign(_)));
        // Long before the nodes learn of the VIP: a fault that begins or ends excuses much for some seconds.
        let lasts = at + 8 * SECOND + rng.below(40 * SECOND);
        plan.faults.push(Planned { at: SECOND, lasts, fault: Any::Own(Fault::ForeignNew) });
    }
}

/// An agent is killed, and a kube-vip is started in its place: if the node holds the Lease, kube-vip adopts it. Then the segment
/// does not reach the node for a while, and the API does.
fn kube_vip(plan: &mut Plan, rng: &mut Rng) {
    let own = &plan.settings.own;
    if !rng.chance(60) || own.rival.is_some() || !own.learns.is_empty() || plan.settings.nodes < 3 {
        return;
    }
    let node = rng.index(plan.settings.nodes);
    (plan.settings.own.rival, plan.settings.own.takes_over) = (Some(node), true);
    let at = 12 * SECOND + rng.below(30 * SECOND);
    plan.faults.push(Planned { at, lasts: 0, fault: Any::Own(Fault::KubeVip(node)) });
    let at = at + 2 * SECOND + rng.below(20 * SECOND);
    let lasts = SECOND + rng.below(10 * SECOND);
    plan.faults.push(Planned { at, lasts, fault: Any::Partition(1 << node, None, false) });
}
