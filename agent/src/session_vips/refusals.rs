//! Requests that the API server refuses again and again: one line a minute in the log, not one for each.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::ApiError;
use crate::core::event::Failure;

/// A refusal of the same request is logged again after this time.
const AGAIN: Duration = Duration::from_mins(1);

/// When the refusal of each kind of request was last logged, and in which words.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<&'static str, (String, Instant)>>);

impl Refusals {
    /// The part of an error that the core needs; the rest is for people.
    pub(super) fn failure(&self, error: &ApiError, what: &'static str, writes: bool) -> Failure {
        match error {
            ApiError::Conflict { .. } => Failure::Conflict,
            // A write to an object that was deleted meanwhile.
            ApiError::NotFound { .. } if writes => Failure::Conflict,
            error if error.answered() => {
                if self.is_news(what, &error.to_string(), Instant::now()) {
                    tracing::warn!(%error, what, "API server refused a request; retrying, and saying so once a minute");
                } else {
                    tracing::debug!(%error, what, "API server refused a request; retrying");
                }
                Failure::Away
            }
            error => {
                tracing::debug!(%error, what, "no API server answered a request; retrying");
                Failure::Away
            }
        }
    }

    fn is_news(&self, what: &'static str, text: &str, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(what).is_some_and(|(before, at)| before == text && now.duration_since(*at) < AGAIN) {
            return false;
        }
        said.insert(what, (text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_said_once_a_minute_and_another_one_at_once() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        let news = |what, text, after| refusals.is_news(what, text, begin + Duration::from_secs(after));
        assert!(news("write a session", "no right", 0));
        assert!(!news("write a session", "no right", 1) && !news("write a session", "no right", 59));
        assert!(news("list sessions", "no right", 1));
        assert!(news("write a session", "another reason", 2));
        assert!(news("write a session", "another reason", 62));
    }
}
