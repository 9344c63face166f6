//! phpIPAM's answers. The HTTP status alone says little: an error inside comes as 200 with `success: false`, and a crash of its
//! PHP as 500 without a body.

use bytes::Bytes;
use mooring_allocator_core::remote::Failure;
use mooring_common::text::cut;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::entries::text;

/// The most characters of its words that are repeated.
const LONGEST: usize = 160;

/// What was asked for, or what is wrong.
pub(super) type Reply = Result<Content, Problem>;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// The number of a new entry.
    pub(super) id: Option<Box<str>>,
    pub(super) data: Data,
}

/// JSON that has not been read yet: a list of all addresses of a /16 has some 30 MB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data(pub(super) Bytes);

impl Data {
    /// The data as a whole. For answers that are small.
    pub(super) fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// As much of the data as this type has; None: the data is something else.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_slice(&self.0).ok()
    }
}

/// An answer that says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The code in the envelope, or else the HTTP status.
    pub(super) code: u16,
    /// What it says: short, on one line.
    pub(super) message: String,
    /// It came in phpIPAM's own envelope; otherwise from PHP, or from a proxy.
    envelope: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    code: Option<u16>,
    #[serde(default)]
    success: Value,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    id: Value,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Reads an answer.
pub(super) fn read(status: u16, body: &Bytes) -> Reply {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(body) else {
        let message = if body.trim_ascii().is_empty() {
            format!("HTTP {status} without a body")
        } else {
            format!("HTTP {status}, and no JSON")
        };
        return Err(Problem { code: status, message, envelope: false });
    };
    let code = envelope.code.unwrap_or(status);
    let success = envelope.success == true || envelope.success == 1;
    if success && (200..300).contains(&status) && (200..300).contains(&code) {
        let data = envelope.data.map_or_else(Bytes::new, |data| body.slice_ref(data.get().as_bytes()));
        return Ok(Content { id: text(&envelope.id).map(Into::into), data: Data(data) });
    }
    let said = envelope.message.as_ref().and_then(text).unwrap_or_else(|| format!("HTTP {status}"));
    let line: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // A success in a failed answer is none.
    let code = if (200..300).contains(&code) { status.max(500) } else { code };
    Err(Problem { code, message: cut(&line, LONGEST), envelope: true })
}

impl Problem {
    fn says(&self, what: &str) -> bool {
        self.message.to_ascii_lowercase().contains(what)
    }

    /// The token is not accepted: a new one may be.
    pub(super) fn wants_login(&self) -> bool {
        match self.code {
            // A read-only app says 401 too.
            401 => !self.says("permission"),
            403 => self.says("token"),
            _ => false,
        }
    }

    /// The address is somebody else's, or another request got it first: nothing was entered.
    pub(super) fn is_taken(&self) -> bool {
        self.code == 409 || (self.code == 500 && (self.says("duplicate entry") || self.says("already exists")))
    }

    /// The address is none that a host of the subnet may have.
    pub(super) fn is_unfit(&self) -> bool {
        self.says("is not a valid address")
    }

    /// What it means for a call.
    pub(super) fn failure(&self) -> Failure {
        let text = format!("phpIPAM said {}: {}", self.code, self.message);
        let not_done = self.says("cannot obtain lock") || self.says("blocked") || self.says("invalid username");
        match self.code {
            503 if self.envelope => Failure::Refused(text),
            400..500 => Failure::Refused(text),
            _ if not_done => Failure::Refused(text),
            _ => Failure::Lost(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Reply {
        read(status, &Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn the_envelope_counts_more_than_the_status() {
        let made =
            answer(201, r#"{"code":201,"success":true,"message":"Address created","id":"11","data":"192.0.2.1"}"#);
        assert_eq!(made, Ok(Content { id: Some("11".into()), data: Data(r#""192.0.2.1""#.into()) }));
        let lock =
            answer(200, r#"{"code":500,"success":false,"message":"Cannot obtain lock for /tmp/x after 2 seconds"}"#);
        assert!(matches!(lock.unwrap_err().failure(), Failure::Refused(_)));
        for (status, body) in [(500, ""), (502, "<html>"), (200, "half of a"), (200, r#"{"success":false}"#)] {
            let problem = answer(status, body).unwrap_err();
            assert!(matches!(problem.failure(), Failure::Lost(_)), "{problem:?}");
        }
    }

    #[test]
    fn problems_are_told_apart() {
        let said = |status, message: &str| {
            let body = serde_json::json!({"code": status, "success": false, "message": message}).to_string();
            answer(status, &body).unwrap_err()
        };
        assert!(said(401, "Unauthorized").wants_login() && said(403, "Token expired").wants_login());
        assert!(!said(401, "invalid permissions").wants_login());
        assert!(said(409, "IP address already exists").is_taken());
        assert!(
            said(500, "SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry '1' for key").is_taken()
        );
        assert!(said(500, "1.2.3.4 is not a valid address for subnet").is_unfit());
        assert!(matches!(said(500, "Your IP has been blocked for 5 minutes").failure(), Failure::Refused(_)));
        assert!(matches!(said(503, "API server disabled").failure(), Failure::Refused(_)));
        let long = said(400, &"x\n".repeat(500));
        assert!(long.message.len() < 200 && !long.message.contains('\n'));
    }
}
