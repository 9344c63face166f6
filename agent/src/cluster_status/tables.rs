//! The state as tables.

use std::fmt::Write as _;

use super::{ClusterStatus, ControlPlane, Session, VipState};
use crate::ops::table;

/// Longest text in a cell of a table, in characters.
const WIDEST: usize = 80;

/// The state as tables.
pub(super) fn render(of: &ClusterStatus) -> String {
    // Writing to a String cannot fail; nor can the writes below.
    let mut out = match &of.control_plane {
        Some(control_plane) => holder(control_plane),
        None => String::new(),
    };
    if !of.vips.is_empty() {
        let rows = of.vips.iter().map(|vip| {
            vec![
                vip.address.to_string(),
                vip.holder.clone().unwrap_or_else(|| "-".into()),
                vip.state.text().to_owned(),
                or(&vip.next.iter().take(3).cloned().collect::<Vec<_>>().join(" ")),
                or(&vip.services.join(" ")),
                vip.object.clone(),
            ]
        });
        let heading = ["VIP", "HOLDER", "STATE", "NEXT", "SERVICES", "IPADDRESS"];
        let _ = write!(out, "\n{}", table::render(&heading, rows, WIDEST));
    }
    for vip in &of.vips {
        if let Some(conflict) = &vip.conflict {
            let _ = write!(out, "\n{}: another host has it: {}", vip.address, table::plain(conflict));
        }
    }
    if !of.nodes.is_empty() {
        let rows = of.nodes.iter().map(|node| {
            let session = match &node.ended {
                Some(ended) => format!("{} ({ended})", node.session.text()),
                None => node.session.text().to_owned(),
            };
            vec![
                node.node.clone(),
                session,
                ago(node.renewed_ago_ms),
                node.vips.to_string(),
                or(&node.links.join(", ")),
            ]
        });
        let heading = ["NODE", "SESSION", "RENEWED", "VIPS", "INTERFACES"];
        let _ = write!(out, "\n{}", table::render(&heading, rows, WIDEST));
    }
    if out.is_empty() {
        out.push_str("No Lease of a control plane's VIP, no advertised IPAddress and no session is there.\n");
    }
    for unread in &of.unread {
        let _ = write!(out, "\nnot read: {}", table::plain(unread));
    }
    out
}

fn holder(of: &ControlPlane) -> String {
    let vips: Vec<String> = of.vips.iter().map(ToString::to_string).collect();
    let name = match (of.holder.as_str(), of.takes_part) {
        ("", _) => "nobody".to_owned(),
        (holder, true) => holder.to_owned(),
        (holder, false) => format!("{holder} (takes no part in early fail-over)"),
    };
    let renewed = if of.expired && !of.holder.is_empty() {
        format!("{}, late", ago(of.renewed_ago_ms))
    } else {
        ago(of.renewed_ago_ms)
    };
    let cells = vec![
        or(&vips.join(" ")),
        name,
        renewed,
        of.transitions.to_string(),
        or(&of.candidates.join(" ")),
        of.lease.clone(),
    ];
    table::render(&["CONTROL PLANE", "HOLDER", "RENEWED", "TRANSITIONS", "CANDIDATES", "LEASE"], [cells], WIDEST)
}

impl VipState {
    const fn text(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::HandedOver => "handed over",
            Self::HolderLate => "holder is late",
            Self::HolderEnded => "holder has ended",
            Self::Free => "free",
            Self::ByLease => "carried by a Lease",
        }
    }
}

impl Session {
    const fn text(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Late => "late",
            Self::Leaving => "leaving",
            Self::Ended => "ended",
        }
    }
}

fn or(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.to_owned() }
}

fn ago(ms: Option<u64>) -> String {
    ms.map_or_else(|| "never".into(), |ms| format!("{} ago", table::time(ms)))
}
