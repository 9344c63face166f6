//! From pending to an address, and back.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::super::story;
use super::service;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::server::{Crds, IPAM};
use crate::ipam::services::{ADDRESSES, GLOBAL, NODE, SERVICE, annotation, ingress, said};
use crate::ipam::table;
use crate::ipam::world::State;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

pub fn all() -> Vec<Test<()>> {
    vec![
        service!(tutorial, "the-tutorials-one-address-goes-to-one-service"),
        service!(one_by_one, "each-step-can-be-seen").quick(),
        service!(claims_deleted, "claims-that-people-delete-give-the-same-addresses-again"),
        service!(type_changes, "no-longer-a-load-balancer-gives-back-all"),
        service!(rests, "a-released-address-rests"),
        service!(events, "events-tell-what-happens"),
        service!(edited, "what-is-edited-is-put-right"),
        service!(names, "a-name-that-others-put-into-the-status-stays"),
        service!(node, "an-address-that-is-a-nodes-is-exchanged"),
        service!(other_network, "an-address-somebody-else-is-heard-to-have-is-exchanged"),
        service!(in_metallbs_words, "who-asks-in-metallbs-words-is-told"),
        story!("service-addresses", outside, "outside-all-pools-where-that-is-allowed", 5),
        story!("service-addresses", classes, "both-modes-of-classes", 5),
        story!("service-addresses", off, "off-leaves-services-alone", 5),
    ]
}

/// `cidr-global: 10.10.222.231/32`, and its table.
async fn tutorial(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    const IP: &str = "10.10.222.231";
    let work = async {
        scope.configure(json!({"cidr-global": "10.10.222.231/32"})).await?;
        scope.counts(GLOBAL, "kubevip-global-ipv4", [1, 1, 0, 0]).await?;
        let lines = table::get(&scope.rig.server, &format!("{IPAM}/v1alpha2/globalinclusterippools")).await?;
        ensure!(lines[0][..5] == ["NAME", "ADDRESSES", "TOTAL", "FREE", "USED"], "{lines:?}");
        let line = lines.iter().find(|line| line[0] == "kubevip-global-ipv4").context("no such pool")?;
        ensure!(line[1..5] == [&*format!("[\"{IP}\"]"), "1", "1", "0"], "{line:?}");
        scope.service("nginx").await?;
        let has = scope.advertised("nginx").await?;
        ensure!(has == [IP], "{has:?}");
        scope.counts(GLOBAL, "kubevip-global-ipv4", [1, 0, 1, 0]).await?;
        scope.service("second").await?;
        let message = scope.service_says("second", "PoolExhausted", "has no free address").await?;
        ensure!(message.contains("kubevip-global-ipv4") && message.contains("add addresses"), "{message}");
        scope.delete_service("nginx").await?;
        let has = scope.advertised("second").await?;
        ensure!(has == [IP], "{has:?}");
        scope.sound().await
    };
    scope.with_agents(work).await?;
    scope.no_services().await?;
    scope.no_config().await?;
    scope.gone(GLOBAL, "kubevip-global-ipv4").await
}

