//! Translates changes of the index to events of the endpoints' machine.

use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_endpoints::machine::Event;
use mooring_allocator_endpoints::notes::MOST_ADDRESSES;
use mooring_allocator_endpoints::objects::{Claim, Cluster};
use mooring_allocator_endpoints::service_addresses;

use super::super::change::Change;
use super::super::index::Index;

/// Translates a change. `is_cluster`: whether a Cluster of this name was shown.
pub(super) fn events(change: &Change, index: &Index, is_cluster: impl Fn(&Key) -> bool) -> Vec<Event> {
    let claim = |key: &Key| claim(key, index, &is_cluster);
    let of_address = |uid: &Uid| {
        let address = index.protocol.address(uid)?;
        claim(&address.claim_key())
    };
    match change {
        Change::Tick => vec![Event::Tick],
        Change::Leading(until) => vec![Event::Leading(*until)],
        Change::Claims(all) => vec![Event::Claims(all.iter().filter_map(claim).collect())],
        Change::Claim(key, uid) => vec![match claim(key) {
            Some(claim) => Event::Claim(Box::new(claim)),
            // Somebody may have removed the claim's marks.
            None => Event::ClaimGone(key.clone(), uid.clone()),
        }],
        Change::ClaimGone(key, uid) => vec![Event::ClaimGone(key.clone(), uid.clone())],
        Change::Address(uid) => of_address(uid).map(|claim| Event::Claim(Box::new(claim))).into_iter().collect(),
        Change::Addresses(all) => {
            all.iter().filter_map(of_address).map(|claim| Event::Claim(Box::new(claim))).collect()
        }
        // The allocation protocol unbinds the claim, or makes the address anew. Pools speak through the claims' conditions.
        Change::AddressGone(_) | Change::Pools(_) | Change::Pool(_) | Change::PoolGone(..) => Vec::new(),
    }
}

/// The claims that a Cluster may take over: they have the names that its own would get, and were not told of before it was.
pub(super) fn of_cluster(cluster: &Cluster, index: &Index) -> Vec<Claim> {
    let key = &cluster.key;
    let numbers = if cluster.notes.service_pool.is_some() { 0..MOST_ADDRESSES } else { 0..0 };
    let names = numbers.map(|number| service_addresses::name(&key.name, number));
    let all = [key.name.clone()].into_iter().chain(names);
    let claims = all.filter_map(|name| claim(&Key { namespace: key.namespace.clone(), name }, index, |one| one == key));
    claims.filter(|claim| claim.cluster == *key).collect()
}

/// A claim that is for a Cluster.
pub(super) fn claim(key: &Key, index: &Index, is_cluster: impl Fn(&Key) -> bool) -> Option<Claim> {
    let shown = index.protocol.claim(key)?;
    let its = index.address_of(shown).and_then(|address| address.address);
    Claim::new(shown.clone(), its, is_cluster)
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::protocol;
    use mooring_allocator_core::scope::Scope;
    use mooring_allocator_core::work::Moment;
    use mooring_api::versions::IpamVersion;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_told_with_the_claims_that_have_its_names() {
        let mut index = Index::new(Scope::default(), 1);
        for name in ["prod", "prod-svc-lb-1", "prod-svc-lb-x", "staging-svc-lb-0"] {
            let text = json!({
                "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5"},
                "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}},
            });
            let scope = Scope::default();
            let read = crate::decode::claim::read(
                text.to_string().as_bytes(),
                &mut index.names,
                &scope,
                IpamVersion::default(),
            );
            index.protocol.step(Moment::default(), protocol::Event::Claim(read.unwrap().unwrap()));
        }
        let mut one =
            json!({"metadata": {"name": "prod", "namespace": "n", "uid": "u", "resourceVersion": "1"}, "spec": {}});
        let told = |one: &serde_json::Value| -> Vec<String> {
            let cluster = crate::decode::endpoint::cluster(one, "v1beta2").unwrap();
            of_cluster(&cluster, &index).iter().map(|claim| claim.key.name.to_string()).collect()
        };
        assert_eq!(told(&one), ["prod"]);
        one["metadata"]["annotations"] = json!({"mooring.dev/service-lb-pool": "InClusterIPPool/p"});
        assert_eq!(told(&one), ["prod", "prod-svc-lb-1"]);
        // And when one changes later.
        let prod = |key: &Key| *key.name == *"prod";
        let of = |name| claim(&Key::new("n", name), &index, prod).map(|claim| claim.cluster.name.to_string());
        assert_eq!((of("prod-svc-lb-1").as_deref(), of("staging-svc-lb-0")), (Some("prod"), None));
    }
}
