//! What is known of a VIP's `IPAddress`, which says who holds the VIP.

use crate::session::{AddressView, Holder, number};
use crate::time::Time;

/// The `IPAddress` of a VIP, as watch events, reads and answers showed it.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) object: Object,
    /// An answer showed it so, and no watch event since: what the watch is about to tell may be older.
    pub(super) ahead: bool,
    /// When its holder was last seen to change.
    pub(super) changed: Time,
    /// The last own read or write that showed it was sent then.
    pub(super) proven: Time,
}

/// The object itself.
#[derive(Debug, Default)]
pub(super) enum Object {
    /// Nothing has shown it so far.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// As last seen.
    There(AddressView),
}

/// How a view of an `IPAddress` stands to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The same object, as it was before.
    Older,
    /// The same object, as it is now.
    Newer,
    /// Another object with that address; or none, or one where there was none.
    Other,
}

impl Record {
    /// It was shown.
    pub(super) fn show(&mut self, view: Option<AddressView>) {
        self.object = view.map_or(Object::Absent, Object::There);
    }

    pub(super) fn view(&self) -> Option<&AddressView> {
        match &self.object {
            Object::Unknown | Object::Absent => None,
            Object::There(view) => Some(view),
        }
    }

    /// Its version, for the next compare-and-swap.
    pub(super) fn version(&self) -> Option<&str> {
        self.view().map(|view| view.version.as_str())
    }

    /// Whom it names.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.view().and_then(|view| view.holder.as_ref())
    }

    /// What a view says beside what is known.
    pub(super) fn is_about(&self, view: Option<&AddressView>) -> About {
        match (view, &self.object) {
            (Some(new), Object::There(old)) if new.uid == old.uid => {
                match (number(&new.version), number(&old.version)) {
                    (Some(new), Some(old)) if new < old => About::Older,
                    _ => About::Newer,
                }
            }
            (None, Object::Absent) | (_, Object::Unknown) => About::Newer,
            _ => About::Other,
        }
    }
}
