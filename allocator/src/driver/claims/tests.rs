//! From what the API server sends to what is sent to it, without one.

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::block::Block;
use mooring_allocator_core::names::{Key, PoolKind, Uid, Version};
use mooring_allocator_core::protocol::{
    Action, Attempt, Claim, Condition, Done, Event, Hold, New, Object, Purpose, Reason, Write,
};
use mooring_allocator_core::scope::Scope;
use mooring_allocator_core::work::{Failure, Moment, Target};
use serde_json::{Value, json};

use super::super::controller::Prepared;
use super::super::index::Index;
use super::intake::Intake;
use crate::api::{ApiError, Call, Resource, Verb};

const POOLS: Resource = Resource::Pools(PoolKind::InClusterIPPool);

/// The API server's part.
struct ApiSide {
    index: Index,
    /// What the protocol wants written.
    writes: Vec<(u64, Write)>,
    intake: Intake,
    now: Duration,
}

fn claim(name: &str, more: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": "5"},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}},
    });
    merge(&mut claim, more);
    claim
}

fn pool() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u-p", "resourceVersion": "3", "generation": 1},
        "spec": {"addresses": ["10.0.0.1-10.0.0.9"], "prefix": 24},
    })
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

impl ApiSide {
    /// One that has listed all kinds: these claims, and the pool `p`.
    fn with(claims: &[Value]) -> (Self, Vec<Event>) {
        let mut side = Self {
            index: Index::new(Scope::default(), 1),
            writes: Vec::new(),
            intake: Intake::default(),
            now: Duration::ZERO,
        };
        let mut events = side.list(Resource::Clusters, &[]);
        events.extend(side.list(POOLS, &[pool()]));
        for kind in crate::api::POOLS.map(Resource::Pools).into_iter().filter(|kind| *kind != POOLS) {
            let missing = side.intake.missing(&mut side.index, kind);
            side.step(&missing);
            events.extend(missing);
        }
        events.extend(side.list(Resource::Claims, claims));
        (side, events)
    }

    fn list(&mut self, resource: Resource, items: &[Value]) -> Vec<Event> {
        let bytes = Bytes::from(json!({"items": items, "metadata": {"resourceVersion": "9"}}).to_string());
        let version = resource.versions()[0];
        let events = self.intake.page(&mut self.index, self.now, (resource, version, &bytes), true, None).unwrap().1;
        self.step(&events);
        events
    }

    fn step(&mut self, events: &[Event]) {
        for event in events {
            let actions = self.index.protocol.step(Moment { now: self.now, wall: 0 }, event.clone());
            self.writes.extend(actions.into_iter().filter_map(|action| match action {
                Action::Write { id, write } => Some((id, write)),
                _ => None,
            }));
        }
    }

    fn line(&mut self, resource: Resource, kind: &str, object: &Value) -> Vec<Event> {
        let text = format!("{}\n", json!({"type": kind, "object": object}));
        // The API server writes the type first; serde_json sorts.
        let text =
            text.replace(&format!(",\"type\":\"{kind}\""), "").replacen('{', &format!("{{\"type\":\"{kind}\","), 1);
        let mut events = Vec::new();
        self.intake.lines(&mut self.index, self.now, resource, text.as_bytes(), |event| events.push(event.unwrap()));
        self.step(&events);
        events
    }

