//! A VIP that is carried here: by what right, until when, and what other hosts say about it.

use crate::action::Cause;
use crate::mac::Mac;
use crate::time::Time;

/// The VIP is carried here. All that a hold knows is forgotten with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) basis: Basis,
    /// The deadline of the fence that was asked for last.
    pub(super) deadline: Time,
    /// When the kernel drops it, by the lifetime asked for last.
    pub(super) dropped_at: Time,
    /// The kernel has not given it that lifetime: the request is repeated then. Until then an earlier fence is in force, which ends
    /// no later.
    pub(super) refresh_again: Option<Time>,
    /// On which interface.
    pub(super) interface: u32,
    /// When this node took it; the beginning of time if an earlier run of the agent did.
    pub(super) since: Time,
    /// Whether it is on the interface, as far as the datapath has answered.
    pub(super) put: bool,
    /// Another program removed it, and the kernel has not put it back yet.
    pub(super) restoring: bool,
    /// That this node took it is not reported yet, and why: its interface refused it last time.
    pub(super) untold: Option<Cause>,
    /// The last holder was silent, and may come back with it until then: it is asked for.
    pub(super) returns_until: Option<Time>,
    /// The node that handed it over (by the hash of its name), which serves until it hears this one: for so long at most.
    pub(super) given: Option<(u64, Time)>,
    /// This node lets others take it: it goes when the successor is heard, not when the record names one.
    pub(super) handover: Option<Handover>,
    /// The version of the recorded holder's session when a provisional hold began: should it change, that one is alive.
    pub(super) other: Option<u64>,
    /// Another host's claim that has no answer yet.
    pub(super) challenge: Option<Challenge>,
    /// The MAC address of a host that claimed the VIP just after that host's last claim, or a stranger's, was answered. The claim is
    /// handled in the next round.
    pub(super) waiting: Option<Mac>,
    /// Somebody asked to have it where it would be if it were placed anew.
    pub(super) rebalance: bool,
}

/// By what a VIP is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// The record names this node's incarnation.
    Recorded,
    /// The record is still on its way, since then.
    Beside(Time),
    /// The API cannot be asked.
    Provisional,
    /// An earlier run of this agent had it.
    LeftOver,
}

/// A hand-over that this node has agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handover {
    /// When the successor was first heard.
    pub(super) heard: Option<Time>,
    /// When the record first named another.
    pub(super) named: Option<Time>,
}

/// Another host spoke for the VIP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) since: Time,
    pub(super) by_peer: bool,
    pub(super) mac: Mac,
}

impl Basis {
    /// Whether it rests on this node's session: without that the VIP is let go.
    pub(super) fn is_by_session(self) -> bool {
        matches!(self, Self::Recorded | Self::Beside(_))
    }
}

impl Hold {
    /// The VIP is to be carried from now on.
    pub(super) fn new(basis: Basis, interface: u32, deadline: Time) -> Self {
        Self {
            basis,
            deadline,
            dropped_at: deadline,
            refresh_again: None,
            interface,
            since: Time::default(),
            put: false,
            restoring: false,
            untold: None,
            returns_until: None,
            given: None,
            handover: None,
            other: None,
            challenge: None,
            waiting: None,
            rebalance: false,
        }
    }
}
