//! Another controller writes the status of a Service too: after a few rounds, Mooring leaves the Service to that controller.
//!
//! The Service then bears the mark [`crate::words::LEFT`], by which agents, and an allocator that starts, know. People may take the mark
//! off. Mooring takes it off, and serves the Service, once the other controller has shown no address for a while.

use std::time::Duration;

use crate::objects::Service;
use crate::request::shows_anything;

use super::flaws::{Flaw, planted};

/// After Mooring has replaced the addresses of another controller this often, it leaves the Service to that controller.
const ROUNDS: u32 = 3;
/// Replacements further apart than this do not count together: people may write a status by hand.
const WITHIN: Duration = Duration::from_mins(5);
/// A controller that has shown no address for so long does not serve the Service: it may only not have written its address again yet.
const SILENT: Duration = Duration::from_mins(1);

/// How far Mooring and another controller have come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Contest {
    /// Nobody else writes addresses.
    #[default]
    None,
    /// An address of another controller was replaced so often, one time after another, and when the last time was.
    Replaced { times: u32, last: Duration },
    /// People have taken the mark off: Mooring is to serve the Service, whatever its status shows.
    Called,
    /// The Service is left to the other controller.
    Left {
        /// Since when the status has shown nothing.
        silent: Option<Duration>,
        /// The Service bears the mark.
        marked: bool,
    },
}

impl Contest {
    /// Looks at the Service as it is now.
    pub(super) fn look(&mut self, service: &Service, now: Duration) {
        let marked = service.notes.left;
        let silent = match *self {
            Self::Left { marked: true, .. } if !marked => {
                // People have taken the mark off, or Mooring has.
                *self = if service.notes.record.is_some() { Self::None } else { Self::Called };
                return;
            }
            // The mark could not be written, and Mooring may serve the Service by now.
            Self::Left { silent: Some(since), marked: false } if !marked && now >= since + SILENT => {
                *self = Self::None;
                return;
            }
            Self::Left { silent, .. } => silent,
            // An allocator has left the Service earlier.
            _ if marked => None,
            Self::Called if service.notes.record.is_some() => {
                *self = Self::None;
                return;
            }
            Self::None | Self::Replaced { .. } | Self::Called => return,
        };
        *self = Self::Left { silent: if shows_anything(service) { None } else { silent.or(Some(now)) }, marked };
    }

    /// Whether the Service is left to another controller.
    pub(super) fn is_left(&self, now: Duration) -> bool {
        matches!(self, Self::Left { silent, .. } if silent.is_none_or(|since| now < since + SILENT))
    }

    /// Whether people want Mooring to serve the Service that was left.
    pub(super) const fn is_called(&self) -> bool {
        matches!(self, Self::Called)
    }

    /// When a Service that is left is looked at again, even if nothing changes.
    pub(super) fn looks_again(&self) -> Option<Duration> {
        if let Self::Left { silent, .. } = self { silent.map(|since| since + SILENT) } else { None }
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
    pub(super) const fn leave(&mut self) {
        *self = Self::Left { silent: None, marked: false };
    }
}