    fn call(&self, write: &Write) -> (Call, Value) {
        match self.index.prepare(write) {
            Prepared::Call(call) => {
                let body = serde_json::from_slice(&call.body).unwrap();
                (call, body)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn target(name: &str) -> Target {
    Target { key: Key::new("n", name), uid: Uid::from(format!("u-{name}").as_str()), version: Version::from("5") }
}

fn condition(ready: bool, reason: Reason) -> Condition {
    Condition { ready, reason, message: "10.0.0.1".to_owned() }
}

fn claims(events: &[Event]) -> Vec<Claim> {
    events
        .iter()
        .flat_map(|event| match event {
            Event::Claims(claims) => claims.clone(),
            Event::Claim(claim) => vec![claim.clone()],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn the_finalizer_is_added_beside_others() {
    let (side, _) =
        ApiSide::with(&[claim("a", &json!({})), claim("b", &json!({"metadata": {"finalizers": ["theirs"]}}))]);
    let (call, body) = side.call(&Write::AddFinalizer(target("a"), None));
    assert_eq!(call.path, "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/n/ipaddressclaims/a");
    assert_eq!(call.verb, Verb::Patch);
    let ours = "ipam.cluster.x-k8s.io/ReleaseAddress";
    assert_eq!(body, json!({"metadata": {"finalizers": [ours], "resourceVersion": "5", "uid": "u-a"}}));
    let (_, body) = side.call(&Write::AddFinalizer(target("b"), None));
    assert_eq!(body["metadata"]["finalizers"], json!(["theirs", ours]));
}

#[test]
fn a_write_that_was_decided_on_something_older_is_not_sent() {
    let (mut side, _) = ApiSide::with(&[claim("a", &json!({}))]);
    side.line(Resource::Claims, "MODIFIED", &claim("a", &json!({"metadata": {"resourceVersion": "6"}})));
    assert!(matches!(side.index.prepare(&Write::AddFinalizer(target("a"), None)), Prepared::Stale));
    assert!(matches!(side.index.prepare(&Write::AddFinalizer(target("never-seen"), None)), Prepared::Stale));
}

#[test]
fn binding_loses_no_condition_of_others() {
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "X", "message": "", "new": 1});
    let (side, _) = ApiSide::with(&[claim("a", &json!({"status": {"conditions": [theirs.clone()]}}))]);
    let bind = Write::Bind(target("a"), "a".into(), condition(true, Reason::AddressAllocated));
    let (call, body) = side.call(&bind);
    assert!(call.path.ends_with("/ipaddressclaims/a/status"), "{}", call.path);
    assert_eq!(body["metadata"], json!({"resourceVersion": "5", "uid": "u-a"}));
    assert_eq!(body["status"]["addressRef"]["name"], "a");
    assert_eq!(body["status"]["conditions"][0], theirs);
    assert_eq!(body["status"]["conditions"][1]["reason"], "AddressAllocated");
    let (_, body) = side.call(&Write::Unbind(target("a"), condition(false, Reason::AllocationFailed)));
    assert_eq!(body["status"].get("addressRef"), Some(&Value::Null));
}

#[test]
fn a_new_address_is_what_the_contract_says() {
    let (side, _) = ApiSide::with(&[claim("a", &json!({"spec": {"clusterName": "k"}}))]);
    let pool = side.index.pools.keys().next().unwrap().clone();
    let new = New {
        key: Key::new("n", "a"),
        pool,
        address: "10.0.0.1".parse().unwrap(),
        prefix: 24,
        gateway: None,
        purpose: Purpose::Claim(Attempt { claim: Uid::from("u-a"), number: 2, adopted: false }),
    };
    let (call, body) = side.call(&Write::Create(Box::new(new.clone())));
    assert_eq!(call.path, "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/n/ipaddresses");
    let expected = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {
            "annotations": {"mooring.dev/attempt": "u-a 2"},
            "finalizers": ["ipam.cluster.x-k8s.io/ProtectAddress"],
            "labels": {"cluster.x-k8s.io/cluster-name": "k"},
            "name": "a", "namespace": "n",
            "ownerReferences": [
                {"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "a", "uid": "u-a",
                    "controller": true, "blockOwnerDeletion": true},
                {"apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool", "name": "p", "uid": "u-p",
                    "controller": false, "blockOwnerDeletion": true},
            ],
        },
        "spec": {
            "claimRef": {"name": "a"}, "address": "10.0.0.1", "prefix": 24,
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"},
        },
    });
    assert_eq!(body, expected);
    let gone = Purpose::Claim(Attempt { claim: Uid::from("gone"), number: 0, adopted: false });
    let prepared = side.index.prepare(&Write::Create(Box::new(New { purpose: gone, ..new })));
    assert!(matches!(prepared, Prepared::Stale), "its owner is not there any more");
}

#[test]
fn an_addresss_foreign_finalizer_stays() {
    let (mut side, _) = ApiSide::with(&[]);
    let address = |version: &str| {
        json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u-a", "resourceVersion": version,
                "finalizers": ["theirs", "ipam.cluster.x-k8s.io/ProtectAddress"]},
            "spec": {"address": "10.0.0.1", "claimRef": {"name": "a"},
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}},
        })
    };
    side.line(Resource::Addresses, "ADDED", &address("5"));
    let (_, body) = side.call(&Write::RemoveAddressFinalizer(target("a")));
    assert_eq!(body["metadata"]["finalizers"], json!(["theirs"]));
    side.line(Resource::Addresses, "MODIFIED", &address("6"));
    let prepared = side.index.prepare(&Write::RemoveAddressFinalizer(target("a")));
    assert!(matches!(prepared, Prepared::ReadThenPatch { .. }), "what it has at that version is not known");
    let (call, body) = side.call(&Write::DeleteAddress(target("a")));
    assert_eq!((call.verb, &body["preconditions"]), (Verb::Delete, &json!({"uid": "u-a", "resourceVersion": "5"})));
}

#[test]
fn a_claim_for_an_endpoint_is_held_while_its_cluster_has_its_endpoint_and_is_paused() {
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "k", "uid": "u-k"}]);
    let marks = json!({"metadata": {"ownerReferences": owner, "labels": {"mooring.dev/endpoint-cluster": "k"}}});
    let (mut side, events) = ApiSide::with(&[claim("k", &marks)]);
    let seen = claims(&events)[0].clone();
    assert_eq!(seen.hold, Hold::Paused, "its Cluster may be on its way");
    let cluster = |host: &str, annotations: Value| {
        json!({"metadata": {"name": "k", "namespace": "n", "annotations": annotations},
            "spec": {"paused": true, "controlPlaneEndpoint": {"host": host, "port": 6443}}})
    };
    for (host, annotations, hold) in [
        ("", json!({}), Hold::None),
        ("10.0.0.1", json!({}), Hold::Paused),
        ("10.0.0.1", json!({"mooring.dev/paused-for-endpoint": "true"}), Hold::None),
    ] {
        side.line(Resource::Clusters, "MODIFIED", &cluster(host, annotations));
        assert_eq!(side.intake.take_changed_holds(side.now, &mut side.index), [Key::new("n", "k")]);
        assert_eq!(side.index.clusters.hold(&seen), hold, "{host}");
    }
}

