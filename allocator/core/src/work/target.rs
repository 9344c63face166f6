//! The object a write is about.

use std::sync::Arc;

use crate::names::{Key, PoolRef, Uid, Version};

/// The object a write is about. The write takes effect only on this uid at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}

/// The pool a write is about. The write takes effect only on this uid at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTarget {
    /// The pool's reference.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}
