//! A provisional hold that has ended: who holds the Lease announces the VIPs again.
//!
//! A provisional holder announces the VIPs, and clients believe it. If it lets go because another node holds the Lease, that node may
//! not have heard it (frames are lost one way only), and has no reason to announce: clients would ask the wrong host until their
//! neighbour entries run out. So the node that lets go says so on the Lease, as soon as it can write. The holder sees a note
//! that it has not seen before, and announces.

use super::unleased::Kind;
use super::{Elector, Role};
use crate::lease::{LeaseView, LetGo};
use crate::planted::planted;

/// What is known of holds without a Lease that have ended.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// This node's own, as long as the Lease was not seen to name it.
    pub(super) unsaid: Option<LetGo>,
    /// The last one that the Lease named. An agent that does not know the note keeps it; a person may remove it.
    said: Option<LetGo>,
    /// Another node has let go, and the VIPs were not announced since.
    due: bool,
}

impl Recall {
    /// The Lease was shown. `me`: this node's name.
    pub(super) fn saw(&mut self, view: Option<&LeaseView>, me: &str) {
        let Some(named) = view.and_then(|view| view.notes.let_go.as_ref()) else { return };
        if self.unsaid.as_ref() == Some(named) {
            self.unsaid = None;
        }
        if self.said.as_ref() != Some(named) {
            self.due |= named.node != me;
            self.said = Some(named.clone());
        }
    }
}

impl Elector {
    /// This node lets go of its VIPs. If it carried them without ever having had the Lease, or an earlier run of the agent may
    /// have, clients may believe it.
    pub(super) fn note_let_go(&mut self) {
        let noted = matches!(&self.role, Role::Unleased(unleased) if unleased.kind != Kind::Lapsed);
        if noted && !planted!(LetsGoInSilence) {
            let mut note = LetGo { node: self.rules.node.clone(), at: self.step.at.wall };
            // A wall clock that was set back may show the time of an earlier note.
            if self.recall.said.as_ref() == Some(&note) {
                note.at.0 = note.at.0.saturating_add(1);
            }
            self.recall.unsaid = Some(note);
            self.candidacy.participate_at = None;
        }
    }

    /// Whether the holder is yet to be told that this node has let go. A free Lease needs no note: whoever takes it announces.
    pub(super) fn must_say_let_go(&self) -> bool {
        self.recall.unsaid.is_some() && self.is_anothers()
    }

    /// Announces the VIPs again, if another node has let go of them.
    pub(super) fn advance_recall(&mut self) {
        match &self.role {
            // A take announces anyway: what the Lease named before says nothing.
            Role::Following(_) => self.recall.due = false,
            Role::Holding(_) if self.recall.due && self.doubt.is_sure() => {
                self.recall.due = false;
                for vip in self.vips.values_mut().filter(|vip| vip.is_put()) {
                    vip.schedule.restart(self.step.at.now);
                }
            }
            Role::Holding(_) | Role::Unleased(_) | Role::Leaving(_) => {}
        }
    }
}