#[test]
fn claims_of_a_paused_cluster_are_held_and_let_go() {
    let (mut side, events) =
        ApiSide::with(&[claim("a", &json!({"spec": {"clusterName": "k"}})), claim("b", &json!({}))]);
    let holds: Vec<Hold> = claims(&events).into_iter().map(|claim| claim.hold).collect();
    assert_eq!(holds, [Hold::Paused, Hold::None], "its Cluster may be on its way");
    side.now += Duration::from_secs(1);
    assert_eq!(side.intake.take_changed_holds(side.now, &mut side.index), [Key::new("n", "a")]);
    let seen = claims(&events)[0].clone();
    assert_eq!(side.index.clusters.hold(&seen), Hold::NoCluster("k".into()));
    let cluster = |paused: bool| json!({"metadata": {"name": "k", "namespace": "n"}, "spec": {"paused": paused}});
    for (paused, hold) in [(true, Hold::Paused), (false, Hold::None)] {
        side.line(Resource::Clusters, "MODIFIED", &cluster(paused));
        assert_eq!(side.intake.take_changed_holds(side.now, &mut side.index), [Key::new("n", "a")]);
        assert_eq!(side.index.clusters.hold(&seen), hold);
        side.line(Resource::Clusters, "MODIFIED", &cluster(paused));
        assert!(side.intake.take_changed_holds(side.now, &mut side.index).is_empty(), "nothing new");
    }
    side.line(Resource::Clusters, "DELETED", &cluster(false));
    assert_eq!(side.index.clusters.hold(&seen), Hold::NoCluster("k".into()));
}

#[test]
fn pools_are_told_when_all_kinds_are_known() {
    let (side, events) = ApiSide::with(&[]);
    let seen: Vec<usize> =
        events.iter().filter_map(|e| if let Event::Pools(all) = e { Some(all.len()) } else { None }).collect();
    assert_eq!(seen, [1], "once, with all of them");
    assert!(side.intake.claims_begun() && side.index.clusters.are_known());
}

#[test]
fn a_pools_status_that_was_written_is_not_written_again() {
    let (mut side, _) = ApiSide::with(&[]);
    let reference = side.index.pools.keys().next().unwrap().clone();
    let counts =
        mooring_allocator_core::book::Counts { total: 9, used: 2, resting: 1, free: 6, out_of_range: 0, available: 5 };
    let status = mooring_allocator_core::protocol::PoolStatus {
        counts,
        ready: true,
        misplaced: "y".into(),
        overlapping: "x".into(),
        ..Default::default()
    };
    let at = mooring_allocator_core::protocol::PoolTarget {
        reference: reference.clone(),
        uid: Uid::from("u-p"),
        version: Version::from("3"),
    };
    let (call, body) = side.call(&Write::PoolStatus(at, status.clone()));
    assert!(call.path.ends_with("/v1alpha2/namespaces/n/inclusterippools/p/status"), "{}", call.path);
    assert_eq!(body["status"]["ipAddresses"]["quarantined"], 1);
    side.index.written.written(&reference, &Uid::from("u-p"), status.clone());
    let mut shown = pool();
    merge(&mut shown, &json!({"metadata": {"resourceVersion": "4"}, "status": body["status"]}));
    let events = side.line(POOLS, "MODIFIED", &shown);
    let Some(Event::Pool(seen)) = events.first() else { panic!("{events:?}") };
    assert_eq!(seen.status.as_ref(), Some(&status), "also what cannot be read back");
    merge(&mut shown, &json!({"metadata": {"resourceVersion": "6", "generation": 2}}));
    let events = side.line(POOLS, "MODIFIED", &shown);
    let Some(Event::Pool(seen)) = events.first() else { panic!("{events:?}") };
    assert_eq!(seen.status, None, "it was judged before its spec was changed");
}

#[test]
fn a_list_in_pages_is_told_once_and_forgets_what_is_gone() {
    let (mut side, _) = ApiSide::with(&[claim("a", &json!({})), claim("b", &json!({}))]);
    let page = |name: &str, next: &str| {
        let meta = json!({"resourceVersion": "10", "continue": next});
        Bytes::from(json!({"items": [claim(name, &json!({}))], "metadata": meta}).to_string())
    };
    let version = Resource::Claims.versions()[0];
    let first = page("b", "more");
    let (turned, events) =
        side.intake.page(&mut side.index, side.now, (Resource::Claims, version, &first), true, None).unwrap();
    assert_eq!((turned.next.as_str(), events.len()), ("more", 0));
    let last = page("c", "");
    let (_, events) =
        side.intake.page(&mut side.index, side.now, (Resource::Claims, version, &last), false, None).unwrap();
    let names: Vec<String> = claims(&events).iter().map(|claim| claim.key.name.to_string()).collect();
    assert_eq!(names, ["b", "c"]);
    side.step(&events);
    assert_eq!((side.index.claims.len(), side.index.protocol.claims().count()), (2, 2));
}

