//! The elector's state for `mooring-agent status`, metrics and readiness.

use std::net::IpAddr;

use serde::Serialize;

use super::unleased::Kind;
use super::{Elector, Role};
use crate::lease::LeaseView;
use crate::mac::Mac;
use crate::time::Time;

/// The elector's state. It holds moments, not the time that is left: two snapshots are equal if nothing happened between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// `following`, `holding`, `lapsed`, `left-over`, `provisional` or `leaving`.
    pub role: &'static str,
    /// The Lease as last seen.
    pub lease: Option<LeaseView>,
    /// When the Lease ends by this node's clock.
    pub expires: Option<Time>,
    /// When the record was last seen to change.
    pub changed: Option<Time>,
    /// Since when no call to the API was answered.
    pub api_away: Option<Time>,
    /// The VIPs, and whether each is on the interface.
    pub vips: Vec<(IpAddr, bool)>,
    /// When the fence ends.
    pub fence: Option<Time>,
    /// Whether the segment is asked for the VIP's owner.
    pub watching: bool,
    /// Probes of the holder missed in a row.
    pub misses: u32,
    /// When the VIP's holder was last heard, to the second.
    pub heard: Option<Time>,
    /// The verdict on this node's own service, if there is one.
    pub healthy: Option<bool>,
    /// Whether the link is up, when known.
    pub link: Option<bool>,
    /// Whether other hosts on the segment answer probes.
    pub echo: crate::echo::State,
    /// The MAC addresses of another machine that holds the Lease under this node's name.
    pub twin: Option<Vec<Mac>>,
}

impl Elector {
    /// Whether this node carries the VIPs, with or without the Lease.
    #[must_use]
    pub const fn is_carrying(&self) -> bool {
        !matches!(self.role, Role::Following(_))
    }

    /// Whether this node carries the VIPs by the Lease.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        matches!(self.role, Role::Holding(_))
    }

    /// Whether this node wants the Lease, and asks the segment for another owner first.
    #[must_use]
    pub const fn is_searching(&self) -> bool {
        matches!(&self.role, Role::Following(following) if following.searching)
    }

    /// The holder that the Lease names, as last seen; empty: none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.lease.holder()
    }

    /// The Lease, as last seen.
    #[must_use]
    pub fn lease(&self) -> Option<&LeaseView> {
        self.lease.view()
    }

    /// Whether another program (kube-vip) has the Lease, and has not lost it: its VIPs are that program's matter.
    #[must_use]
    pub fn is_held_by_other_program(&self, now: Time) -> bool {
        self.leaves_owners_to_holder() && self.lease.expires(&self.rules).is_some_and(|end| end > now)
    }

    /// The Lease's version, as last seen.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.lease.version()
    }

    /// The state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let role = match &self.role {
            Role::Following(_) => "following",
            Role::Holding(_) => "holding",
            Role::Unleased(u) => match u.kind {
                Kind::Lapsed => "lapsed",
                Kind::LeftOver => "left-over",
                Kind::Provisional => "provisional",
            },
            Role::Leaving(_) => "leaving",
        };
        let (misses, heard) = self.segment.witness.state();
        Snapshot {
            role,
            lease: self.lease.view().cloned(),
            expires: self.lease.expires(&self.rules),
            changed: self.lease.is_known().then(|| self.lease.changed()),
            api_away: self.api.away,
            vips: self.vips.iter().map(|(address, vip)| (*address, vip.is_put())).collect(),
            fence: self.deadline(),
            watching: self.segment.witness.next().is_some(),
            misses,
            heard: heard.map(|at| Time::from_nanos(at.as_nanos() / 1_000_000_000 * 1_000_000_000)),
            healthy: self.service.verdict.and_then(Option::from),
            link: self.segment.link.known(),
            echo: self.segment.echoes,
            twin: self.twin().map(<[Mac]>::to_vec),
        }
    }
}
