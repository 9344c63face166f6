//! How long anything may take, out of the settings.

use std::time::Duration;

use mooring_agent_core::rules::{AWAY, CHALLENGE, LEFT_TO_OTHERS, MARGIN, MUTE_AFTER, SELF_PROBE};

use super::{BURST, SessionVips};
use crate::bounds::Bounds;
use crate::clock::{MS, Nanos, SECOND};
use crate::settings::Settings;
use crate::world::nanos;

/// Between two probes of the client.
pub const PING: Nanos = 100 * MS;

/// The bounds that only the checks of session VIPs have.
#[derive(Clone, Debug)]
pub struct Own {
    /// So many calls after one another, and the address put there.
    pub take: Nanos,
    /// How long a VIP may rest on a node that nobody hears, while another one could serve it.
    pub mute: Nanos,
    /// How long witnesses have heard nothing before they end a session, at the most.
    pub silence: Nanos,
    /// The same, at the least: a node that watches only one other.
    pub least_silence: Nanos,
}

/// Behind a filter by ARP sender, or a proxy that answers for the dead, a crash is noticed so much later, and as many windows as show that
/// whoever an answer to a broadcast named is gone.
const ODD: Nanos = 3 * SECOND;

/// Those of a run.
#[must_use]
pub fn of(settings: &Settings<SessionVips>) -> (Bounds, Own) {
    let rules = &settings.rules;
    let (retry, lease) = (nanos(rules.retry_period), nanos(rules.lease_duration));
    let api = 2 * settings.api.1;
    let most = (settings.own.vips + BURST) as u64;
    let network = &settings.network;
    // Nodes that never hear each other do not abandon each other.
    let witness = !rules.witness_interval.is_zero() && !network.isolated;
    // Under a limit of frames, a node's probes of the others come in turn.
    let interval = rules.witness_interval_for(settings.nodes);
    let window = nanos(if interval.is_zero() { Duration::from_millis(100) } else { interval });
    let limited = nanos(rules.probe_spacing().unwrap_or_default()) * most;
    let silence = window * u64::from(rules.witness_misses);
    let least_silence =
        nanos(rules.witness_interval_for(1).max(Duration::from_millis(1))) * u64::from(rules.witness_misses);
    let take = 3 * api + 20 * MS;
    // The watchers' order, and another look should the end be contested.
    let expiry = lease + nanos(rules.stale_after()) + 2 * SECOND + take;
    let odd = if network.is_odd() { ODD + window * (u64::from(rules.witness_misses) + 2) } else { 0 };
    let crash = if witness { silence + window + 8 * MS + take + 2 * PING + odd } else { expiry + 2 * PING };
    // A round of probes, or its parts.
    let round = nanos(SELF_PROBE).max(most * 5 * MS).max(2 * limited);
    // Behind a filter, a node asks with one sender and then with another.
    let asks = if network.filters { SELF_PROBE * 2 } else { SELF_PROBE };
    let owners = nanos(CHALLENGE + asks) + round + 100 * MS + 2 * api + 10 * settings.frame.1;
    // The turns of nodes earlier in order that do not take the VIP: dead, refusing, or unsure; and one turn that finds a peer.
    // Before a VIP is taken, the segment may be asked three times, and two third parties each time.
    let turns = 2 * SECOND * 3 + 9 * limited;
    let outage = expiry
        + silence
        + nanos(rules.blind_after() + rules.provisional_spread * 3 + AWAY + MARGIN)
        + turns
        + 2 * retry
        + odd
        + 3 * SECOND;
    let calls = 10 * SECOND / retry * 8 + 40 + most * 3;
    let bounds = Bounds {
        owners,
        owners_after_sleep: owners + retry.max(SECOND) + nanos(CHALLENGE),
        owners_unknown: owners + retry + SECOND,
        moment: PING + 50 * MS,
        crash,
        stopped: 3 * SECOND + 2 * retry,
        outage,
        informed: 8 * SECOND + 3 * retry + 5 * window,
        settle: outage + 5 * SECOND,
        stay: 8 * SECOND,
        moves: 3,
        calls: u32::try_from(calls).unwrap_or(u32::MAX),
    };
    // The node took the VIP before it knew that it is mute, offers it, and others come in turn. Or it was mute before, and others had
    // their time: they are unsure, or have just begun.
    let mute = crash + nanos(MUTE_AFTER + LEFT_TO_OTHERS) + turns + 2 * SECOND;
    (bounds, Own { take, mute, silence, least_silence })
}
