//! What the keeper looks like from outside: for `mooring-agent status`, metrics and readiness.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use super::unleased::Kind;
use super::{Keeper, Role};
use crate::core::lease::LeaseView;
use crate::core::time::Time;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// `following`, `holding`, `lapsed`, `left-over`, `provisional` or `leaving`.
    pub role: &'static str,
    /// The Lease as last seen.
    pub lease: Option<LeaseView>,
    /// When the Lease ends by this node's clock.
    pub expires_in: Option<Duration>,
    /// How long ago the record was last seen to change.
    pub changed_ago: Option<Duration>,
    /// Since how long no call to the API was answered.
    pub api_away: Option<Duration>,
    /// The VIPs, whether each is on the interface, and what is left of the fence.
    pub vips: Vec<(IpAddr, bool)>,
    /// What is left of the fence.
    pub fence_left: Option<Duration>,
    /// Probes of the holder missed in a row.
    pub misses: u32,
    /// How long ago the VIP's holder was last heard.
    pub heard_ago: Option<Duration>,
    /// The verdict on the own service, when there is one.
    pub healthy: Option<bool>,
    /// Whether the link is up, when known.
    pub link: Option<bool>,
}

impl Keeper {
    /// The state at that time.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> Snapshot {
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
        let lease: Option<&LeaseView> = self.seen.view();
        Snapshot {
            role,
            expires_in: self.seen.expires(&self.rules).map(|at| at.since(now)),
            changed_ago: self.seen.is_known().then(|| now.since(self.seen.changed())),
            lease: lease.cloned(),
            api_away: self.away.map(|at| now.since(at)),
            vips: self.vips.iter().map(|(address, vip)| (*address, vip.put)).collect(),
            fence_left: self.fence().map(|until| until.since(now)),
            misses,
            heard_ago: heard.map(|at| now.since(at)),
            healthy: self.health,
            link: self.link,
        }
    }
}
