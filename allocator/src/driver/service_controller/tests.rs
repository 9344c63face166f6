//! From what Services need to what is sent, without an API server.

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::protocol;
use mooring_allocator_core::scope::Scope;
use mooring_allocator_services::class::ClassRules;
use mooring_allocator_services::configmap::{Config, NewPool, pools};
use mooring_allocator_services::machine::{Done, Failure, NewClaim, Notice, PoolTarget, Status, Target, Write};
use mooring_allocator_services::objects::{Ingress, Made};
use mooring_allocator_services::reason::Condition;
use mooring_allocator_services::words;
use serde_json::{Value, json};

use super::super::index::{Index, KnownPool};
use super::writes::done;
use super::{Prepared, ServiceController};
use crate::api::{ApiError, Call, Resource, Verb};
use crate::decode::claim;
use crate::decode::names::Names;
use crate::decode::pool::{PoolJson, Seen, made_spec};
use crate::settings::Services;

fn index() -> Index {
    Index::new(Scope::default(), 1)
}

fn services() -> ServiceController {
    let services = Services {
        classes: ClassRules::default(),
        config_map: ("kube-system".into(), "kubevip".into()),
        home: "mooring".into(),
        outside_pools: false,
    };
    let scope = Scope { watch_filter: Some("net".into()), ..Scope::default() };
    ServiceController::new(services, scope, None)
}

fn target(name: &str) -> Target {
    Target { key: Key::new("n", name), uid: Uid::from(format!("u-{name}").as_str()), version: Version::from("5") }
}

fn sent(prepared: Prepared) -> (Call, Value) {
    match prepared {
        Prepared::Call(call) => {
            let body = serde_json::from_slice(&call.body).unwrap();
            (call, body)
        }
        other => panic!("{other:?}"),
    }
}

fn pool() -> std::sync::Arc<PoolRef> {
    std::sync::Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "p"))
}

#[test]
fn a_claim_is_made_with_all_that_it_needs() {
    let members = vec![(Key::new("n", "web"), Uid::from("u-web"))];
    let new = NewClaim {
        key: Key::new("n", "web-1-ipv4"),
        family: Family::V4,
        pool: pool(),
        requested: "10.0.0.5".parse().ok(),
        members,
        classes: vec![Some("".into())],
        owned: true,
    };
    let (call, body) = sent(services().prepare_write(&index(), &Write::CreateClaim(Box::new(new))));
    assert_eq!(
        (call.verb, call.path.as_str()),
        (Verb::Create, "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/n/ipaddressclaims")
    );
    let meta = &body["metadata"];
    assert_eq!(meta["labels"], json!({"mooring.dev/service-family": "ipv4", "cluster.x-k8s.io/watch-filter": "net"}));
    assert_eq!(meta["annotations"]["mooring.dev/services"], "n/web=u-web");
    assert_eq!(meta["annotations"]["mooring.dev/given-for-classes"], "n/web=");
    assert_eq!(meta["annotations"]["mooring.dev/requested-address"], "10.0.0.5");
    assert_eq!(
        meta["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u-web"}])
    );
    assert_eq!(body["spec"]["poolRef"]["kind"], "GlobalInClusterIPPool");
}

