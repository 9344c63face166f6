//! Faults that only the world of session VIPs knows: of sessions, records, VIPs that come and go, endpoints, nodes, watches.

use std::fmt;

use mooring_agent_core::lease::Record;
use mooring_agent_core::session::{Declared, View, number};

use super::SessionVips;
use super::api::Of;
use crate::fault::{Fault as Any, Lasts, OwnFault};
use crate::plan::how;
use crate::rng::Rng;
use crate::settings::{Settings, name};

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
        Any::Partition(_, of, _) | Any::Mute(_, of, _) => of.is_none_or(|of| of == segment),
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
