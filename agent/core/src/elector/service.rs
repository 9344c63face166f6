//! The health of the service behind the VIPs: this node's, and the peers'.

use std::net::IpAddr;

use crate::time::Time;

/// The service's health decides whether this node should have the VIPs. It never decides which node has them.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The verdict on this node's own service. None: there is no verdict yet.
    pub(super) healthy: Option<bool>,
    /// The last question to the peers.
    pub(super) asked: Option<Asked>,
    /// The earliest time of the next hand-over because of health.
    pub(super) ask_again_at: Time,
    /// At the last question no peer was healthy either.
    pub(super) nobody_was_better: bool,
}

/// A question to all peers about their health.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) at: Time,
    /// The healthy peers. None: no answer yet.
    pub(super) healthy: Option<Vec<IpAddr>>,
}

impl Service {
    /// The healthy peers by the last answer.
    pub(super) fn healthy_peers(&self) -> Option<&[IpAddr]> {
        self.asked.as_ref().and_then(|asked| asked.healthy.as_deref())
    }
}
