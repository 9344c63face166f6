//! The agent itself.

use crate::settings::Settings;

/// Holds the VIPs until it is told to stop.
///
/// # Errors
/// What keeps the agent from starting. Once it runs, nothing ends it but SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    std::future::ready(Err(anyhow::anyhow!(
        "{} VIPs, and no driver in this build to hold them",
        settings.addresses.len()
    )))
    .await
}
