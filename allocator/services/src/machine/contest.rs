//! Another controller writes the status of a Service too: after a few rounds, Mooring leaves the Service to that controller.

use std::time::Duration;

use crate::objects::Service;

use super::flaws::{Flaw, planted};

/// After Mooring has replaced the addresses of another controller this often, it leaves the Service to that controller.
const ROUNDS: u32 = 3;
/// Replacements further apart than this do not count together: people may write a status by hand. A Service that was left
/// to a controller that shows no address is left for as long.
const WITHIN: Duration = Duration::from_mins(5);

/// How far Mooring and another controller have come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Contest {
    /// Nobody else writes addresses.
    #[default]
    None,
    /// An address of another controller was replaced so often, one time after another, and when the last time was.
    Replaced { times: u32, last: Duration },
    /// The Service is left to the other controller, since then.
    Left { since: Duration },
}

impl Contest {
    /// Whether the Service is left to another controller.
    pub(super) const fn is_left(&self) -> bool {
        matches!(self, Self::Left { .. })
    }

    /// Whether Mooring is not to replace the address of another controller once more.
    pub(super) fn is_lost(&self, now: Duration) -> bool {
        let often = |times: u32, last: Duration| times >= ROUNDS && now < last + WITHIN;
        matches!(self, Self::Replaced { times, last } if often(*times, *last)) && !planted(Flaw::FightsOn)
    }

    /// Mooring replaces an address of another controller.
    pub(super) fn replace(&mut self, now: Duration) {
        let before = match self {
            Self::Replaced { times, last } if now < *last + WITHIN => *times,
            _ => 0,
        };
        *self = Self::Replaced { times: before + 1, last: now };
    }

    /// Mooring leaves the Service to the other controller.
    pub(super) const fn leave(&mut self, now: Duration) {
        *self = Self::Left { since: now };
    }

    /// Nothing of Mooring is left on the Service. From now on the status tells whether another controller serves it, but only once the
    /// other controller shows an address: it may not yet have written it again. Returns until when that is awaited.
    pub(super) fn withdrawn(&mut self, service: &Service) -> Option<Duration> {
        match self {
            Self::Left { since } if !shows(service) => Some(*since + WITHIN),
            _ => {
                *self = Self::None;
                None
            }
        }
    }

    /// Whoever shows no address for long does not serve the Service.
    pub(super) fn expire(&mut self, service: &Service, now: Duration) {
        if let Self::Left { since } = self
            && now >= *since + WITHIN
            && !shows(service)
        {
            *self = Self::None;
        }
    }
}

/// Whether the status of a Service shows anything.
fn shows(service: &Service) -> bool {
    !service.ingress.is_empty() || !service.names.is_empty()
}