#[test]
fn what_cannot_be_read_in_a_list_is_passed_over_unless_it_is_an_address() {
    let broken_status = json!({"status": {"conditions": [
        {"type": "X", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00+99:99"},
    ]}});
    let (mut side, events) =
        ApiSide::with(&[claim("a", &json!({})), claim("b", &broken_status), claim("c", &json!({}))]);
    let names: Vec<String> = claims(&events).iter().map(|claim| claim.key.name.to_string()).collect();
    assert_eq!(names, ["a", "c"]);
    let mut broken = pool();
    merge(&mut broken, &json!({"metadata": {"name": "q"}, "spec": {"addresses": 5}}));
    let events = side.list(POOLS, &[broken, pool()]);
    assert!(events.iter().any(|event| matches!(event, Event::Pools(all) if all.len() == 1)), "{events:?}");
    let page = json!({"items": [{"metadata": 5}], "metadata": {}}).to_string().into();
    let page = (Resource::Addresses, Resource::Addresses.versions()[0], &page);
    assert!(side.intake.page(&mut side.index, side.now, page, true, None).is_err());
}

#[test]
fn a_claim_is_gone_only_if_the_api_server_says_so() {
    let (mut side, _) = ApiSide::with(&[]);
    let (key, owner) = (Key::new("n", "a"), Uid::from("u-a"));
    let status = |code, reason: &str| {
        Err(ApiError::Status { code, reason: reason.into(), message: String::new(), retry_after: None })
    };
    assert_eq!(side.index.claim_read(&key, &owner, status(404, "NotFound")), Some(Ok(None)));
    assert_eq!(
        side.index.claim_read(&key, &owner, status(404, "")),
        Some(Err(Failure::Unknown)),
        "the kind is not served"
    );
    assert_eq!(side.index.claim_read(&key, &owner, Err(ApiError::Lost("x".into()))), Some(Err(Failure::Unknown)));
    let there = |kind: &str| Ok(claim("a", &json!({"spec": {"poolRef": {"kind": kind}}})).to_string().into());
    assert_eq!(side.index.claim_read(&key, &owner, there("IPPool")), None, "another provider's");
    let before = Uid::from("u-before");
    assert_eq!(side.index.claim_read(&key, &before, there("IPPool")), Some(Ok(None)), "of the same name, made later");
    let found = side.index.claim_read(&key, &owner, there("InClusterIPPool")).unwrap().unwrap().unwrap();
    assert_eq!(found.uid, Uid::from("u-a"));
}

#[test]
fn pools_of_two_namespaces_may_have_the_same_addresses_unless_all_are_one_network() {
    for (one_network, expected) in [(false, ["10.0.0.1", "10.0.0.1"]), (true, ["10.0.0.1", "10.0.0.2"])] {
        let (mut side, _) = ApiSide::with(&[]);
        side.index.one_network = one_network;
        let of = |namespace: &str, object: Value| {
            let mut object = object;
            merge(&mut object, &json!({"metadata": {"namespace": namespace, "uid": format!("u-{namespace}")}}));
            object
        };
        side.list(POOLS, &[of("n", pool()), of("m", pool())]);
        side.list(Resource::Addresses, &[]);
        side.step(&[Event::Leading(Some(Duration::MAX))]);
        for namespace in ["n", "m"] {
            side.line(Resource::Claims, "ADDED", &of(namespace, claim("a", &json!({}))));
        }
        let given = side.writes.iter().filter_map(|(_, write)| match write {
            Write::AddFinalizer(_, Some(given)) => Some(given.to_string()),
            _ => None,
        });
        assert_eq!(given.collect::<Vec<_>>(), expected, "{one_network}");
    }
}

#[test]
fn a_claim_that_is_deleted_in_the_foreground_does_not_wait_for_itself() {
    // The garbage collector keeps its finalizer on the claim until the IPAddress is gone, if no other owner is left.
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-11-20T10:00:00Z",
            "finalizers": ["foregroundDeletion", "ipam.cluster.x-k8s.io/ReleaseAddress"]},
        "status": {"addressRef": {"name": "a"}}});
    let (mut side, _) = ApiSide::with(&[claim("a", &deleting)]);
    let address = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u-x", "resourceVersion": "8",
            "deletionTimestamp": "2026-11-20T10:00:00Z", "finalizers": ["ipam.cluster.x-k8s.io/ProtectAddress"],
            "ownerReferences": [{"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "a",
                "uid": "u-a", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "a"},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}});
    side.list(Resource::Addresses, &[address]);
    side.step(&[Event::Leading(Some(Duration::MAX))]);
    assert!(
        side.writes.iter().any(|(_, write)| matches!(write, Write::RemoveAddressFinalizer(_))),
        "{:?}",
        side.writes
    );
}

