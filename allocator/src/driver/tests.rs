//! The loop against an API server that is slow with one kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::run;
use super::testing::{ApiServer, Asked};
use crate::api::Client;
use crate::events::Events;
use crate::ops::Ops;
use crate::settings::{Host, Settings};

/// The kinds that decisions about claims rest on.
const FOR_CLAIMS: [&str; 7] = [
    "clusters",
    "ipaddressclaims",
    "ipaddresses",
    "inclusterippools",
    "globalinclusterippools",
    "inclusterprefixpools",
    "globalinclusterprefixpools",
];
/// And those that decisions about Services rest on besides.
const FOR_SERVICES: [&str; 4] = ["services", "nodes", "configmaps/kubevip", "configmaps/cluster-info"];
/// For one kind to be listed on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// A claim that waits, its pool, a Service that waits, and kube-vip's `ConfigMap`.
fn objects() -> Vec<Value> {
    let meta = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name, "uid": format!("u-{name}"), "resourceVersion": "5", "generation": 1});
    vec![
        json!({"plural": "inclusterippools", "metadata": meta("n", "p"),
            "spec": {"addresses": ["10.0.0.1-10.0.0.9"], "prefix": 24}}),
        json!({"plural": "ipaddressclaims", "metadata": meta("n", "c"),
            "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}}),
        json!({"plural": "services", "metadata": meta("n", "web"),
            "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}, "status": {}}),
        json!({"plural": "configmaps/kubevip", "metadata": meta("kube-system", "kubevip"),
            "data": {"range-global": "10.1.0.1-10.1.0.9"}}),
    ]
}

/// An allocator with its API server.
struct Rig {
    server: ApiServer,
    ops: Arc<Ops>,
    leads: watch::Sender<Option<Duration>>,
    settings: Settings,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn set(objects: Vec<Value>) -> Self {
        let server = ApiServer::start(objects).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: {}\n\
             contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\nusers:\n- name: u\n  user: {{}}\n",
            server.url
        );
        std::fs::write(&file, text).unwrap();
        let given = [("kubeconfig", file.to_str().unwrap()), ("leader-election", "off"), ("events", "off")];
        let given: BTreeMap<String, String> = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let settings = Settings::load(&given, &BTreeMap::new(), &Host::default(), 1).unwrap().settings;
        let (client, _) = Client::load(&settings.source, 16).await.unwrap();
        Self { server, ops: Arc::default(), leads: watch::channel(None).0, settings, client, _folder: folder }
    }

    /// Does `story` while the allocator runs.
    async fn run(&self, story: impl Future<Output = ()>) {
        let (settings, client, ops) = (self.settings.clone(), self.client.clone(), self.ops.clone());
        let allocator = run(settings, client, ops, Events::off(), None, self.leads.subscribe());
        tokio::select! {
            ended = allocator => panic!("{ended:?}"),
            told = tokio::time::timeout(SOON, story) => assert!(told.is_ok(), "{:?}", self.server.asked()),
        }
    }

    /// Waits until each of these kinds is followed by that many watches, one after another.
    async fn followed(&self, kinds: &[&str], times: usize) {
        let opened =
            |all: &[Asked], kind: &str| all.iter().filter(|one| **one == Asked::Watch(kind.to_owned())).count();
        self.server.until(|all| kinds.iter().all(|kind| opened(all, kind) >= times)).await;
    }

    /// Waits until the list of a kind was asked for so often.
    async fn asked_for(&self, kind: &str, times: usize) {
        let is = |one: &&Asked| matches!(one, Asked::List(of, _) if of == kind);
        self.server.until(|all| all.iter().filter(is).count() >= times).await;
    }

    /// The writes so far. What was decided is either among them or under way: the loop and this test share one thread.
    fn writes(&self, of: fn(&str) -> bool) -> Vec<String> {
        let all = self.server.asked().into_iter();
        all.filter_map(|one| if let Asked::Write(text) = one { Some(text).filter(|text| of(text)) } else { None })
            .collect()
    }

    fn is_quiet(&self) -> bool {
        self.ops.metrics.under_way.get() == 0 && self.ops.metrics.waiting.get() == 0
    }

    /// The list of the kind is answered, and then something of this sort is written for the first time.
    async fn goes_on(&self, of: fn(&str) -> bool) {
        self.server.mark();
        self.server.hang(None);
        let is = move |one: &Asked| matches!(one, Asked::Write(text) if of(text));
        self.server.until(|all| all.iter().any(is)).await;
        let all = self.server.asked();
        let (marked, first) = (all.iter().position(|one| *one == Asked::Mark), all.iter().position(is));
        assert!(marked < first, "{all:?}");
    }
}

/// Claims and pools are made for Services alone, and nothing else is written to a Service.
fn for_services(write: &str) -> bool {
    ["POST", "globalinclusterippools", "/services/"].iter().any(|part| write.contains(part))
        && !write.ends_with("/ipaddresses")
}

#[tokio::test]
async fn a_new_leader_writes_nothing_for_services_before_every_kind_was_listed_since_it_leads() {
    let kinds = [&FOR_CLAIMS[1..], &FOR_SERVICES].concat();
    for slow in &kinds {
        let rig = Rig::set(objects()).await;
        let story = async {
            rig.followed(&kinds, 1).await;
            assert!(rig.writes(|_| true).is_empty(), "it does not lead");
            rig.server.hang(Some(slow));
            rig.leads.send_replace(Some(Duration::MAX));
            rig.asked_for(slow, 2).await;
            let others: Vec<&str> = kinds.iter().copied().filter(|kind| kind != slow).collect();
            rig.followed(&others, 2).await;
            let wrote = rig.writes(for_services);
            assert!(wrote.is_empty(), "{slow} is not listed, and it writes {wrote:?}");
            rig.goes_on(for_services).await;
        };
        rig.run(story).await;
    }
}

#[tokio::test]
async fn nothing_is_written_before_every_kind_was_listed_once() {
    for slow in FOR_CLAIMS {
        let rig = Rig::set(objects()).await;
        rig.server.hang(Some(slow));
        rig.leads.send_replace(Some(Duration::MAX));
        let story = async {
            rig.asked_for(slow, 1).await;
            // Addresses are followed once claims are known, and claims once Clusters are.
            let after: &[&str] = match slow {
                "clusters" => &FOR_CLAIMS[..3],
                "ipaddressclaims" => &FOR_CLAIMS[1..3],
                _ => &[slow],
            };
            let others: Vec<&str> =
                FOR_CLAIMS.iter().chain(&FOR_SERVICES).copied().filter(|kind| !after.contains(kind)).collect();
            rig.followed(&others, 1).await;
            let wrote = rig.writes(|_| true);
            assert!(wrote.is_empty() && rig.is_quiet(), "{slow} is not listed, and it writes {wrote:?}");
            rig.goes_on(|write| write.contains("/ipaddressclaims/c") || write.contains("/inclusterippools/p")).await;
        };
        rig.run(story).await;
    }
}

#[tokio::test]
async fn clusters_that_cannot_be_listed_hold_up_only_the_claims_that_name_one() {
    let mut objects = objects();
    let mut of_cluster = objects[1].clone();
    of_cluster["metadata"]["name"] = json!("k");
    of_cluster["metadata"]["uid"] = json!("u-k");
    of_cluster["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "big"});
    objects.push(of_cluster);
    objects.push(json!({"plural": "clusters", "metadata":
        {"namespace": "n", "name": "big", "uid": "u-big", "resourceVersion": "5"}, "spec": {}}));
    let rig = Rig::set(objects).await;
    rig.server.fail(Some("clusters"));
    rig.leads.send_replace(Some(Duration::MAX));
    let story = async {
        rig.server.until(|all| all.iter().any(|one| is_write(one, "/ipaddressclaims/c"))).await;
        rig.server.until(|all| all.iter().any(|one| matches!(one, Asked::Write(text) if for_services(text)))).await;
        // Its grace is long over by the second list.
        rig.asked_for("clusters", 4).await;
        let wrote = rig.writes(|write| write.contains("/ipaddressclaims/k"));
        assert!(wrote.is_empty(), "its Cluster may be paused, and it writes {wrote:?}");
        rig.server.fail(None);
        rig.server.until(|all| all.iter().any(|one| is_write(one, "/ipaddressclaims/k"))).await;
    };
    rig.run(story).await;
}

fn is_write(asked: &Asked, of: &str) -> bool {
    matches!(asked, Asked::Write(text) if text.contains(of))
}

/// A pool for all, a pool for the namespaces of a team, which waits for no addresses, and a namespace of the team.
fn with_a_selector(selector: bool) -> Vec<Value> {
    let allowed =
        if selector { json!({"selector": {"matchLabels": {"team": "t"}}}) } else { json!({"names": ["other"]}) };
    let meta = |name: &str| {
        json!({"name": name, "uid": format!("u-{name}"), "resourceVersion": "5", "generation": 1,
            "annotations": {"mooring.dev/service-default": "true"}})
    };
    let plural = "globalinclusterippools";
    vec![
        json!({"plural": plural, "metadata": meta("all"), "spec": {"addresses": ["10.1.0.1-10.1.0.9"], "prefix": 24}}),
        json!({"plural": plural, "metadata": meta("team"), "spec": {"addresses": ["10.2.0.1-10.2.0.9"], "prefix": 24,
            "allowedNamespaces": allowed}}),
        json!({"plural": "namespaces", "metadata": {"name": "n", "labels": {"team": "t"}}}),
    ]
}

/// A Service that waits for an address.
fn web(namespace: &str) -> Value {
    json!({"plural": "services", "metadata": {"namespace": namespace, "name": "web", "uid": "u-web", "resourceVersion": "5"},
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}, "status": {}})
}

impl Rig {
    /// The pool of the first claim that is made.
    async fn claims_from(&self) -> String {
        let claim = |one: &Asked| match one {
            Asked::Body(text) => {
                serde_json::from_str(text).ok().filter(|body: &Value| body["kind"] == "IPAddressClaim")
            }
            _ => None,
        };
        self.server.until(|all| all.iter().any(|one| claim(one).is_some())).await;
        let all = self.server.asked();
        all.iter().find_map(claim).unwrap()["spec"]["poolRef"]["name"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn services_wait_for_namespaces_if_a_pool_selects_by_label() {
    for leads_from_the_start in [true, false] {
        let mut all = with_a_selector(true);
        all.push(web("n"));
        let rig = Rig::set(all).await;
        let others = [&FOR_CLAIMS[1..], &FOR_SERVICES].concat();
        let lead = || {
            rig.server.hang(Some("namespaces"));
            rig.leads.send_replace(Some(Duration::MAX));
        };
        if leads_from_the_start {
            lead();
        }
        let story = async {
            let mut times = 1;
            if !leads_from_the_start {
                rig.followed(&others, 1).await;
                rig.followed(&["namespaces"], 1).await;
                lead();
                times = 2;
            }
            rig.asked_for("namespaces", times).await;
            rig.followed(&others, times).await;
            let wrote = rig.writes(|write| write.starts_with("POST"));
            assert!(wrote.is_empty(), "namespaces are not listed, and it writes {wrote:?}");
            rig.server.hang(None);
            assert_eq!(rig.claims_from().await, "team");
        };
        rig.run(story).await;
    }
}

#[tokio::test]
async fn services_do_not_wait_for_namespaces_that_no_pool_needs_any_more() {
    let mut all = with_a_selector(true);
    all.push(web("n"));
    let rig = Rig::set(all).await;
    rig.server.hang(Some("namespaces"));
    rig.leads.send_replace(Some(Duration::MAX));
    let story = async {
        rig.asked_for("namespaces", 1).await;
        rig.followed(&[&FOR_CLAIMS[1..], &FOR_SERVICES].concat(), 1).await;
        let mut pool = with_a_selector(false)[1].clone();
        pool["metadata"]["resourceVersion"] = "6".into();
        pool["metadata"]["generation"] = 2.into();
        rig.server.say("globalinclusterippools", "MODIFIED", &pool);
        assert_eq!(rig.claims_from().await, "all");
    };
    rig.run(story).await;
}

#[tokio::test]
async fn a_service_of_a_new_namespace_waits_for_the_namespace() {
    let rig = Rig::set(with_a_selector(true)).await;
    rig.leads.send_replace(Some(Duration::MAX));
    let story = async {
        rig.followed(&[&FOR_CLAIMS[1..], &FOR_SERVICES].concat(), 1).await;
        rig.followed(&["namespaces"], 1).await;
        // Both are made at once, and the watch of Services is ahead.
        rig.server.say("services", "ADDED", &web("new"));
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.server.say("namespaces", "ADDED", &json!({"metadata": {"name": "new", "labels": {"team": "t"}}}));
        assert_eq!(rig.claims_from().await, "team");
    };
    rig.run(story).await;
}

#[tokio::test]
async fn the_first_selector_of_a_pool_moves_no_service_to_another_pool() {
    let mut all = with_a_selector(false);
    // It serves the namespace by name.
    all[1]["spec"]["allowedNamespaces"]["names"] = json!(["n"]);
    let rig = Rig::set(all).await;
    rig.leads.send_replace(Some(Duration::MAX));
    let story = async {
        rig.followed(&[&FOR_CLAIMS[1..], &FOR_SERVICES].concat(), 1).await;
        rig.server.hang(Some("namespaces"));
        let mut pool = with_a_selector(true)[1].clone();
        pool["metadata"]["resourceVersion"] = "6".into();
        pool["metadata"]["generation"] = 2.into();
        rig.server.say("globalinclusterippools", "MODIFIED", &pool);
        rig.asked_for("namespaces", 1).await;
        rig.server.say("services", "ADDED", &web("n"));
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.server.hang(None);
        assert_eq!(rig.claims_from().await, "team");
    };
    rig.run(story).await;
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_followed_by_a_list() {
    let rig = Rig::set(objects()).await;
    let story = async {
        rig.followed(&FOR_CLAIMS, 1).await;
        rig.server.say(
            "ipaddresses",
            "ADDED",
            &json!({"metadata": {"namespace": "n", "name": "x"}, "spec": {"address": [7]}}),
        );
        rig.asked_for("ipaddresses", 2).await;
    };
    rig.run(story).await;
}

/// What it costs that a new leader lists everything again (`cargo test -p mooring-allocator -- --nocapture new_leader_asks`).
#[tokio::test]
async fn a_new_leader_asks_for_each_kind_once() {
    let mut all = objects();
    all.truncate(1);
    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"});
    let owner = |name: &str| {
        json!([{"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": name, "uid": format!("u-{name}"),
            "controller": true, "blockOwnerDeletion": true},
            {"apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool", "name": "p", "uid": "u-p",
            "controller": false, "blockOwnerDeletion": true}])
    };
    for number in 0..1000 {
        let name = format!("claim-{number}");
        let meta = |finalizer: &str| {
            json!({"namespace": "n", "name": name, "uid": format!("u-{name}"), "resourceVersion": "5", "generation": 1,
                "creationTimestamp": "2026-11-20T10:00:00Z", "finalizers": [finalizer]})
        };
        let condition = json!([{"type": "Ready", "status": "True", "reason": "AddressAllocated", "message": "10.0.0.1",
            "lastTransitionTime": "2026-11-20T10:00:00Z", "observedGeneration": 1}]);
        all.push(json!({"plural": "ipaddressclaims", "metadata": meta("ipam.cluster.x-k8s.io/ReleaseAddress"),
            "spec": {"poolRef": pool}, "status": {"addressRef": {"name": name}, "conditions": condition}}));
        let mut address = json!({"plural": "ipaddresses", "metadata": meta("ipam.cluster.x-k8s.io/ProtectAddress"),
            "spec": {"poolRef": pool, "claimRef": {"name": name}, "prefix": 16,
                "address": format!("10.0.{}.{}", number / 250, number % 250 + 1)}});
        address["metadata"]["ownerReferences"] = owner(&name);
        all.push(address);
    }
    for number in 0..500 {
        let name = format!("service-{number}");
        all.push(json!({"plural": "services", "metadata": {"namespace": "n", "name": name, "uid": format!("u-{name}"),
            "resourceVersion": "5", "creationTimestamp": "2026-11-20T10:00:00Z",
            "annotations": {"kube-vip.io/loadbalancerIPs": "10.1.0.1", "kube-vip.io/vipHost": "node-1"}},
            "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080,
                "nodePort": 30_080}], "selector": {"app": name}},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.1.0.1", "ipMode": "VIP"}]}}}));
    }
    let kinds = [&FOR_CLAIMS[1..], &FOR_SERVICES].concat();
    let rig = Rig::set(all).await;
    let story = async {
        rig.followed(&kinds, 1).await;
        rig.server.mark();
        rig.leads.send_replace(Some(Duration::MAX));
        rig.followed(&kinds, 2).await;
        let asked = rig.server.asked();
        let mut lists: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for one in asked.iter().skip_while(|one| **one != Asked::Mark) {
            if let Asked::List(kind, bytes) = one {
                let sum = lists.entry(kind).or_default();
                (sum.0, sum.1) = (sum.0 + 1, sum.1 + bytes);
            }
        }
        println!("{} requests, {} bytes: {lists:?}", lists.len(), lists.values().map(|sum| sum.1).sum::<usize>());
        assert_eq!(lists.keys().copied().collect::<Vec<_>>(), {
            let mut all = kinds.clone();
            all.sort_unstable();
            all
        });
        assert!(lists.values().all(|(times, _)| *times == 1), "{lists:?}");
    };
    rig.run(story).await;
}
