//! How a text is written within another one.

use k8s_openapi::ByteString;
use serde_json::Value;

/// How a text is written within another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manifest) enum Coding {
    /// As it is.
    Plain,
    /// In base64.
    Base64,
}

impl Coding {
    /// The text that this stands for; None: it stands for no text.
    pub(super) fn decoded(self, written: &str) -> Option<String> {
        match self {
            Self::Plain => Some(written.to_owned()),
            Self::Base64 => {
                let compact: String = written.split_whitespace().collect();
                let ByteString(bytes) = serde_json::from_value(Value::String(compact)).ok()?;
                String::from_utf8(bytes).ok()
            }
        }
    }

    /// What stands for this text.
    pub(super) fn encoded(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Base64 => match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
                Ok(Value::String(written)) => written,
                // Bytes are always written as a string.
                _ => String::new(),
            },
        }
    }
}
