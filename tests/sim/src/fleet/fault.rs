//! What can go wrong with sessions, records and many VIPs.

use std::fmt;

use super::api::Of;
use crate::clock::{MS, Nanos};
use crate::fault::How;

/// A fault. Hosts are numbers; sets of them are bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host is gone, all at once; at the end it boots.
    Crash(usize),
    /// The agent is stopped, then goes on.
    Freeze(usize),
    /// The agent is killed, and started again at the end.
    Kill(usize),
    /// The agent is asked to end, and started again at the end, or when it has ended.
    Restart(usize),
    /// All agents are restarted, so many milliseconds apart.
    Upgrade(u32),
    /// The agent gets the processor so many milliseconds late.
    Starve(usize, u16),
    /// The machine is suspended: boot time goes on.
    Suspend(usize),
    /// The virtual machine stands still, with its boot clock; whether its wall clock is set right afterwards.
    Stun(usize, bool),
    /// The wall clock is set, by so many seconds.
    WallJump(usize, i32),
    /// The link to a segment is down; whether the host knows.
    LinkDown(usize, usize, bool),
    /// The hosts of the set are cut off from all others on the segment of that number, or on all, and from the API if so.
    Partition(u64, Option<usize>, bool),
    /// Of a thousand frames from one to another host, so many are lost.
    Loss(usize, usize, u16),
    /// Frames from one to another host take so many milliseconds longer.
    Delay(usize, usize, u16),
    /// The API fails so for all.
    Api(How),
    /// It fails so for one node.
    ApiOf(usize, How),
    /// The store was restored from a backup.
    Restore,
    /// Somebody deletes a session's Lease.
    DeleteSession(usize),
    /// Somebody strips a session's annotations.
    StripSession(usize),
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
    /// Somebody else writes `IPAddress` objects too: so many of a thousand record writes come too late.
    Nudge(u16),
    /// An interface of a node is gone; at the end it is there again.
    Unplug(usize, usize),
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
    /// Another program removes the VIPs from a host.
    Strip(usize),
    /// The host's kernel answers the datapath so many milliseconds late.
    SlowKernel(usize, u16),
    /// The host's kernel refuses addresses.
    Refuse(usize),
    /// A host that takes no part has the first VIP.
    Foreign,
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it begins.
    pub at: Nanos,
    /// How long it lasts; 0: it has no end of its own.
    pub lasts: Nanos,
    /// What.
    pub fault: Fault,
}

impl Fault {
    /// Whether somebody may hold a VIP of that segment, be heard by others, and not by clients.
    #[must_use]
    pub fn may_hide_holders(&self, segment: usize) -> bool {
        match self {
            // Who is told that its link is down hands over.
            Self::LinkDown(_, of, told) => !told && *of == segment,
            Self::Partition(_, of, _) => of.is_none_or(|of| of == segment),
            _ => false,
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hosts are counted from 0 here, as in what `Debug` gives.
        write!(f, "{:?}", self.fault)?;
        if self.lasts > 0 {
            write!(f, ", for {} ms", self.lasts / MS)?;
        }
        Ok(())
    }
}
