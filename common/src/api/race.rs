//! One call to the first API server that answers.
//!
//! The preferred API server is asked first. If it cannot answer, or sends what is no answer, the next one is asked at
//! once. If it is silent for a while, the next one is asked *in parallel*, and the first answer counts; a list may take
//! longer, as long as parts of it arrive. This is
//! safe for writes too: each write carries the version that it is based on, so at most one is applied. One API server
//! that forbids a call (403; not because the namespace is being deleted) or does not accept the credentials (401) does not
//! prove that all do, so the next one is asked.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::time::{Instant, sleep_until};

use super::ask::NamedCall;
use super::client::{BodyError, Head, TERMINATING, body};
use super::servers::{Key, Servers};
use super::{ApiError, Away, Client, Failure, Refusal, Try, Verb, unsayable};
use crate::text::{chain, cut};

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The whole call, with all API servers tried.
    pub deadline: Duration,
    /// When the next API server is asked as well.
    pub patience: Duration,
}

impl Limits {
    /// The next API server is asked after 1 s or half the deadline, whichever is shorter.
    #[must_use]
    pub fn within(deadline: Duration) -> Self {
        Self { deadline, patience: (deadline / 2).min(Duration::from_secs(1)) }
    }
}

/// The size limit of an answer, in bytes.
const LONGEST: usize = 8 << 20;

/// How a call ended.
pub struct Outcome<T> {
    /// The answer, or the error.
    pub result: Result<T, ApiError>,
    /// The API server that answered.
    pub server: Option<Key>,
    /// Another API server got the same write and did not answer: it may have applied the write.
    pub doubt: bool,
}

/// The failure at one API server.
pub enum Miss {
    /// It answered with an error.
    Said(Refusal),
    /// It did not answer.
    Failed(Failure),
}

/// The head of a good answer.
///
/// # Errors
/// The answer is an error, or there is none.
pub async fn head(client: Client, request: Request<Bytes>, progress: Progress) -> Result<Head, Miss> {
    let response = client.send(request).await.map_err(|error| Miss::Failed(Failure::of(&*error)))?;
    progress.made();
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    let body = rest(response, &progress).await?;
    Err(Miss::Said(Refusal::new(status.as_u16(), &headers, &body)))
}

/// The rest of an answer, up to the size limit.
pub(super) async fn rest(response: Head, progress: &Progress) -> Result<Bytes, Miss> {
    let body = body(response, LONGEST, || progress.made()).await;
    body.map_err(|error| {
        Miss::Failed(match error {
            BodyError::TooLong(most) => Failure::TooLong(most),
            BodyError::Broken(error) => Failure::Broken(chain(&error, 200)),
        })
    })
}