/// `kubectl delete ipaddressclaims --all`: each Service has its own address again, and no two swap theirs.
async fn claims_deleted(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    const NAMES: [&str; 4] = ["gone", "b", "c", "d"];
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        let mut had = Vec::new();
        for name in NAMES {
            scope.service(name).await?;
            had.push(scope.advertised(name).await?);
        }
        scope.delete_service("gone").await?;
        scope
            .until_service("b", "to be one of three", |_, state| {
                (state.all(CLAIM, &scope.ns).count() == 3).then_some(())
            })
            .await?;
        for _ in 0..3 {
            let uids = |state: &State| {
                state.all(CLAIM, &scope.ns).map(|claim| claim["metadata"]["uid"].clone()).collect::<Vec<_>>()
            };
            let before = scope.rig.world.look(uids);
            scope.rig.server.delete(&format!("{IPAM}/v1beta2/namespaces/{}/ipaddressclaims", scope.ns)).await?;
            for (name, had) in NAMES.iter().zip(&had).skip(1) {
                let again = |service: &Value, state: &State| {
                    let all = uids(state);
                    let bound = state
                        .all(CLAIM, &scope.ns)
                        .filter(|claim| claim.pointer("/status/addressRef").is_some())
                        .count();
                    let new = all.len() == 3 && bound == 3 && !all.iter().any(|uid| before.contains(uid));
                    let (is, reason, _) = said(service)?;
                    (new && is && reason == "Advertised").then(|| ingress(service))
                };
                let has = scope.until_service(name, "to have an address by a new claim", again).await?;
                ensure!(has == *had, "{name} had {had:?}, and has {has:?}");
            }
        }
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn one_by_one(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    scope.service("web").await?;
    let claim = scope
        .until_service("web", "to have a claim with an address", |_, state| {
            let claim = state.all(CLAIM, &scope.ns).next()?.clone();
            claim.pointer("/status/addressRef")?;
            Some(claim)
        })
        .await?;
    let owner = &claim["metadata"]["ownerReferences"][0];
    ensure!(owner["kind"] == "Service" && owner["name"] == "web", "{claim}");
    ensure!(claim["metadata"]["labels"]["mooring.dev/service-family"] == "ipv4", "{claim}");
    let name = claim["metadata"]["name"].as_str().context("a name")?.to_owned();
    let bound = scope.bound(&name).await?;
    ensure!(bound.address["metadata"]["labels"]["mooring.dev/service-family"] == "ipv4", "{}", bound.address);
    // The Service has its address, and no node advertises it.
    let record = format!("{}/{name}={}", scope.ns, bound.ip());
    scope
        .until_service("web", "to say which address it has", |service, _| {
            (annotation(service, "mooring.dev/ip-addresses") == Some(&*record)).then_some(())
        })
        .await?;
    scope.service_says("web", "WaitingForNode", bound.ip()).await?;
    let service = scope.seen(SERVICE, "web").context("no Service")?;
    ensure!(ingress(&service).is_empty() && annotation(&service, ADDRESSES) == Some(bound.ip()), "{service}");
    scope.hold(&scope.ns, &name, NODE).await?;
    let has = scope.advertised("web").await?;
    ensure!(has == [bound.ip()], "{has:?}");
    let service = scope.rig.server.get(&scope.service_path("web")).await?;
    ensure!(service["status"]["loadBalancer"]["ingress"][0]["ipMode"] == "VIP", "{service}");
    ensure!(annotation(&service, "kube-vip.io/vipHost") == Some(NODE), "{service}");
    ensure!(service["metadata"]["labels"]["implementation"] == "kube-vip", "{service}");
    ensure!(service["spec"].get("loadBalancerIP").is_none(), "{service}");
    // The VIP moves.
    scope.hold(&scope.ns, &name, "node-2").await?;
    scope
        .until_service("web", "to name the other node", |service, _| {
            (annotation(service, "kube-vip.io/vipHost") == Some("node-2") && !ingress(service).is_empty()).then_some(())
        })
        .await?;
    // The allocator handled the claim with two writes and the creation of the address.
    let claim = scope.seen(CLAIM, &name).context("no claim")?;
    ensure!(claim["metadata"]["finalizers"][0] == "ipam.cluster.x-k8s.io/ReleaseAddress", "{claim}");
    scope.delete_service("web").await?;
    scope.gone(CLAIM, &name).await?;
    scope.gone(ADDRESS, &name).await?;
    scope.sound().await
}

async fn type_changes(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        for name in ["typed", "classed", "ignored"] {
            scope.service(name).await?;
            scope.advertised(name).await?;
        }
        scope
            .merge_service("typed", json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}}))
            .await?;
        scope.bare("typed").await?;
        let ignore = json!({"metadata": {"annotations": {"kube-vip.io/ignore": "true"}}});
        scope.merge_service("ignored", ignore).await?;
        scope
            .until_service("ignored", "to have nothing", |service, _| {
                (ingress(service).is_empty() && said(service).is_none() && annotation(service, ADDRESSES).is_none())
                    .then_some(())
            })
            .await?;
        let left = |state: &State| (state.all(CLAIM, &scope.ns).count() == 1).then_some(());
        scope.rig.world.until("two claims to be gone", left).await?;
        // Two addresses are free again, and given again.
        for name in ["one", "two"] {
            scope.service(name).await?;
            scope.advertised(name).await?;
        }
        let mut all: Vec<String> = Vec::new();
        for name in ["classed", "one", "two"] {
            all.extend(scope.advertised(name).await?);
        }
        all.sort();
        ensure!(all == [scope.ip(10), scope.ip(11), scope.ip(12)], "{all:?}");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn rests(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let mut spec = scope.range(10, 19);
    spec["quarantine"] = json!({"afterReleaseSeconds": 600});
    scope.create("InClusterIPPool", "p", spec, default()).await?;
    let work = async {
        scope.service("web").await?;
        let had = scope.advertised("web").await?;
        scope.delete_service("web").await?;
        scope.until_rests(&had[0]).await?;
        scope.service("next").await?;
        let has = scope.advertised("next").await?;
        ensure!(had == [scope.ip(10)] && has == [scope.ip(11)], "{had:?} {has:?}");
        Ok(())
    };
    scope.with_agents(work).await
}

