//! What came of writes of member objects.

use std::time::Duration;

use super::SessionVips;
use super::publishing::Pause;
use crate::event::Failure;
use crate::session::{Member, is_lower};
use crate::time::Time;

/// After another one's write was met, the next one waits for this.
const OTHERS: Duration = Duration::from_millis(100);
/// A write that failed is repeated after this, while the API server answers everything else. Each pause is twice as long as the one
/// before, up to [`REFUSED`]: a webhook or a quota may be in the way.
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
                    self.pause_publishing(&of, OTHERS);
                }
                if self.sessions.member(&of).is_some_and(|known| is_lower(&member.version, &known.version)) {
                    // The store was set back, or the watch was faster than the answer: a list of all sessions finds out which.
                    self.publishing.may_be_set_back(now);
                    self.publishing.look_at(&of);
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
                self.publishing.failed_until = now + REFUSED;
                let before = self.publishing.pauses.get(&node).map_or(Duration::ZERO, |pause| pause.length);
                let length = match failure {
                    Failure::Away if self.api.away.is_some() => self.rules.retry_period / 2,
                    Failure::Away => (before * 2).clamp(AGAIN, REFUSED),
                    _ => REFUSED,
                };
                self.pause_publishing(&node, length);
            }
            (Err(_), None) => {}
        }
    }

    /// The API is back: a write of the own member object that failed without an answer does not wait any longer.
    pub(super) fn publish_own_soon(&mut self) {
        let unanswered = |pause: &Pause| pause.length < REFUSED;
        if self.publishing.pauses.get(&self.rules.node).is_some_and(unanswered) {
            self.publishing.pauses.remove(&self.rules.node);
        }
    }

    fn pause_publishing(&mut self, node: &str, length: Duration) {
        let until = self.step.at.now + length;
        self.publishing.pauses.insert(node.to_owned(), Pause { until, length });
    }
}
