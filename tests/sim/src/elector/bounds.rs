//! How long anything may take, out of the settings: the table in the docs.

use std::time::Duration;

use mooring_agent_core::rules::{AWAY, CHALLENGE, LEFT_TO_OTHERS, MARGIN, MOVES, SELF_PROBE};

use super::Elector;
use super::client::PING;
use super::settings::servers;
use crate::bounds::Bounds;
use crate::clock::{MS, Nanos, SECOND};
use crate::settings::Settings;
use crate::world::nanos;

/// The bounds that only the Elector's checks have.
#[derive(Clone, Debug)]
pub struct Own {
    /// The holder falls silent, and etcd's leader with it, or the majority. None: settings forbid to carry without the API.
    pub crash_with_leader: Option<Nanos>,
    /// What it costs to lose the race for a Lease that its holder gives back at that moment.
    pub outrun: Nanos,
    /// The holder falls silent, and no candidate may take early.
    pub expiry: Nanos,
}

/// Behind a filter by ARP sender, or a proxy that answers for the dead, a crash is noticed so much later, and as many windows as show that
/// whoever an answer to a broadcast named is gone.
const ODD: Nanos = 3 * SECOND;

/// Those of a run.
#[must_use]
pub fn of(settings: &Settings<Elector>) -> (Bounds, Own) {
    let rules = &settings.rules;
    let (retry, lease) = (nanos(rules.retry_period), nanos(rules.lease_duration));
    let api = 2 * settings.api.1;
    let ping = 2 * PING;
    let network = &settings.network;
    // A candidate that has never heard the holder does not take early.
    // Nor does one of two nodes behind local proxy ARP: no third party shows which probes pass.
    let two = network.local_proxy.is_some() && settings.nodes < 3;
    let witness = !rules.witness_interval.is_zero() && !network.isolated && !two;
    let window =
        nanos(if rules.witness_interval.is_zero() { Duration::from_millis(100) } else { rules.witness_interval });
    // A window that has just begun, and as many missed; each may close a little late.
    let silence = window * (u64::from(rules.witness_misses) + 1) + 2 * MS * u64::from(rules.witness_misses);
    // The Lease is taken and the address put there.
    let take = 2 * api + 10 * MS;
    // An observer knows of the last renewal when its watch tells; a foreign owner is ruled out before.
    // To rule one out takes longer where one sender is tried after the other, or whoever is named is asked alone.
    let looks = u64::from(network.filters) + u64::from(network.proxy.is_some());
    // Behind local proxy ARP, what the gateway answers is believed until it is known what it is.
    let routed = network.local_proxy.is_some();
    let look = silence * (1 + looks) + if routed { ODD } else { 0 };
    let expiry = lease + look + take + nanos(rules.stale_after()) + ping;
    let outrun = nanos(Duration::from_millis(200) + rules.provisional_spread) + look + take;
    // The holder's last renewal may take longer to be seen than its silence.
    let late_news = if silence < 2 * api { outrun } else { 0 };
    let odd = if network.is_odd() { ODD + window * (u64::from(rules.witness_misses) + 2) } else { 0 };
    let crash = if witness { silence + take + ping + late_news + odd } else { expiry };
    let alone = rules.provisional && rules.hold_without_api;
    // The take is not answered; the turn has come; two of one turn yield to each other, and come back by rank.
    let crash_with_leader =
        alone.then(|| crash.max(silence) + nanos(AWAY + SELF_PROBE * 2 + rules.provisional_spread * 3) + 2 * SECOND);
    // Behind a filter, a node asks with one sender and then with another.
    let asks = if network.filters { SELF_PROBE * 2 } else { SELF_PROBE };
    let owners = nanos(CHALLENGE + asks) + 100 * MS + 2 * api + 10 * settings.frame.1;
    let outage =
        expiry + nanos(rules.blind_after() + rules.provisional_spread * 3 + AWAY + MARGIN) + 4 * retry + 3 * SECOND;
    // A free VIP is left to nodes that find themselves healthy, and there may be none.
    let outage = if settings.own.own_probes_fail { outage + nanos(LEFT_TO_OTHERS) + SECOND } else { outage };
    let servers = servers(settings) as u64;
    // A renewal or a take every eighth of a retry period at most, a read every half of one, and the watch, each tried
    // with all servers; and what a new hold or a hand-over takes beside.
    let calls = servers * ((10 * SECOND).div_ceil(retry) * 10 + 14) + 30;
    let own = Own { crash_with_leader, outrun, expiry };
    let bounds = Bounds {
        owners,
        owners_after_sleep: owners + retry.max(SECOND) + nanos(CHALLENGE),
        owners_unknown: owners + nanos(rules.renew_deadline),
        moment: PING + 50 * MS,
        crash,
        stopped: 3 * SECOND + 2 * retry,
        outage,
        informed: 5 * SECOND + 3 * retry + 5 * window,
        settle: outage + 5 * SECOND,
        stay: 8 * SECOND,
        moves: u32::try_from(MOVES).unwrap_or(4) + 1,
        calls: u32::try_from(calls).unwrap_or(u32::MAX),
    };
    (bounds, own)
}