#[test]
fn whose_a_claim_is_changes_without_losing_others() {
    let text = r#"{"metadata":{"name":"c","namespace":"n","uid":"u-c","resourceVersion":"5",
        "labels":{"mooring.dev/service-family":"ipv4"},"annotations":{"mooring.dev/services":"n/web=u-web"},
        "ownerReferences":[{"apiVersion":"x/v1","kind":"Y","name":"y","uid":"u-y"},
          {"apiVersion":"v1","kind":"Service","name":"web","uid":"u-web"}]},
        "spec":{"poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"GlobalInClusterIPPool","name":"p"}}}"#;
    let mut index = index();
    let claim = claim::read(text.as_bytes(), &mut Names::default(), &Scope::default(), index.served).unwrap().unwrap();
    index.claims.insert(claim.uid.clone(), claim.key.clone());
    index.protocol.step(crate::clock::moment(), protocol::Event::Claim(claim));
    let both = vec![(Key::new("n", "dns"), Uid::from("u-dns")), (Key::new("n", "web"), Uid::from("u-web"))];
    let classes = vec![None, Some("x/y".into())];
    let (_, body) = sent(services().prepare_write(&index, &Write::UpdateClaim(target("c"), both, classes, None)));
    assert_eq!(body["metadata"]["annotations"]["mooring.dev/given-for-classes"], "n/web=x/y");
    let owners: Vec<&str> = body["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["y", "dns", "web"]);
    assert_eq!(body["metadata"]["annotations"]["mooring.dev/requested-address"], Value::Null);
    assert_eq!((&body["metadata"]["uid"], &body["metadata"]["resourceVersion"]), (&json!("u-c"), &json!("5")));
    // With one of another namespace nobody owns it: the first to go would take it along.
    let across = vec![(Key::new("n", "web"), Uid::from("u-web")), (Key::new("o", "web"), Uid::from("u-o"))];
    let (_, body) =
        sent(services().prepare_write(&index, &Write::UpdateClaim(target("c"), across, vec![None, None], None)));
    assert_eq!(body["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    let stale = Target { version: Version::from("6"), ..target("c") };
    assert!(matches!(
        services().prepare_write(&index, &Write::UpdateClaim(stale, Vec::new(), Vec::new(), None)),
        Prepared::Stale
    ));
}

#[test]
fn a_services_status_is_patched_only_as_far_as_it_is_ours() {
    let service = |condition: Value| {
        let object = json!({"metadata": {"name": "web", "namespace": "n", "uid": "u-web", "resourceVersion": "5"},
            "spec": {"type": "LoadBalancer"}, "status": {"conditions": [condition],
                "loadBalancer": {"ingress": [{"ip": "10.9.9.9"}, {"hostname": "web.example.com", "ports": []}]}}});
        let bytes = json!({"items": [object], "metadata": {}}).to_string();
        let mut services = services();
        let retained = (&mut Names::default(), &Scope::default());
        let (_, events) = services.intake.page(retained, Resource::Services, bytes.as_bytes(), true).unwrap();
        for event in events {
            services.machine.step(crate::clock::moment(), event);
        }
        services
    };
    let condition = |ready| Condition { ready, reason: "Advertised".into(), message: "10.0.0.5".into() };
    let ingress = Some(vec![Ingress { ip: "10.0.0.5".parse().unwrap(), vip: true }]);
    let write = |ready| {
        Write::Status(
            target("web"),
            Box::new(Status { ingress: ingress.clone(), condition: Some(condition(ready)), host: None }),
        )
    };
    let before = json!({"type": words::CONDITION, "status": "False", "reason": "NoPool", "message": ""});
    let (call, body) = sent(service(before.clone()).prepare_write(&index(), &write(true)));
    assert_eq!((call.verb, call.path.as_str()), (Verb::StrategicPatch, "/api/v1/namespaces/n/services/web/status"));
    // Addresses there are ours, names are not.
    let name = json!({"hostname": "web.example.com", "ports": []});
    assert_eq!(body["status"]["loadBalancer"]["ingress"], json!([{"ip": "10.0.0.5", "ipMode": "VIP"}, name]));
    assert!(body["status"]["conditions"][0]["lastTransitionTime"].is_string());
    // What stays as it was has changed when it did.
    let (_, body) = sent(service(before.clone()).prepare_write(&index(), &write(false)));
    assert_eq!(body["status"]["conditions"][0].get("lastTransitionTime"), None);
    let nothing =
        Write::Status(target("web"), Box::new(Status { ingress: Some(Vec::new()), condition: None, host: None }));
    let (_, body) = sent(service(before).prepare_write(&index(), &nothing));
    assert_eq!(
        body["status"],
        json!({"loadBalancer": {"ingress": [name]},
        "conditions": [{"type": words::CONDITION, "$patch": "delete"}]})
    );
}

#[test]
fn annotations_label_field_and_finalizer_are_patched() {
    let notice = Notice {
        annotations: vec![(words::ADDRESSES, Some("10.0.0.5".into())), (words::VIP_HOST, None)],
        implementation: Some(false),
        clear_ip: true,
    };
    let (call, body) = sent(services().prepare_write(&index(), &Write::Annotate(target("web"), Box::new(notice))));
    assert_eq!((call.verb, call.path.as_str()), (Verb::StrategicPatch, "/api/v1/namespaces/n/services/web"));
    assert_eq!(body["metadata"]["annotations"], json!({words::ADDRESSES: "10.0.0.5", words::VIP_HOST: null}));
    assert_eq!(body["metadata"]["labels"], json!({"implementation": null}));
    assert_eq!(body["spec"], json!({"loadBalancerIP": null}));
    let (_, body) = sent(services().prepare_write(&index(), &Write::RemoveCleanup(target("web"))));
    assert_eq!(body["metadata"]["$deleteFromPrimitiveList/finalizers"], json!([words::CLEANUP]));
}

#[test]
fn a_pool_made_here_becomes_what_it_should_be() {
    let data = [("cidr-team", "10.0.0.0/24"), ("interface-team", "eth1"), ("interface-global", "eth0")];
    let config = Config::read(&data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let made = pools(&config, &std::collections::BTreeSet::new()).into_values().next().unwrap();
    let new = NewPool::new(made.clone(), None);
    let (call, body) = sent(services().prepare_write(&index(), &Write::CreatePool(Box::new(new.clone()))));
    assert!(call.path.ends_with("/v1alpha2/globalinclusterippools"), "{}", call.path);
    let notes = json!({words::SOURCE: "namespace/team IPv4", "mooring.dev/interface": "eth1"});
    assert_eq!(body["metadata"]["annotations"], notes);
    // Somebody wrote more into it.
    let mut spec = serde_json::to_value(made_spec(&made.spec)).unwrap();
    spec["quarantine"] = json!({"afterReleaseSeconds": 9});
    spec["allowedNamespaces"] = json!({"names": ["x"], "selector": {}});
    let object = json!({"metadata": {"name": &*new.reference.name, "uid": "u", "resourceVersion": "5"}, "spec": spec});
    let seen = Seen::from(serde_json::from_value::<PoolJson<mooring_api::pool::IpPoolSpec>>(object).unwrap());
    let mut index = index();
    index.pools.insert(new.reference.clone(), KnownPool { seen, api: mooring_api::versions::PoolVersion::default() });
    let target = PoolTarget { reference: new.reference.clone(), uid: Uid::from("u"), version: Version::from("5") };
    let update = |new| sent(services().prepare_write(&index, &Write::UpdatePool(target.clone(), Box::new(new)))).1;
    // An interface that the ConfigMap names no more is taken off.
    let none = NewPool { made: Made { interface: None, ..made }, ..new.clone() };
    assert_eq!(update(none)["metadata"]["annotations"]["mooring.dev/interface"], Value::Null);
    let body = update(new);
    assert_eq!(body["metadata"]["annotations"], notes);
    assert_eq!(body["spec"]["quarantine"], Value::Null);
    assert_eq!(body["spec"]["allowedNamespaces"], json!({"names": ["team"], "selector": null}));
    assert_eq!(body["spec"]["allocateReservedIPAddresses"], true);
}

#[test]
fn only_a_conflict_is_waited_for() {
    let write = Write::RemoveCleanup(target("web"));
    let ok = Bytes::from(r#"{"metadata":{"resourceVersion":"6"}}"#);
    assert_eq!(done(&write, Ok(ok)), Ok(Done::There(Version::from("6"))));
    let status =
        |code, reason: &str| ApiError::Status { code, reason: reason.into(), message: "m".into(), retry_after: None };
    for (error, failure) in [
        (status(409, "Conflict"), Failure::Conflict),
        (status(409, "AlreadyExists"), Failure::Exists),
        (status(404, "NotFound"), Failure::NotFound),
        (status(403, "Forbidden"), Failure::Refused("m".into())),
        (status(429, "TooManyRequests"), Failure::Unknown),
        (ApiError::NotSent("x".into()), Failure::Unknown),
        (ApiError::Timeout(Duration::from_secs(1)), Failure::Unknown),
    ] {
        assert_eq!(done(&write, Err(error)), Err(failure));
    }
    let gone = Write::DeleteClaim(target("c"));
    assert_eq!(done(&gone, Ok(Bytes::from("{}"))), Ok(Done::Gone));
}

#[test]
fn a_pool_whose_free_addresses_rest_is_exhausted_also_after_a_restart() {
    let status = |exhausted: &str| {
        json!({
            "ipAddresses": {"total": 3, "used": 1, "free": 2, "outOfRange": 0, "quarantined": 2},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "PoolReady", "observedGeneration": 1},
                {"type": "Exhausted", "status": exhausted, "reason": "PoolExhausted", "observedGeneration": 1},
            ],
        })
    };
    let exhausted = |status: Value| {
        let object = json!({
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "5", "generation": 1},
            "spec": {"addresses": ["10.0.0.1-10.0.0.3"], "prefix": 24}, "status": status,
        });
        let seen = Seen::from(serde_json::from_value::<PoolJson<mooring_api::pool::IpPoolSpec>>(object).unwrap());
        let mut index = index();
        index.pools.insert(pool(), KnownPool { seen, api: mooring_api::versions::PoolVersion::default() });
        let known = index.pool(&pool()).unwrap();
        index.protocol.step(crate::clock::moment(), protocol::Event::Pool(Box::new(known)));
        match super::translate::event(&super::super::change::Change::Pool(pool()), &index) {
            Some(mooring_allocator_services::machine::Event::Pool(pool)) => pool.exhausted,
            other => panic!("{other:?}"),
        }
    };
    assert!(exhausted(status("True")));
    assert!(!exhausted(status("False")));
}

#[test]
fn every_resource_that_decisions_depend_on_is_listed_again_for_a_new_leader() {
    use crate::api::{POOLS, Resource};

    for resource in
        [Resource::Claims, Resource::Addresses].into_iter().chain(services().wanted()).chain(POOLS.map(Resource::Pools))
    {
        assert!(super::kind_of(resource).is_some(), "{resource:?}");
    }
    let kinds = mooring_allocator_services::machine::Kind::ALL;
    assert!(kinds.iter().all(|kind| super::KINDS.iter().any(|(one, all)| one == kind && !all.is_empty())));
}

#[test]
fn pools_are_known_once_the_namespaces_are_that_they_select() {
    use crate::api::{POOLS, Resource};
    use mooring_allocator_services::machine::Kind;

    let asked = || (7, 7, POOLS.map(Resource::Pools).into_iter().chain([Resource::Namespaces]).collect());
    for namespaces_first in [true, false] {
        let mut services = services();
        services.asked = asked();
        let mut order = POOLS.map(Resource::Pools).to_vec();
        order.insert(if namespaces_first { 0 } else { POOLS.len() }, Resource::Namespaces);
        let kinds: Vec<_> = order.into_iter().map(|one| services.complete(one, Some(7), true)).collect();
        assert_eq!(kinds, [None, None, None, None, Some(Kind::Pools)]);
    }
    let mut services = services();
    services.asked = asked();
    assert_eq!(services.complete(Resource::Namespaces, Some(6), true), None);
    let kinds = POOLS.map(|kind| services.complete(Resource::Pools(kind), Some(7), true));
    assert_eq!(kinds, [None; 4], "the namespaces were asked for before");
}

#[test]
fn claims_that_are_not_served_for_a_moment_are_not_listed() {
    use crate::api::{POOLS, Resource};
    use mooring_allocator_services::machine::Kind;

    let mut services = services();
    let others = [Resource::Claims, Resource::Addresses, Resource::Namespaces];
    services.asked = (7, 7, others.into_iter().chain(POOLS.map(Resource::Pools)).collect());
    assert_eq!(services.complete(Resource::Claims, None, false), None);
    assert_eq!(services.complete(Resource::Addresses, None, false), None);
    // A kind of pool may be absent for good.
    let all = POOLS.map(|kind| services.complete(Resource::Pools(kind), None, false));
    assert_eq!(all.into_iter().flatten().collect::<Vec<_>>(), [Kind::Pools]);
    assert_eq!(services.complete(Resource::Claims, Some(6), false), None, "it was asked for before");
    assert_eq!(services.complete(Resource::Claims, Some(7), false), Some(Kind::Claims));
    assert_eq!(services.complete(Resource::Addresses, Some(8), false), Some(Kind::Addresses));
}
