//! How long anything may take, out of the settings: the table in the docs.

use std::time::Duration;

use mooring_core::rules::{AWAY, CHALLENGE, MARGIN, MOVES, SELF_PROBE};

use crate::client::PING;
use crate::clock::{MS, Nanos, SECOND};
use crate::settings::{Settings, Shape};

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Two carry one VIP, hear each other and can act.
    pub owners: Nanos,
    /// They do, and one of them has just stood still, with its clocks or without: its own timer comes within a second, or its
    /// next renewal.
    pub owners_after_sleep: Nanos,
    /// They do, and one has not seen that the other takes part: until it may no longer think that it holds the Lease.
    pub owners_unknown: Nanos,
    /// A hand-over, an API outage, whatever happens to another node: the client notices nothing (but for one probe).
    pub moment: Nanos,
    /// The holder falls silent in a settled world.
    pub crash: Nanos,
    /// It does, and etcd's leader with it, or the majority. None: settings forbid to carry without the API.
    pub crash_with_leader: Option<Nanos>,
    /// What it costs to lose the race for a Lease that its holder gives back at that moment.
    pub outrun: Nanos,
    /// A holder whose agent is stopped for so much less than a Lease keeps it.
    pub stopped: Nanos,
    /// It does, and nobody may take early.
    pub expiry: Nanos,
    /// Nobody serves, though somebody could, after anything.
    pub outage: Nanos,
    /// So long after anything, all agents know how things are, and have seen the holder answer.
    pub informed: Nanos,
    /// From the end of the last fault until all is settled.
    pub settle: Nanos,
    /// For so long it is watched that it stays so.
    pub stay: Nanos,
    /// Holders after one event; an upgrade is one event for each node.
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
        let (retry, lease) = (nanos(rules.retry_period), nanos(rules.lease_duration));
        let api = 2 * settings.api.1;
        let ping = 2 * PING;
        let witness = !rules.witness_interval.is_zero();
        let window = nanos(if witness { rules.witness_interval } else { Duration::from_millis(100) });
        // A window that has just begun, and as many missed; each may close a little late.
        let silence = window * (u64::from(rules.witness_misses) + 1) + 2 * MS * u64::from(rules.witness_misses);
        // The Lease is taken and the address put there.
        let take = 2 * api + 10 * MS;
        // An observer knows of the last renewal when its watch tells; a foreign owner is ruled out before.
        let expiry = lease + silence + take + nanos(rules.stale_after()) + ping;
        let outrun = nanos(Duration::from_millis(200) + rules.provisional_spread) + silence + take;
        // The holder's last renewal may take longer to be seen than its silence.
        let late_news = if silence < 2 * api { outrun } else { 0 };
        let crash = if witness { silence + take + ping + late_news } else { expiry };
        let alone = rules.provisional && rules.hold_without_api;
        // The take is not answered; the turn has come; two of one turn yield to each other, and come back by rank.
        let crash_with_leader = alone
            .then(|| crash.max(silence) + nanos(AWAY + SELF_PROBE * 2 + rules.provisional_spread * 3) + 2 * SECOND);
        let owners = nanos(CHALLENGE + SELF_PROBE) + 100 * MS + 2 * api + 10 * settings.wire.1;
        let outage =
            expiry + nanos(rules.blind_after() + rules.provisional_spread * 3 + AWAY + MARGIN) + 4 * retry + 3 * SECOND;
        let servers = if settings.shape == Shape::Remote { 3 } else { settings.nodes as u64 };
        // A renewal or a take every eighth of a retry period at most, a read every half of one, and the watch, each tried
        // with all servers; and what a new hold or a hand-over takes beside.
        let calls = servers * (10 * SECOND / retry * 10 + 14) + 30;
        Self {
            owners,
            owners_after_sleep: owners + retry.max(SECOND) + nanos(CHALLENGE),
            owners_unknown: owners + nanos(rules.renew_deadline),
            moment: PING + 50 * MS,
            crash,
            crash_with_leader,
            outrun,
            stopped: 3 * SECOND + 2 * retry,
            expiry,
            outage,
            informed: 5 * SECOND + 3 * retry + 5 * window,
            settle: outage + 5 * SECOND,
            stay: 8 * SECOND,
            moves: u32::try_from(MOVES).unwrap_or(4) + 1,
            calls: u32::try_from(calls).unwrap_or(u32::MAX),
        }
    }
}
