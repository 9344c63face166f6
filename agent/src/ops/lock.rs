//! One agent in a network namespace.
//!
//! Two agents in one namespace would each take the other's address for their own. Files do not distinguish network
//! namespaces, and pids do not distinguish pods. An abstract Unix socket belongs to the network namespace, and ends
//! with its owner.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

/// The abstract name; shown with an `@` by tools.
const NAME: &str = "mooring-agent";
/// How often the agent tries the name while the name is taken and no process listens.
const TRIES: u32 = 5;
/// The wait between two tries.
const AGAIN: Duration = Duration::from_millis(100);

/// Another agent has the lock, or the system refuses it.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent runs here.
    #[error(
        "another mooring-agent (pid {pid} of its host) serves this network namespace; one agent can serve the control \
         plane's VIPs and those of Services: give it both settings, and do not start this one"
    )]
    Taken {
        /// Its pid, as this process's pid namespace sees it; 0: the process is in another pid namespace.
        pid: i32,
    },
    /// The system refuses.
    #[error("cannot take the lock @mooring-agent of this network namespace: {0}")]
    Io(#[from] io::Error),
}

/// The lock. Released when dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    /// None where a foreign process occupies the name: see [`Lock::take`].
    _listener: Option<UnixListener>,
}

impl Lock {
    /// Waits until no other agent has the lock, and takes it. `told` learns which agent has the lock: a static pod and
    /// a `DaemonSet` on one node would otherwise end and be restarted for ever.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn wait(told: impl Fn(&LockError)) -> Result<Self, LockError> {
        loop {
            match Self::take() {
                Err(taken @ LockError::Taken { .. }) => {
                    told(&taken);
                    owner_ended().await;
                }
                taken => return taken,
            }
        }
    }

    /// Takes the lock of this network namespace.
    ///
    /// Any process in the namespace may bind an abstract name, also a pod on the host's network without any rights. The
    /// kernel reports the user behind a socket. A socket whose user is neither root nor this user does not belong to an
    /// agent, and does not keep this agent from starting.
    ///
    /// # Errors
    /// When another agent has it.
    pub fn take() -> Result<Self, LockError> {
        let name = SocketAddr::from_abstract_name(NAME)?;
        for _ in 0..TRIES {
            match UnixListener::bind_addr(&name) {
                Ok(listener) => {
                    return Ok(Self { _listener: Some(listener) });
                }
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error.into()),
                Err(_) => {}
            }
            match owner(&name) {
                Some((uid, pid)) if uid == 0 || uid == geteuid().as_raw() => return Err(LockError::Taken { pid }),
                Some((uid, pid)) => {
                    tracing::warn!(
                        uid,
                        pid,
                        "another program has the socket @mooring-agent: running without the lock that keeps a second agent from starting"
                    );
                    return Ok(Self { _listener: None });
                }
                // The owner has just ended, or is an agent between bind and listen, or does not exist.
                None => std::thread::sleep(AGAIN),
            }
        }
        tracing::warn!(
            "another program has the socket @mooring-agent and does not listen: running without the lock that keeps a second agent from starting"
        );
        Ok(Self { _listener: None })
    }
}

/// Waits until the process that listens on the name has ended. That process accepts no connection, so the kernel resets
/// this one when the listening socket is closed.
async fn owner_ended() {
    let connect = || {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(NAME)?)?;
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream)
    };
    // A process that cannot be connected to has ended, or is about to: the lock is tried again in either case.
    if let Ok(stream) = connect() {
        // Readable: the connection has ended, or the process has sent something, which no agent does.
        drop(stream.readable().await);
    }
    tokio::time::sleep(AGAIN).await;
}

/// User and process that listen on the name.
fn owner(name: &SocketAddr) -> Option<(u32, i32)> {
    let stream = UnixStream::connect_addr(name).ok()?;
    let credentials = getsockopt(&stream, PeerCredentials).ok()?;
    Some((credentials.uid(), credentials.pid()))
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Runs a test in a network namespace of its own.
    fn namespaced<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
            test()
        });
        thread.join().unwrap()
    }

    #[test]
    fn two_agents_in_one_namespace_and_two_in_two() {
        namespaced(|| {
            let first = Lock::take().unwrap();
            let error = Lock::take().unwrap_err();
            assert!(
                matches!(error, LockError::Taken { pid } if pid == i32::try_from(std::process::id()).unwrap()),
                "{error}"
            );
            let _elsewhere = namespaced(|| Lock::take().unwrap());
            drop(first);
            Lock::take().unwrap();
        });
    }

    #[test]
    fn the_second_agent_waits_until_the_first_has_ended() {
        namespaced(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let first = Lock::take().unwrap();
            let told = std::cell::RefCell::new(Vec::new());
            runtime.block_on(async {
                let wait = Lock::wait(|error| told.borrow_mut().push(error.to_string()));
                tokio::pin!(wait);
                // It waits. The first poll has told who serves.
                assert!(futures::poll!(&mut wait).is_pending());
                drop(first);
                let second = tokio::time::timeout(Duration::from_mins(1), wait).await.unwrap().unwrap();
                assert!(matches!(Lock::take(), Err(LockError::Taken { .. })));
                drop(second);
            });
            let told = told.into_inner();
            let pid = format!("pid {}", std::process::id());
            assert!(told.len() == 1 && told[0].contains(&pid), "{told:?}");
        });
    }

    #[test]
    fn a_name_that_is_only_occupied_stops_nobody() {
        namespaced(|| {
            use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
            use std::os::fd::AsRawFd as _;
            let squatter = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
            bind(squatter.as_raw_fd(), &UnixAddr::new_abstract(NAME.as_bytes()).unwrap()).unwrap();
            Lock::take().unwrap();
        });
    }
}
