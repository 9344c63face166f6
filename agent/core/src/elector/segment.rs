//! What is known of the segment: the link, who was heard, and who has VIPs that no Lease gave to them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness::Witness;

/// A foreign owner is reported, and looked for, this often.
const FOREIGN_AGAIN: Duration = Duration::from_secs(10);

/// The segment that the VIPs are on.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) witness: Witness,
    pub(super) link: Link,
    /// When a gateway or a participant was last heard, by its own address.
    pub(super) third_heard: BTreeMap<IpAddr, Time>,
    pub(super) foreign: Foreign,
}

/// The link of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing has said so far.
    Unknown,
    /// Frames pass.
    Up,
    /// Frames do not pass, since then.
    Down(Time),
}

/// Other hosts that have a VIP which this node wants to take.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// The answer that was considered last: who had the VIP, and when that was heard.
    pub(super) heard: Option<(Mac, Time)>,
    /// Who was reported last, and when.
    pub(super) reported: Option<(Mac, Time)>,
}

impl Segment {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            witness: Witness::new(rules.witness_interval, rules.witness_misses),
            link: Link::Unknown,
            third_heard: BTreeMap::new(),
            foreign: Foreign::default(),
        }
    }

    /// This node was late: what was not heard says nothing.
    pub(super) fn forget(&mut self, now: Time) {
        self.witness.forget(now);
        self.third_heard.clear();
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

    /// The link is down now; when it went down before, that counts.
    pub(super) fn went_down(&mut self, now: Time) {
        if !matches!(self, Self::Down(_)) {
            *self = Self::Down(now);
        }
    }
}

impl Foreign {
    /// Another host answered for a VIP. Whether that is to be reported: it was heard twice, and not reported lately. Heard
    /// once, it may be a peer that holds provisionally and that no Lease names yet: that one takes the Lease now; or one that
    /// has released the Lease, and removes the VIP.
    pub(super) fn answered(&mut self, now: Time, mac: Mac, heard: Time) -> bool {
        let known = self.heard.replace((mac, heard));
        let first = known.is_none_or(|(who, at)| who != mac || heard.since(at) > FOREIGN_AGAIN);
        let lately = self.reported.is_some_and(|(who, at)| who == mac && now.since(at) < FOREIGN_AGAIN);
        let report = !first && !lately;
        if report {
            self.reported = Some((mac, now));
        }
        report
    }
}
