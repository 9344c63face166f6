//! When the sessions of a node had ended, by the versions of its Lease.

use super::{Incarnation, View, number};

/// The ends of so many incarnations of a node are remembered.
const MOST: usize = 4;

/// The versions by which the last incarnations of one node had ended. A Lease may be written again after its session has ended, and
/// other incarnations may come and go: of what was seen, the lowest version is closest to the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends(Vec<(Incarnation, u64)>);

impl Ends {
    /// Remembers the ends that a view of the Lease shows.
    pub(super) fn see(&mut self, view: &View) {
        let shown = view.incarnation();
        if view.is_live() {
            // A backup of the store was restored: this incarnation has not ended after all.
            self.0.retain(|(ended, _)| ended.uid != shown.uid || ended.transitions < shown.transitions);
        } else if let Some(version) = number(&view.version) {
            self.note(shown.clone(), version);
        }
        let after = view.declared().and_then(|declared| declared.after.as_deref()).and_then(number);
        if let (Some(transitions), Some(after)) = (shown.transitions.checked_sub(1), after) {
            self.note(Incarnation { transitions, ..shown }, after);
        }
    }

    fn note(&mut self, incarnation: Incarnation, by: u64) {
        if let Some((_, known)) = self.0.iter_mut().find(|(ended, _)| *ended == incarnation) {
            *known = by.min(*known);
            return;
        }
        self.0.push((incarnation, by));
        if self.0.len() > MOST {
            self.0.remove(0);
        }
    }

    /// The version by which an incarnation had ended, if that was seen.
    pub(super) fn of(&self, incarnation: &Incarnation) -> Option<u64> {
        self.0.iter().find(|(ended, _)| ended == incarnation).map(|(_, by)| *by)
    }
}
