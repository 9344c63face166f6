//! Objects as the tests' world begins with them.

use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::range_set::RangeSet;
use serde_json::{Value, json};

use crate::device::Device;
use crate::objects::{Cluster, Labels, Pool, Template, VSphereMachine};

pub(super) fn key(name: &str) -> Key {
    Key::new("n", name)
}

pub(super) fn labels(pool: Option<&str>, group: Option<&str>) -> Labels {
    Labels { pool: pool.map(Box::from), group: group.map(Box::from), network: None }
}

pub(super) fn cluster(name: &str) -> Cluster {
    Cluster { key: key(name), paused: false, pool_namespace: None }
}

pub(super) fn template(name: &str, labels: Labels) -> Template {
    Template { key: key(name), labels, search: None }
}

pub(super) fn device(network: &str) -> Value {
    json!({"networkName": network, "mtu": 9_000})
}

/// A machine of Cluster `prod`, made from template `t`, with these devices.
pub(super) fn machine(name: &str, uid: Uid, devices: &[Value]) -> VSphereMachine {
    VSphereMachine {
        key: key(name),
        uid,
        version: Version::from(""),
        api: "v1beta2",
        deleting: false,
        held: false,
        cluster: Some("prod".into()),
        labels: Labels::default(),
        search: None,
        template: Some("t".into()),
        devices: devices.iter().map(Device::read).collect(),
    }
}

pub(super) fn pool(name: &str, group: &str, family: Family) -> Pool {
    let (gateway, server, first, last) = match family {
        Family::V4 => ("10.0.0.254", "10.0.0.253", "10.0.0.1", "10.0.0.99"),
        Family::V6 => ("fd00::ffff", "fd00::fffe", "fd00::1", "fd00::99"),
    };
    let number = |text: &str| Block::host(text.parse().unwrap()).first();
    let range = (number(first), number(last));
    Pool {
        reference: Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "n", name)),
        labels: labels(None, Some(group)),
        family: Some(family),
        addresses: RangeSet::of([range]),
        allowed: None,
        gateway: gateway.parse().ok(),
        nameservers: Ok(vec![server.parse().unwrap()]),
        search: vec!["example.com".into()],
        deleting: false,
    }
}
