//! What can go wrong with hosts and their processes.

use nix::errno::Errno;

/// A host, a namespace or a process did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused a namespace.
    #[error(
        "cannot {what}: {errno}. The lab runs as root, or as an ordinary user where user namespaces are allowed \
         (sysctl kernel.apparmor_restrict_unprivileged_userns=0, kernel.unprivileged_userns_clone=1, \
         user.max_user_namespaces > 0); in a container it needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Namespace {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A file, a socket or a thread failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The kernel refused a change of a network namespace.
    #[error("cannot {what} in namespace {netns}: {source}")]
    Netlink {
        /// What was tried.
        what: String,
        /// The namespace.
        netns: String,
        /// The kernel's answer.
        source: Box<rtnetlink::Error>,
    },
    /// The lab has no host, process or interface of this name.
    #[error("the lab has no {what} {name}")]
    Unknown {
        /// host, process or interface
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The host is crashed.
    #[error("host {host} is down; revive it first")]
    Down {
        /// Its name.
        host: String,
    },
    /// The init of a host refused or did not answer.
    #[error("host {host}: {detail}")]
    Init {
        /// Its name.
        host: String,
        /// What it said.
        detail: String,
    },
    /// A process of a host is not in the expected state.
    #[error("{process} on {host}: {detail}{log}")]
    Process {
        /// The host.
        host: String,
        /// The process.
        process: String,
        /// What is wrong.
        detail: String,
        /// The end of its log, or nothing.
        log: String,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s in vain for {what}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn namespace(what: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        move |errno| Self::Namespace { what, errno }
    }
}
