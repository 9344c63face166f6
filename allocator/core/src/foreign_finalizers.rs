//! The finalizers of `IPAddress` objects that have other finalizers besides ours.
//!
//! The patch that removes our finalizer writes the whole list. So the other finalizers must be known, at the version
//! that the patch carries. Hardly any object has other finalizers: only these objects are kept.

use std::collections::HashMap;

use crate::names::{Uid, Version};
use crate::protocol::flaws::{Flaw, planted};
use crate::retained_meta::Finalizers;
use crate::work::Target;

/// The lists, and the version at which each object had its list.
///
/// Invariants: an object that is not in here has no finalizer but ours, as far as the watch has shown; and an answer to
/// a write replaces only a list of the version on which the write was decided.
#[derive(Debug, Default)]
pub struct ForeignFinalizers {
    by_uid: HashMap<Uid, (Version, Finalizers)>,
    /// What the pages of an unfinished list have shown. The list counts once it is complete.
    listing: HashMap<Uid, (Version, Finalizers)>,
}

/// What is known of an object's finalizers at the version of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalizersAt {
    /// There is no finalizer but ours.
    OursAlone,
    /// This is the whole list.
    All(Finalizers),
    /// The list of another version is known: the object must be read before it is patched.
    Unknown,
}

impl ForeignFinalizers {
    /// A list of all objects begins: its first page is read next.
    pub fn list_begins(&mut self) {
        self.listing.clear();
        if planted(Flaw::HalfAListCounts) {
            self.by_uid.clear();
        }
    }

    /// A page of a list has shown an object.
    pub fn listed(&mut self, uid: &Uid, version: &Version, all: Option<Finalizers>) {
        if let Some(all) = all {
            self.listing.insert(uid.clone(), (version.clone(), all));
        }
    }

    /// The last page of a list was read: the list replaces the known state.
    pub fn list_ends(&mut self) {
        self.by_uid = std::mem::take(&mut self.listing);
    }

    /// An object was shown. `all`: its finalizers, if it has others besides ours.
    pub fn shown(&mut self, uid: &Uid, version: &Version, all: Option<Finalizers>) {
        match all {
            Some(all) => {
                self.by_uid.insert(uid.clone(), (version.clone(), all));
            }
            None if self.by_uid.is_empty() => {}
            None => {
                self.by_uid.remove(uid);
            }
        }
    }

    /// Takes the object's new state from the answer to a write about `target`. A newer state from the watch stays.
    pub fn answered(&mut self, target: &Target, version: &Version, all: Option<Finalizers>) {
        if self.by_uid.get(&target.uid).is_none_or(|(known, _)| *known == target.version) {
            self.shown(&target.uid, version, all);
        }
    }

    /// An object is gone.
    pub fn gone(&mut self, uid: &Uid) {
        self.by_uid.remove(uid);
    }

    /// The finalizers of a write's target.
    #[must_use]
    pub fn at(&self, target: &Target) -> FinalizersAt {
        match self.by_uid.get(&target.uid) {
            None => FinalizersAt::OursAlone,
            Some((version, all)) if *version == target.version => FinalizersAt::All(all.clone()),
            Some(_) => FinalizersAt::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Key;

    fn list(name: &str) -> Finalizers {
        [Box::from(name), Box::from("ours")].into()
    }

    fn target(version: &str) -> Target {
        Target { key: Key::new("n", "a"), uid: Uid::from("u"), version: Version::from(version) }
    }

    #[test]
    fn a_list_counts_at_its_version_only() {
        let mut all = ForeignFinalizers::default();
        assert_eq!(all.at(&target("5")), FinalizersAt::OursAlone);
        all.shown(&Uid::from("u"), &Version::from("5"), Some(list("theirs")));
        assert_eq!(all.at(&target("5")), FinalizersAt::All(list("theirs")));
        assert_eq!(all.at(&target("4")), FinalizersAt::Unknown);
        all.shown(&Uid::from("u"), &Version::from("6"), None);
        assert_eq!(all.at(&target("6")), FinalizersAt::OursAlone, "they were taken off");
        all.shown(&Uid::from("u"), &Version::from("7"), Some(list("theirs")));
        all.gone(&Uid::from("u"));
        assert_eq!(all.at(&target("7")), FinalizersAt::OursAlone);
    }

    #[test]
    fn an_answer_does_not_replace_what_the_watch_has_shown_since() {
        let mut all = ForeignFinalizers::default();
        all.shown(&Uid::from("u"), &Version::from("7"), Some(list("newer")));
        all.answered(&target("5"), &Version::from("6"), Some(list("older")));
        assert_eq!(all.at(&target("7")), FinalizersAt::All(list("newer")));
        all.answered(&target("7"), &Version::from("8"), None);
        assert_eq!(all.at(&target("8")), FinalizersAt::OursAlone, "what the write was decided on is replaced");
    }
}
