//! The status socket: a client that connects reads the status document until its end. For root only.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};

use super::Ops;
use mooring_common::slots::Slots;

/// The limit of simultaneous connections.
const CONNECTIONS: usize = 8;
/// How long a reader may take for the whole document.
const DEADLINE: Duration = Duration::from_secs(2);
/// The wait before the next accept when no file descriptor is left.
const RETRY: Duration = Duration::from_secs(1);

/// The status socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another agent answers on the socket.
    #[error("an agent of another network namespace answers at {0}: give this one a --run-dir of its own")]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} exists and is not a socket: remove it, or give another --status-socket")]
    NotASocket(PathBuf),
    /// The system refuses.
    #[error(
        "cannot make the status socket {path}: {source}; give a --status-socket in a directory that can be written to"
    )]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The status socket, listening. It is removed when dropped.
#[derive(Debug)]
pub struct StatusServer {
    listener: UnixListener,
    path: PathBuf,
}

impl StatusServer {
    /// Makes the socket, and replaces a socket that no process answers at. Must be called within a tokio runtime, by
    /// the holder of the [`super::lock::Lock`].
    ///
    /// # Errors
    /// When another agent answers there, the path is not a socket, or the system refuses. The agent carries VIPs even
    /// so.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::Io { path: path.to_owned(), source };
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
            Ok(_) if StdUnixStream::connect(path).is_ok() => return Err(BindError::InUse(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
        }
        // Made under another name and moved there, so that only root can ever connect, and no client finds a half-made
        // socket.
        let new = path.with_extension("new");
        if let Err(error) =
            fs::remove_file(&new).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
        {
            return Err(failed(error));
        }
        let listener = UnixListener::bind(&new).map_err(failed)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        fs::rename(&new, path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Serves for ever. Ends when dropped, with all connections.
    pub async fn serve(self, ops: Arc<Ops>) -> Infallible {
        let mut slots = Slots::new(CONNECTIONS);
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => slots.spawn(answer(stream, Arc::clone(&ops))),
                Err(error) => {
                    tracing::warn!(%error, "connection to the status socket not accepted; retrying");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "status socket not removed");
        }
    }
}

async fn answer(mut stream: UnixStream, ops: Arc<Ops>) {
    let report = Arc::clone(&ops.report.borrow());
    let mut status = report.at((ops.clock)(), ops.readiness.waits());
    status.services = ops.services().await;
    let document = match serde_json::to_vec(&status) {
        Ok(document) => document,
        Err(error) => {
            tracing::error!(%error, "status cannot be written as JSON");
            return;
        }
    };
    let written = tokio::time::timeout(DEADLINE, async {
        stream.write_all(&document).await?;
        stream.shutdown().await
    });
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "status reader disconnected"),
        Err(_) => tracing::debug!("status reader does not read; disconnected"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::super::status::Status;
    use super::super::status::tests::report;
    use super::super::{boottime, status_client};
    use super::*;

    fn start(path: &Path) -> Arc<Ops> {
        let ops = Ops::new(boottime, "cp1");
        ops.report.send_replace(Arc::new(report()));
        let server = StatusServer::bind(path).unwrap();
        tokio::spawn(server.serve(Arc::clone(&ops)));
        ops
    }

    #[tokio::test]
    async fn a_client_reads_the_document() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/agent.sock");
        start(&path);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let status = tokio::task::spawn_blocking(move || status_client::read(&path)).await.unwrap().unwrap();
        assert_eq!((status.node.as_str(), status.state.as_str()), ("cp1", "holder"));
        assert_eq!(status.waits, ["agent: starts"]);
    }

    #[tokio::test]
    async fn those_who_never_read_keep_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let ops = start(&path);
        // More than a socket's buffer holds.
        let big = super::super::status::Report { state: "x".repeat(1 << 20), ..report() };
        ops.report.send_replace(Arc::new(big));
        let mut mute = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            mute.push(UnixStream::connect(&path).await.unwrap());
        }
        ops.report.send_replace(Arc::new(report()));
        let mut text = String::new();
        UnixStream::connect(&path).await.unwrap().read_to_string(&mut text).await.unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap().state, "holder");
    }

    #[tokio::test]
    async fn what_is_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(StatusServer::bind(&path), Err(BindError::NotASocket(_))));
        fs::remove_file(&path).unwrap();
        // A socket left behind by a killed agent does not prevent the bind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = StatusServer::bind(&path).unwrap();
        assert!(matches!(StatusServer::bind(&path), Err(BindError::InUse(_))));
        drop(first);
        assert!(!path.exists());
        assert!(matches!(StatusServer::bind(Path::new("/proc/x/agent.sock")), Err(BindError::Io { .. })));
    }
}
