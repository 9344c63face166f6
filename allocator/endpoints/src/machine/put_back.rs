//! What appliers and other controllers put back: people are told, and what they can do.
//!
//! Nothing is refused then. The address is written again each time, soon enough that nobody need know of the first times.

use std::collections::BTreeMap;
use std::time::Duration;

use mooring_allocator_core::work::ObjectWrite as _;

use super::Write;
use super::verdict::REMIND;

/// A write that is so old is no reason to speak of a later one.
const FORGOTTEN: Duration = Duration::from_hours(1);
/// So often something is written before people are told.
const OFTEN: u32 = 3;

/// The writes of a Cluster's places, by what was written.
#[derive(Debug, Default)]
pub(super) struct PutBack(BTreeMap<String, Place>);

#[derive(Debug)]
struct Place {
    count: u32,
    at: Duration,
    told: Option<Duration>,
}

impl PutBack {
    /// A write changed its object. Returns what to tell people.
    pub(super) fn wrote(&mut self, now: Duration, write: &Write) -> Option<String> {
        self.0.retain(|_, place| place.at + FORGOTTEN > now);
        let place = self.0.entry(write.said()?).or_insert(Place { count: 0, at: now, told: None });
        (place.count, place.at) = (place.count.saturating_add(1), now);
        if place.count < OFTEN || place.told.is_some_and(|told| told + REMIND > now) {
            return None;
        }
        place.told = Some(now);
        Some(format!(
            "{}; it was written {} times, less than an hour between two of them",
            message(write)?,
            place.count
        ))
    }
}

/// What to say of a write that is undone again and again.
pub(super) fn message(write: &Write) -> Option<String> {
    let advice = match write {
        Write::Unpause(_) | Write::Unmark(_) => {
            "the Cluster waits each time until nothing of it changes: leave spec.paused and the annotation to its creation, if the \
             same manifests are applied again and again"
        }
        _ => {
            "until it is written again, machines may be made without the address: leave that field out of the manifest that is \
             applied again and again, or let the same apply pause the Cluster with the annotation"
        }
    };
    Some(format!("{} was written, and somebody puts back what was there; {advice}", write.said()?))
}
