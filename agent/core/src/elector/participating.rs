//! The participants that the Lease names: this node among them, and not too many.

use std::time::Duration;

use super::Elector;
use super::api::Purpose;
use super::writing::TAKE_WITHIN;
use crate::lease::{MOST_PARTICIPANTS, Notes};

/// A take that finds more participants than this on the Lease leaves some of them out.
const MANY: usize = 16;
/// How many a take leaves out.
const LEFT_OUT: usize = 16;

impl Elector {
    /// Some nodes leave without removing themselves, so each take leaves out some names, others each time. Nodes that live
    /// put themselves back; if all names went at once, all nodes would write the Lease at once.
    pub(super) fn leave_some_out(&self, notes: &mut Notes, transitions: u32) {
        if notes.participants.len() <= MANY {
            return;
        }
        let names: Vec<String> = notes.participants.keys().filter(|name| **name != self.rules.node).cloned().collect();
        let first = usize::try_from(transitions).unwrap_or(0).wrapping_mul(LEFT_OUT) % names.len().max(1);
        for name in names.iter().cycle().skip(first).take(LEFT_OUT.min(names.len())) {
            notes.participants.remove(name);
        }
    }

    /// Puts this node among the participants, if there is a place. Who has taken the Lease has made one.
    pub(super) fn take_part(&self, notes: &mut Notes) {
        if !self.node.participant.macs.is_empty() && !self.has_no_place(notes) {
            notes.participants.insert(self.rules.node.clone(), self.node.participant.clone());
        }
    }

    /// How long this node waits before it adds itself: the more nodes there are, the longer, so that few writes meet.
    pub(super) fn turn_to_participate(&self) -> Duration {
        let participants = self.lease.view().map_or(0, |view| view.notes.participants.len());
        self.rules.turn(0) * u32::try_from(participants / MANY + 1).unwrap_or(1)
    }

    /// Adds this node to the participants that the Lease names, and says that it has let go of a provisional hold if the holder is
    /// to know that. The record stays as it was seen.
    pub(super) fn participate(&mut self) {
        let Some(view) = self.lease.view() else { return };
        let record = view.record.clone();
        let mut notes = view.notes.clone();
        self.take_part(&mut notes);
        if let Some(let_go) = &self.recall.unsaid {
            notes.let_go = Some(let_go.clone());
        }
        self.write_with(Purpose::Participate, record, notes, TAKE_WITHIN);
    }

    pub(super) fn is_participant(&self) -> bool {
        let known = self.lease.view().and_then(|v| v.notes.participants.get(&self.rules.node));
        known == Some(&self.node.participant)
    }

    /// Whether the Lease names so many participants that there is no place for this node. It can do without: while it
    /// holds the Lease, its declaration says what others need to know.
    pub(super) fn is_list_full(&self) -> bool {
        self.lease.view().is_some_and(|view| self.has_no_place(&view.notes))
    }

    pub(super) fn has_no_place(&self, notes: &Notes) -> bool {
        let known = notes.participants.contains_key(&self.rules.node);
        !known && notes.participants.len() >= MOST_PARTICIPANTS
    }
}
