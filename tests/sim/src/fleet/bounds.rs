//! How long anything may take, out of the settings.

use std::time::Duration;

use mooring_core::rules::{AWAY, CHALLENGE, MARGIN, SELF_PROBE};

use super::settings::Settings;
use super::world::BURST;
use crate::clock::{MS, Nanos, SECOND};

/// Between two probes of the client.
pub const PING: Nanos = 100 * MS;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Two carry one VIP, hear each other and can act.
    pub owners: Nanos,
    /// They do, and one has just stood still.
    pub owners_after_sleep: Nanos,
    /// They do, and one does not know that the other has a session.
    pub owners_unknown: Nanos,
    /// A hand-over, an API outage, whatever moves nothing: the client notices nothing (but for one probe).
    pub moment: Nanos,
    /// So many calls after one another, and the address put there.
    pub take: Nanos,
    /// A node falls silent in a settled world.
    pub crash: Nanos,
    /// A stopped agent, or one without an API, for so much less than a Lease keeps its VIPs.
    pub stopped: Nanos,
    /// A VIP is served by nobody, though somebody could, after anything.
    pub outage: Nanos,
    /// So long after anything, all agents know how things are.
    pub informed: Nanos,
    /// How long witnesses have heard nothing before they end a session.
    pub silence: Nanos,
    /// From the end of the last fault until all is settled.
    pub settle: Nanos,
    /// For so long it is watched that it stays so.
    pub stay: Nanos,
    /// Holders of one VIP after one event.
    pub moves: u32,
    /// Requests of one node within ten seconds, but for those that somebody else's writes cost.
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
        let (retry, lease) = (nanos(rules.retry_period), nanos(rules.lease_duration));
        let api = 2 * settings.api.1;
        let most = (settings.vips + BURST) as u64;
        let witness = !rules.witness_interval.is_zero();
        let window = nanos(if witness { rules.witness_interval } else { Duration::from_millis(100) });
        let silence = window * u64::from(rules.witness_misses);
        let take = 3 * api + 20 * MS;
        // The watchers' order, and another look should the end be contested.
        let expiry = lease + nanos(rules.stale_after()) + 2 * SECOND + take;
        let crash = if witness { silence + window + 8 * MS + take + 2 * PING } else { expiry + 2 * PING };
        // A round of probes, or its parts.
        let round = nanos(SELF_PROBE).max(most * 5 * MS);
        let owners = nanos(CHALLENGE + SELF_PROBE) + round + 100 * MS + 2 * api + 10 * settings.wire.1;
        // Turns of those before in order who do not take: dead, refusing, or in their own doubt; and one that finds a peer.
        let turns = 2 * SECOND * 3;
        let outage = expiry
            + silence
            + nanos(rules.blind_after() + rules.provisional_spread * 3 + AWAY + MARGIN)
            + turns
            + 2 * retry
            + 3 * SECOND;
        let calls = 10 * SECOND / retry * 8 + 40 + most * 3;
        Self {
            owners,
            owners_after_sleep: owners + retry.max(SECOND) + nanos(CHALLENGE),
            owners_unknown: owners + retry + SECOND,
            moment: PING + 50 * MS,
            take,
            crash,
            stopped: 3 * SECOND + 2 * retry,
            outage,
            informed: 8 * SECOND + 3 * retry + 5 * window,
            silence,
            settle: outage + 5 * SECOND,
            stay: 8 * SECOND,
            moves: 3,
            calls: u32::try_from(calls).unwrap_or(u32::MAX),
        }
    }
}
