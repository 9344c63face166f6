//! The errors of a call to the API.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::kubeconfig::ConfigError;
use crate::text::{cause, chain, cut};

/// Why a call failed.
///
/// Either an API server answered with an error ([`ApiError::answered`]), or none could answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 409: the object is not the one that the write was based on, or exists already.
    #[error("{what} was changed by somebody else: {message}")]
    Conflict {
        /// The object.
        what: String,
        /// The API server's words.
        message: String,
    },
    /// 404: the object or its namespace does not exist (yet).
    #[error("{what} does not exist: {message}")]
    NotFound {
        /// The object.
        what: String,
        /// The API server's words.
        message: String,
    },
    /// 403. Normal for some seconds while kubeadm sets up the cluster; later RBAC lacks a rule.
    #[error(
        "not allowed to {verb} {resource}: give this program's user that verb in a Role, as rbac.yaml in the manifests does (while a cluster is being set up this passes): {message}"
    )]
    Forbidden {
        /// The verb that RBAC lacks.
        verb: &'static str,
        /// The resource, with its API group.
        resource: String,
        /// The API server's words.
        message: String,
    },
    /// 401: the client certificate or token is not accepted.
    #[error(
        "{server} does not accept this program's credentials (expired, or of another cluster? renew the kubeconfig; it is read again when it changes): {message}"
    )]
    Unauthorized {
        /// The API server.
        server: String,
        /// Its words.
        message: String,
    },
    /// 410: the version that a watch was to begin at is gone.
    #[error("the version asked for is gone: {message}")]
    Gone {
        /// The API server's words.
        message: String,
    },
    /// Any other 4xx, and a 403 because the namespace is being deleted: the API server refuses the request.
    #[error("refused with {code}: {message}")]
    Rejected {
        /// HTTP status.
        code: u16,
        /// The API server's words.
        message: String,
    },
    /// No API server could answer.
    #[error("{0}")]
    Away(Away),
    /// There are no usable credentials.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// No API server could answer in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// The tries, in order.
    pub tries: Vec<Try>,
    /// How long the whole call took.
    pub after: Duration,
    /// A write was sent and no answer came: it may have been applied, or may still be applied.
    pub maybe_applied: bool,
}

/// One API server's part in a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The API server's URL.
    pub server: String,
    /// Why this server did not answer.
    pub failure: Failure,
}

/// Why one API server could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No process listens on the port.
    #[error("connection refused")]
    Refused,
    /// No connection to it: no route, no such name, connection timed out.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// TLS failed: one side does not accept the other's certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// It did not answer.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The connection broke before the answer was complete.
    #[error("connection broke: {0}")]
    Broken(String),
    /// 5xx or 429: it cannot at the moment, for instance because etcd has no leader.
    #[error("answered {code}: {message}")]
    Server {
        /// HTTP status.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The answer is longer than this many bytes, which is more than is read.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    /// The answer is invalid.
    #[error("sent what is no answer: {0}")]
    Malformed(String),
}

impl ApiError {
    /// A short name, one of a fixed set: for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::NotFound { .. } => "not_found",
            Self::Forbidden { .. } => "forbidden",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Gone { .. } => "gone",
            Self::Rejected { .. } => "rejected",
            Self::Away(away) => away.tries.first().map_or("timeout", |t| t.failure.category()),
            Self::Config(_) => "config",
        }
    }

    /// Whether an API server answered with a definite error. False: the API is away.
    #[must_use]
    pub fn answered(&self) -> bool {
        !matches!(self, Self::Away(_) | Self::Config(_))
    }

    /// Whether the answer was longer than is read.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Away(away) if away.tries.iter().any(|t| matches!(t.failure, Failure::TooLong(_))))
    }

    /// Whether a failed write may have been applied all the same.
    #[must_use]
    pub fn maybe_applied(&self) -> bool {
        matches!(self, Self::Away(away) if away.maybe_applied)
    }
}

impl Failure {
    /// Why a request got no answer.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut connecting = false;
        let mut at = Some(error);
        while let Some(one) = at {
            connecting |= one
                .downcast_ref::<hyper_util::client::legacy::Error>()
                .is_some_and(hyper_util::client::legacy::Error::is_connect);
            if let Some(io) = one.downcast_ref::<io::Error>() {
                match io.kind() {
                    io::ErrorKind::ConnectionRefused => return Self::Refused,
                    // rustls uses this kind when it or its peer rejects the handshake.
                    io::ErrorKind::InvalidData => return Self::Tls(cut(&innermost(one), 200)),
                    _ => {}
                }
            }
            at = cause(one);
        }
        let text = chain(error, 200);
        if connecting { Self::Unreachable(text) } else { Self::Broken(text) }
    }

    /// Whether a request that was given a connection may have been carried out all the same.
    pub(super) fn leaves_doubt(&self) -> bool {
        match self {
            Self::Refused | Self::Unreachable(_) => false,
            // Too many requests: rejected before any work.
            Self::Server { code, .. } => *code != 429,
            Self::Timeout(_) | Self::Broken(_) | Self::Malformed(_) | Self::TooLong(_) | Self::Tls(_) => true,
        }
    }

    /// A short name, one of a fixed set: for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::Timeout(_) => "timeout",
            Self::Broken(_) => "broken",
            Self::Server { .. } => "server",
            Self::TooLong(_) => "too_long",
            Self::Malformed(_) => "malformed",
        }
    }
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no API server answered")?;
        if !self.after.is_zero() {
            write!(f, " within {} ms", self.after.as_millis())?;
        }
        for (n, one) in self.tries.iter().enumerate() {
            write!(f, "{} {}: {}", if n == 0 { ":" } else { ";" }, one.server, one.failure)?;
        }
        if self.maybe_applied { f.write_str(" (the write may have been applied)") } else { Ok(()) }
    }
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(deeper) = cause(last) {
        last = deeper;
    }
    last.to_string()
}
