//! The actions of the machine.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Version};
use mooring_allocator_core::work::{PoolTarget, Repeatable, Target};

use crate::configmap::{NewPool, Problem};
use crate::objects::{GivenClass, Ingress, Member};
use crate::reason::Condition;
use crate::words;

/// An action. Actions do not wait for each other; an event reports the result of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write; [`super::Event::Answer`] reports the result.
    Write {
        /// Repeated in the answer.
        id: u64,
        /// The write itself.
        write: Write,
    },
    /// List every kind anew, because this allocator begins to lead: [`super::Event::Listed`] reports the end of each list. A
    /// list that began before this action does not count.
    List(u64),
    /// A report to people.
    Report(Report),
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create a claim, with label, annotations and owners.
    CreateClaim(Box<NewClaim>),
    /// Set a claim's Services (annotation and owners, see [`owners`]), the class of each, and the address it asks for.
    UpdateClaim(Target, Vec<Member>, Vec<GivenClass>, Option<IpAddr>),
    /// Delete a claim.
    DeleteClaim(Target),
    /// Note on an `IPAddress` that the address is in use elsewhere, and where: the claim then gets another address, and
    /// this address rests.
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
    /// Delete a pool that has no address in use.
    DeletePool(PoolTarget),
}

impl Repeatable for Write {
    fn unversioned(&self) -> Self {
        let mut write = self.clone();
        match &mut write {
            Self::UpdateClaim(target, ..)
            | Self::DeleteClaim(target)
            | Self::Exchange(target, _)
            | Self::Annotate(target, _)
            | Self::Status(target, _)
            | Self::RemoveCleanup(target) => target.version = Version::from(""),
            Self::UpdatePool(target, _) | Self::DeletePool(target) => target.version = Version::from(""),
            Self::CreateClaim(_) | Self::CreatePool(_) => {}
        }
        write
    }
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
    /// The annotation [`crate::words::GIVEN_CLASSES`], of each of these.
    pub classes: Vec<GivenClass>,
    /// Whether the Services own the claim: this is so if they are of the claim's namespace. Otherwise the claim has no
    /// owner, and the allocator deletes it.
    pub owned: bool,
}

/// The changes to a Service, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Annotations and their new values; None: the annotation is removed.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The label `implementation=kube-vip`: added or removed.
    pub implementation: Option<bool>,
    /// `spec.loadBalancerIP` is removed, because kube-vip's cloud provider wrote it.
    pub clear_ip: bool,
}

impl Notice {
    /// Removes and returns the holder, if the notice changes nothing else: the holder can be written with the status.
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

/// The parts of a Service's status that Mooring writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `status.loadBalancer.ingress`; None: unchanged.
    pub ingress: Option<Vec<Ingress>>,
    /// The condition; None: removed.
    pub condition: Option<Condition>,
    /// The annotation [`crate::words::VIP_HOST`], if it changes with the status; None: unchanged.
    pub host: Option<String>,
}

/// A report for people; it becomes Events, metrics and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A Service has these addresses (as [`crate::words::ADDRESSES`] has them).
    Assigned {
        /// The Service.
        service: Key,
        /// The addresses the Service has now.
        addresses: String,
        /// The addresses the Service had before.
        before: String,
    },
    /// A Service was to get another address ([`crate::words::REALLOCATE`]), and has kept what it had: the pool that it would be
    /// given an address of has these addresses.
    Kept {
        /// The Service.
        service: Key,
        /// Its addresses.
        addresses: String,
    },
    /// A Service has no address any more.
    Released {
        /// The Service.
        service: Key,
        /// The addresses the Service had.
        addresses: String,
    },
    /// The condition of a Service has changed. This is a warning, unless the Service is ready without reservations.
    ConditionChanged {
        /// The Service.
        service: Key,
        /// Its condition now.
        condition: Condition,
        /// Whether somebody should look.
        warning: bool,
    },
    /// Another controller writes its own addresses into the Service's status, again and again: the Service is left to it.
    Contested {
        /// The Service.
        service: Key,
        /// The addresses of the other controller.
        addresses: String,
    },
    /// The Service has annotations of another load balancer that have no effect here, and what to do instead.
    NotHonoured {
        /// The Service.
        service: Key,
        /// Which, and what to do.
        text: String,
    },
    /// The API server refuses a pool that the `ConfigMap` asks for.
    PoolRefused {
        /// The pool.
        pool: Arc<PoolRef>,
        /// The reason of the refusal.
        why: String,
    },
    /// The `ConfigMap` has an entry that cannot be read. An Event on it, and a metric.
    Problem(Problem),
}
