//! What the machine wants done.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};

use crate::configmap::{NewPool, Problem};
use crate::objects::{Ingress, Member};
use crate::reason::Condition;
use crate::words;

/// Something to do. None of them waits for another; what comes of it is told by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write; [`super::Event::Answer`] tells.
    Write {
        /// Told again with the answer.
        id: u64,
        /// What.
        write: Write,
    },
    /// Tell people.
    Report(Report),
}

/// The object a write is about. It takes effect only on this uid at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create a claim, with label, annotations and owners.
    CreateClaim(Box<NewClaim>),
    /// Set a claim's Services (annotation and owners, see [`owners`]) and the address it asks for.
    UpdateClaim(Target, Vec<Member>, Option<IpAddr>),
    /// Delete a claim.
    DeleteClaim(Target),
    /// Say on an `IPAddress` that its address is in use elsewhere, and where: its claim then gets another, and it rests.
    Exchange(Target, String),
    /// Change a Service's annotations and label, and `spec.loadBalancerIP`.
    Annotate(Target, Box<Notice>),
    /// Set a Service's `status.loadBalancer.ingress` and its condition.
    Status(Target, Box<Status>),
    /// Take [`crate::words::CLEANUP`] off a Service.
    RemoveCleanup(Target),
    /// Create a pool, with label and annotation.
    CreatePool(Box<NewPool>),
    /// Set a pool's spec.
    UpdatePool(PoolTarget, Box<NewPool>),
    /// Delete a pool of which nothing is in use.
    DeletePool(PoolTarget),
}

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its namespace and name.
    pub key: Key,
    /// The value of its label.
    pub family: Family,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// The annotation `mooring.dev/requested-address`.
    pub requested: Option<IpAddr>,
    /// The annotation [`crate::words::SERVICES`].
    pub members: Vec<Member>,
    /// Whether the Services own it: they are of its namespace. Else nothing does, and it is deleted from here.
    pub owned: bool,
}

/// What changes on a Service: only that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Annotations: what they are to say; None: they are taken off.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The label `implementation=kube-vip`: put on, or taken off.
    pub implementation: Option<bool>,
    /// `spec.loadBalancerIP` is taken away: it was kube-vip's cloud provider that wrote it.
    pub clear_ip: bool,
}

impl Notice {
    /// Takes out what it says of the holder, if it says nothing else: that can be written with the status.
    pub(super) fn take_host(&mut self) -> Option<String> {
        let [(words::VIP_HOST, Some(host))] = &self.annotations[..] else { return None };
        if self.implementation.is_some() || self.clear_ip {
            return None;
        }
        let host = host.clone();
        self.annotations.clear();
        Some(host)
    }
}

/// A Service's status, as far as it is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `status.loadBalancer.ingress`; None: it stays as it is.
    pub ingress: Option<Vec<Ingress>>,
    /// The condition; None: it is taken off.
    pub condition: Option<Condition>,
    /// The annotation [`crate::words::VIP_HOST`], should it change with it; None: it stays.
    pub host: Option<String>,
}

/// The pool a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTarget {
    /// Which.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}

/// What people may want to know; it becomes Events, metrics and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A Service has these addresses (as [`crate::words::ADDRESSES`] has them).
    Assigned {
        /// The Service.
        service: Key,
        /// What it has.
        addresses: String,
        /// What it had.
        before: String,
    },
    /// A Service has no address any more.
    Released {
        /// The Service.
        service: Key,
        /// What it had.
        addresses: String,
    },
    /// Something is to be said of a Service: its condition has changed. A warning unless it is ready and has no `but`.
    Told {
        /// The Service.
        service: Key,
        /// Its condition now.
        condition: Condition,
        /// Whether somebody should look.
        warning: bool,
    },
    /// The API server will not have a pool that the `ConfigMap` asks for.
    PoolRefused {
        /// The pool.
        pool: Arc<PoolRef>,
        /// Why not.
        why: String,
    },
    /// The `ConfigMap` has an entry that cannot be read. An Event on it, and a metric.
    Problem(Problem),
}
