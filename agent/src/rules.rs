//! Makes the cores' rules from the settings.

use std::time::Duration;

use crate::core::peers::Quorum;
use crate::core::rules::Rules;
use crate::settings::{ApiLoss, Settings};

/// The rules of one Lease and its VIPs.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        node: settings.node_name.clone(),
        lease_duration: settings.lease.duration,
        renew_deadline: settings.lease.renew_deadline,
        retry_period: settings.lease.retry_period,
        witness_interval: settings.witness.map_or(Duration::ZERO, |w| w.interval),
        witness_misses: settings.witness.map_or(3, |w| u32::from(w.misses)),
        hold_without_api: settings.api_loss != ApiLoss::Release,
        quorum: if settings.api_loss == ApiLoss::HoldAlone { Quorum::Nobody } else { Quorum::Most },
        provisional: settings.provisional.is_some(),
        provisional_spread: settings.provisional.map_or(Duration::ZERO, |p| p.delay),
        handover_grace: settings.handover_grace,
        link_down_delay: settings.link_down_delay,
        announce_refresh: settings.announce.refresh.unwrap_or_default(),
        conflict_probe: settings.conflict_probe,
        refresh: Duration::ZERO,
        frames_per_second: settings.rate_limit_each(),
    }
}
