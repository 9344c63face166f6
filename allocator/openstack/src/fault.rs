//! What an answer of OpenStack's means that is no success. 409 has several meanings: Neutron says which by its `type`.

use serde::Deserialize;

use crate::one_line;

/// The meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The token is not accepted (any more).
    #[error("the token is not accepted: {0}")]
    Token(String),
    /// No address is left: of the network, or of the project's quota.
    #[error("{0}")]
    Full(String),
    /// Somebody has this very address.
    #[error("{0}")]
    Taken(String),
    /// There is no such thing.
    #[error("{0}")]
    Absent(String),
    /// The floating IP was changed by somebody else since it was read.
    #[error("{0}")]
    Changed(String),
    /// It is refused, and nothing was done.
    #[error("{0}")]
    Refused(String),
    /// Too many requests, or the service is not there: nothing was done, and later it may be.
    #[error("{0}")]
    Busy(String),
    /// The request may have had its effect.
    #[error("{0}")]
    Unknown(String),
}

#[derive(Deserialize)]
struct Neutron {
    #[serde(rename = "NeutronError")]
    error: NeutronError,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NeutronError {
    Typed {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        message: String,
    },
    Text(String),
}

/// Keystone's form, and that of the token check before Neutron.
#[derive(Deserialize)]
struct Other {
    error: OtherError,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct OtherError {
    title: String,
    message: String,
}

/// Reads an answer whose status is no success.
#[must_use]
pub fn read(status: u16, body: &[u8]) -> Fault {
    let (kind, message) = said(body);
    let text = |fallback: &str| {
        let said = if message.is_empty() { fallback } else { &message };
        one_line(&if kind.is_empty() { format!("{status}: {said}") } else { format!("{status} {kind}: {said}") })
    };
    match (status, &*kind) {
        (401, _) => Fault::Token(text("not authorized")),
        (404, _) => Fault::Absent(text("not found")),
        (409, "OverQuota" | "IpAddressGenerationFailure" | "IpAddressGenerationFailureNoMatchingSubnet") => {
            Fault::Full(text("no address is left"))
        }
        (409, "IpAddressAlreadyAllocated" | "IpAddressInUse") => Fault::Taken(text("the address is in use")),
        (412, _) => Fault::Changed(text("it was changed meanwhile")),
        (429, _) => Fault::Busy(text("too many requests")),
        (400..=499, _) => Fault::Refused(text("refused")),
        _ => Fault::Unknown(text("no success")),
    }
}

fn said(body: &[u8]) -> (String, String) {
    if let Ok(Neutron { error }) = serde_json::from_slice(body) {
        return match error {
            NeutronError::Typed { kind, message } => (kind, message),
            NeutronError::Text(message) => (String::new(), message),
        };
    }
    if let Ok(Other { error }) = serde_json::from_slice(body) {
        return (error.title, error.message);
    }
    // A proxy's page says nothing that helps.
    let text = String::from_utf8_lossy(body);
    let is_page = text.trim_start().starts_with('<');
    (String::new(), if is_page { String::new() } else { text.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neutron(kind: &str, message: &str) -> Vec<u8> {
        serde_json::json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}).to_string().into_bytes()
    }

    #[test]
    fn a_conflict_has_three_meanings() {
        let fault = |kind: &str| read(409, &neutron(kind, "Quota exceeded for resources: ['floatingip']."));
        let text = |kind: &str| format!("409 {kind}: Quota exceeded for resources: ['floatingip'].");
        assert_eq!(fault("OverQuota"), Fault::Full(text("OverQuota")));
        assert_eq!(fault("IpAddressGenerationFailure"), Fault::Full(text("IpAddressGenerationFailure")));
        assert_eq!(fault("IpAddressAlreadyAllocated"), Fault::Taken(text("IpAddressAlreadyAllocated")));
        assert_eq!(fault("SomethingElse"), Fault::Refused(text("SomethingElse")));
    }

    #[test]
    fn other_forms_are_read() {
        let keystone =
            br#"{"error":{"code":401,"title":"Unauthorized","message":"The request requires authentication."}}"#;
        let token = "401 Unauthorized: The request requires authentication.".to_owned();
        assert_eq!(read(401, keystone), Fault::Token(token));
        assert_eq!(read(502, b"<html>Bad Gateway</html>"), Fault::Unknown("502: no success".into()));
        assert_eq!(read(500, b"database\nis locked"), Fault::Unknown("500: database is locked".into()));
        assert!(matches!(read(412, &neutron("RevisionNumberConstraintFailed", "")), Fault::Changed(_)));
        assert!(matches!(read(404, &neutron("NetworkNotFound", "x")), Fault::Absent(_)));
    }
}
