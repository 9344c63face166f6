//! Failures of a call to the API.

use std::time::Duration;

use mooring_allocator_core::protocol::Failure;
use mooring_common::api::Refusal;
use mooring_common::api::client::TERMINATING;
use mooring_common::text::cut;

/// The longest error message that is kept, in characters.
pub(super) const LONGEST: usize = 400;

/// Why one try at one API server failed. The meaning for the protocol rests on the difference between "nothing was sent"
/// and "the answer was lost", and on the reason in the answer. The error of `mooring_common` says how a whole race of
/// several API servers ended; that error keeps neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with an error.
    #[error("answered {code} {reason}: {message}")]
    Status {
        /// HTTP status.
        code: u16,
        /// One word.
        reason: String,
        /// The server's message.
        message: String,
        /// When to try again, if the server says so.
        retry_after: Option<Duration>,
    },
    /// There is no cluster to connect to, or no connection: nothing was sent.
    #[error("nothing was sent: {0}")]
    NotSent(String),
    /// The call was sent, and the answer did not arrive completely. The call may have taken effect, or may take effect
    /// later.
    #[error("the answer was lost: {0}")]
    Lost(String),
    /// The call was sent, and its answer is longer than this many bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// No answer in time. The call may have taken effect, or may take effect later.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl From<Refusal> for ApiError {
    fn from(said: Refusal) -> Self {
        Self::Status {
            code: said.code,
            reason: cut(&said.reason, 80),
            message: cut(&said.message, LONGEST),
            retry_after: said.retry_after,
        }
    }
}

impl ApiError {
    /// One of a fixed set of words, for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Status { code: 409, .. } => "conflict",
            Self::Status { code: 404, .. } => "not_found",
            _ if self.is_terminating() => "rejected",
            Self::Status { code: 401 | 403, .. } => "denied",
            Self::Status { code: 410, .. } => "gone",
            Self::Status { code: 429, .. } => "throttled",
            Self::Status { code: 500..=599, .. } => "server",
            Self::Status { .. } => "rejected",
            Self::NotSent(_) => "connect",
            Self::Lost(_) | Self::TooLong(_) => "lost",
            Self::Timeout(_) => "timeout",
        }
    }

    /// Whether the API server says that there is no such object. (The answer for a kind that is not served has no such
    /// word: it means nothing about objects.)
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, reason, .. } if reason == "NotFound")
    }

    /// Whether the object cannot be created because its namespace is being deleted. No right is missing.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        matches!(self, Self::Status { code: 403, reason, .. } if reason == TERMINATING)
    }

    /// The meaning for the protocol.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Status { code: 409, reason, .. } if reason == "AlreadyExists" => Failure::Exists,
            // A rejected call had no effect either; it is tried again.
            Self::Status { code: 409 | 401 | 429, .. } | Self::NotSent(_) => Failure::Conflict,
            _ if self.is_not_found() => Failure::NotFound,
            // No such path: the answer means nothing about the object.
            Self::Status { code: 404 | 410, .. } => Failure::Unknown,
            Self::Status { code: 400..=499, message, .. } => Failure::Refused(message.clone()),
            Self::Status { .. } | Self::Lost(_) | Self::TooLong(_) | Self::Timeout(_) => Failure::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> ApiError {
        ApiError::Status { code, reason: reason.into(), message: "m".into(), retry_after: None }
    }

    #[test]
    fn the_end_of_a_namespace_is_no_lack_of_rights() {
        let said = |reason: &str| ApiError::from(Refusal { code: 403, reason: reason.into(), ..Refusal::default() });
        let of = [TERMINATING, "Forbidden"].map(|reason| (said(reason).is_terminating(), said(reason).category()));
        assert_eq!(of, [(true, "rejected"), (false, "denied")]);
    }

    #[test]
    fn what_is_not_known_to_have_failed_is_unknown() {
        for (error, failure) in [
            (status(409, "AlreadyExists"), Failure::Exists),
            (status(409, "Conflict"), Failure::Conflict),
            (status(404, "NotFound"), Failure::NotFound),
            (status(404, ""), Failure::Unknown),
            (status(422, "Invalid"), Failure::Refused("m".into())),
            (status(403, "Forbidden"), Failure::Refused("m".into())),
            (status(429, "TooManyRequests"), Failure::Conflict),
            (status(500, "InternalError"), Failure::Unknown),
            (status(504, "Timeout"), Failure::Unknown),
            (ApiError::NotSent("x".into()), Failure::Conflict),
            (ApiError::Lost("x".into()), Failure::Unknown),
            (ApiError::TooLong(9), Failure::Unknown),
            (ApiError::Timeout(Duration::from_secs(1)), Failure::Unknown),
        ] {
            assert_eq!(error.failure(), failure, "{error}");
        }
    }
}
