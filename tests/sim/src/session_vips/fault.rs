//! Faults that only the world of session VIPs knows: of sessions, records, VIPs that come and go, endpoints, nodes, watches.

use std::fmt;

use mooring_agent_core::lease::Record;
use mooring_agent_core::session::{Declared, View, number};

use super::api::Of;
use super::{Plan, SessionVips};
use crate::clock::{MS, SECOND};
use crate::fault::{Fault as Any, How, Lasts, OwnFault, Planned};
use crate::plan::how;
use crate::rng::Rng;
use crate::settings::{Settings, name};
use crate::subject::Subject as _;

/// A fault. Hosts and VIPs are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store was restored from a backup.
    Restore,
    /// Somebody deletes a session's Lease.
    DeleteSession(usize),
    /// Somebody strips a session's annotations.
    StripSession(usize),
    /// Somebody deletes a node's member object.
    DeleteMember(usize),
    /// Somebody puts a node's member object back to what it was.
    SetMemberBack(usize, Old),
    /// Somebody strips the record of a VIP.
    StripRecord(usize),
    /// A VIP's `IPAddress` is deleted, and made again at the end.
    Delete(usize),
    /// So many VIPs more are wanted; at the end they are not.
    Burst(usize),
    /// A node's watch breaks: one of them, or all.
    WatchBreak(usize, Option<Of>),
    /// A node's watch falls silent without breaking.
    WatchHang(usize, Option<Of>),
    /// A node's watch shows what happens so many milliseconds late.
    WatchLag(usize, u16, Option<Of>),
    /// A VIP is not wanted any more, and its `IPAddress` stays; at the end it is wanted again.
    Withdraw(usize),
    /// A VIP's `IPAddress` is deleted, and made again at once.
    Remake(usize),
    /// The `IPAddress` objects of all VIPs of a node but one are deleted together, and made again at the end.
    Namespace(usize),
    /// A host announces the address of a VIP on a segment that the VIP is not on.
    Elsewhere(usize),
    /// Somebody else writes `IPAddress` objects too: so many of a thousand record writes come too late.
    Nudge(u16),
    /// A node has no endpoints; at the end it has again.
    NoEndpoints(usize),
    /// No node has any.
    NoEndpointsAnywhere,
    /// Kubernetes says that no node is ready.
    AllUnready,
    /// Kubernetes says that a node is cordoned.
    Cordon(usize),
    /// A node is drained.
    Drain(usize),
    /// Somebody asks a node to rebalance.
    Rebalance(usize),
}

/// What somebody puts a member object back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// What a backup of the store has.
    Backup,
    /// The session lived on another Lease: that was deleted since, and made again.
    OtherLease,
    /// An earlier incarnation lived.
    Earlier,
    /// Nobody can read it.
    Unreadable,
}

impl Old {
    /// What a member object says that is put back, where it says this now.
    #[must_use]
    pub fn of(self, now: &View) -> View {
        let version = number(&now.version).map_or_else(String::new, |version| (version / 2).to_string());
        let transitions = now.record.transitions.saturating_sub(1);
        let record = Record { holder: now.node.clone(), transitions, ..now.record.clone() };
        let declared = now.declared.clone().map(|all| Declared { transitions, ..all });
        let earlier = View { version, record, declared, end: None, ..now.clone() };
        match self {
            Self::Backup => now.clone(),
            Self::OtherLease => View { uid: format!("{}-before", now.uid), ..earlier },
            Self::Earlier => earlier,
            Self::Unreadable => View { uid: String::new(), version: String::new(), declared: None, ..now.clone() },
        }
    }
}

impl OwnFault for Fault {
    const NODE: &str = "node";

    fn lasts(self) -> Lasts {
        match self {
            Self::Restore
            | Self::DeleteSession(_)
            | Self::StripSession(_)
            | Self::DeleteMember(_)
            | Self::SetMemberBack(..)
            | Self::StripRecord(_)
            | Self::WatchBreak(..)
            | Self::Remake(_)
            | Self::Elsewhere(_)
            | Self::Rebalance(_) => Lasts::Instant,
            _ => Lasts::Any,
        }
    }
}

