//! The settings that the cores follow, and times that are no settings.

use std::time::Duration;

use mooring_lease::observation::Timing;
use serde::{Deserialize, Serialize};

use crate::echo::Pace;
use crate::peers::Quorum;

/// How late the step after a wake-up may be. After a later one the agent is not sure of what it knows.
pub const LATE: Duration = Duration::from_millis(500);
/// How long the API may not answer before a lapsed or provisional hold is considered.
pub const AWAY: Duration = Duration::from_millis(250);
/// How long a challenged holder waits for the API to confirm its Lease.
pub const CHALLENGE: Duration = Duration::from_millis(200);
/// How often a holder without a valid Lease asks the segment whether somebody else has the VIP.
pub const SELF_PROBE: Duration = Duration::from_millis(250);
/// How long before the end of its Lease a holder has dropped the VIP.
pub const MARGIN: Duration = Duration::from_millis(500);
/// How long before the end of a Lease the kernel may drop an address that was fenced by it: the fence's margin of 1.5 s, and
/// what rounding to whole seconds takes off.
pub const FENCE_ENDS: Duration = Duration::from_millis(2_500);
/// How long before the kernel may drop the address a holder that cannot renew has put a new fence on it.
const BEFORE_FENCE_ENDS: Duration = Duration::from_millis(250);
/// A short fence: what a holder without a valid Lease asks for. Less 1.5 s for the kernel's coarse timer, 5 s: a starved
/// agent that misses three refreshes still has its VIP.
pub const SHORT_FENCE: Duration = Duration::from_millis(6_500);
/// The fence that is left behind when the process ends while the API is away: the address is gone within 5 s.
pub const LEGACY_FENCE: Duration = Duration::from_millis(5_500);
/// How often a short fence is refreshed.
pub const SHORT_REFRESH: Duration = Duration::from_secs(1);
/// A VIP that got no new lifetime, because the kernel did not answer or refused, is refreshed again after this.
pub const REFRESH_AGAIN: Duration = Duration::from_secs(1);
/// How long only the named successor may take a released Lease.
pub const SUCCESSOR_FIRST: Duration = Duration::from_millis(200);
/// How long the old holder serves after it has heard its successor's announcement.
pub const OVERLAP: Duration = Duration::from_millis(50);
/// At most one defending announcement in this time. RFC 5227 section 2.4 (c) asks for a limit and suggests 10 s for hosts
/// that may give an address up; a VIP may not, and a client that believed the stranger waits for the next one.
pub const DEFEND: Duration = Duration::from_secs(1);
/// How long a Lease that may be taken, or a free VIP, is left to healthier nodes. Then any node takes it: a VIP on an
/// unhealthy node is better than none, and the healthy ones may be no candidates.
pub const LEFT_TO_OTHERS: Duration = Duration::from_secs(5);
/// Who took VIPs asks third parties this often until one answers: others may not hear it.
pub const MUTE_ASK: Duration = Duration::from_millis(500);
/// Who took VIPs, and whom nobody has answered for so long since, is mute, and gives them back.
pub const MUTE_AFTER: Duration = Duration::from_secs(5);
/// Within this window a VIP may move early fewer than [`MOVES`] times (EVPN fabrics freeze an address at five moves in 180 s).
pub const MOVES_WINDOW: Duration = Duration::from_mins(3);
/// So many moves within [`MOVES_WINDOW`] end early moves.
pub const MOVES: usize = 4;

/// The time between two probes where the settings name none. A holder that is alive may need a good part of it to answer.
pub const WITNESS_INTERVAL: Duration = Duration::from_millis(100);

/// A limit of fewer frames a second leaves no room to ask hosts now and then whether they answer.
const ASKS_IN_TURN: u32 = 3;
/// Of the third of a limit that is for this node's other probes, one in so many asks that.
const IN_TURN: u32 = 10;

/// No rule's time is longer; those of the settings end at an hour.
const LONGEST: Duration = Duration::from_hours(24);

/// Of a limit of frames a second on an interface, so many are for probes: two thirds, and at least one. The others are for
/// announcements.
#[must_use]
pub const fn probes_of(limit: u32) -> u32 {
    let most = limit / 3 * 2 + limit % 3 / 2;
    if most == 0 { 1 } else { most }
}

/// The rules of one Lease and its VIPs, from the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The node's name: the holder identity.
    pub node: String,
    /// `leaseDurationSeconds`; whole seconds, at least 3.
    pub lease_duration: Duration,
    /// How long a holder may fail to renew before its Lease counts as lapsed.
    pub renew_deadline: Duration,
    /// How often a holder renews.
    pub retry_period: Duration,
    /// The time between two probes of the held VIP; zero switches the witness off.
    pub witness_interval: Duration,
    /// How many silent probes in a row make a holder abandoned.
    pub witness_misses: u32,
    /// Whether a holder whose Lease lapsed because the API is away goes on (`hold`) or lets go (`release`).
    pub hold_without_api: bool,
    /// How many other nodes must be heard to go on, or to take a free VIP, while the API is silent.
    #[serde(default, skip_serializing_if = "Quorum::is_default")]
    pub quorum: Quorum,
    /// Whether a free VIP may be carried while the Lease cannot be read or taken.
    pub provisional: bool,
    /// The longest that a node waits for its turn to hold provisionally.
    pub provisional_spread: Duration,
    /// How long a leaving holder waits for its successor.
    pub handover_grace: Duration,
    /// How long a link may be down before the holder lets go.
    pub link_down_delay: Duration,
    /// The time between two announcements of a VIP that nothing happens to; zero for none.
    pub announce_refresh: Duration,
    /// Whether the segment is asked for a foreign owner before a VIP is taken that no peer is known to hold.
    pub conflict_probe: bool,
    /// How old the fence of a holder may get before a renewal gives it a new end; zero: none is older than the last renewal.
    /// With many VIPs each new fence is as many events to all who listen to netlink.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub refresh: Duration,
    /// At most so many frames a second on an interface. None: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_second: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            node: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            witness_interval: WITNESS_INTERVAL,
            witness_misses: 3,
            hold_without_api: true,
            quorum: Quorum::Most,
            provisional: true,
            provisional_spread: Duration::from_millis(200),
            handover_grace: Duration::from_secs(5),
            link_down_delay: Duration::ZERO,
            announce_refresh: Duration::from_secs(30),
            conflict_probe: true,
            refresh: Duration::ZERO,
            frames_per_second: None,
        }
    }
}

