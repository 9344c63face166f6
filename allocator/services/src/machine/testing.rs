//! Objects for tests.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::pool::PoolSpec;

use crate::notes::Notes;
use crate::objects::{FamilyPolicy, Pool, Service};
use crate::ports::{Port, Protocol};

/// A Service of type `LoadBalancer` with port 80/TCP, as `kubectl expose` makes it.
pub(crate) fn service(namespace: &str, name: &str) -> Service {
    Service {
        key: Key::new(namespace, name),
        uid: Uid::from(&*format!("uid-{namespace}-{name}")),
        version: Version::from("1"),
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
        default: true,
        class: None,
        made: None,
        exhausted: false,
        deleting: false,
    }
}