/// Which watch, for people.
fn watch(of: Option<Of>) -> &'static str {
    match of {
        None => "watches",
        Some(Of::Sessions) => "watch of sessions",
        Some(Of::Others) => "watch of all but sessions",
        Some(Of::Members) => "watch of member objects",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Restore => f.write_str("etcd is restored from a backup"),
            Self::DeleteSession(n) => write!(f, "the session of {} is deleted", name::<Self>(n)),
            Self::StripSession(n) => write!(f, "the annotations of the session of {} are stripped", name::<Self>(n)),
            Self::DeleteMember(n) => write!(f, "the member object of {} is deleted", name::<Self>(n)),
            Self::SetMemberBack(n, old) => {
                let to = match old {
                    Old::Backup => "what a backup has",
                    Old::OtherLease => "when another Lease was there",
                    Old::Earlier => "an earlier incarnation",
                    Old::Unreadable => "what nobody can read",
                };
                write!(f, "the member object of {} is set back to {to}", name::<Self>(n))
            }
            Self::StripRecord(vip) => write!(f, "the record of VIP {vip} is stripped"),
            Self::Delete(vip) => write!(f, "the IPAddress of VIP {vip} is deleted"),
            Self::Burst(count) => write!(f, "{count} VIPs more are wanted"),
            Self::WatchBreak(n, of) => write!(f, "{}: its {} break", name::<Self>(n), watch(of)),
            Self::WatchHang(n, of) => write!(f, "{}: its {} fall silent", name::<Self>(n), watch(of)),
            Self::WatchLag(n, ms, of) => write!(f, "{}: its {} show changes {ms} ms late", name::<Self>(n), watch(of)),
            Self::Withdraw(vip) => write!(f, "VIP {vip} is not wanted, and its IPAddress stays"),
            Self::Remake(vip) => write!(f, "the IPAddress of VIP {vip} is deleted and made again"),
            Self::Namespace(n) => write!(f, "the IPAddresses of all VIPs of {} but one are deleted", name::<Self>(n)),
            Self::Elsewhere(vip) => write!(f, "a host on another segment announces VIP {vip}"),
            Self::Nudge(p) => write!(f, "before {p} of 1000 record writes somebody else writes the IPAddress"),
            Self::NoEndpoints(n) => write!(f, "{} has no endpoints", name::<Self>(n)),
            Self::NoEndpointsAnywhere => f.write_str("no node has endpoints"),
            Self::AllUnready => f.write_str("no node is ready"),
            Self::Cordon(n) => write!(f, "{} is cordoned", name::<Self>(n)),
            Self::Drain(n) => write!(f, "{} is drained", name::<Self>(n)),
            Self::Rebalance(n) => write!(f, "{} is asked to rebalance", name::<Self>(n)),
        }
    }
}

/// Whether somebody may hold a VIP of that segment, be heard by others, and not by clients.
#[must_use]
pub fn may_hide_holders(fault: &Any<Fault>, segment: usize) -> bool {
    match fault {
        // A node that notices that its link is down hands its VIPs over.
        Any::LinkDown(_, of, noticed) => !noticed && *of == segment,
        Any::Partition(_, of, _) => of.is_none_or(|of| of == segment),
        _ => false,
    }
}

