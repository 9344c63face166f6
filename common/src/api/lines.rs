//! The lines of a watch: one line for each change.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::client::Head;

/// A buffer that has grown larger than this is replaced after its lines are handed on. In bytes.
const BATCH: usize = 256 << 10;

/// The lines of an answer.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    rest: BytesMut,
}

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Nothing was heard for this long.
    #[error("nothing was heard within {} ms", .0.as_millis())]
    Silent(Duration),
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl Lines {
    /// The lines of this answer.
    #[must_use]
    pub fn new(response: Head) -> Self {
        Self { body: response.into_body(), rest: BytesMut::new() }
    }

    /// The next lines, each with its end. Several lines that came at once are returned together. None: the answer has
    /// ended. Nothing is lost when the future is dropped before it is ready.
    ///
    /// # Errors
    /// The connection broke, or no byte came within `silent`.
    pub async fn next(&mut self, silent: Duration) -> Option<Result<Bytes, Ended>> {
        loop {
            if let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') {
                let lines = self.rest.split_to(end + 1).freeze();
                if self.rest.capacity() > BATCH {
                    self.rest = BytesMut::from(&self.rest[..]);
                }
                return Some(Ok(lines));
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
