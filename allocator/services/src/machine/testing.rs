//! Objects for tests.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::pool::PoolSpec;
use mooring_allocator_core::protocol::{self, Links};
use mooring_allocator_core::retained_meta::{ForServices, RetainedMeta};

use crate::notes::Notes;
use crate::objects::{Address, Claim, FamilyPolicy, GivenClass, Member, Pool, Service};
use crate::ports::{Port, Protocol};

/// A Service of type `LoadBalancer` with port 80/TCP, as `kubectl expose` makes it.
pub(crate) fn service(namespace: &str, name: &str) -> Service {
    Service {
        key: Key::new(namespace, name),
        uid: Uid::from(&*format!("uid-{namespace}-{name}")),
        version: Version::from("1"),
        created: 0,
        deleting: false,
        cleanup: false,
        load_balancer: true,
        class: None,
        families: vec![Family::V4],
        policy: FamilyPolicy::SingleStack,
        local: false,
        ports: ports(&[(80, Protocol::Tcp)]),
        load_balancer_ip: None,
        notes: Notes::default(),
        implementation: false,
        ingress: Vec::new(),
        names: Vec::new(),
        condition: None,
    }
}

pub(crate) fn ports(list: &[(u16, Protocol)]) -> BTreeSet<Port> {
    list.iter().map(|&(number, protocol)| Port { number, protocol }).collect()
}

/// A default pool for all namespaces.
pub(crate) fn pool(name: &str, addresses: &[&str]) -> Pool {
    let spec = PoolSpec {
        addresses: addresses.iter().map(|&a| a.to_owned()).collect(),
        prefix: if addresses[0].contains(':') { 64 } else { 16 },
        ..PoolSpec::default()
    };
    Pool {
        reference: Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", name)),
        uid: Uid::from(&*format!("uid-pool-{name}")),
        version: Version::from("1"),
        generation: 1,
        plan: spec.plan().map(Arc::new).map_err(|errors| errors[0].to_string().into()),
        before: None,
        default: true,
        class: None,
        made: None,
        exhausted: false,
        deleting: false,
    }
}

/// A claim of Services, as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredClaim {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) version: Version,
    pub(crate) family: Family,
    pub(crate) pool: Arc<PoolRef>,
    pub(crate) requested: Option<IpAddr>,
    /// The address that it had before a restore.
    pub(crate) had: Option<IpAddr>,
    pub(crate) members: Vec<Member>,
    pub(crate) classes: Vec<GivenClass>,
    pub(crate) bound: Option<Arc<str>>,
    pub(crate) refused: Option<(protocol::Reason, String)>,
    pub(crate) deleting: bool,
    pub(crate) paused: bool,
}

impl StoredClaim {
    /// As a backup brings it back: without status, and with another uid.
    pub(crate) fn restored(&self) -> Self {
        Self { bound: None, uid: format!("{}-again", self.uid).as_str().into(), ..self.clone() }
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> Claim {
        let (family, members) = (self.family, self.members.clone());
        let classes = self.classes.clone();
        let service = ForServices { family, members, classes, owned: true, owners: Vec::new() };
        let refused = self.refused.clone();
        Claim::of(&Arc::new(protocol::Claim {
            key: self.key.clone(),
            uid: self.uid.clone(),
            version: self.version.clone(),
            created: 0,
            pool: self.pool.clone(),
            deleting: self.deleting,
            finalizer: true,
            others: false,
            bound: self.bound.clone(),
            voided: 0,
            had: None,
            requested: self.requested.map(|ip| ip.to_string().into()),
            hold: if self.paused { protocol::Hold::Paused } else { protocol::Hold::None },
            condition: refused.map(|(reason, message)| protocol::Condition { ready: false, reason, message }),
            retained: RetainedMeta { service: Some(Box::new(service)), ..RetainedMeta::default() },
        }))
        .unwrap()
    }
}

/// An address that was given to a claim of this name.
pub(crate) fn address(key: Key, uid: Uid, version: Version, ip: IpAddr) -> Address {
    Address {
        object: None,
        claim: key.name.clone(),
        key,
        uid,
        version,
        pool: Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "p")),
        address: Some(ip),
        prefix: 24,
        owner: None,
        deleting: false,
        finalizer: true,
        attempt: None,
        rest: None,
        conflict: None,
        holder: None,
        hints: None,
        links: Links::default(),
    }
}
