//! `mooring-agent status`: asks the agent on this host.

use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::print::{complain, say};
use super::status::Status;
use crate::cli::Output;

/// For the agent to answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// Between two prints of `--watch`.
const AGAIN: Duration = Duration::from_secs(1);
/// More than a status can be.
const MOST: u64 = 4 << 20;
/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The agent does not tell.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nobody listens.
    #[error(
        "no mooring-agent answers at {path} ({source}): is it running? If it runs with another --run-dir, give it here too"
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It may not be asked.
    #[error("the status socket {0} may not be opened: ask as root")]
    Denied(PathBuf),
    /// It listens and says nothing.
    #[error("the mooring-agent at {path} does not answer within 3 s ({source}): its log may say why")]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It says something else.
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
/// When it does not tell.
pub fn read(socket: &Path) -> Result<Status, StatusError> {
    let path = || socket.to_owned();
    let mut stream = UnixStream::connect(socket).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => StatusError::Denied(path()),
        _ => StatusError::NotRunning { path: path(), source },
    })?;
    let mut text = Vec::new();
    let read = stream.set_read_timeout(Some(DEADLINE)).and_then(|()| (&mut stream).take(MOST).read_to_end(&mut text));
    read.map_err(|source| StatusError::Silent { path: path(), source })?;
    serde_json::from_slice(&text).map_err(|source| StatusError::Strange { path: path(), source })
}

/// Prints the status, once or again and again.
#[must_use]
pub fn print(socket: &Path, output: Output, watch: bool) -> ExitCode {
    let clear = if watch && output == Output::Table && io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let result = read(socket);
        let taken = match (&result, output) {
            (Ok(status), Output::Table) => say(&format!("{clear}{}", status.tables().trim_end())),
            (Ok(status), Output::Json) => say(&json(status, watch)),
            (Err(error), _) => {
                complain(&format!("{clear}mooring-agent: {error}"));
                true
            }
        };
        if !watch || !taken {
            return if taken && result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        std::thread::sleep(AGAIN);
    }
}

/// One object a line when there are several.
fn json(status: &Status, line: bool) -> String {
    let text = if line { serde_json::to_string(status) } else { serde_json::to_string_pretty(status) };
    text.unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
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
}
