//! One call, whoever answers it.
//!
//! The preferred API server is asked. If it cannot answer, the next one is asked at once; if it does not answer for a
//! while, the next one is asked *beside* it, and the first answer counts. That is safe for writes too, because each
//! carries the version it is based on: at most one of them is applied. One that forbids is no proof that all do: the next
//! one is asked.

use std::future::Future;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use super::error::cut;
use super::servers::{Key, Servers};
use super::{ApiError, Away, Failure, Try, Verb};

/// No answer is longer, in bytes.
const LONGEST: usize = 8 << 20;

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

/// What is to be asked.
pub(crate) struct Call {
    pub(crate) verb: Verb,
    /// As RBAC has it, with the API group: `leases.coordination.k8s.io`.
    pub(crate) resource: &'static str,
    /// Which one, for people: `Lease kube-system/plndr-cp-lock`.
    pub(crate) what: String,
    pub(crate) request: http::Request<Vec<u8>>,
}

impl Call {
    pub(crate) fn new<E: std::error::Error>(
        verb: Verb,
        resource: &'static str,
        what: String,
        request: Result<http::Request<Vec<u8>>, E>,
    ) -> Result<Self, ApiError> {
        let request = request.map_err(|error| super::unsayable(&error))?;
        Ok(Self { verb, resource, what, request })
    }
}

/// How a call ended.
pub(crate) struct Outcome<T> {
    pub(crate) result: Result<T, ApiError>,
    /// Who answered.
    pub(crate) server: Option<Key>,
    /// Another API server got the same write and did not answer: it may be who applied it.
    pub(crate) doubt: bool,
}

/// What one API server made of it.
pub(crate) enum Miss {
    /// It answered with this code, which is not 2xx, and these words.
    Said(u16, String),
    /// It did not answer.
    Failed(Failure),
}

fn nonsense(error: &serde_json::Error, call: &Call, server: Option<&Key>) -> ApiError {
    let server = server.map(ToString::to_string).unwrap_or_default();
    let tries = vec![Try { server, failure: Failure::Malformed(cut(&error.to_string(), 120)) }];
    ApiError::Away(Away { tries, after: std::time::Duration::ZERO, maybe_applied: call.verb.writes() })
}

struct Running {
    key: Key,
    began: Instant,
    /// Knows whether the request was given a connection, so that it may have been seen by the API server.
    sent: CaptureConnection,
    done: bool,
}

impl Running {
    fn was_sent(&self) -> bool {
        self.sent.connection_metadata().is_some()
    }
}

impl Servers {
    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(&self, call: &Call, limits: Limits) -> Outcome<Bytes> {
        self.race(call, limits, |client: kube::Client, request: http::Request<Vec<u8>>| async move {
            let response =
                client.send(request.map(kube::client::Body::from)).await.map_err(|e| Miss::Failed(broken(e)))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            let body = body.map_err(|e| Miss::Failed(Failure::Broken(chain(&*e))))?.to_bytes();
            if status.is_success() { Ok(body) } else { Err(no(status, &body)) }
        })
        .await
    }

    /// Asks for one object; and whether another API server may be who applied a write.
    pub(crate) async fn ask_for<T: DeserializeOwned>(
        &self,
        call: &Call,
        limits: Limits,
    ) -> (Result<T, ApiError>, bool) {
        let outcome = self.ask(call, limits).await;
        let read = |body: Bytes| {
            serde_json::from_slice(&body).map_err(|error| nonsense(&error, call, outcome.server.as_ref()))
        };
        (outcome.result.and_then(read), outcome.doubt)
    }

