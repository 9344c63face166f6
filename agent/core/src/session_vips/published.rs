//! What came of writes of member objects.

use std::time::Duration;

use super::SessionVips;
use crate::event::Failure;
use crate::session::{Member, is_lower};
use crate::time::Time;

/// After another one's write was met, the next one waits for this.
const OTHERS: Duration = Duration::from_millis(100);
/// A write that failed is repeated after this.
const AGAIN: Duration = Duration::from_millis(500);
/// A write that was refused is repeated after this: rights are missing, or the namespace is.
const REFUSED: Duration = Duration::from_secs(10);

impl SessionVips {
    /// Ends writes that were never answered.
    pub(super) fn advance_published(&mut self) {
        let over: Vec<(u64, Time)> = self.publishing.flights.values().map(|f| (f.id, f.fails_at)).collect();
        for (id, fails_at) in over {
            if self.due(fails_at) {
                self.was_published(id, Err(Failure::Away));
            }
        }
    }

    /// A write was answered: with the object as it is now, or as another one has made it.
    pub(super) fn was_published(&mut self, id: u64, result: Result<Option<Member>, Failure>) {
        let now = self.step.at.now;
        self.step.again = true;
        let node = self.publishing.flights.iter().find(|(_, f)| f.id == id).map(|(node, _)| node.clone());
        let flight = node.as_ref().and_then(|node| self.publishing.flights.remove(node));
        if let Some(node) = &node {
            self.publishing.look_at(node);
        }
        match (result, node) {
            (Ok(Some(member)), node) => {
                self.api_answered();
                let of = member.copy.node.clone();
                if node.is_some() && flight.is_none_or(|flight| flight.copy != member.copy.version) {
                    self.publishing.next.insert(of.clone(), now + OTHERS);
                }
                if self.sessions.member(&of).is_some_and(|known| is_lower(&member.version, &known.version)) {
                    // The store was set back, or the watch was faster than the answer: the next write finds out which.
                    return self.sessions.member_gone(&of);
                }
                self.member_shown(member);
            }
            (Ok(None), node) => {
                self.api_answered();
                if let Some(node) = &node {
                    self.sessions.member_gone(node);
                }
            }
            (Err(failure), Some(node)) => {
                let wait = if failure == Failure::Away { AGAIN } else { REFUSED };
                self.publishing.failed_until = now + REFUSED;
                self.publishing.next.insert(node, now + wait);
            }
            (Err(_), None) => {}
        }
    }
}