/// When a part of an answer last arrived. While it is arriving, no other API server is asked beside it.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// A part has arrived.
    pub fn made(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Running {
    key: Key,
    began: Instant,
    /// Knows whether the request was given a connection, so that it may have been seen by the API server.
    sent: CaptureConnection,
    progress: Progress,
    done: bool,
}

impl Running {
    fn was_sent(&self) -> bool {
        self.sent.connection_metadata().is_some()
    }
}

impl Servers {
    /// Runs `op` with a client and the request.
    pub async fn race<T, F, Fut>(&self, call: &NamedCall, limits: Limits, op: F) -> Outcome<T>
    where
        F: Fn(Client, Request<Bytes>, Progress) -> Fut,
        Fut: Future<Output = Result<T, Miss>>,
    {
        let request = match call.call.request() {
            Ok(request) => request,
            Err(error) => return Outcome { result: Err(unsayable(&error)), server: None, doubt: false },
        };
        let began = Instant::now();
        let mut outcome = self.race_once(call, &request, limits, &op).await;
        // The credentials are no longer valid: the files may already have newer ones.
        let refused = match &outcome.result {
            Err(ApiError::Unauthorized { .. }) => true,
            Err(ApiError::Away(away)) => away.tries.iter().any(|t| matches!(t.failure, Failure::Tls(_))),
            _ => false,
        };
        let left = limits.deadline.saturating_sub(began.elapsed());
        if refused && self.renew().await && !left.is_zero() {
            let before = outcome.doubt;
            outcome = self.race_once(call, &request, Limits { deadline: left, ..limits }, &op).await;
            outcome.doubt |= before;
            if let Err(ApiError::Away(away)) = &mut outcome.result {
                away.maybe_applied |= before;
            }
        }
        if matches!(outcome.result, Err(ApiError::Away(_))) {
            self.none_answered(began);
        }
        if let (Err(ApiError::Unauthorized { server, .. }), Some(key)) = (&mut outcome.result, &outcome.server) {
            *server = key.to_string();
        }
        outcome
    }

    async fn race_once<T, F, Fut>(
        &self,
        call: &NamedCall,
        request: &Request<Bytes>,
        limits: Limits,
        op: &F,
    ) -> Outcome<T>
    where
        F: Fn(Client, Request<Bytes>, Progress) -> Fut,
        Fut: Future<Output = Result<T, Miss>>,
    {
        let began = Instant::now();
        let end = began + limits.deadline;
        let order = match self.order().await {
            Ok(order) => order,
            Err(error) => {
                return Outcome { result: Err(error), server: None, doubt: false };
            }
        };
        let mut next = order.into_iter();
        let mut tries: Vec<Try> = Vec::new();
        let mut doubt = false;
        let mut runners: Vec<Running> = Vec::new();
        let mut running = FuturesUnordered::new();
        let mut config = None;
        let mut denied = None;
        let mut start = |runners: &mut Vec<Running>, running: &FuturesUnordered<_>| {
            for key in next.by_ref() {
                match self.client(&key) {
                    Ok(client) => {
                        let mut request = request.clone();
                        let sent = capture_connection(&mut request);
                        let at = runners.len();
                        let progress = Progress::new();
                        let answer = op(client, request, progress.clone());
                        runners.push(Running { key, began: Instant::now(), sent, progress, done: false });
                        running.push(async move { (at, answer.await) });
                        return true;
                    }
                    Err(error) => config = Some(error),
                }
            }
            false
        };
        start(&mut runners, &running);
        let mut patience = Instant::now() + limits.patience;
        let (result, server) = loop {
            if running.is_empty() {
                break (None, None);
            }
            tokio::select! {
                biased;
                Some((at, answer)) = running.next() => {
                    let Some(runner) = runners.get_mut(at) else { continue };
                    runner.done = true;
                    let (key, sent, took) = (runner.key.clone(), runner.was_sent(), runner.began.elapsed());
                    match judge(call, &key, took, answer) {
                        Ok(Err(error @ (ApiError::Forbidden { .. } | ApiError::Unauthorized { .. }))) => {
                            // An API server that has lost its view of RBAC (a cache that does not follow, a webhook)
                            // forbids calls that the others allow. One that has the wrong CA for clients or the wrong
                            // keys for tokens accepts no credentials. Such a refusal counts if no other server answers
                            // differently.
                            self.observer().on_call(call.call.verb, call.call.resource, error.category(), took);
                            self.bad(&key);
                            denied.get_or_insert((error, key));
                            if start(&mut runners, &running) {
                                patience = Instant::now() + limits.patience;
                            }
                        }
                        Ok(answer) => {
                            let outcome = answer.as_ref().map_or_else(ApiError::category, |_| "ok");
                            self.observer().on_call(call.call.verb, call.call.resource, outcome, took);
                            self.good(&key);
                            break (Some(answer), Some(key));
                        }
                        Err(failure) => {
                            self.observer().on_call(call.call.verb, call.call.resource, failure.category(), took);
                            doubt |= sent && failure.leaves_doubt();
                            self.bad(&key);
                            tries.push(Try { server: key.to_string(), failure });
                            if start(&mut runners, &running) {
                                patience = Instant::now() + limits.patience;
                            }
                        }
                    }
                }
                () = sleep_until(patience.min(end)) => {
                    if Instant::now() >= end {
                        break (None, None);
                    }
                    if let Some(last) = arriving(call.call.verb, &runners, limits.patience) {
                        patience = last + limits.patience;
                        continue;
                    }
                    // Slow API servers are given up only at the end; but the next call begins with another.
                    if let Some(last) = runners.last().filter(|r| !r.done) {
                        self.bad(&last.key);
                    }
                    patience = if start(&mut runners, &running) { Instant::now() + limits.patience } else { end };
                }
            }
        };
        drop(running);
        doubt |= self.give_up(call, &runners, result.is_none().then_some(&mut tries));
        doubt &= call.call.verb.writes();
        let (result, server) = match denied {
            Some((error, key)) if result.is_none() => (Some(Err(error)), Some(key)),
            _ => (result, server),
        };
        let result = result.unwrap_or_else(|| match config.filter(|_| tries.is_empty()) {
            Some(error) => Err(ApiError::Config(error)),
            None => Err(ApiError::Away(Away { tries, after: began.elapsed(), maybe_applied: doubt })),
        });
        Outcome { result, server, doubt }
    }

    /// API servers that have not answered are too late. True if one of them may have carried out the call.
    fn give_up(&self, call: &NamedCall, runners: &[Running], mut tries: Option<&mut Vec<Try>>) -> bool {
        let mut doubt = false;
        for slow in runners.iter().filter(|r| !r.done) {
            let after = slow.began.elapsed();
            self.observer().on_call(call.call.verb, call.call.resource, "timeout", after);
            doubt |= slow.was_sent();
            if let Some(tries) = &mut tries {
                self.bad(&slow.key);
                tries.push(Try { server: slow.key.to_string(), failure: Failure::Timeout(after) });
            }
        }
        doubt
    }
}

/// When a part of a list last arrived, if that was within the patience. An object is not long: one that trickles in is no reason
/// to wait.
fn arriving(verb: Verb, runners: &[Running], patience: Duration) -> Option<Instant> {
    if verb != Verb::List {
        return None;
    }
    let last = runners.iter().filter(|r| !r.done).map(|r| r.progress.last()).max();
    last.filter(|at| at.elapsed() < patience)
}

/// A success, an answer with an error, or no answer. An answer that is too long is one: the other API servers would send
/// as much.
fn judge<T>(
    call: &NamedCall,
    server: &Key,
    took: Duration,
    answer: Result<T, Miss>,
) -> Result<Result<T, ApiError>, Failure> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(Miss::Said(said)) => refusal(call, &said).map(Err),
        Err(Miss::Failed(failure @ Failure::TooLong(_))) => {
            let tries = vec![Try { server: server.to_string(), failure }];
            Ok(Err(ApiError::Away(Away { tries, after: took, maybe_applied: call.call.verb.writes() })))
        }
        Err(Miss::Failed(failure)) => Err(failure),
    }
}

/// Translates an error answer: either a final error, or a failure to answer.
///
/// # Errors
/// The API server cannot answer at the moment, or a proxy in front of it has answered.
pub fn refusal(call: &NamedCall, said: &Refusal) -> Result<ApiError, Failure> {
    if said.is_page {
        return Err(Failure::Malformed(format!("a web page, with status {}", said.code)));
    }
    let (code, message, what) = (said.code, cut(&said.message, 300), call.what.clone());
    Ok(match code {
        401 => ApiError::Unauthorized { server: String::from("the API server"), message },
        // No other API server would accept it, and no rule is missing.
        403 if said.reason == TERMINATING => ApiError::Rejected { code, message },
        403 => ApiError::Forbidden { verb: call.call.verb.as_str(), resource: call.call.resource.to_owned(), message },
        404 => ApiError::NotFound { what, message },
        409 => ApiError::Conflict { what, message },
        410 => ApiError::Gone { message },
        400..=499 if code != 429 && code != 408 => ApiError::Rejected { code, message },
        _ => return Err(Failure::Server { code, message }),
    })
}
