//! The lines of a watch: one line for each change.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::timeout;

use super::client::Head;

/// A buffer that has grown larger than this is replaced after its lines are handed on. In bytes.
const BATCH: usize = 256 << 10;

/// A longer line is not read, in bytes. The API server takes no object of more than 3 MiB (`MaxRequestBodyBytes`), and a line
/// has one object.
const LONGEST: usize = 8 << 20;

/// A watch that shows nothing for this long is opened anew: API servers send a bookmark about once a minute.
pub const SILENT: Duration = Duration::from_secs(150);

/// The lines of an answer.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    /// What has arrived of the next line.
    rest: BytesMut,
    /// So many bytes of `rest` have no end of a line among them.
    searched: usize,
}

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Nothing was heard for this long.
    #[error("nothing was heard within {} ms", .0.as_millis())]
    Silent(Duration),
    /// A line is longer than is accepted.
    #[error("a line of the watch is longer than {0} bytes")]
    TooLong(usize),
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl Lines {
    /// The lines of this answer.
    #[must_use]
    pub fn new(response: Head) -> Self {
        Self { body: response.into_body(), rest: BytesMut::new(), searched: 0 }
    }

    /// The next lines, each with its end. Several lines that came at once are returned together. None: the answer has
    /// ended. Nothing is lost when the future is dropped before it is ready.
    ///
    /// # Errors
    /// The connection broke, no byte came within `silent`, or a line is longer than 8 MiB.
    pub async fn next(&mut self, silent: Duration) -> Option<Result<Bytes, Ended>> {
        loop {
            let new = self.rest.get(self.searched..).unwrap_or_default();
            let end = new.iter().rposition(|&byte| byte == b'\n').map(|at| self.searched + at);
            self.searched = self.rest.len();
            if let Some(end) = end {
                let lines = self.rest.split_to(end + 1).freeze();
                self.searched = self.rest.len();
                if self.rest.capacity() > BATCH {
                    self.rest = BytesMut::from(&self.rest[..]);
                }
                return Some(Ok(lines));
            }
            if self.rest.len() > LONGEST {
                return Some(Err(Ended::TooLong(LONGEST)));
            }
            match timeout(silent, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Ok(None) => return None,
                Ok(Some(Err(error))) => return Some(Err(error.into())),
                Err(_) => return Some(Err(Ended::Silent(silent))),
            }
        }
    }
}

/// The version in a line of a watch: the next watch goes on from there. None: the line is an error, or has no version.
#[must_use]
pub fn version_of(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(default)]
        object: Object,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let raw: Raw<'_> = serde_json::from_slice(line).ok()?;
    let version = raw.object.metadata.resource_version;
    (raw.kind != "ERROR" && !version.is_empty()).then_some(version)
}

/// Whether an API server says that it has not reached the version from which a watch is to go on, as after a restore of etcd
/// (`NewTooLargeResourceVersionError` in apiserver: 504, after a wait of three seconds).
#[must_use]
pub fn is_version_too_high(message: &str) -> bool {
    message.contains("Too large resource version")
}

/// Whether an answer ended in the middle, as when an API server goes down.
#[must_use]
pub fn is_cut_off(error: &hyper::Error) -> bool {
    if error.to_string().contains("unexpected EOF during chunk") {
        return true;
    }
    let mut at: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(one) = at {
        if one.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        at = one.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_tells_its_version() {
        for kind in ["ADDED", "DELETED", "BOOKMARK"] {
            let text = format!(r#"{{"type":"{kind}","object":{{"spec":{{}},"metadata":{{"resourceVersion":"42"}}}}}}"#);
            assert_eq!(version_of(text.as_bytes()).as_deref(), Some("42"));
        }
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"reason":"Expired","code":410}}"#;
        assert_eq!(version_of(gone.as_bytes()), None);
        assert_eq!(version_of(br#"{"type":"ADDED"}"#), None);
        assert_eq!(version_of(b"{"), None);
    }
}