#[test]
fn nothing_is_decided_on_half_a_list() {
    let of_cluster = json!({"spec": {"clusterName": "k"}, "metadata": {"deletionTimestamp": "2026-11-20T10:00:00Z"}});
    let (mut side, events) = ApiSide::with(&[claim("a", &of_cluster)]);
    let seen = claims(&events)[0].clone();
    let page = |side: &mut ApiSide, resource: Resource, items: &[Value], next: &str, first: bool| {
        let bytes = json!({"items": items, "metadata": {"resourceVersion": "9", "continue": next}}).to_string().into();
        let page = (resource, resource.versions()[0], &bytes);
        let events = side.intake.page(&mut side.index, side.now, page, first, None).unwrap().1;
        side.step(&events);
    };
    // Finalizers of others, on an object of the second page.
    let address = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": "5",
                "finalizers": ["theirs", "ipam.cluster.x-k8s.io/ProtectAddress"]},
            "spec": {"address": "10.0.0.1", "claimRef": {"name": name},
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}})
    };
    side.list(Resource::Addresses, &[address("a"), address("b")]);
    page(&mut side, Resource::Addresses, &[address("b")], "more", true);
    let (_, body) = side.call(&Write::RemoveAddressFinalizer(target("a")));
    assert_eq!(body["metadata"]["finalizers"], json!(["theirs"]), "the last page has not come yet");
    page(&mut side, Resource::Addresses, &[address("a")], "", false);
    let (_, body) = side.call(&Write::RemoveAddressFinalizer(target("a")));
    assert_eq!(body["metadata"]["finalizers"], json!(["theirs"]));
    // A paused Cluster on the second page.
    let cluster = |name: &str| json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"paused": true}});
    side.list(Resource::Clusters, &[cluster("k"), cluster("l")]);
    assert_eq!(side.index.clusters.hold(&seen), Hold::Paused);
    page(&mut side, Resource::Clusters, &[cluster("l")], "more", true);
    assert_eq!(side.index.clusters.hold(&seen), Hold::Paused, "the last page has not come yet");
    page(&mut side, Resource::Clusters, &[], "", false);
    assert_eq!(side.index.clusters.hold(&seen), Hold::NoCluster("k".into()));
    // A namespace on the second page.
    let mut selecting = pool();
    merge(&mut selecting, &json!({"spec": {"allowedNamespaces": {"selector": {"matchLabels": {"net": "x"}}}}}));
    let namespace = |name: &str| json!({"metadata": {"name": name, "labels": {"net": "x"}}});
    side.list(Resource::Namespaces, &[namespace("m"), namespace("n")]);
    let allowed = |side: &mut ApiSide| {
        let events = side.line(POOLS, "MODIFIED", &selecting);
        let Some(Event::Pool(pool)) = events.into_iter().next() else { panic!() };
        pool.plan.unwrap().allowed_namespaces.unwrap().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(allowed(&mut side), ["m", "n"]);
    page(&mut side, Resource::Namespaces, &[namespace("m")], "more", true);
    assert_eq!(allowed(&mut side), ["m", "n"], "the last page has not come yet");
    page(&mut side, Resource::Namespaces, &[], "", false);
    assert_eq!(allowed(&mut side), ["m"]);
}

#[test]
fn answers_are_read() {
    let (mut side, _) = ApiSide::with(&[claim("a", &json!({}))]);
    side.list(Resource::Addresses, &[]);
    side.step(&[Event::Leading(Some(Duration::MAX))]);
    let given = Some(Block::host("10.0.0.1".parse().unwrap()));
    let write = Write::AddFinalizer(target("a"), given);
    let id = side.writes.iter().find(|(_, one)| *one == write).unwrap().0;
    let after = claim("a", &json!({"metadata": {"resourceVersion": "6", "finalizers": ["x"]}}));
    let done = side.index.done(&write, Ok(after.to_string().into())).unwrap();
    assert!(matches!(&done, Done::There(Object::Claim(claim)) if claim.version == Version::from("6")));
    side.step(&[Event::Answer { id, result: Ok(done) }]);
    let next = Target { version: Version::from("6"), ..target("a") };
    let (_, body) = side.call(&Write::AddFinalizer(next, given));
    assert_eq!(body["metadata"]["finalizers"][0], "x", "what the answer showed is what is written over");
    assert_eq!(body["metadata"]["annotations"], json!({"mooring.dev/address": "10.0.0.1"}));
    // What a backup of the claim says is read; also when the claim has an address, which the backup is to say.
    let says = json!({"metadata": {"resourceVersion": "7", "annotations": {"mooring.dev/address": "10.0.0.9"}}});
    let bound = json!({"metadata": {"resourceVersion": "8"}, "status": {"addressRef": {"name": "a"}}});
    for more in [json!({}), bound] {
        let mut says = claim("a", &says);
        merge(&mut says, &more);
        let done = side.index.done(&write, Ok(says.to_string().into())).unwrap();
        let Done::There(Object::Claim(claim)) = done else { panic!("{done:?}") };
        assert_eq!(claim.had.map(|block| block.to_string()).as_deref(), Some("10.0.0.9"));
    }
    let gone = json!({"kind": "Status", "status": "Success", "details": {"uid": "u-a"}});
    let done = side.index.done(&Write::DeleteAddress(target("a")), Ok(gone.to_string().into()));
    assert_eq!(done, Ok(Done::Gone));
    let failed = side.index.done(&write, Err(ApiError::Timeout(Duration::from_secs(1))));
    assert_eq!(failed, Err(Failure::Unknown));
}

#[test]
fn an_address_for_services_says_what_its_pool_says() {
    let service = json!({"metadata": {"labels": {"mooring.dev/service-family": "ipv4"}}});
    let (mut side, _) = ApiSide::with(&[claim("a", &service), claim("b", &json!({}))]);
    let mut wrong = pool();
    merge(
        &mut wrong,
        &json!({"metadata": {"annotations": {
        "mooring.dev/interface": "eth1", "mooring.dev/node-selector": "zone in (a)", "mooring.dev/preferred-nodes": " "}}}),
    );
    side.line(POOLS, "MODIFIED", &wrong);
    let reference = side.index.pools.keys().next().unwrap().clone();
    let annotations = |name: &str| {
        let new = New {
            key: Key::new("n", name),
            pool: reference.clone(),
            address: "10.0.0.1".parse().unwrap(),
            prefix: 24,
            gateway: None,
            purpose: Purpose::Claim(Attempt {
                claim: Uid::from(format!("u-{name}").as_str()),
                number: 0,
                adopted: false,
            }),
        };
        side.call(&Write::Create(Box::new(new))).1["metadata"]["annotations"].clone()
    };
    let expected = json!({"mooring.dev/attempt": "u-a 0", "mooring.dev/interface": "eth1",
        "mooring.dev/from-pool": "{\"interface\":\"eth1\"}"});
    assert_eq!(annotations("a"), expected);
    assert_eq!(annotations("b"), json!({"mooring.dev/attempt": "u-b 0"}), "a machine's");
}

