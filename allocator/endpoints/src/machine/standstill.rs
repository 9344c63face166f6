//! How long a Cluster stays paused after its address stands everywhere.
//!
//! `kubectl apply`, Helm and the like put back one object after another. If the Cluster went on between two of them, the control
//! plane would be rolled out to machines made from the next one's text, which has no address. So a Cluster that has machines
//! goes on when nothing of it has changed for a while. A new one need not wait: whoever makes it makes each object once.

use std::time::Duration;

use mooring_allocator_core::names::{Key, Version};
use mooring_allocator_core::retained_meta::ForCluster;

use crate::objects::{Cluster, Companion, ControlPlane, Infrastructure};
use crate::reason::Reason;

use super::Machine;
use super::flaws::{Flaw, planted};

/// For this time nothing may have changed of a Cluster whose control plane is initialised. Between two objects of one
/// `kubectl apply` 4 s were seen.
const RUNNING: Duration = Duration::from_secs(15);
/// The same, if the Cluster went on once, and its control plane is not initialised yet. (The claim says so, or Cluster API has copied
/// a host to it that nobody gave.)
const BEGUN: Duration = Duration::from_secs(5);

/// What appliers put back, as it was shown last, and since when.
#[derive(Debug)]
pub(super) struct Still {
    seen: Seen,
    since: Duration,
}

#[derive(Debug, PartialEq)]
struct Seen {
    cluster: Cluster,
    infrastructure: Option<Infrastructure>,
    control_plane: Option<ControlPlane>,
    texts: Vec<(Companion, Option<Box<str>>)>,
}

/// What a Cluster that waits paused waits for, once its address stands everywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standstill {
    /// For how long nothing may have changed.
    pub(super) wanted: Duration,
    /// When that is so, if nothing changes until then.
    pub(super) at: Duration,
    /// It is so.
    pub(super) reached: bool,
}

/// Whether a claim says that the address stood everywhere: it says so only of a Cluster that goes on.
fn says_written(mark: &ForCluster) -> bool {
    let is = |(reason, _): &(Box<str>, Box<str>)| Reason::named(reason) == Some(Reason::Written);
    mark.stood.is_some() || mark.condition.as_ref().is_some_and(is)
}

impl Machine {
    /// Whether nothing of a Cluster that waits paused has changed for a while. None: it need not wait.
    pub(super) fn standstill(&mut self, key: &Key, cluster: &Cluster) -> Option<Standstill> {
        let now = self.work.now();
        let plane = cluster.control_plane.as_ref().and_then(|reference| self.control_planes.get(reference));
        let part = cluster.infrastructure.as_ref().and_then(|reference| self.infrastructures.get(reference));
        let slot = self.slots.get_mut(key)?;
        let mark = slot.claims.get(&key.name).and_then(|claim| claim.mark());
        let given = mark.is_some_and(|mark| mark.given);
        let went_on = slot.went_on || mark.is_some_and(says_written) || (cluster.host.is_some() && !given);
        let wanted = match cluster.initialised || plane.is_some_and(|one| one.initialised) {
            true => RUNNING,
            false if went_on && !planted(Flaw::ForgetsThatItWentOn) => BEGUN,
            false => Duration::ZERO,
        };
        let waits = cluster.paused && cluster.notes.paused_for_endpoint;
        if !waits || wanted.is_zero() || planted(Flaw::UnpausesAtOnce) {
            slot.still = None;
            return None;
        }
        let version = || Version::from("");
        let texts = slot.known.iter().filter(|(what, _)| matches!(what, Companion::Secret(..)));
        let texts = texts.map(|(what, known)| (what.clone(), known.reading.as_ref().and_then(|one| one.text.clone())));
        let seen = Seen {
            cluster: Cluster { version: version(), ..cluster.clone() },
            infrastructure: part.map(|one| Infrastructure { version: version(), ..one.clone() }),
            control_plane: plane.map(|one| ControlPlane { version: version(), ..one.clone() }),
            texts: texts.collect(),
        };
        let since = match &slot.still {
            Some(still) if still.seen == seen => still.since,
            _ => {
                slot.still = Some(Still { seen, since: now });
                now
            }
        };
        let at = since + wanted;
        if at > now {
            self.work.mark_at(at, key.clone());
        }
        Some(Standstill { wanted, at, reached: at <= now })
    }
}
