//! The health of the service behind the VIPs: this node's, and the peers'.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Elector;
use crate::health::Verdict;
use crate::time::Time;

/// The pause before the peers are asked again, when none was better.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(2);
/// The pause after a hand-over that nobody takes doubles so many times: to about a minute.
const MOST_DOUBLED: u32 = 5;

/// The service's health decides whether this node should have the VIPs. It never decides which node has them.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The verdict on this node's own service. None: there is no verdict yet.
    pub(super) verdict: Option<Verdict>,
    /// The last question to the peers.
    pub(super) asked: Option<Asked>,
    /// The earliest time of the next hand-over because of health.
    pub(super) ask_again_at: Time,
    /// What the last question found.
    pub(super) found: Found,
    /// How many hand-overs because of health have found no taker in a row.
    pub(super) not_taken: u32,
    /// How many looks in a row have found healthy API servers, and no participant that they belong to.
    pub(super) unnamed: u32,
    /// Who was asked for at a look, and when last: under a limit of frames a few of them each time.
    pub(super) looked_for: BTreeMap<IpAddr, Time>,
}

/// What an unhealthy holder found when it asked its peers last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    /// It has not asked.
    #[default]
    Nothing,
    /// No peer was healthy either, or this node's own service was healthy again.
    NobodyBetter,
    /// A peer was healthy, and this node's own service was not.
    Better,
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
    /// A new verdict: earlier hand-overs say nothing about the next one.
    pub(super) fn judged(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.found = Found::Nothing;
        self.not_taken = 0;
    }

    /// A hand-over because of health found no taker. The next one waits longer each time: the candidates find themselves
    /// less well than this node finds them.
    pub(super) fn was_not_taken(&mut self, now: Time) {
        self.ask_again_at = now + ASK_AGAIN * (1 << self.not_taken.min(MOST_DOUBLED));
        self.not_taken = self.not_taken.saturating_add(1);
    }

    /// The healthy peers by the last answer.
    pub(super) fn healthy_peers(&self) -> Option<&[IpAddr]> {
        self.asked.as_ref().and_then(|asked| asked.healthy.as_deref())
    }
}

impl Elector {
    /// Whether this node should have the VIPs like any other. A node without an API server should, as long as no peer has
    /// one: then API servers are elsewhere for all.
    pub(super) fn is_healthy(&self) -> bool {
        match self.service.verdict {
            Some(Verdict::Healthy) => true,
            Some(Verdict::NoServer) => !self.has_a_peer_an_api_server(),
            Some(Verdict::Unhealthy) | None => false,
        }
    }

    /// Whether another node should have the VIPs rather than this one.
    pub(super) fn is_unhealthy(&self) -> bool {
        self.service.verdict.is_some() && !self.is_healthy()
    }

    fn has_a_peer_an_api_server(&self) -> bool {
        let all = self.lease.view().into_iter().flat_map(|view| &view.notes.participants);
        all.into_iter().any(|(name, peer)| *name != self.rules.node && !peer.api_servers.is_empty())
    }
}