/// Draws a fault: how often each comes.
#[must_use]
pub fn draw(rng: &mut Rng, settings: &Settings<SessionVips>) -> Any<Fault> {
    let nodes = settings.nodes;
    let node = rng.index(nodes);
    let other = (node + 1 + rng.index(nodes.max(2) - 1)) % nodes.max(2);
    let vip = rng.index(settings.own.vips);
    let some = (rng.draw() & ((1_u64 << nodes.min(63)) - 1)).max(1);
    let segment = rng.index(settings.segments);
    match rng.below(100) {
        0..13 => Any::Crash(node),
        13..20 => Any::Freeze(node),
        20..24 => Any::Kill(node),
        24..29 => Any::Restart(node),
        29 => Any::Upgrade(rng.pick(&[500, 2_000, 4_000])),
        30..33 => Any::Starve(node, rng.pick(&[30, 120, 400, 1_500])),
        33..36 => Any::Suspend(node),
        36..39 => Any::Stun(node, rng.chance(600)),
        39 => Any::WallJump(node, rng.pick(&[-86_400, -30, 2, 40, 86_400])),
        40..45 => Any::LinkDown(node, segment, rng.chance(600)),
        45..52 => Any::Partition(some, rng.chance(400).then_some(segment), rng.chance(500)),
        52..54 => Any::Loss(node, other, rng.pick(&[200, 600, 1_000, 1_000])),
        54 => Any::Delay(node, other, rng.pick(&[3, 40, 150, 600])),
        55..63 => Any::Api(1, how(rng, false)),
        63..71 => Any::ApiOf(node, how(rng, false)),
        71 => Any::Own(if rng.chance(300) { Fault::Restore } else { Fault::DeleteSession(node) }),
        72 => Any::Own(Fault::StripSession(node)),
        73 => Any::Own(Fault::StripRecord(vip)),
        74..76 => Any::Own(Fault::Delete(vip)),
        76..78 => Any::Own(Fault::Burst(rng.pick(&[1, 5, 20]))),
        78 => Any::Own(Fault::WatchBreak(node, None)),
        79..81 => Any::Own(Fault::WatchHang(node, None)),
        81..83 => Any::Own(Fault::WatchLag(node, rng.pick(&[100, 700, 3_000]), None)),
        83..86 => Any::Own(Fault::NoEndpoints(node)),
        86 => Any::Own(Fault::NoEndpointsAnywhere),
        87 => Any::Own(Fault::AllUnready),
        88 => Any::Own(Fault::Cordon(node)),
        89..91 => Any::Own(Fault::Drain(node)),
        91 => Any::Own(Fault::Rebalance(node)),
        92 => Any::Strip(node),
        93..95 => Any::SlowKernel(node, rng.pick(&[20, 300, 700])),
        95..97 => Any::Refuse(node),
        97 => Any::Foreign(false),
        _ => Any::Crash(other),
    }
}

/// Faults that came later are drawn apart, so that seeds which once found something go on to be what they were.
pub fn widen(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 13);
    plan.settings.own.apart = rng.chance(600);
    let apart = plan.settings.own.apart;
    let some = |rng: &mut Rng| rng.chance(700).then(|| rng.pick(&[Of::Sessions, Of::Others]));
    for planned in &mut plan.faults {
        match &mut planned.fault {
            Any::Own(Fault::WatchBreak(_, of) | Fault::WatchHang(_, of) | Fault::WatchLag(_, _, of)) if apart => {
                *of = some(&mut rng);
            }
            Any::Own(Fault::Delete(vip)) if rng.chance(400) => {
                (planned.fault, planned.lasts) = (Any::Own(Fault::Remake(*vip)), 0);
            }
            Any::Own(Fault::Delete(vip)) if rng.chance(500) => planned.fault = Any::Own(Fault::Withdraw(*vip)),
            Any::LinkDown(host, segment, true) if rng.chance(300) => {
                let (host, segment) = (*host, *segment);
                if plan.settings.is_on(host, segment) {
                    planned.fault = Any::Unplug(host, segment);
                }
            }
            Any::Api(_, How::Errors | How::Slow(_)) if rng.chance(300) => {
                planned.fault = Any::Own(Fault::Nudge(rng.pick(&[100, 500, 1_000])));
            }
            _ => {}
        }
    }
}

/// In some runs a partition cuts one node off from all others and from the API, for longer than its session lasts.
pub fn cut_off_one(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 17);
    let lease = plan.settings.rules.lease_duration.as_secs().max(8) * SECOND;
    for planned in &mut plan.faults {
        if matches!(planned.fault, Any::Partition(..)) && rng.chance(400) {
            planned.fault = Any::Partition(1 << rng.index(plan.settings.nodes), None, true);
            planned.lasts = lease + rng.between(5, 12) * SECOND;
        }
    }
}