async fn events(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 10).await?;
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        scope.service("next").await?;
        scope.service_says("next", "PoolExhausted", "").await?;
        scope.until_event(&scope.ns, "web", "AddressAssigned", &scope.ip(10)).await?;
        scope.until_event(&scope.ns, "web", "Advertised", &scope.ip(10)).await?;
        scope.until_event(&scope.ns, "next", "PoolExhausted", "no free address").await
    };
    scope.with_agents(work).await
}

async fn edited(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        scope.service("web").await?;
        let has = scope.advertised("web").await?;
        let nonsense = json!({"metadata": {"annotations": {"mooring.dev/ip-addresses": "n/x=1.2.3.4", "kube-vip.io/vipHost": "x"}}});
        scope.merge_service("web", nonsense).await?;
        let none = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
        let edited = scope.rig.server.merge(&format!("{}/status", scope.service_path("web")), &none).await?;
        let version =
            |service: &Value| -> Option<u64> { service.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok() };
        let edited = version(&edited);
        scope
            .until_service("web", "to be put right", |service, _| {
                // The state before the edit looks the same: only a newer version counts.
                let record = annotation(service, "mooring.dev/ip-addresses").filter(|_| version(service) > edited)?;
                let right = record.ends_with(&format!("={}", has[0])) && ingress(service) == has;
                (right && annotation(service, "kube-vip.io/vipHost") == Some(NODE)).then_some(())
            })
            .await?;
        scope.sound().await
    };
    scope.with_agents(work).await
}

/// Addresses in the status are ours. A host name in the status belongs to others, and no traffic uses it.
async fn names(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let names = |service: &Value| -> Vec<String> {
        let all = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
        all.into_iter().flatten().filter_map(|one| Some(one["hostname"].as_str()?.to_owned())).collect()
    };
    let work = async {
        scope.service("web").await?;
        let has = scope.advertised("web").await?;
        let all = json!([{"hostname": "web.example.com"}, {"ip": "1.2.3.4"}, {"ip": has[0], "ipMode": "VIP"}]);
        let status = json!({"status": {"loadBalancer": {"ingress": all}}});
        scope.rig.server.merge(&format!("{}/status", scope.service_path("web")), &status).await?;
        scope
            .until_service("web", "to have one address and the name", |service, _| {
                (ingress(service) == has && names(service) == ["web.example.com"]).then_some(())
            })
            .await?;
        // The same when the Service's address changes.
        let other = json!({"metadata": {"annotations": {ADDRESSES: scope.ip(15)}}});
        scope.merge_service("web", other).await?;
        scope
            .until_service("web", "to have the other address, and the name", |service, _| {
                (ingress(service) == [scope.ip(15)] && names(service) == ["web.example.com"]).then_some(())
            })
            .await
    };
    scope.with_agents(work).await
}

/// A user's pool contains addresses of nodes: a Service that did not request such an address gets another one.
async fn node(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let name = format!("node-{}", scope.ns);
    scope.node(&name, &scope.ip(10)).await?;
    scope.default_pool("p", 10, 11).await?;
    let work = async {
        scope.service("web").await?;
        let has = scope.advertised("web").await?;
        ensure!(has == [scope.ip(11)], "{has:?}");
        scope.until_rests(&scope.ip(10)).await?;
        scope.noted("asks", json!({ADDRESSES: scope.ip(10)})).await?;
        scope.service_says("asks", "AddressOfNode", &name).await?;
        scope.sound().await
    };
    let done = scope.with_agents(work).await;
    scope.rig.server.delete(&format!("/api/v1/nodes/{name}")).await?;
    done
}

async fn other_network(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        let claim = scope.claim_of("web").await?;
        let heard = json!({"metadata": {"annotations": {"mooring.dev/conflict": "node-1 heard 02:00:00:00:00:01"}}});
        scope.merge(ADDRESS, &claim, heard).await?;
        scope
            .until_service("web", "to have another address", |service, _| {
                (ingress(service) == [scope.ip(11)]).then_some(())
            })
            .await
    };
    scope.with_agents(work).await
}

