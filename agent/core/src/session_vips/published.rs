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
            (Ok(Some(member)), _) => {
                self.api_answered();
                let of = member.copy.node.clone();
                let known = self.sessions.member(&of).map(|known| known.version.clone());
                if let Some(known) = known.filter(|known| is_lower(&member.version, known)) {
                    self.publishing.look_at(&of);
                    let base = flight.as_ref().and_then(|flight| flight.base.as_deref());
                    if flight.is_some() && base.is_none_or(|base| !is_lower(&member.version, base)) {
                        // The watch was faster than the answer.
                        return self.pause_publishing(&of, OTHERS, None);
                    }
                    if base == Some(known.as_str()) {
                        self.sessions.member_gone(&of);
                        self.owned.changed();
                    }
                    return self.publishing.may_be_set_back(now);
                }
                if flight.is_some_and(|flight| flight.copy != member.copy.version) {
                    self.pause_publishing(&of, OTHERS, None);
                }
                self.member_shown(member);
            }
            (Ok(None), node) => {
                self.api_answered();
                if let Some(node) = &node {
                    self.sessions.member_gone(node);
                    self.owned.changed();
                    if flight.is_some_and(|flight| flight.base.is_some()) {
                        // Somebody has deleted it, or the store was set back to before it was made.
                        self.publishing.may_be_set_back(now);
                    }
                }
            }
            (Err(failure), Some(node)) => {
                let sent = flight.filter(|_| failure == Failure::Away).map(|flight| flight.sent);
                self.publishing.failed_until = now + REFUSED;
                let before = self.publishing.pauses.get(&node).map_or(Duration::ZERO, |pause| pause.length);
                let length = match failure {
                    Failure::Away if self.api.away.is_some() => self.rules.retry_period / 2,
                    Failure::Away => (before * 2).clamp(AGAIN, REFUSED),
                    _ => REFUSED,
                };
                self.pause_publishing(&node, length, sent);
            }
            (Err(_), None) => {}
        }
    }

    /// The API is back: a write of the own member object that failed without an answer does not wait any longer than other calls do.
    pub(super) fn publish_own_soon(&mut self) {
        let (now, half) = (self.step.at.now, self.rules.retry_period / 2);
        if let Some(pause) = self.publishing.pauses.get_mut(&self.rules.node)
            && let Some(sent) = pause.unanswered
        {
            pause.until = pause.until.min(now.max(sent + half));
        }
    }

    fn pause_publishing(&mut self, node: &str, length: Duration, unanswered: Option<Time>) {
        let until = self.step.at.now + length;
        self.publishing.pauses.insert(node.to_owned(), Pause { until, length, unanswered });
    }
}
