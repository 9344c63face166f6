//! How long anything may take, out of the settings: the table in the docs.

use std::time::Duration;

use mooring_core::rules::{AWAY, CHALLENGE, MARGIN, SELF_PROBE};

use crate::clock::{MS, Nanos, SECOND};
use crate::settings::Settings;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Two carry one VIP, hear each other and can act.
    pub owners: Nanos,
    /// Nobody serves, though somebody could, after anything.
    pub outage: Nanos,
    /// From the end of the last fault until all is settled.
    pub settle: Nanos,
    /// For so long it is watched that it stays so.
    pub stay: Nanos,
    /// Holders after one event.
    pub moves: u32,
    /// Requests of one node within ten seconds.
    pub calls: u32,
}

fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Bounds {
    /// Those of a run.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let rules = &settings.rules;
        let owners = CHALLENGE + SELF_PROBE + Duration::from_millis(100);
        let witness = rules.witness_interval * rules.witness_misses;
        let outage = rules.lease_duration + rules.stale_after() + rules.blind_after() + rules.retry_period * 2 + AWAY + MARGIN + witness + rules.provisional_spread + Duration::from_secs(3);
        let outage = nanos(outage);
        let calls = 20 + 10 * SECOND / nanos(rules.retry_period) * 6;
        Self {
            owners: nanos(owners) + 10 * settings.wire.1,
            outage,
            settle: outage + 5 * SECOND,
            stay: 8 * SECOND,
            moves: 4,
            calls: u32::try_from(calls).unwrap_or(u32::MAX) + 40 * u32::from(settings.api.1 > 5 * MS),
        }
    }
}