/// The annotation of a pool that serves Services.
fn default() -> Value {
    json!({"annotations": {"mooring.dev/service-default": "true"}})
}

/// What `MetalLB`'s annotations ask for has no effect, and an Event says what to write instead.
async fn in_metallbs_words(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let asks = json!({"metallb.universe.tf/loadBalancerIPs": scope.ip(15), "metallb.io/allow-shared-ip": "k"});
    scope.noted("web", asks).await?;
    let work = async {
        let has = scope.advertised("web").await?;
        ensure!(has == [scope.ip(10)], "{has:?}");
        for part in ["metallb.universe.tf/loadBalancerIPs has no effect", "mooring.dev/sharing-key"] {
            scope.until_event(&scope.ns, "web", "AnnotationNotHonoured", part).await?;
        }
        scope.no_services().await
    };
    scope.with_agents(work).await
}

/// `--services-outside-pools=on`: as with kube-vip's cloud provider, an address need not be in a pool.
async fn outside(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let allocator = rig.start_with("allocator", &["--leader-election=false", "--services-outside-pools=on"]).await?;
    let scope = rig.scope().await?;
    scope.default_pool("p", 10, 19).await?;
    scope.node("n1", &scope.ip(51)).await?;
    let work = async {
        scope.noted("web", json!({ADDRESSES: scope.ip(50)})).await?;
        let has = scope.advertised("web").await?;
        ensure!(has == [scope.ip(50)], "{has:?}");
        scope.noted("twice", json!({ADDRESSES: scope.ip(50)})).await?;
        scope.service_says("twice", "AddressTaken", &scope.ip(50)).await?;
        scope.noted("node", json!({ADDRESSES: scope.ip(51)})).await?;
        scope.service_says("node", "AddressOfNode", "n1").await?;
        scope.delete_service("web").await?;
        let has = scope.advertised("twice").await?;
        ensure!(has == [scope.ip(50)], "{has:?}");
        scope.no_services().await
    };
    scope.with_agents(work).await?;
    allocator.stop().await
}

/// With kube-vip's settings: which Services are ours.
async fn classes(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let modes: [(&str, &[&str], [bool; 3]); 4] = [
        ("legacy", &[], [true, true, false]),
        ("only", &["--lb-class-only=on"], [false, true, false]),
        ("newer", &["--lb-class-legacy-handling=off"], [false, true, false]),
        ("newer-none", &["--lb-class-legacy-handling=off", "--lb-class-name=none,other/class"], [true, false, true]),
    ];
    for (mode, args, ours) in modes {
        let args = [&["--leader-election=false"], args].concat();
        let allocator = rig.start_with(mode, &args).await?;
        let scope = rig.scope().await?;
        scope.default_pool("p", 10, 19).await?;
        let classes = [None, Some("kube-vip.io/kube-vip-class"), Some("other/class")];
        for (n, class) in classes.iter().enumerate() {
            let mut spec = scope.balanced(80, "TCP");
            if let Some(class) = class {
                spec["loadBalancerClass"] = json!(class);
            }
            scope.service_with(&format!("s{n}"), spec, json!({})).await?;
        }
        let work = async {
            for (n, _) in ours.iter().enumerate().filter(|(_, ours)| **ours) {
                scope.advertised(&format!("s{n}")).await?;
            }
            Ok(())
        };
        scope.with_agents(work).await.context(mode)?;
        // The other Services have no address, though they have existed as long.
        let claims = rig.world.look(|state| state.all(CLAIM, &scope.ns).count());
        ensure!(claims == ours.iter().filter(|one| **one).count(), "{mode}: {claims} claims");
        scope.leave().await.context(mode)?;
        allocator.stop().await?;
    }
    Ok(())
}

/// `--services=off`: claims are served; the allocator does not even read Services.
async fn off(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let allocator = rig.start_with("off", &["--leader-election=false", "--services=off"]).await?;
    let scope = rig.scope().await?;
    scope.default_pool("p", 10, 19).await?;
    scope.service("web").await?;
    scope.canary().await?;
    let service = scope.rig.server.get(&scope.service_path("web")).await?;
    ensure!(said(&service).is_none() && service["metadata"].get("annotations").is_none(), "{service}");
    let listed = allocator.metric("mooring_allocator_api_calls_total", &["resource=\"services\""]).await?;
    ensure!(listed.is_none(), "{listed:?} calls about Services");
    scope.leave().await
}