/// Nodes that are odder than those before, drawn apart again: several gateways, a port that is down all the time, bonds that change
/// their Ethernet address.
pub fn widen_nodes(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 14);
    let settings = &mut plan.settings;
    settings.gateways = rng.pick(&[1, 1, 1, 5]);
    let (node, segment) = (rng.index(settings.nodes), rng.index(settings.segments));
    if settings.segments > 1 && rng.chance(400) && settings.is_on(node, segment) {
        settings.down = Some((node, segment));
    }
    let end = plan.faults.last().map_or(0, |last| last.at);
    if rng.chance(400) {
        for _ in 0..rng.between(1, 3) {
            let at = rng.between(12 * SECOND, end.max(13 * SECOND));
            plan.faults.push(Planned { at, lasts: 0, fault: Any::NewMac(rng.index(plan.settings.nodes)) });
        }
        plan.faults.sort_by_key(|planned| planned.at);
    }
}

/// In some runs a node loses many VIPs together while others see that late; and in some a host on another segment has the address
/// of a VIP, while an API server fails.
pub fn widen_segments(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 18);
    let (nodes, vips, segments) = (plan.settings.nodes, plan.settings.own.vips, plan.settings.segments);
    let of = plan.settings.own.apart.then_some(Of::Others);
    let mut more = vec![];
    for planned in &plan.faults {
        let at = planned.at;
        match planned.fault {
            Any::Own(Fault::Delete(_) | Fault::Remake(_) | Fault::Withdraw(_) | Fault::Burst(_)) if rng.chance(600) => {
                let (node, late) = (rng.index(nodes), rng.pick(&[300, 900, 3_000]));
                for other in (0..nodes).filter(|other| *other != node) {
                    let fault = Any::Own(Fault::WatchLag(other, late, of));
                    more.push(Planned { at, lasts: 5 * SECOND, fault });
                }
                let lasts = rng.between(2, 12) * SECOND;
                more.push(Planned { at: at + SECOND, lasts, fault: Any::Own(Fault::Namespace(node)) });
            }
            Any::Api(..) | Any::ApiOf(..) if segments > 1 && rng.chance(600) => {
                for _ in 0..rng.between(1, 4) {
                    let fault = Any::Own(Fault::Elsewhere(rng.index(vips)));
                    more.push(Planned { at: at + rng.below(planned.lasts.max(SECOND)), lasts: 0, fault });
                }
            }
            _ => {}
        }
    }
    plan.faults.extend(more);
    plan.faults.sort_by_key(|planned| planned.at);
}

/// In some runs all nodes lose their interfaces on one segment, for some time at once, and get them back one by one.
pub fn darken_a_segment(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 19);
    if !rng.chance(200) {
        return;
    }
    let (nodes, segment) = (plan.settings.nodes, rng.index(plan.settings.segments));
    let at = plan.faults_end() + rng.between(8, 20) * SECOND;
    let dark = at + 4 * SECOND;
    let gone = rng.chance(500);
    for node in (0..nodes).filter(|node| plan.settings.is_on(*node, segment)) {
        let at = at + rng.below(3 * SECOND);
        let until = dark + rng.below(SECOND) + rng.index(nodes) as u64 * 20 * SECOND;
        let fault = if gone { Any::Unplug(node, segment) } else { Any::LinkDown(node, segment, true) };
        plan.faults.push(Planned { at, lasts: until - at, fault });
    }
    plan.faults.sort_by_key(|planned| planned.at);
}

/// In some runs the address of the last VIP is a node's own.
pub fn widen_addresses(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 20);
    let vip = plan.settings.own.vips - 1;
    let node = rng.index(plan.settings.nodes);
    if rng.chance(150) && plan.settings.is_on(node, SessionVips::segment_of(&plan.settings, vip)) {
        plan.settings.own.owned = Some((node, vip));
    }
}

