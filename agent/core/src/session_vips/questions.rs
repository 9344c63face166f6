//! What a list of all sessions is to tell, unless something shows it sooner.
//!
//! Leases and member objects come by ways of their own. While one of them is behind, both disagree, and on many nodes at once. So a node
//! waits for the other to come, and then lists at a moment of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::SessionVips;
use super::api::spread;
use crate::planted::planted;
use crate::time::Time;

/// So long the other may take to come. Those who follow a Lease put its member object right sooner.
const WAIT: Duration = Duration::from_secs(5);

/// What is not clear about a node's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// Its member object names an earlier version of the Lease than the one that is known. Was the store set back?
    CopyIsOlder,
    /// Its Lease is no longer among those without a member object. Was it deleted, or does it have a member object by now?
    NotUnpublished,
}

/// Open questions, and since when.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<(String, Question), Time>);

impl SessionVips {
    pub(super) fn ask_later(&mut self, node: &str, question: Question) {
        if self.is_open(node, question) && !planted!(AsksNothing) {
            self.questions.0.entry((node.to_owned(), question)).or_insert(self.step.at.now);
            self.step.again = true;
        }
    }

    /// Something has shown the answer.
    pub(super) fn ask_no_more(&mut self, node: &str, question: Question) {
        if self.is_asked(node, question) {
            self.questions.0.remove(&(node.to_owned(), question));
        }
    }

    /// Whether that is not clear yet.
    pub(super) fn is_asked(&self, node: &str, question: Question) -> bool {
        !self.questions.0.is_empty() && self.questions.0.contains_key(&(node.to_owned(), question))
    }

    fn is_open(&self, node: &str, question: Question) -> bool {
        match question {
            Question::CopyIsOlder => !self.following.asked.contains(node) && self.sessions.is_copy_older(node),
            Question::NotUnpublished => self.sessions.get(node).is_some_and(|peer| !peer.view.published),
        }
    }

    /// Lists all sessions when a question has been open for long.
    pub(super) fn advance_questions(&mut self) {
        let mut open = std::mem::take(&mut self.questions.0);
        open.retain(|(node, of), since| self.is_open(node, *of) && !self.sessions.is_listed_since(*since));
        let first = open.values().min().copied();
        self.questions.0 = open;
        if let Some(since) = first
            && self.api.away.is_none()
            && self.due((since + WAIT + spread(&self.rules.node)).max(self.calls.next_list))
        {
            self.list_sessions();
        }
    }
}
