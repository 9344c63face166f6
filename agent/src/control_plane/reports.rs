//! Reports to people about the control plane's VIPs: log lines, Events, metrics.

use std::sync::Arc;
use std::time::Duration;

use mooring_common::events::Recent;

use super::lease_client::LeaseClient;
use crate::api::{EventNote, Severity};
use crate::core::action::Report as What;
use crate::core::control_plane::Report;
use crate::ops::Ops;
use crate::reports::{count, event, text};
use crate::settings::Settings;

/// A VIP that the kernel refuses is tried again with each renewal: people read the same reason once in this time.
const REFUSED_AGAIN: Duration = Duration::from_mins(1);
/// How many such reasons are remembered: more than the control plane has VIPs.
const REFUSED: usize = 16;

/// The reasons why VIPs could not be carried, as people were told them lately.
#[derive(Debug)]
pub struct Refused(Recent<String>);

impl Default for Refused {
    fn default() -> Self {
        Self(Recent::new(REFUSED_AGAIN, REFUSED))
    }
}

impl Refused {
    /// Whether people were told the same a moment ago.
    fn was_told(&mut self, report: &Report, text: &str) -> bool {
        matches!(report.what, What::CannotCarry { .. }) && self.0.ask(&text.to_owned()).is_none()
    }
}

/// Sends a report to the log, Events and metrics. Returns the text for the list of transitions, if the report is one.
pub fn tell(
    report: &Report,
    refused: &mut Refused,
    settings: &Settings,
    client: &LeaseClient,
    ops: &Arc<Ops>,
) -> Option<String> {
    count(&report.what, ops);
    let text = text(&report.what, &report.vips);
    if refused.was_told(report, &text) {
        tracing::debug!("{text}");
        return None;
    }
    let Some((severity, reason, action)) = event(&report.what) else {
        tracing::debug!("{text}");
        return None;
    };
    match severity {
        Severity::Normal => tracing::info!(reason, "{text}"),
        Severity::Warning => tracing::warn!(reason, "{text}"),
    }
    let regarding = client.regarding(settings);
    let note = format!("{}: {text}", settings.node_name);
    client.events().send(EventNote { regarding, severity, reason, action, note });
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> Report {
        Report {
            vips: [].into(),
            what: What::CannotCarry { address: address.parse().unwrap(), reason: "no IPv6".into() },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_vip_is_told_once_a_minute_and_other_reports_always() {
        let mut told = Refused::default();
        let (one, other) = (refused("2001:db8::10"), refused("192.0.2.10"));
        let mut was_told = |report: &Report| told.was_told(report, &text(&report.what, &report.vips));
        assert_eq!([&one, &one, &other].map(&mut was_told), [false, true, false]);
        let late = Report { vips: [].into(), what: What::Outrun };
        assert_eq!([&late, &late].map(&mut was_told), [false, false]);
        tokio::time::advance(REFUSED_AGAIN).await;
        assert!(!was_told(&one));
    }
}