#[test]
fn an_annotation_of_a_pool_that_makes_no_sense_is_a_condition_until_it_does() {
    use mooring_allocator_core::protocol::{PoolStatus, PoolTarget};

    let (mut side, _) = ApiSide::with(&[]);
    let status = |side: &mut ApiSide, selector: &str, conditions: &Value| {
        let mut object = pool();
        let counts = json!({"total": 9, "used": 0, "free": 9, "outOfRange": 0});
        merge(&mut object, &json!({"metadata": {"annotations": {"mooring.dev/node-selector": selector}}}));
        merge(&mut object, &json!({"status": {"ipAddresses": counts, "conditions": conditions}}));
        let events = side.line(POOLS, "MODIFIED", &object);
        let [Event::Pool(pool)] = &events[..] else { panic!("{events:?}") };
        pool.clone()
    };
    let ready = json!([{"type": "Ready", "status": "True", "reason": "PoolReady", "observedGeneration": 1}]);
    assert!(status(&mut side, "zone=a", &ready).status.is_some(), "nothing is wrong, and nothing was");
    let seen = status(&mut side, "zone in (a)", &ready);
    assert_eq!(seen.status, None, "so it is written");
    let counts = mooring_allocator_core::book::Counts { total: 9, free: 9, available: 9, ..Default::default() };
    let write = PoolStatus { counts, ready: true, ..PoolStatus::default() };
    let target = PoolTarget { reference: seen.reference.clone(), uid: seen.uid.clone(), version: seen.version.clone() };
    let write = Write::PoolStatus(target, write);
    let (_, body) = side.call(&write);
    let conditions = body["status"]["conditions"].clone();
    let wrong = |conditions: &Value| {
        let all = conditions.as_array().unwrap();
        all.iter().find(|one| one["type"] == "AnnotationsInvalid").cloned()
    };
    let one = wrong(&conditions).unwrap();
    assert_eq!((&one["status"], &one["reason"]), (&json!("True"), &json!("AnnotationIgnored")));
    assert!(
        one["message"].as_str().unwrap().starts_with("mooring.dev/node-selector: \"zone in (a)\" is no part"),
        "{one}"
    );
    assert!(status(&mut side, "zone in (a)", &conditions).status.is_some(), "it stands there");
    // And when it was put right.
    assert_eq!(status(&mut side, "zone=a", &conditions).status, None);
    let (_, body) = side.call(&write);
    assert_eq!(wrong(&body["status"]["conditions"]).unwrap()["status"], "False");
}

#[test]
fn placement_hints_follow_what_agents_may_advertise() {
    use super::super::change::Change;
    use super::super::placement_hints::events as hint_events;
    use mooring_allocator_core::placement_hints::Event as HintEvent;

    let hint = |events: &[Event], side: &ApiSide| hint_events(&Change::of(&events[0]).unwrap(), &side.index).remove(0);
    let (mut side, _) = ApiSide::with(&[claim("a", &json!({}))]);
    let address = |labels: &Value| {
        json!({"metadata": {"name": "a", "namespace": "n", "uid": "u-x", "resourceVersion": "8", "labels": labels,
                "annotations": {"mooring.dev/interface": "eth1"}},
            "spec": {"address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "a"},
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}})
    };
    let events = side.line(Resource::Addresses, "ADDED", &address(&json!({})));
    assert!(matches!(hint(&events, &side), HintEvent::AddressGone(_)));
    let events = side.line(Resource::Addresses, "MODIFIED", &address(&json!({"mooring.dev/advertise": "true"})));
    let HintEvent::Address(one) = hint(&events, &side) else { panic!("{events:?}") };
    assert!(one.facts.by_label && one.facts.texts[0].as_deref() == Some("eth1"));
    side.index.scope.namespaces = ["other".to_owned()].into();
    assert!(matches!(hint(&events, &side), HintEvent::AddressGone(_)), "another allocator's");
    side.index.scope.namespaces.clear();
    let events = side.line(Resource::Addresses, "DELETED", &address(&json!({"mooring.dev/advertise": "true"})));
    assert!(matches!(hint(&events, &side), HintEvent::AddressGone(_)));
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}, "resourceVersion": "7"}});
    let events = side.line(POOLS, "MODIFIED", &pool());
    assert!(matches!(hint(&events, &side), HintEvent::Pool(..)));
    let mut still = pool();
    merge(&mut still, &paused);
    let events = side.line(POOLS, "MODIFIED", &still);
    assert!(matches!(hint(&events, &side), HintEvent::PoolGone(_)));
}

