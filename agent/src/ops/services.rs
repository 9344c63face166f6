//! The part of the status document that is about VIPs of Services.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::table;
use crate::core::echo::State;
use crate::reports::echo;

/// Longest text in a cell of a table, in characters.
const WIDEST: usize = 120;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesStatus {
    /// The rule that places the VIPs: `session`, or kube-vip's `global-lease` or `lease-per-service`.
    #[serde(default)]
    pub placement: String,
    /// This node's session: `none`, `live`, `lapsed` or `leaving`.
    pub session: String,
    /// Its Lease, NAMESPACE/NAME; or the Lease that all Services share.
    pub lease: String,
    /// Its transition number.
    pub transitions: Option<u32>,
    /// When it ends if it is not renewed, in milliseconds.
    pub ends_in_ms: Option<u64>,
    /// Since when the API has answered no call, in milliseconds.
    pub api_away_ms: Option<u64>,
    /// The API server in use; empty: none yet.
    pub api_server: String,
    /// The interfaces that VIPs may be on, the default one first.
    pub interfaces: Vec<String>,
    /// What the segments of the interfaces answer, by interface. With a Lease for all Services, or for each: the worst of all, without one.
    #[serde(default)]
    pub probes: BTreeMap<String, State>,
    /// The nodes that this one watches on the segment.
    pub watches: Vec<Watched>,
    /// All VIPs.
    pub vips: Vec<ServiceVip>,
}

/// A node that this one watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Its name.
    pub node: String,
    /// Whether the watcher gets no answer.
    pub silent: bool,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceVip {
    /// The address.
    pub address: IpAddr,
    /// Its `IPAddress`, NAMESPACE/NAME.
    pub object: String,
    /// The Services that have it.
    pub services: Vec<String>,
    /// The interface it belongs on.
    pub interface: String,
    /// The node in its record; empty: none.
    pub holder: String,
    /// On what ground this node carries the VIP, if it does: `recorded`, `beside`, `provisional`, `left-over`; by a
    /// Lease: `holding`, `lapsed`, `provisional`, `left-over`, `leaving`.
    pub carried: Option<String>,
    /// The nodes that would take the VIP next, in order.
    pub next: Vec<String>,
    /// Why the VIP is on its node.
    pub why: String,
}

impl ServicesStatus {
    /// The status as tables.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut out = String::new();
        let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
        let ends = self.ends_in_ms.map_or_else(String::new, |ms| format!(", ends in {} s if not renewed", ms / 1000));
        // Writing to a String cannot fail.
        if self.placement == "session" {
            let _ = writeln!(out, "session {}: {}{ends}", table::plain(&self.lease), or(&self.session, "none"));
        } else {
            let shared = table::plain(&self.lease);
            let _ = writeln!(out, "placed as kube-vip places them: {}, {shared}", table::plain(&self.placement));
        }
        let _ = write!(out, "interfaces: {}", or(&self.interfaces.join(" "), "none yet"));
        if let Some(ms) = self.api_away_ms {
            let _ = write!(
                out,
                "; no good answer from the API for {} s (away, or it refuses: the log says which)",
                ms / 1000
            );
        }
        out.push('\n');
        for (interface, state) in &self.probes {
            if matches!(state, State::Filtered | State::Nobody | State::NotAsked) {
                let on = if interface.is_empty() { String::new() } else { format!(" on {}", table::plain(interface)) };
                let _ = writeln!(out, "probes{on}: {}", echo(*state));
            }
        }
        let silent: Vec<&str> = self.watches.iter().filter(|one| one.silent).map(|one| one.node.as_str()).collect();
        if !silent.is_empty() {
            let _ = writeln!(out, "silent on the segment: {}", table::plain(&silent.join(" ")));
        }
        let rows = self.vips.iter().map(|vip| {
            let holder = match (&vip.carried, vip.holder.as_str()) {
                (Some(how), "") => format!("this node ({how})"),
                (Some(_), holder) => format!("{holder} (here)"),
                (None, holder) => or(holder, "nobody"),
            };
            let whose = if vip.services.is_empty() { vip.object.clone() } else { vip.services.join(" ") };
            vec![vip.address.to_string(), holder, or(&vip.next.join(" "), "-"), whose, vip.why.clone()]
        });
        let _ = write!(out, "\n{}", table::render(&["VIP", "HELD BY", "NEXT", "FOR", "WHY"], rows, WIDEST));
        out
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::ops) fn services() -> ServicesStatus {
        ServicesStatus {
            placement: "session".into(),
            session: "live".into(),
            lease: "mooring-system/mooring-session.n1".into(),
            transitions: Some(3),
            ends_in_ms: Some(13_900),
            api_away_ms: None,
            api_server: "https://10.0.0.1:443".into(),
            interfaces: vec!["eth0".into()],
            probes: [("eth0".to_owned(), State::Answered)].into(),
            watches: vec![Watched { node: "n2".into(), silent: true }],
            vips: vec![ServiceVip {
                address: IpAddr::from([10, 0, 0, 5]),
                object: "shop/web-ipv4".into(),
                services: vec!["shop/web".into()],
                interface: "the default one".into(),
                holder: "n1".into(),
                carried: Some("recorded".into()),
                next: vec!["n3".into()],
                why: "carried here: nobody held it".into(),
            }],
        }
    }

    #[test]
    fn tables_for_eyes() {
        let golden = "\
session mooring-system/mooring-session.n1: live, ends in 13 s if not renewed
interfaces: eth0
silent on the segment: n2

VIP       HELD BY    NEXT  FOR       WHY
10.0.0.5  n1 (here)  n3    shop/web  carried here: nobody held it
";
        assert_eq!(services().tables(), golden);
        let (placement, lease) = ("global-lease".into(), "kube-system/plndr-svcs-lock".into());
        let by_lease = ServicesStatus { placement, lease, ..services() };
        let nobody = |on: &str| ServicesStatus { probes: [(on.to_owned(), State::Nobody)].into(), ..by_lease.clone() };
        for (on, line) in [("", "probes: no host "), ("eth1", "probes on eth1: no host ")] {
            assert!(nobody(on).tables().lines().any(|one| one.starts_with(line)), "{}", nobody(on).tables());
        }
        let first = by_lease.tables().lines().next().map(str::to_owned);
        assert_eq!(first.as_deref(), Some("placed as kube-vip places them: global-lease, kube-system/plndr-svcs-lock"));
    }
}
