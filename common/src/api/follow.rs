//! Follows a collection: a list, then a watch from the version of that list, and again for ever. A [`Source`] lists,
//! watches and reports. This module decides what comes next and how long to wait.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use crate::backoff::{Backoff, part_of};

/// A watch that lived this long has worked; otherwise there is a wait before the next.
pub(super) const WORKED: Duration = Duration::from_secs(1);

/// How a list or a watch ended.
#[derive(Debug)]
pub enum End<E> {
    /// The receiver is gone.
    Closed,
    /// A watch goes on from this version.
    Resume(String),
    /// There is no version to go on from: a list is next.
    Relist,
    /// A list was requested, to be made at once.
    Asked,
    /// The call failed; the version from which a watch can go on, if there is one.
    Failed(E, Option<String>),
    /// The kind is not served.
    Missing,
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// After a failure: at first, and at most.
    pub backoff: (Duration, Duration),
    /// Before a kind that is not served is asked for again: at first, and at most.
    pub missing: (Duration, Duration),
    /// Whether a watch that has worked is restarted at once, whatever ended it. If false: at once only where there is a
    /// version to go on from.
    pub at_once: bool,
    /// Before a list after a watch that worked, the longest wait; it is chosen at random. When an API server restarts,
    /// its watches end together, and no version to go on from is left: the lists of all nodes must not come together.
    pub spread: Duration,
}

/// A collection to follow, and the receiver of its changes.
pub trait Source: Send {
    /// Why it fails.
    type Error: Send;

    /// Whether a list was requested, though a watch could go on.
    fn is_asked(&mut self) -> bool {
        false
    }

    /// Lists, and reports.
    fn list(&mut self) -> impl Future<Output = End<Self::Error>> + Send;

    /// Watches from this version on, and reports. Also returns how long the watch lived.
    fn watch(&mut self, from: String) -> impl Future<Output = (End<Self::Error>, Duration)> + Send;

    /// Reports that nothing is heard at the moment. False: the receiver is gone.
    fn lost(&mut self, error: Self::Error) -> impl Future<Output = bool> + Send;

    /// Reports that the kind is not served. False: the receiver is gone.
    fn missing(&mut self) -> impl Future<Output = bool> + Send;

    /// Waits.
    fn pause(&mut self, wait: Duration) -> impl Future<Output = ()> + Send {
        sleep(wait)
    }
}

/// Follows until the receiver is gone.
pub async fn follow(mut source: impl Source, pace: Pace) {
    let mut backoff = Backoff::new(pace.backoff.0, pace.backoff.1);
    let mut missing = Backoff::new(pace.missing.0, pace.missing.1);
    let mut from: Option<String> = None;
    loop {
        let asked = source.is_asked();
        let (end, listed, worked) = match from.take().filter(|_| !asked) {
            Some(from) => {
                let (end, lived) = source.watch(from).await;
                (end, false, lived > WORKED)
            }
            None => (source.list().await, true, false),
        };
        if worked {
            backoff.reset();
            missing.reset();
        }
        match end {
            End::Closed => return,
            End::Resume(at) => {
                from = Some(at);
                if listed || worked {
                    continue;
                }
            }
            End::Asked => continue,
            End::Relist => {
                if worked && pace.at_once {
                    spread(&mut source, pace.spread).await;
                    continue;
                }
            }
            End::Failed(error, at) => {
                from = at;
                if !source.lost(error).await {
                    return;
                }
                if worked && pace.at_once {
                    if from.is_none() {
                        spread(&mut source, pace.spread).await;
                    }
                    continue;
                }
            }
            End::Missing => {
                if !source.missing().await {
                    return;
                }
                source.pause(missing.wait()).await;
                continue;
            }
        }
        source.pause(backoff.wait()).await;
    }
}

async fn spread(source: &mut impl Source, most: Duration) {
    if !most.is_zero() {
        source.pause(part_of(most)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Ends as it is told, and writes down what was done.
    struct Script {
        ends: VecDeque<(End<&'static str>, Duration)>,
        did: Arc<Mutex<Vec<String>>>,
    }

    impl Script {
        fn note(&self, text: String) {
            self.did.lock().unwrap().push(text);
        }

        fn end(&mut self) -> (End<&'static str>, Duration) {
            self.ends.pop_front().unwrap_or((End::Closed, Duration::ZERO))
        }
    }

    impl Source for Script {
        type Error = &'static str;

        async fn list(&mut self) -> End<&'static str> {
            self.note("list".into());
            self.end().0
        }

        async fn watch(&mut self, from: String) -> (End<&'static str>, Duration) {
            self.note(format!("watch {from}"));
            self.end()
        }

        async fn lost(&mut self, error: &'static str) -> bool {
            self.note(format!("lost {error}"));
            true
        }

        async fn missing(&mut self) -> bool {
            self.note("missing".into());
            true
        }

        async fn pause(&mut self, wait: Duration) {
            // With the jitter, to the nearest step.
            let step = if wait < Duration::from_millis(140) { 100 } else { 200 };
            self.note(format!("wait {step}"));
        }
    }

    async fn played(at_once: bool, ends: Vec<(End<&'static str>, u64)>) -> Vec<String> {
        let did: Arc<Mutex<Vec<String>>> = Arc::default();
        let ends = ends.into_iter().map(|(end, lived)| (end, Duration::from_secs(lived))).collect();
        let span = (Duration::from_millis(100), Duration::from_millis(200));
        follow(
            Script { ends, did: did.clone() },
            Pace { backoff: span, missing: span, at_once, spread: Duration::ZERO },
        )
        .await;
        let did = did.lock().unwrap();
        did.clone()
    }

    #[tokio::test]
    async fn a_watch_follows_a_list_and_goes_on_from_where_it_was() {
        let ends = vec![
            (End::Resume("1".into()), 0),
            (End::Resume("2".into()), 60),
            (End::Failed("cut", Some("3".into())), 60),
            (End::Resume("3".into()), 0),
            (End::Asked, 60),
            (End::Missing, 0),
        ];
        let expected = [
            "list", "watch 1", "watch 2", "lost cut", "wait 100", "watch 3", "wait 200", "watch 3", "list", "missing",
            "wait 100", "list",
        ];
        assert_eq!(played(false, ends).await, expected);
    }

    #[tokio::test]
    async fn what_has_worked_begins_anew_at_once_where_that_is_wanted() {
        let ends = || {
            vec![
                (End::Resume("1".into()), 0),
                (End::Failed("cut", None), 60),
                (End::Resume("2".into()), 0),
                (End::Relist, 60),
                (End::Failed("away", None), 0),
            ]
        };
        let at_once = ["list", "watch 1", "lost cut", "list", "watch 2", "list", "lost away", "wait 100", "list"];
        assert_eq!(played(true, ends()).await, at_once);
        let later = [
            "list",
            "watch 1",
            "lost cut",
            "wait 100",
            "list",
            "watch 2",
            "wait 100",
            "list",
            "lost away",
            "wait 200",
            "list",
        ];
        assert_eq!(played(false, ends()).await, later);
    }
}