/// In some runs agents of before are there, some of them until they are started again. And what happens to one of a node's watches
/// may happen to that of member objects, or to a member object itself.
pub fn widen_membership(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 22);
    let nodes = plan.settings.nodes;
    if rng.chance(250) {
        // In all runs of this kind; one in four has agents of before only.
        let all = rng.chance(250);
        plan.settings.own.of_before =
            (0..nodes).map(|_| if all || rng.chance(500) { rng.pick(&[1, 1, u32::MAX]) } else { 0 }).collect();
    }
    // Agents of before tell no labels.
    plan.settings.own.labelled = plan.settings.own.of_before.is_empty() && Rng::new(plan.seed, 23).chance(500);
    let apart = plan.settings.own.apart;
    for planned in &mut plan.faults {
        match &mut planned.fault {
            Any::Own(Fault::WatchBreak(_, of) | Fault::WatchHang(_, of) | Fault::WatchLag(_, _, of))
                if apart && rng.chance(400) =>
            {
                *of = Some(Of::Members);
            }
            Any::Own(Fault::StripSession(node) | Fault::DeleteSession(node)) if rng.chance(400) => {
                let node = *node;
                planned.fault = Any::Own(if rng.chance(500) {
                    Fault::DeleteMember(node)
                } else {
                    Fault::SetMemberBack(node, Old::Backup)
                });
            }
            _ => {}
        }
    }
}

/// In some runs nodes stand in racks: most of them are on one segment, and few on both.
pub fn widen_racks(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 25);
    let settings = &plan.settings;
    if settings.segments != 2 || settings.nodes < 4 || !settings.absent.is_empty() || !rng.chance(500) {
        return;
    }
    let owned = settings.own.owned.map(|(node, vip)| (node, SessionVips::segment_of(settings, vip)));
    let other = (0..settings.nodes).map(|node| (node, node % 2));
    let other = other.filter(|pair| settings.down != Some(*pair) && owned != Some(*pair));
    plan.settings.absent = other.filter(|_| rng.chance(800)).collect();
}

/// Somebody who changes a member object puts back more than a backup has. In some runs that happens at any time.
pub fn widen_copies(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 24);
    let old = |rng: &mut Rng| rng.pick(&[Old::Backup, Old::OtherLease, Old::Earlier, Old::Unreadable]);
    for planned in &mut plan.faults {
        if let Any::Own(Fault::SetMemberBack(_, of)) = &mut planned.fault {
            *of = old(&mut rng);
        }
    }
    if rng.chance(300) {
        let end = plan.faults_end();
        for _ in 0..rng.between(1, 3) {
            let at = rng.between(12 * SECOND, end.max(13 * SECOND));
            let fault = Any::Own(Fault::SetMemberBack(rng.index(plan.settings.nodes), old(&mut rng)));
            plan.faults.push(Planned { at, lasts: 0, fault });
        }
        plan.faults.sort_by_key(|planned| planned.at);
    }
}

/// In some runs the port of a node fails for a moment: its links and its traffic with the API pass there. What happens
/// meanwhile is told late, so the node may not know that its session was ended.
pub fn fail_ports(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 21);
    if !rng.chance(250) {
        return;
    }
    let end = plan.faults_end();
    let settled = end + 2 * SessionVips::bounds(&plan.settings).informed + rng.below(5 * SECOND);
    for at in [SessionVips::PACE.first + rng.below(end), settled] {
        let node = rng.index(plan.settings.nodes);
        let lasts = rng.between(100, 1_000) * MS;
        for segment in (0..plan.settings.segments).filter(|segment| plan.settings.is_on(node, *segment)) {
            plan.faults.push(Planned { at, lasts, fault: Any::LinkDown(node, segment, true) });
        }
        // Connections go on when their next packet is sent again.
        let lasts = lasts + rng.pick(&[0, 1, 20, 200, 700]) * MS;
        plan.faults.push(Planned { at, lasts, fault: Any::ApiOf(node, How::Hangs) });
    }
    plan.faults.sort_by_key(|planned| planned.at);
}
