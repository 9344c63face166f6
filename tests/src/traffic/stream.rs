//! A client that asks again and again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mooring_agent::core::time::Time;

use super::ask::{Answer, Protocol, once};
use crate::host::lock;
use crate::observe::worker::Worker;
use crate::observe::{Error, Place, inside, now};

/// Between two questions.
const PACE: Duration = Duration::from_millis(10);

/// A question that was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When.
    pub at: Time,
    /// When the answer was there, or it was clear that none comes.
    pub until: Time,
    /// What was answered, or why nothing was.
    pub answer: Result<Answer, String>,
}

/// The handle; asks until dropped.
#[derive(Debug)]
pub struct Stream {
    asked: Arc<Mutex<Vec<Asked>>>,
    _worker: Worker,
}

impl Stream {
    /// Starts to ask from inside `place`, a hundred times a second when all is well.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn start(
        place: &(impl Place + Clone + Send + 'static),
        protocol: Protocol,
        to: SocketAddr,
        patience: Duration,
    ) -> Result<Self, Error> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (notes, place) = (Arc::clone(&asked), place.clone());
        let worker = Worker::start("stream", move |until| {
            inside(&place, move || {
                while !until.over() {
                    let at = now();
                    let answer = once(protocol, to, patience).map_err(|error| error.to_string());
                    lock(&notes).push(Asked { at, until: now(), answer });
                    std::thread::sleep(PACE);
                }
                Ok(())
            })
        })?;
        Ok(Self { asked, _worker: worker })
    }

    /// All so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// Those since then that were not answered.
    #[must_use]
    pub fn unanswered(&self, from: Time) -> Vec<Asked> {
        self.asked().into_iter().filter(|one| one.at >= from && one.answer.is_err()).collect()
    }

    /// Those since then that were answered.
    #[must_use]
    pub fn answered(&self, from: Time) -> Vec<Answer> {
        self.asked().into_iter().filter(|one| one.at >= from).filter_map(|one| one.answer.ok()).collect()
    }
}
