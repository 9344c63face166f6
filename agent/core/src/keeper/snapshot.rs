//! What the keeper looks like from outside: for `mooring-agent status`, metrics and readiness.

use std::net::IpAddr;

use serde::Serialize;

use super::unleased::Kind;
use super::{Keeper, Role};
use crate::lease::LeaseView;
use crate::time::Time;

/// See the module's text. Two are equal when nothing has happened between: moments stand in it, not what is left of them.
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
    /// The verdict on the own service, when there is one.
    pub healthy: Option<bool>,
    /// Whether the link is up, when known.
    pub link: Option<bool>,
}

impl Keeper {
    /// Whether this node carries the VIPs, by whatever right.
    #[must_use]
    pub const fn is_carrying(&self) -> bool {
        !matches!(self.role, Role::Following)
    }

    /// Whether it is the Lease that says so.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        matches!(self.role, Role::Holding(_))
    }

    /// Whether it is to be taken, and the segment is asked for another owner first.
    #[must_use]
    pub const fn is_searching(&self) -> bool {
        self.searching
    }

    /// Whom the Lease names, as last seen; empty: nobody.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.seen.holder()
    }

    /// Its version, as last seen.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.seen.version()
    }

    /// The state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let role = match &self.role {
            Role::Following => "following",
            Role::Holding(_) => "holding",
            Role::Unleased(u) => match u.kind {
                Kind::Lapsed => "lapsed",
                Kind::LeftOver => "left-over",
                Kind::Provisional => "provisional",
            },
            Role::Leaving(_) => "leaving",
        };
        let (misses, heard) = self.witness.state();
        Snapshot {
            role,
            lease: self.seen.view().cloned(),
            expires: self.seen.expires(&self.rules),
            changed: self.seen.is_known().then(|| self.seen.changed()),
            api_away: self.away,
            vips: self.vips.iter().map(|(address, vip)| (*address, vip.put)).collect(),
            fence: self.fence(),
            watching: self.witness.next().is_some(),
            misses,
            heard: heard.map(|at| Time::from_nanos(at.as_nanos() / 1_000_000_000 * 1_000_000_000)),
            healthy: self.health,
            link: self.link,
        }
    }
}
