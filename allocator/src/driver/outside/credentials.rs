//! Credentials of outside systems, from Secrets. They are read again regularly, so that a changed Secret needs no restart; only
//! the right to get them is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use mooring_allocator_core::names::is_object_name;
use mooring_common::api::{Call, Verb};
use serde::Deserialize;

use crate::api::{ApiError, Client};
use crate::ops::Ops;

/// Where Secrets are read.
pub(super) struct Secrets {
    pub(super) client: Client,
    pub(super) ops: Arc<Ops>,
    pub(super) namespace: Arc<str>,
    pub(super) deadline: Duration,
}

/// A Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secret(BTreeMap<String, ByteString>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a Secret was not read, and what people can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// No object has such a name.
    #[error("no Secret can be named {0:?}")]
    NoName(String),
    /// There is none.
    #[error("{0} does not exist: create it")]
    Gone(String),
    /// The allocator may not read it.
    #[error("{0} must not be read: grant get on it to the allocator")]
    Closed(String),
    /// The answer is no Secret. The error of the decoder could repeat what it decoded.
    #[error("{0} cannot be decoded")]
    Undecodable(String),
    /// The API server may only be away.
    #[error("{0} cannot be read: {1}")]
    Away(String, ApiError),
}

impl Unread {
    /// Whether what was read before may not be used any more. All else says nothing about the Secret.
    pub(super) const fn ends(&self) -> bool {
        match self {
            Self::NoName(_) | Self::Gone(_) | Self::Closed(_) => true,
            Self::Undecodable(_) | Self::Away(..) => false,
        }
    }
}

#[derive(Deserialize)]
struct SecretJson {
    #[serde(default)]
    data: Option<BTreeMap<String, ByteString>>,
}

impl Secrets {
    /// Reads a Secret.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn read(&self, name: &str) -> Result<Secret, Unread> {
        if !is_object_name(name) {
            return Err(Unread::NoName(name.to_owned()));
        }
        let at = format!("Secret {}/{name}", self.namespace);
        let call = Call::read(Verb::Get, "secrets", format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace));
        let body = match self.client.call(&call, self.deadline, &self.ops.metrics).await {
            Ok(body) => body,
            Err(ApiError::Status { code: 404, .. }) => return Err(Unread::Gone(at)),
            Err(ApiError::Status { code: 403, .. }) => return Err(Unread::Closed(at)),
            Err(other) => return Err(Unread::Away(at, other)),
        };
        let secret: SecretJson = serde_json::from_slice(&body).map_err(|_| Unread::Undecodable(at))?;
        Ok(Secret(secret.data.unwrap_or_default()))
    }
}

impl Secret {
    /// One with a text.
    #[cfg(test)]
    pub(super) fn with(key: &str, text: &str) -> Self {
        Self(BTreeMap::from([(key.to_owned(), ByteString(text.into()))]))
    }

    /// A text in it, without white space around it; None: it has none.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let text = std::str::from_utf8(&self.0.get(key)?.0).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The certificates under a key; None: there is no such key.
    ///
    /// # Errors
    /// It has no certificate.
    pub(super) fn authorities(&self, key: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
        let Some(pem) = self.text(key) else { return Ok(None) };
        certificates(&pem).map(Some).ok_or_else(|| format!("{key} of the Secret has no certificate in PEM"))
    }
}

/// The DER of all certificates in a PEM.
fn certificates(pem: &str) -> Option<Vec<Vec<u8>>> {
    let parts = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let all: Option<Vec<Vec<u8>>> = parts
        .map(|part| {
            let (body, _) = part.split_once("-----END CERTIFICATE-----")?;
            let text: String = body.split_whitespace().collect();
            let decoded: ByteString = serde_json::from_value(text.into()).ok()?;
            Some(decoded.0)
        })
        .collect();
    all.filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_and_its_texts_are_trimmed() {
        let json = r#"{"data":{"password":"aGlkZGVuCg==","ca.crt":"bm90aGluZw=="}}"#;
        let secret = Secret(serde_json::from_str::<SecretJson>(json).unwrap().data.unwrap());
        assert_eq!(secret.text("password").as_deref(), Some("hidden"));
        assert_eq!(secret.text("username"), None);
        assert!(!format!("{secret:?}").contains("hidden"));
        assert!(secret.authorities("ca.crt").is_err());
    }

    #[test]
    fn certificates_are_read_from_pem() {
        let one = "-----BEGIN CERTIFICATE-----\nAQ\nID\n-----END CERTIFICATE-----\n";
        assert_eq!(certificates(&format!("text\n{one}{one}")), Some(vec![vec![1, 2, 3]; 2]));
        assert_eq!(certificates("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"), None);
    }
}