#[test]
fn addresses_that_were_listed_before_their_claims_are_judged_again() {
    use super::super::change::Change;
    use super::super::placement_hints::events as hint_events;
    use mooring_allocator_core::placement_hints::Event as HintEvent;

    let (mut side, _) = ApiSide::with(&[]);
    let address = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u-x", "resourceVersion": "8",
            "labels": {"mooring.dev/advertise": "true"},
            "ownerReferences": [{"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "a", "uid": "u-a",
                "controller": true}]},
        "spec": {"address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "a"},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}});
    let addresses = |events: &[Event], side: &ApiSide| {
        let all: Vec<_> =
            events.iter().flat_map(|event| hint_events(&Change::of(event).unwrap(), &side.index)).collect();
        all.iter().find_map(|event| if let HintEvent::Addresses(all) = event { Some(all.len()) } else { None })
    };
    let events = side.list(Resource::Addresses, &[address]);
    assert_eq!(addresses(&events, &side), Some(1), "nothing is known of its claim");
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let events = side.list(Resource::Claims, &[claim("a", &paused)]);
    assert_eq!(addresses(&events, &side), Some(0), "its claim is paused");
}

/// One that serves metal3's pools, and has listed the other kinds of pools.
fn with_metal3() -> ApiSide {
    let mut side = ApiSide {
        index: Index::new(Scope::default(), 1),
        writes: Vec::new(),
        intake: Intake::default(),
        now: Duration::ZERO,
    };
    side.index.serve(PoolKind::Metal3IPPool);
    for kind in crate::api::POOLS.map(Resource::Pools) {
        let missing = side.intake.missing(&mut side.index, kind);
        side.step(&missing);
    }
    side
}

const METAL3_POOL: Resource = Resource::Pools(PoolKind::Metal3IPPool);

fn metal3_pool() -> Value {
    json!({"metadata": {"name": "p", "namespace": "n", "uid": "u-p", "resourceVersion": "3", "generation": 1},
        "spec": {"namePrefix": "net", "clusterName": "k", "prefix": 24, "dnsServers": ["10.0.0.53"],
            "pools": [{"start": "10.0.0.1", "end": "10.0.0.3", "dnsServers": ["10.0.0.54"]}]},
        "status": {"indexes": {"gone": "10.0.0.9"}}})
}

fn metal3_claim(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("u-m-{name}"), "resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "k"}}, "spec": {"pool": {"name": "p", "namespace": "n"}}})
}

#[test]
fn metal3s_kinds_are_waited_for_unless_they_may_not_be_listed() {
    use super::metal3::Known;

    let wanted =
        |side: &mut ApiSide| std::mem::take(&mut side.writes).into_iter().map(|(_, write)| write).collect::<Vec<_>>();
    let mut side = with_metal3();
    side.list(Resource::Clusters, &[json!({"metadata": {"name": "k", "namespace": "n"}})]);
    let events = side.list(METAL3_POOL, &[metal3_pool()]);
    assert!(events.is_empty(), "metal3's addresses were not asked for");
    side.list(Resource::Metal3Claims, &[metal3_claim("c")]);
    side.list(Resource::Claims, &[claim("a", &json!({}))]);
    side.list(Resource::Addresses, &[]);
    side.step(&[Event::Leading(Some(Duration::MAX))]);
    assert!(wanted(&mut side).is_empty(), "nothing is decided on half a list");
    let refused = side.intake.metal3_unlisted(&mut side.index, Resource::Metal3Addresses, Known::Refused);
    side.step(&refused);
    let writes = wanted(&mut side);
    assert!(matches!(&writes[..], [Write::Condition(target, _)] if target.key == Key::new("n", "a")), "{writes:?}");
    // The permission comes.
    side.list(Resource::Metal3Addresses, &[]);
    let writes = wanted(&mut side);
    let finalizer = |write: &Write| matches!(write, Write::AddFinalizer(one, _) if one.key == Key::of_metal3("n", "c"));
    assert!(writes.iter().any(finalizer), "{writes:?}");
}

#[test]
fn a_kind_of_outside_pools_that_may_not_be_listed_holds_up_no_other() {
    let mut side = ApiSide {
        index: Index::new(Scope::default(), 1),
        writes: Vec::new(),
        intake: Intake::default(),
        now: Duration::ZERO,
    };
    let kind = PoolKind::PHPIPAMIPPool;
    side.index.serve(kind);
    for kind in crate::api::POOLS.map(Resource::Pools) {
        let missing = side.intake.missing(&mut side.index, kind);
        assert!(missing.is_empty(), "phpIPAM's pools were not asked for");
    }
    let refused = side.intake.pools_refused(&side.index, kind);
    let why = "Mooring may not list PHPIPAMIPPool: give it the permissions of manifests/allocator/phpipam";
    assert!(
        matches!(&refused[..], [Event::PoolsRefused(one, Some(text)), Event::Pools(_)] if *one == kind && text == why),
        "{refused:?}"
    );
    side.step(&refused);
    assert!(side.intake.pools_refused(&side.index, kind).is_empty(), "told once");
    let events = side.list(Resource::Pools(kind), &[]);
    assert!(matches!(&events[..], [Event::Pools(_), Event::PoolsRefused(_, None)]), "{events:?}");
    assert!(side.intake.pools_refused(&side.index, kind).is_empty(), "once listed, a refusal means nothing");
}