    /// Asks for a part of a list; and with what the next part is asked for, if there is one.
    pub(crate) async fn ask_for_list<T: DeserializeOwned>(
        &self,
        call: &Call,
        limits: Limits,
    ) -> Result<(Vec<T>, Option<String>), ApiError> {
        #[derive(Deserialize)]
        struct Items<T> {
            #[serde(default)]
            metadata: More,
            #[serde(default = "Vec::new")]
            items: Vec<T>,
        }
        #[derive(Default, Deserialize)]
        struct More {
            #[serde(default, rename = "continue")]
            token: Option<String>,
        }
        let list = self.ask_for::<Items<T>>(call, limits).await.0?;
        Ok((list.items, list.metadata.token.filter(|token| !token.is_empty())))
    }

    /// Asks by `op`, which is given a client and the request.
    pub(crate) async fn race<T, F, Fut>(&self, call: &Call, limits: Limits, op: F) -> Outcome<T>
    where
        F: Fn(kube::Client, http::Request<Vec<u8>>) -> Fut,
        Fut: Future<Output = Result<T, Miss>>,
    {
        let began = Instant::now();
        let mut outcome = self.race_once(call, limits, &op).await;
        // Credentials that are no longer good: perhaps newer ones are in the files already.
        let refused = match &outcome.result {
            Err(ApiError::Unauthorized { .. }) => true,
            Err(ApiError::Away(away)) => away.tries.iter().any(|t| matches!(t.failure, Failure::Tls(_))),
            _ => false,
        };
        let left = limits.deadline.saturating_sub(began.elapsed());
        if refused && self.renew().await && !left.is_zero() {
            let before = outcome.doubt;
            outcome = self.race_once(call, Limits { deadline: left, ..limits }, &op).await;
            outcome.doubt |= before;
            if let Err(ApiError::Away(away)) = &mut outcome.result {
                away.maybe_applied |= before;
            }
        }
        if let (Err(ApiError::Unauthorized { server, .. }), Some(key)) = (&mut outcome.result, &outcome.server) {
            *server = key.to_string();
        }
        outcome
    }

    async fn race_once<T, F, Fut>(&self, call: &Call, limits: Limits, op: &F) -> Outcome<T>
    where
        F: Fn(kube::Client, http::Request<Vec<u8>>) -> Fut,
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
        let mut forbidden = None;
        let mut start = |runners: &mut Vec<Running>, running: &FuturesUnordered<_>| {
            for key in next.by_ref() {
                match self.client(&key) {
                    Ok(client) => {
                        let mut request = call.request.clone();
                        let sent = capture_connection(&mut request);
                        let at = runners.len();
                        runners.push(Running { key, began: Instant::now(), sent, done: false });
                        let answer = op(client, request);
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
                    let (key, sent) = (runner.key.clone(), runner.was_sent());
                    let took = runner.began.elapsed();
                    match judge(call, answer) {
                        Ok(Ok(value)) => {
                            self.observer().on_call(call.verb, "ok", took);
                            self.good(&key);
                            break (Some(Ok(value)), Some(key));
                        }
                        Ok(Err(error @ ApiError::Forbidden { .. })) => {
                            // One that has lost its view of RBAC (a cache that does not follow, a webhook) forbids what
                            // the others allow: its no counts if none of them says anything else.
                            self.observer().on_call(call.verb, error.category(), took);
                            self.bad(&key);
                            forbidden.get_or_insert((error, key));
                            if start(&mut runners, &running) {
                                patience = Instant::now() + limits.patience;
                            }
                        }
                        Ok(Err(error)) => {
                            self.observer().on_call(call.verb, error.category(), took);
                            self.good(&key);
                            break (Some(Err(error)), Some(key));
                        }
                        Err(failure) => {
                            self.observer().on_call(call.verb, failure.category(), took);
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
                    // Slow ones are given up only at the end; but the next call begins with another.
                    if let Some(last) = runners.last().filter(|r| !r.done) {
                        self.bad(&last.key);
                    }
                    patience = if start(&mut runners, &running) { Instant::now() + limits.patience } else { end };
                }
            }
        };
        drop(running);
        doubt |= self.give_up(call, &runners, result.is_none().then_some(&mut tries));
        doubt &= call.verb.writes();
        let (result, server) = match forbidden {
            Some((error, key)) if result.is_none() => (Some(Err(error)), Some(key)),
            _ => (result, server),
        };
        let result = result.unwrap_or_else(|| match config.filter(|_| tries.is_empty()) {
            Some(error) => Err(ApiError::Config(error)),
            None => Err(ApiError::Away(Away { tries, after: began.elapsed(), maybe_applied: doubt })),
        });
        Outcome { result, server, doubt }
    }

    /// Whoever has not answered is too late. True if one of them may have carried it out.
    fn give_up(&self, call: &Call, runners: &[Running], mut tries: Option<&mut Vec<Try>>) -> bool {
        let mut doubt = false;
        for slow in runners.iter().filter(|r| !r.done) {
            let after = slow.began.elapsed();
            self.observer().on_call(call.verb, "timeout", after);
            doubt |= slow.was_sent();
            if let Some(tries) = &mut tries {
                self.bad(&slow.key);
                tries.push(Try { server: slow.key.to_string(), failure: Failure::Timeout(after) });
            }
        }
        doubt
    }
}

impl Failure {
    /// Whether a request that was given a connection may have been carried out all the same.
    fn leaves_doubt(&self) -> bool {
        match self {
            Self::Refused | Self::Unreachable(_) => false,
            // Too many requests: turned away at the door.
            Self::Server { code, .. } => *code != 429,
            Self::Timeout(_) | Self::Broken(_) | Self::Malformed(_) | Self::Tls(_) => true,
        }
    }
}

/// Yes, an answer that is no, or no answer.
fn judge<T>(call: &Call, answer: Result<T, Miss>) -> Result<Result<T, ApiError>, Failure> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(Miss::Said(code, message)) => refusal(call, code, &message).map(Err),
        Err(Miss::Failed(failure)) => Err(failure),
    }
}

