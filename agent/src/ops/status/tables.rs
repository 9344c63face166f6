//! The status document as tables, for `mooring-agent status`.

use std::fmt::Write as _;

use super::Status;
use crate::core::echo::State;
use crate::ops::table::{self, time};
use crate::reports::echo;

/// Longest text in a cell of a table, in characters.
const WIDEST: usize = 300;

impl Status {
    /// The document as tables.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail; nor can the writes below.
        let or = |text: &str, none: &str| {
            if text.is_empty() { none.to_owned() } else { table::plain(text).into_owned() }
        };
        let alone = self.lease.name.is_empty() && self.services.is_some();
        let _ = if alone {
            writeln!(
                out,
                "{}: VIPs of Services, mooring-agent {}",
                table::plain(&self.node),
                table::plain(&self.version)
            )
        } else {
            writeln!(
                out,
                "{}: {}, on {}, mooring-agent {}",
                table::plain(&self.node),
                or(&self.state, "starts"),
                or(&self.interface, "no interface yet"),
                table::plain(&self.version)
            )
        };
        for waits in &self.waits {
            let _ = writeln!(out, "not ready: {}", table::plain(waits));
        }
        if let Some(services) = &self.services {
            let _ = write!(out, "\n{}", services.tables());
            if alone {
                return out;
            }
        }
        let vips = self.vips.iter().map(|vip| {
            let fence = vip.fence_left_ms.map_or_else(|| "-".into(), time);
            vec![format!("{}/{}", vip.address, vip.prefix), yes(vip.carried), fence]
        });
        let _ = write!(out, "\n{}", table::render(&["VIP", "CARRIED HERE", "FENCE LEFT"], vips, WIDEST));
        let lease = &self.lease;
        let nobody = if lease.renewed_ago_ms.is_some() { "nobody" } else { "not known yet" };
        let holder = if lease.mine { format!("{} (this node)", lease.holder) } else { or(&lease.holder, nobody) };
        let cells = vec![
            or(&lease.name, "-"),
            holder,
            lease.expires_in_ms.map_or_else(|| "-".into(), time),
            lease.renewed_ago_ms.map_or_else(|| "-".into(), |ms| format!("{} ago", time(ms))),
            lease.transitions.to_string(),
        ];
        let heading = ["LEASE", "HOLDER", "EXPIRES IN", "RENEWED", "TRANSITIONS"];
        let _ = write!(out, "\n{}", table::render(&heading, [cells], WIDEST));
        let _ = writeln!(
            out,
            "\nAPI server: {}, {}",
            or(&lease.api.server, "none yet"),
            if lease.api.ok { "answers" } else { "does not answer" }
        );
        if let Some(error) = &lease.api.last_error {
            let _ = writeln!(out, "last error: {}", table::plain(error));
        }
        let _ = write!(out, "witness: {}", or(&self.witness.state, "off"));
        if let Some(ago) = self.witness.answered_ago_ms {
            let _ = write!(out, ", {} misses, answered {} ago", self.witness.misses, time(ago));
        }
        out.push('\n');
        if matches!(self.witness.probes, State::Filtered | State::Nobody | State::NotAsked) {
            let _ = writeln!(out, "probes: {}", echo(self.witness.probes));
        }
        if !self.candidates.is_empty() {
            let rows = self.candidates.iter().map(|c| {
                let addresses: Vec<String> = c.addresses.iter().map(ToString::to_string).collect();
                vec![c.node.clone(), addresses.join(" "), c.healthy.map_or_else(|| "?".into(), yes)]
            });
            let _ = write!(out, "\n{}", table::render(&["CANDIDATE", "ADDRESSES", "HEALTHY"], rows, WIDEST));
        }
        if !self.transitions.is_empty() {
            let rows = self
                .transitions
                .iter()
                .rev()
                .map(|t| vec![t.at.clone(), or(&t.from, "-"), t.to.clone(), t.why.clone()]);
            let _ = write!(out, "\n{}", table::render(&["WHEN", "FROM", "TO", "WHY"], rows, WIDEST));
        }
        out
    }
}

fn yes(value: bool) -> String {
    if value { "yes".into() } else { "no".into() }
}
