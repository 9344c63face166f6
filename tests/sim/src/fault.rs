//! What can go wrong.

use std::fmt;

use crate::clock::{MS, Nanos};

/// How API servers fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Connections are refused; watches end.
    Refused,
    /// Nothing is answered; watches fall silent.
    Hangs,
    /// 500: an answer that says nothing.
    Errors,
    /// 403.
    Forbidden,
    /// Each way takes so many milliseconds longer.
    Slow(u16),
    /// Of a thousand requests, so many get lost before they take effect.
    LosesRequests(u16),
    /// Of a thousand requests, so many take effect and are not answered.
    LosesAnswers(u16),
}

/// A fault. Hosts are numbers; sets of them are bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host is gone, all at once; at the end it boots.
    Crash(usize),
    /// The agent is stopped (SIGSTOP), then goes on.
    Freeze(usize),
    /// The agent is killed, and started again at the end.
    Kill(usize),
    /// The agent is asked to end (SIGTERM), and started again at the end, or when it has ended.
    Restart(usize),
    /// All agents are restarted, one after the other, so many milliseconds apart.
    Upgrade(u32),
    /// The agent gets the processor so many milliseconds late.
    Starve(usize, u16),
    /// The machine is suspended: boot time goes on.
    Suspend(usize),
    /// The virtual machine stands still, with its boot clock; whether its wall clock is set right afterwards.
    Stun(usize, bool),
    /// The wall clock is set, by so many seconds.
    WallJump(usize, i32),
    /// The link is down.
    LinkDown(usize),
    /// The hosts of the set are cut off from all others, on the segment, and from their API traffic if so.
    Partition(u64, bool),
    /// Of a thousand frames from one to another host, so many are lost.
    Loss(usize, usize, u16),
    /// Of a thousand frames from and to a host, so many are lost.
    Noise(usize, u16),
    /// Frames from one to another host take so many milliseconds longer.
    Delay(usize, usize, u16),
    /// Of a thousand frames of the host, so many come twice.
    Twice(usize, u16),
    /// The API servers of the set fail so.
    Api(u64, How),
    /// One node's calls to any API server fail so.
    ApiOf(usize, How),
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
    /// A node's watch is told that its version is too old (410).
    WatchGone(usize),
    /// A node's watch says again what it said before.
    WatchReplay(usize),
    /// An API server shows what happens so many milliseconds late.
    WatchLag(usize, u16),
    /// A node's API server is not ready.
    Unhealthy(usize),
    /// No node's is.
    AllUnhealthy,
    /// Another program removes the VIPs from a host.
    Strip(usize),
    /// The host's own address is removed, and put back at the end.
    Primary(usize),
    /// The host's kernel answers the datapath so many milliseconds late.
    SlowKernel(usize, u16),
    /// The host's kernel refuses the address.
    Refuse(usize),
    /// A host that takes no part has the first VIP; whether it announces that.
    Foreign(bool),
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

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refuse connections"),
            Self::Hangs => f.write_str("hang"),
            Self::Errors => f.write_str("answer 500"),
            Self::Forbidden => f.write_str("answer 403"),
            Self::Slow(ms) => write!(f, "are {ms} ms slower"),
            Self::LosesRequests(p) => write!(f, "lose {p} of 1000 requests"),
            Self::LosesAnswers(p) => write!(f, "lose {p} of 1000 answers"),
        }
    }
}

fn set(bits: u64) -> String {
    let all: Vec<_> = (0..64).filter(|n| bits >> n & 1 == 1).map(|n| (n + 1).to_string()).collect();
    all.join("+")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cp = |n: usize| n + 1;
        match *self {
            Self::Crash(n) => write!(f, "cp{} crashes", cp(n)),
            Self::Freeze(n) => write!(f, "the agent of cp{} is stopped", cp(n)),
            Self::Kill(n) => write!(f, "the agent of cp{} is killed", cp(n)),
            Self::Restart(n) => write!(f, "the agent of cp{} is asked to end", cp(n)),
            Self::Upgrade(ms) => write!(f, "all agents are restarted, {ms} ms apart"),
            Self::Starve(n, ms) => write!(f, "the agent of cp{} is up to {ms} ms late", cp(n)),
            Self::Suspend(n) => write!(f, "cp{} is suspended", cp(n)),
            Self::Stun(n, true) => write!(f, "cp{} stands still, and its wall clock is set right later", cp(n)),
            Self::Stun(n, false) => write!(f, "cp{} stands still", cp(n)),
            Self::WallJump(n, s) => write!(f, "the wall clock of cp{} is set by {s} s", cp(n)),
            Self::LinkDown(n) => write!(f, "the link of cp{} is down", cp(n)),
            Self::Partition(who, api) => {
                write!(f, "nodes {} are cut off{}", set(who), if api { ", and from the API" } else { "" })
            }
            Self::Loss(a, b, p) => write!(f, "{p} of 1000 frames from cp{} to cp{} are lost", cp(a), cp(b)),
            Self::Noise(n, p) => write!(f, "{p} of 1000 frames from and to cp{} are lost", cp(n)),
            Self::Delay(a, b, ms) => write!(f, "frames from cp{} to cp{} take {ms} ms longer", cp(a), cp(b)),
            Self::Twice(n, p) => write!(f, "{p} of 1000 frames of cp{} come twice", cp(n)),
            Self::Api(who, how) => write!(f, "API servers {} {how}", set(who)),
            Self::ApiOf(n, how) => write!(f, "for cp{}, API servers {how}", cp(n)),
            Self::NoLeader => f.write_str("etcd has no leader"),
            Self::Restore => f.write_str("etcd is restored from a backup"),
            Self::Delete => f.write_str("the Lease is deleted"),
            Self::StripNotes => f.write_str("the Lease's annotations are stripped"),
            Self::WatchBreak(n) => write!(f, "the watch of cp{} breaks", cp(n)),
            Self::WatchHang(n) => write!(f, "the watch of cp{} falls silent", cp(n)),
            Self::WatchGone(n) => write!(f, "the watch of cp{} is told 410", cp(n)),
            Self::WatchReplay(n) => write!(f, "the watch of cp{} repeats itself", cp(n)),
            Self::WatchLag(n, ms) => write!(f, "API server {} shows changes {ms} ms late", cp(n)),
            Self::Unhealthy(n) => write!(f, "the API server of cp{} is not ready", cp(n)),
            Self::AllUnhealthy => f.write_str("no API server is ready"),
            Self::Strip(n) => write!(f, "somebody removes the VIPs from cp{}", cp(n)),
            Self::Primary(n) => write!(f, "somebody removes the own address of cp{}", cp(n)),
            Self::SlowKernel(n, ms) => write!(f, "the kernel of cp{} takes {ms} ms for an address", cp(n)),
            Self::Refuse(n) => write!(f, "the kernel of cp{} refuses addresses", cp(n)),
            Self::Foreign(true) => f.write_str("a foreign host announces the VIP"),
            Self::Foreign(false) => f.write_str("a foreign host has the VIP"),
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if self.lasts > 0 {
            write!(f, ", for {} ms", self.lasts / MS)?;
        }
        Ok(())
    }
}