#[test]
fn metal3s_claims_are_written_as_its_users_read_them() {
    let mut side = with_metal3();
    side.list(Resource::Clusters, &[json!({"metadata": {"name": "k", "namespace": "n"}, "spec": {"paused": true}})]);
    side.list(METAL3_POOL, &[metal3_pool()]);
    side.list(Resource::Claims, &[]);
    side.list(Resource::Addresses, &[]);
    side.list(Resource::Metal3Claims, &[metal3_claim("c")]);
    let reference = side.index.pools.keys().next().unwrap().clone();
    let own = json!({"metadata": {"name": "net-10-0-0-1", "namespace": "n", "uid": "u-1", "resourceVersion": "4",
            "finalizers": ["theirs", "ipaddress.ipam.metal3.io"]},
        "spec": {"address": "10.0.0.1", "claim": {"name": "c"}, "pool": {"name": "p"}}});
    side.list(Resource::Metal3Addresses, std::slice::from_ref(&own));
    let paused = side.index.pool(&reference).unwrap().paused.unwrap().to_string();
    assert!(paused.starts_with("belongs to Cluster k, which is paused"), "{paused}");
    let key = Key::of_metal3("n", "c");
    let target = Target { key: key.clone(), uid: Uid::from("u-m-c"), version: Version::from("5") };
    let path = "/apis/ipam.metal3.io/v1alpha1/namespaces/n/ipclaims/c";
    let (call, body) = side.call(&Write::AddFinalizer(target.clone(), None));
    assert_eq!((&*call.path, &body["metadata"]["finalizers"]), (path, &json!(["ipclaim.ipam.metal3.io"])));
    let bind = Write::Bind(target.clone(), "net-10-0-0-1".into(), condition(true, Reason::AddressAllocated));
    let (call, body) = side.call(&bind);
    assert_eq!(call.path, format!("{path}/status"));
    assert_eq!(body["status"], json!({"address": {"name": "net-10-0-0-1", "namespace": "n"}, "errorMessage": null}));
    assert_eq!(body["metadata"], json!({"uid": "u-m-c", "resourceVersion": "5"}));
    let (_, body) = side.call(&Write::Unbind(target, condition(false, Reason::PoolExhausted)));
    assert_eq!(body["status"], json!({"address": null, "errorMessage": "PoolExhausted: 10.0.0.1"}));
    let mark = Attempt { claim: Uid::from("u-m-c"), number: 0, adopted: false };
    let new = New {
        key: key.clone(),
        pool: reference,
        address: "10.0.0.2".parse().unwrap(),
        prefix: 24,
        gateway: None,
        purpose: Purpose::Claim(mark),
    };
    let (call, body) = side.call(&Write::Create(Box::new(new)));
    assert_eq!(call.path, "/apis/ipam.metal3.io/v1alpha1/namespaces/n/ipaddresses");
    let meta = &body["metadata"];
    assert_eq!((&meta["name"], &meta["finalizers"]), (&json!("net-10-0-0-2"), &json!(["ipaddress.ipam.metal3.io"])));
    assert_eq!(meta["labels"], json!({"cluster.x-k8s.io/cluster-name": "k"}));
    let owner = &meta["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("IPClaim"), &json!("c")));
    assert_eq!((&body["spec"]["claim"]["name"], &body["spec"]["dnsServers"]), (&json!("c"), &json!(["10.0.0.54"])));
    // An object is found by its uid, and has a name of its own; other finalizers stay.
    let target = Target { key, uid: Uid::from("u-1"), version: Version::from("4") };
    let (call, body) = side.call(&Write::RemoveAddressFinalizer(target));
    assert_eq!(call.path, "/apis/ipam.metal3.io/v1alpha1/namespaces/n/ipaddresses/net-10-0-0-1");
    assert_eq!(body["metadata"]["finalizers"], json!(["theirs"]));
}

#[test]
fn a_pool_of_metal3s_lists_both_kinds_of_claims() {
    use mooring_allocator_core::protocol::PoolTarget;
    let mut side = with_metal3();
    side.list(METAL3_POOL, &[metal3_pool()]);
    side.list(Resource::Metal3Claims, &[]);
    let address = |name: &str, uid: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": "5"}, "spec": spec});
    let own = json!({"address": "10.0.0.1", "claim": {"name": "c"}, "pool": {"name": "p"}});
    side.list(Resource::Metal3Addresses, &[address("net-10-0-0-1", "u-1", own)]);
    let mine = json!({"address": "10.0.0.2", "claimRef": {"name": "c"},
        "poolRef": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"}});
    side.list(Resource::Clusters, &[]);
    side.list(Resource::Claims, &[]);
    side.list(Resource::Addresses, &[address("c", "u-c", mine)]);
    let reference = side.index.pools.keys().next().unwrap().clone();
    let now = side.index.pool(&reference).unwrap();
    let target = PoolTarget { reference, uid: now.uid, version: now.version };
    let status = mooring_allocator_core::protocol::PoolStatus { ready: true, holders: 1, ..Default::default() };
    let (call, body) = side.call(&Write::PoolStatus(target.clone(), status));
    assert_eq!(call.path, "/apis/ipam.metal3.io/v1alpha1/namespaces/n/ippools/p/status");
    let indexes = json!({"c": "10.0.0.1", "IPAddressClaim/c": "10.0.0.2", "gone": null});
    assert_eq!(body["status"]["indexes"], indexes);
    let (_, body) = side.call(&Write::AddPoolFinalizer(target));
    assert_eq!(body["metadata"]["finalizers"], json!(["ippool.ipam.metal3.io"]));
    assert_eq!(body["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "k");
}
