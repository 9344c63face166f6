//! What is known of the segment: the link, the hosts that were heard, and foreign owners of VIPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::looking::WITNESSED;
use super::turns::Turns;
use crate::echo::{self, Echo};
use crate::evidence::Broadcasts;
use crate::mac::Mac;
use crate::named::NamedHosts;
use crate::peers::Peers;
use crate::proxies::Proxies;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness::Witness;

/// For how long one answer of a foreign owner counts for the next.
const FOREIGN_AGAIN: Duration = Duration::from_secs(10);

/// The segment that the VIPs are on.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) witness: Witness,
    /// Whether its windows open by themselves.
    pub(super) turns: Turns,
    /// How often no third party was heard: under a limit of frames another one is asked then.
    pub(super) turn: usize,
    /// How often one of this node's VIPs was asked for alone: under a limit of frames they take turns.
    pub(super) own_turn: usize,
    pub(super) link: Link,
    /// The VIPs on whose own interface no frames can pass.
    pub(super) unheard: BTreeSet<IpAddr>,
    /// When a gateway or a participant last answered for its own address, and from which MAC address.
    pub(super) third_heard: BTreeMap<IpAddr, (Time, Mac)>,
    /// What was asked by broadcast lately.
    pub(super) broadcasts: Broadcasts,
    /// Who is asked alone for a VIP, after an answer to a broadcast.
    pub(super) named: NamedHosts,
    /// Who answers for others.
    pub(super) proxies: Proxies,
    /// Whether probes are answered at all.
    pub(super) echo: Echo,
    /// What of that was reported.
    pub(super) echoes: echo::State,
    pub(super) foreign: Foreign,
    /// The other nodes that take part: those that are heard, and those that were.
    pub(super) peers: Peers,
}

/// The link of the interface; of several, whether any is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// No event has told yet.
    Unknown,
    /// Frames pass.
    Up,
    /// Frames do not pass. Since when.
    Down(Time),
}

/// Other hosts that have a VIP which this node wants to take.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// The last answer that was considered: the owner's MAC address, and when it was heard.
    pub(super) heard: Option<(Mac, Time)>,
    /// The MAC address that was last heard twice, and when.
    pub(super) certain: Option<(Mac, Time)>,
}

impl Segment {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            witness: Witness::new(rules.witness_interval_for(WITNESSED), rules.witness_misses),
            turns: Turns::default(),
            turn: 0,
            own_turn: 0,
            link: Link::Unknown,
            unheard: BTreeSet::new(),
            third_heard: BTreeMap::new(),
            broadcasts: Broadcasts::with_windows_of(rules.witness_interval_for(WITNESSED)),
            named: NamedHosts::default(),
            proxies: Proxies::default(),
            echo: Echo::default(),
            echoes: echo::State::default(),
            foreign: Foreign::default(),
            peers: Peers::default(),
        }
    }

    /// This node was late: silence says nothing.
    pub(super) fn forget(&mut self, now: Time) {
        self.witness.forget(now);
        self.third_heard.clear();
        self.echo.forget(self.echoes);
    }
}

impl Link {
    pub(super) fn is_up(self) -> bool {
        self == Self::Up
    }

    /// Whether the link is up, when that is known.
    pub(super) fn known(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Up => Some(true),
            Self::Down(_) => Some(false),
        }
    }

    /// Notes that the link is down. The first moment counts.
    pub(super) fn went_down(&mut self, now: Time) {
        if !matches!(self, Self::Down(_)) {
            *self = Self::Down(now);
        }
    }
}

impl Foreign {
    /// Notes that another host answered for a VIP. The host is certain to be a foreign owner when it was heard twice: heard
    /// once, it may be a peer that holds provisionally and now takes the Lease, or a peer that has released the Lease and is
    /// removing the VIP.
    pub(super) fn answered(&mut self, now: Time, mac: Mac, heard: Time) {
        let known = self.heard.replace((mac, heard));
        let first = known.is_none_or(|(who, at)| who != mac || heard.since(at) > FOREIGN_AGAIN);
        let lately = self.certain.is_some_and(|(who, at)| who == mac && now.since(at) < FOREIGN_AGAIN);
        if !first && !lately {
            self.certain = Some((mac, now));
        }
    }
}
