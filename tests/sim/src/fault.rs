//! What can go wrong.

use std::fmt;

use crate::clock::{MS, Nanos};
use crate::network::Mute;
use crate::settings::name;

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

/// A fault that every core's world knows; `O`: one that only one core's world knows. Hosts are numbers; sets of them are bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<O> {
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
    /// The link to a segment is down; whether the host notices.
    LinkDown(usize, usize, bool),
    /// The interface on a segment is gone; at the end it is there again.
    Unplug(usize, usize),
    /// A bond of the host uses its other port, which has another Ethernet address.
    NewMac(usize),
    /// The hosts of the set are cut off from all others, on the segment of that number or on all, and from their API traffic
    /// if so.
    Partition(u64, Option<usize>, bool),
    /// Of a thousand frames from one to another host, so many are lost.
    Loss(usize, usize, u16),
    /// Of a thousand frames from and to a host, so many are lost.
    Noise(usize, u16),
    /// Frames of the host, or its agent's probes alone, are lost on their way out, on the segment of that number or on all. It hears
    /// everything. Without an end of its own it stays so.
    Mute(usize, Option<usize>, Mute),
    /// Frames from one to another host take so many milliseconds longer.
    Delay(usize, usize, u16),
    /// Of a thousand frames of the host, so many come twice.
    Twice(usize, u16),
    /// The API servers of the set fail so.
    Api(u64, How),
    /// One node's calls to any API server fail so.
    ApiOf(usize, How),
    /// Another program removes the VIPs from a host.
    Strip(usize),
    /// The host's own address is removed, and put back at the end.
    Primary(usize),
    /// The host's kernel answers the address task so many milliseconds late.
    SlowKernel(usize, u16),
    /// The host's kernel refuses addresses.
    Refuse(usize),
    /// The address task of a host gets no answer to so many of a thousand requests for addresses, whether the kernel has done what
    /// was asked or not.
    KernelSilent(usize, u16),
    /// A host that takes no part has the first VIP; whether it announces that.
    Foreign(bool),
    /// A fault that only this core's world knows.
    Own(O),
}

/// What a fault that only one core's world knows brings.
pub trait OwnFault: Copy + fmt::Debug + PartialEq + fmt::Display + Send + Sync {
    /// The nodes' name without its number. Names decide the order of candidates.
    const NODE: &str;

    /// How long the fault lasts.
    fn lasts(self) -> Lasts;
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// It has no end of its own.
    Instant,
    /// From so many milliseconds to so many.
    Millis(u64, u64),
    /// From a moment to half a minute.
    Any,
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned<O> {
    /// When it begins.
    pub at: Nanos,
    /// How long it lasts; 0: it has no end of its own.
    pub lasts: Nanos,
    /// What.
    pub fault: Fault<O>,
}

impl<O> Planned<O> {
    /// Whether it is there, or was there no longer ago than this.
    #[must_use]
    pub fn was_there(&self, now: Nanos, ago: Nanos) -> bool {
        self.at <= now && now < self.at + self.lasts + ago
    }
}

/// Whether a set has that member; sets have no more than 64.
#[must_use]
pub fn has(set: u64, member: usize) -> bool {
    member < 64 && set >> member & 1 == 1
}

/// The members of a set, for people.
fn members(bits: u64) -> String {
    let all: Vec<_> = (0..64).filter(|n| has(bits, *n)).map(|n| (n + 1).to_string()).collect();
    all.join("+")
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

impl<O: OwnFault> fmt::Display for Fault<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(n) => write!(f, "{} crashes", name::<O>(*n)),
            Self::Freeze(n) => write!(f, "the agent of {} is stopped", name::<O>(*n)),
            Self::Kill(n) => write!(f, "the agent of {} is killed", name::<O>(*n)),
            Self::Restart(n) => write!(f, "the agent of {} is asked to end", name::<O>(*n)),
            Self::Upgrade(ms) => write!(f, "all agents are restarted, {ms} ms apart"),
            Self::Starve(n, ms) => write!(f, "the agent of {} is up to {ms} ms late", name::<O>(*n)),
            Self::Suspend(n) => write!(f, "{} is suspended", name::<O>(*n)),
            Self::Stun(n, true) => write!(f, "{} stands still, and its wall clock is set right later", name::<O>(*n)),
            Self::Stun(n, false) => write!(f, "{} stands still", name::<O>(*n)),
            Self::WallJump(n, s) => write!(f, "the wall clock of {} is set by {s} s", name::<O>(*n)),
            Self::LinkDown(n, segment, true) => write!(f, "the link of {} to segment {segment} is down", name::<O>(*n)),
            Self::LinkDown(n, segment, false) => {
                write!(f, "the link of {} to segment {segment} passes nothing, unnoticed", name::<O>(*n))
            }
            Self::Unplug(n, segment) => write!(f, "the interface of {} on segment {segment} is gone", name::<O>(*n)),
            Self::NewMac(n) => write!(f, "{} changes its network port and its MAC address", name::<O>(*n)),
            Self::Partition(who, segment, api) => {
                write!(f, "nodes {} are cut off", members(*who))?;
                if let Some(segment) = segment {
                    write!(f, " on segment {segment}")?;
                }
                f.write_str(if *api { ", and from the API" } else { "" })
            }
            Self::Loss(a, b, p) => write!(f, "{p} of 1000 frames from {} to {} are lost", name::<O>(*a), name::<O>(*b)),
            Self::Noise(n, p) => write!(f, "{p} of 1000 frames from and to {} are lost", name::<O>(*n)),
            Self::Mute(n, segment, what) => {
                let what = if *what == Mute::Frames { "frames" } else { "probes" };
                write!(f, "no {what} of {} get out", name::<O>(*n))?;
                segment.map_or(Ok(()), |segment| write!(f, " on segment {segment}"))
            }
            Self::Delay(a, b, ms) => {
                write!(f, "frames from {} to {} take {ms} ms longer", name::<O>(*a), name::<O>(*b))
            }
            Self::Twice(n, p) => write!(f, "{p} of 1000 frames of {} come twice", name::<O>(*n)),
            Self::Api(who, how) => write!(f, "API servers {} {how}", members(*who)),
            Self::ApiOf(n, how) => write!(f, "for {}, API servers {how}", name::<O>(*n)),
            Self::Strip(n) => write!(f, "somebody removes the VIPs from {}", name::<O>(*n)),
            Self::Primary(n) => write!(f, "somebody removes the own address of {}", name::<O>(*n)),
            Self::SlowKernel(n, ms) => write!(f, "the kernel of {} takes {ms} ms for an address", name::<O>(*n)),
            Self::Refuse(n) => write!(f, "the kernel of {} refuses addresses", name::<O>(*n)),
            Self::KernelSilent(n, p) => {
                write!(f, "the kernel of {} does not answer {p} of 1000 requests", name::<O>(*n))
            }
            Self::Foreign(true) => f.write_str("a foreign host announces the VIP"),
            Self::Foreign(false) => f.write_str("a foreign host has the VIP"),
            Self::Own(own) => write!(f, "{own}"),
        }
    }
}

impl<O: OwnFault> fmt::Display for Planned<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if self.lasts > 0 {
            write!(f, ", for {} ms", self.lasts / MS)?;
        }
        Ok(())
    }
}
