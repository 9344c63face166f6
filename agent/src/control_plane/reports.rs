//! Reports to people about the control plane's VIPs: log lines, Events, metrics.

use std::sync::Arc;

use super::lease_client::LeaseClient;
use crate::api::{EventNote, Severity};
use crate::core::control_plane::Report;
use crate::ops::Ops;
use crate::reports::{count, event, text};
use crate::settings::Settings;

/// Sends a report to the log, Events and metrics. Returns the text for the list of transitions, if the report is one.
pub fn tell(report: &Report, settings: &Settings, client: &LeaseClient, ops: &Arc<Ops>) -> Option<String> {
    count(&report.what, ops);
    let text = text(&report.what, &report.vips);
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
