//! Translates the machine's writes to calls.

use mooring_allocator_machines::machine::{NewClaim, Parent, Target, Write};
use mooring_allocator_machines::words;
use mooring_api::{annotations, labels};
use serde_json::{Map, Value, json};

use super::super::claim_writes::{self, spec};
use super::super::controller::Prepared;
use super::super::index::Index;
use super::super::owners::owner;
use crate::api::Resource;

/// The call for a write, now. `served`: the version in which machines are served.
pub(super) fn prepare(index: &Index, served: &str, watch_filter: Option<&str>, write: &Write) -> Prepared {
    match write {
        Write::CreateClaim(new) => create(index, watch_filter, new),
        Write::AdoptClaim(target, parent) => adopt(index, target, parent),
        Write::ReleaseClaim(target) => claim_writes::release(index, target, words::IN_USE),
        Write::DeleteClaim(target) => claim_writes::delete(index, target),
        Write::Devices(target, all, _) => {
            let path = Resource::Machines.object(served, &target.key.namespace, &target.key.name);
            spec(Resource::Machines.plural(), path, target, &json!({"network": {"devices": all}}))
        }
    }
}

fn parent_owner(parent: &Parent) -> Value {
    let version = format!("{}/{}", words::GROUP, parent.api);
    json!({"apiVersion": version, "kind": words::KIND, "name": &*parent.name, "uid": &*parent.uid.0})
}

fn create(index: &Index, watch_filter: Option<&str>, new: &NewClaim) -> Prepared {
    let own_labels = [(labels::CLUSTER_NAME, (&*new.cluster).into()), (words::DEVICE, new.device.to_string().into())];
    let claim = claim_writes::NewClaim {
        key: &new.key,
        pool: &new.pool,
        labels: own_labels.into_iter().map(|(name, value): (_, Value)| (name.to_owned(), value)).collect(),
        annotations: new.requested.map_or(Value::Null, |ip| json!({annotations::REQUESTED_ADDRESS: ip.to_string()})),
        finalizer: words::IN_USE,
        owner: parent_owner(&new.parent),
    };
    claim_writes::create(index, watch_filter, claim)
}

fn adopt(index: &Index, target: &Target, parent: &Parent) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let others = known.retained.machine.iter().flat_map(|mark| &mark.owners).map(owner);
    let owners = others.chain([parent_owner(parent)]).collect();
    claim_writes::adopt(index, target, words::IN_USE, owners, Map::new())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
    use mooring_allocator_core::scope::Scope;

    use super::*;
    use crate::api::Verb;

    fn sent(write: &Write) -> (Verb, String, Value) {
        let index = Index::new(Scope::default(), 1);
        match prepare(&index, "v1beta1", Some("mine"), write) {
            Prepared::Call(call) => (call.verb, call.path, serde_json::from_slice(&call.body).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_write_names_its_object_and_nothing_else() {
        let at = Target { key: Key::new("n", "m"), uid: Uid::from("u"), version: Version::from("7") };
        let (verb, path, body) = sent(&Write::Devices(at, vec![json!({"networkName": "a"})], String::new()));
        let machine = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/vspheremachines/m";
        assert_eq!((verb, path.as_str()), (Verb::Patch, machine));
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"network": {"devices": [{"networkName": "a"}]}}});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_claim_belongs_to_its_machine_and_to_the_cluster() {
        let new = NewClaim {
            key: Key::new("n", "m-0"),
            parent: Parent { name: "m".into(), uid: Uid::from("u"), api: "v1beta2" },
            cluster: "prod".into(),
            device: 0,
            pool: Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "n", "p")),
            requested: "10.0.0.7".parse().ok(),
        };
        let (verb, path, body) = sent(&Write::CreateClaim(Box::new(new)));
        assert_eq!((verb, path.ends_with("/namespaces/n/ipaddressclaims")), (Verb::Create, true), "{path}");
        let meta = &body["metadata"];
        let labels = json!({"cluster.x-k8s.io/cluster-name": "prod", "mooring.dev/machine-device": "0", "cluster.x-k8s.io/watch-filter": "mine"});
        assert_eq!(meta["labels"], labels);
        assert_eq!(meta["finalizers"], json!(["ipam.cluster.x-k8s.io/ReleaseAddress", "mooring.dev/machine-in-use"]));
        let owner = json!([{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereMachine", "name": "m", "uid": "u"}]);
        assert_eq!(meta["ownerReferences"], owner);
        assert_eq!(meta["annotations"], json!({"mooring.dev/requested-address": "10.0.0.7"}));
        assert_eq!(body["spec"]["poolRef"]["kind"], "GlobalInClusterIPPool");
    }
}