impl Rules {
    /// How long after its last renewal a holder lapses: at the renew deadline; but one that goes on without the API puts a
    /// new fence on the VIP before the kernel ends the old one, which may be [`FENCE_ENDS`] before the end of the Lease.
    #[must_use]
    pub fn lapses_after(&self) -> Duration {
        let fence = self.lease_duration.saturating_sub(FENCE_ENDS + BEFORE_FENCE_ENDS);
        // client-go spreads retries by a factor of up to 1.2: between two renewals nothing lapses.
        let fence = fence.max(self.retry_period * 6 / 5);
        if self.hold_without_api { self.renew_deadline.min(fence) } else { self.renew_deadline }
    }

    /// The time between two probes of a peer when so many addresses of peers are probed on an interface in turn: under a limit of
    /// frames, a third of it is for these probes. The other thirds are for probes of this node's own VIPs and of VIPs that it
    /// takes, and for announcements. Never less than the settings say, or [`WITNESS_INTERVAL`] where they switch the witness off: a
    /// peer may be probed then for another reason.
    #[must_use]
    pub fn witness_interval_for(&self, addresses: usize) -> Duration {
        let share = self.probe_spacing().map_or(Duration::ZERO, |spacing| {
            spacing.saturating_mul(u32::try_from(addresses).unwrap_or(u32::MAX)).min(LONGEST)
        });
        self.probe_interval().max(share)
    }

    /// The time between two probes of one address, if nothing limits frames.
    #[must_use]
    pub const fn probe_interval(&self) -> Duration {
        if self.witness_interval.is_zero() { WITNESS_INTERVAL } else { self.witness_interval }
    }

    /// The time between two frames of one kind on an interface, if frames are limited: a third of the limit.
    #[must_use]
    pub fn probe_spacing(&self) -> Option<Duration> {
        self.frames_per_second.map(|limit| Duration::from_secs(3) / limit.max(1))
    }

    /// How often hosts are asked whether they answer, while nothing is wrong.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match (self.frames_per_second, self.probe_spacing()) {
            (Some(limit), Some(spacing)) if limit >= ASKS_IN_TURN => Pace::Every(spacing * IN_TURN),
            (Some(_), _) => Pace::Never,
            (None, _) => Pace::Free,
        }
    }

    /// No second has more probes on an interface, if frames are limited: two thirds of the limit, and at least one.
    #[must_use]
    pub fn most_probes(&self) -> Option<usize> {
        self.frames_per_second.map(|limit| usize::try_from(probes_of(limit)).unwrap_or(usize::MAX))
    }

    /// As many of them are for the watch over other nodes, and as many for all other probes: half, but no fewer than a probe and
    /// one of a third party. So no plan of probes may have more.
    #[must_use]
    pub fn probes_each(&self) -> Option<usize> {
        self.most_probes().map(|most| (most / 2).max(2).min(most))
    }

    /// Whether the share of the watch and that of all other probes are partly the same: under a limit of so few frames, neither
    /// would be enough.
    #[must_use]
    pub fn watch_shares_room(&self) -> bool {
        self.most_probes().zip(self.probes_each()).is_some_and(|(most, each)| most < each * 2)
    }

    /// Whether the times are within reason: all that the settings allow is, and no sum of them overflows a [`Duration`]. A
    /// trace may contain any value.
    #[must_use]
    pub fn are_sane(&self) -> bool {
        let times = [
            self.lease_duration,
            self.renew_deadline,
            self.retry_period,
            self.witness_interval,
            self.provisional_spread,
            self.handover_grace,
            self.link_down_delay,
            self.announce_refresh,
            self.refresh,
        ];
        times.iter().all(|time| *time <= LONGEST) && self.witness_misses <= 1_000
    }

    /// The Lease is read after this long without proof that it still is as seen.
    #[must_use]
    pub fn stale_after(&self) -> Duration {
        self.retry_period + Duration::from_millis(500)
    }

    /// After this long without proof the observer was blind, and every record gets a full duration again.
    #[must_use]
    pub fn blind_after(&self) -> Duration {
        Timing::blind_after(self)
    }

    /// Whether a candidate that hears nothing from the API can tell that from a holder that does not renew: it reads the
    /// Lease before it counts as blind.
    #[must_use]
    pub fn can_tell_an_outage(&self) -> bool {
        self.blind_after() >= self.stale_after() + MARGIN
    }

    /// When this node's turn to hold provisionally comes, after a VIP was found free: a fixed hash of its name, so that
    /// nobody needs to know the others. Every further try takes another place, so that no two nodes collide for ever.
    #[must_use]
    pub fn turn(&self, attempt: u32) -> Duration {
        // FNV-1a: any fixed hash would do; this one needs no crate and never changes.
        let bytes = self.node.bytes().chain(attempt.to_be_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        self.provisional_spread * u32::try_from(hash >> 54).unwrap_or(0) / 1024
    }
}

impl Timing for Rules {
    fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    fn retry_period(&self) -> Duration {
        self.retry_period
    }
}
