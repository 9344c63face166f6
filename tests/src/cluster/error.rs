//! What can go wrong with a cluster.

use crate::{assets, host, pki};

/// The cluster did not come up, or an API server refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab has no cluster.
    #[error("this lab has no cluster; bring it up with Shape::external() or Shape::stacked()")]
    None,
    /// A host or a process.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The binaries.
    #[error(transparent)]
    Assets(#[from] assets::Error),
    /// The certificates.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// A request.
    #[error("{what}: {source}")]
    Api {
        /// What was asked.
        what: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A client cannot be made.
    #[error("cannot make a client of {server}: {detail}")]
    Client {
        /// The API server.
        server: String,
        /// Why.
        detail: String,
    },
    /// etcd refused, or has no leader.
    #[error("etcd: {0}")]
    Etcd(String),
}

impl Error {
    pub(super) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: source.into() }
    }
}
