//! `mooring-agent status`: asks the agent on this host.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::repeat::{self, State};
use super::status::Status;
use crate::cli::Output;

/// How long the agent may take to answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// An upper limit for the size of a status document.
const MOST: usize = 4 << 20;

/// The agent gives no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No process listens on the socket.
    #[error(
        "no mooring-agent answers at {path} ({source}): is it running? If it runs with another --run-dir, give it here too"
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This user may not ask.
    #[error("the status socket {0} may not be opened: ask as root")]
    Denied(PathBuf),
    /// The process listens and does not answer.
    #[error("the mooring-agent at {path} does not answer within 3 s ({source}): its log may say why")]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The answer is not a status document of this version.
    #[error("what answers at {path} is not a mooring-agent of this version ({source}): use the agent's own binary")]
    Strange {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// Asks the agent behind this socket.
///
/// # Errors
/// When the agent gives no status.
pub fn read(socket: &Path) -> Result<Status, StatusError> {
    let path = || socket.to_owned();
    let mut stream = UnixStream::connect(socket).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => StatusError::Denied(path()),
        _ => StatusError::NotRunning { path: path(), source },
    })?;
    let text = read_all(&mut stream).map_err(|source| StatusError::Silent { path: path(), source })?;
    decode(&text).map_err(|source| StatusError::Strange { path: path(), source })
}

/// Reads to the end, within the deadline: a socket's own timeout starts again with each byte.
fn read_all(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + DEADLINE;
    let (mut text, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while text.len() < MOST {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(part.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// Decodes the document from the socket.
///
/// # Errors
/// When the text is not a status document.
pub fn decode(text: &[u8]) -> Result<Status, serde_json::Error> {
    serde_json::from_slice(text)
}

/// Prints the status, once or repeatedly.
#[must_use]
pub fn print(socket: &Path, output: Output, watch: bool) -> ExitCode {
    repeat::print(|| read(socket), output, watch)
}

impl State for Status {
    fn tables(&self) -> String {
        Self::tables(self)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("no mooring-agent answers at") && error.contains("is it running?"), "{error}");
        let listener = UnixListener::bind(&path).unwrap();
        let stranger = std::thread::spawn(move || drop(listener.accept()));
        assert!(matches!(read(&path), Err(StatusError::Strange { .. })));
        stranger.join().unwrap();
    }

    #[test]
    fn a_socket_that_trickles_does_not_hold_on_for_ever() {
        use std::io::Write as _;
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        // Bytes come often enough that no single read times out; the thread ends when the reader is gone.
        let trickle = std::thread::spawn(move || {
            while theirs.write_all(b" ").is_ok() {
                std::thread::sleep(DEADLINE / 20);
            }
        });
        assert!(
            matches!(read_all(&mut ours), Err(error) if error.kind() == io::ErrorKind::TimedOut || error.kind() == io::ErrorKind::WouldBlock)
        );
        drop(ours);
        trickle.join().unwrap();
    }
}
