//! What is known of the service behind the VIPs: how it is here, and what the peers say of theirs.

use std::net::IpAddr;

use crate::time::Time;

/// The service's health. It decides whether this node should have the VIPs, never whose they are.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The verdict on the own service, when there is one.
    pub(super) healthy: Option<bool>,
    /// The last question to the peers.
    pub(super) asked: Option<Asked>,
    /// A hand-over for health is not tried before.
    pub(super) ask_again_at: Time,
    /// When the peers were asked last, none of them was healthy either.
    pub(super) nobody_was_better: bool,
}

/// Peers were asked for their health.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) at: Time,
    /// Those that are healthy, once that was answered.
    pub(super) healthy: Option<Vec<IpAddr>>,
}

impl Service {
    /// The peers that said that they are healthy.
    pub(super) fn healthy_peers(&self) -> Option<&[IpAddr]> {
        self.asked.as_ref().and_then(|asked| asked.healthy.as_deref())
    }
}