/// An answer that is not 2xx.
fn no(status: StatusCode, body: &[u8]) -> Miss {
    let said: Option<Status> = serde_json::from_slice(body).ok();
    Miss::Said(status.as_u16(), said.map_or_else(|| String::from_utf8_lossy(body).into_owned(), |s| s.message))
}

/// An answer that is not 2xx, in our words: one to abide by, or none at all.
pub(crate) fn refusal(call: &Call, code: u16, message: &str) -> Result<ApiError, Failure> {
    let (message, what) = (cut(message, 300), call.what.clone());
    Ok(match code {
        401 => ApiError::Unauthorized { server: String::from("the API server"), message },
        403 => ApiError::Forbidden { verb: call.verb.as_str(), resource: call.resource.to_owned(), message },
        404 => ApiError::NotFound { what, message },
        409 => ApiError::Conflict { what, message },
        410 => ApiError::Gone { message },
        400..=499 if code != 429 && code != 408 => ApiError::Rejected { code, message },
        _ => return Err(Failure::Server { code, message }),
    })
}

/// What kube could not do, in our words.
pub(crate) fn broken(error: kube::Error) -> Failure {
    let error: Box<dyn std::error::Error + Send + Sync> = match error {
        kube::Error::Service(inner) => inner,
        other => Box::new(other),
    };
    let mut connecting = false;
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(one) = at {
        connecting |= one
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        if let Some(io) = one.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Failure::Refused,
                // How rustls reports what it does not accept, or is told.
                io::ErrorKind::InvalidData => return Failure::Tls(cut(&innermost(one), 200)),
                _ => {}
            }
        }
        at = cause(one);
    }
    let text = chain(&*error);
    if connecting { Failure::Unreachable(text) } else { Failure::Broken(text) }
}

/// What is behind the error. An [`io::Error`] hides the error it was made of: its source is that one's source.
fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(deeper) = cause(last) {
        last = deeper;
    }
    last.to_string()
}

/// The error and its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = cause(error);
    while let Some(deeper) = at {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        at = cause(deeper);
    }
    cut(&text, 200)
}
