//! VIPs placed as kube-vip places them: in one election with client-go's elector, which kube-vip uses, and on to sessions.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::field::{Field, SOON, vip};
use crate::agents::AgentOptions;
use crate::assets;
use crate::host::{Process, Spec};
use crate::ipam::server::documents_in;
use crate::observe::echo;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::runner::{Ctx, Test};
use crate::scenario::scene::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("placements", global, "global-lease-with-client-go", 6, alone: true),
        story!("placements", per_service, "lease-per-service-with-client-go", 6),
        story!("placements", as_kube_vip, "only-the-image-changed", 5, alone: true),
        story!("placements", beside_allocator, "only-the-image-changed-beside-the-kind", 5, alone: true),
        story!("placements", to_sessions, "on-to-sessions-node-by-node", 6, alone: true),
    ]
}

/// The Lease that kube-vip's Services share, and its namespace.
const SHARED: (&str, &str) = ("kube-system", "plndr-svcs-lock");

/// As kube-vip's `DaemonSet` starts it, and nothing else.
fn kube_vips() -> AgentOptions {
    Field::options().env("MOORING_SERVICES", "").env("svc_enable", "true").env("prometheus_server", "")
}

/// With each Service's own Lease.
fn each() -> AgentOptions {
    kube_vips().env("svc_election", "true")
}

/// The rights that the manifests give for it.
async fn allow(field: &Field) -> Result<()> {
    for object in documents_in("agent/kube-vip-placement/rbac.yaml")? {
        field.server.apply(&object).await.context("the role is refused")?;
    }
    Ok(())
}

/// client-go's elector for a Lease. It campaigns again when it has lost it.
async fn elector(field: &Field, lease: (&str, &str)) -> Result<Process> {
    let program = tokio::task::spawn_blocking(|| assets::go_program("elector")).await??;
    let cluster = field.lab().cluster()?;
    let config = cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &cluster.servers()[0])?;
    let path = field.lab().dir().join("elector.conf");
    std::fs::write(&path, config)?;
    let spec = Spec::new("elector", program).args([
        format!("--kubeconfig={}", path.display()),
        format!("--namespace={}", lease.0),
        format!("--name={}", lease.1),
        "--identity=kube-vip".into(),
        "--release-on-cancel".into(),
        "--again".into(),
    ]);
    Ok(field.lab().host("client")?.start(spec)?)
}

/// Waits until the Lease names that holder.
async fn named(field: &Field, (namespace, name): (&str, &str), wanted: &str, limit: Duration) -> Result<()> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let deadline = now() + limit;
    loop {
        let lease = field.server.get(&path).await.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder == wanted {
            return Ok(());
        }
        ensure!(now() < deadline, "{namespace}/{name} names {holder:?}, not {wanted}; {}", field.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the record of the n-th VIP says that the Lease gives it to that node.
async fn placed(field: &Field, n: u8, node: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let text = field.annotation(n, "mooring.dev/holder").await?.unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        if record["node"] == node && record["lease"].is_string() {
            return Ok(());
        }
        ensure!(now() < deadline, "the record of {} is {text:?}, not of {node}; {}", vip(n), field.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn global(ctx: &mut Ctx<()>) -> Result<()> {
    let mut field = Field::set(ctx, 3, 4, true).await?;
    allow(&field).await?;
    let kube_vip = elector(&field, SHARED).await?;
    named(&field, SHARED, "kube-vip", SOON).await?;
    let from = now();
    field.start_agents(&kube_vips())?;
    for n in 0..3 {
        field.make(n, "Cluster").await?;
    }
    // It holds the Lease: no VIP is carried for longer than that lasts.
    pass(20).await;
    for vip in field.vips() {
        ensure!(field.timeline(*vip).holds().is_empty(), "taken beside a holder: {vip}; {}", field.logs());
    }
    named(&field, SHARED, "kube-vip", Duration::ZERO).await?;
    let status = field.status("w1").await?.services.context("nothing about Services")?;
    let first = status.vips.first().context("no VIP is shown")?;
    ensure!(status.placement == "global-lease" && first.holder == "kube-vip" && first.carried.is_none(), "{status:?}");

    // It dies: when its Lease has ended an agent has all of them.
    let killed = kube_vip.kill()?;
    kube_vip.ended(SOON).await?;
    named(&field, SHARED, "kube-vip", Duration::ZERO).await?;
    let deadline = now() + Duration::from_secs(30);
    while field.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "not taken; {}", field.logs());
        pass(1).await;
    }
    ctx.note(&format!("taken {} s after it was killed", now().since(killed).as_secs()));
    let holder = field.settled(vip(0)).await?;
    for n in 0..3 {
        ensure!(field.settled(vip(n)).await? == holder, "they are not together; {}", field.logs());
        placed(&field, n, &holder).await?;
    }
    named(&field, SHARED, &holder, SOON).await?;
    // A Service that comes now, and kube-vip's that comes back and has to wait.
    field.make(3, "Cluster").await?;
    ensure!(field.settled(vip(3)).await? == holder, "it is not with the others");
    kube_vip.start()?;
    pass(18).await;
    named(&field, SHARED, &holder, Duration::ZERO).await?;
    // It ends as asked: kube-vip or another node has the Lease, and it serves until then. Here it is a node that takes part.
    kube_vip.kill()?;
    kube_vip.ended(SOON).await?;
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    field.lab().agent(&holder)?.stop(Duration::from_secs(20)).await?;
    let second = field.settled_but(vip(0), &[&holder]).await?;
    for n in 0..4 {
        ensure!(field.settled_but(vip(n), &[&holder]).await? == second);
        field.never_gone(vip(n), now() - Duration::from_secs(10))?;
    }
    field.nothing_lost(prober)?;
    // The power of that one fails: the segment is the witness for all of them.
    pass(3).await;
    let crash = field.crash(&second)?;
    let third = field.settled_but(vip(0), &[&holder, &second]).await?;
    ctx.note(&format!("{third} has them {} ms after the power of {second} failed", now().since(crash).as_millis()));
    ensure!(now().since(crash) < Duration::from_secs(8), "they moved late; {}", field.logs());
    for n in 0..4 {
        ensure!(field.settled_but(vip(n), &[&second]).await? == third);
        field.never_shared(vip(n), from)?;
    }
    Ok(())
}

async fn per_service(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 4, true).await?;
    allow(&field).await?;
    let own = ("default", "kubevip-s0");
    let kube_vip = elector(&field, own).await?;
    named(&field, own, "kube-vip", SOON).await?;
    let from = now();
    field.start_agents(&each())?;
    for n in 0..3 {
        field.make(n, "Cluster").await?;
    }
    field.make(3, "Local").await?;
    field.endpoints(3, &[("w2", true)]).await?;
    for n in [1, 2, 3] {
        let holder = field.settled(vip(n)).await?;
        named(&field, ("default", &format!("kubevip-s{n}")), &holder, SOON).await?;
        placed(&field, n, &holder).await?;
    }
    ensure!(field.settled(vip(3)).await? == "w2", "only w2 has an endpoint; {}", field.logs());
    // The one that kube-vip has is left to it.
    pass(20).await;
    ensure!(field.timeline(vip(0)).holds().is_empty(), "taken beside a holder; {}", field.logs());
    // It gives it up.
    kube_vip.terminate()?;
    kube_vip.ended(SOON).await?;
    let first = field.settled(vip(0)).await?;
    named(&field, own, &first, SOON).await?;
    // It comes back, and has to wait; the endpoint of the Local one moves, and with it the VIP.
    kube_vip.start()?;
    field.endpoints(3, &[("w2", true), ("w1", true)]).await?;
    pass(3).await;
    ensure!(field.settled(vip(3)).await? == "w2", "it moved without need");
    field.endpoints(3, &[("w1", true)]).await?;
    ensure!(field.settled_but(vip(3), &["w2"]).await? == "w1");
    // The last one goes: it stays.
    field.endpoints(3, &[]).await?;
    pass(5).await;
    ensure!(field.settled(vip(3)).await? == "w1");
    // The node ends: kube-vip takes what it gives up, and the agents leave that to it again.
    for node in &field.nodes {
        field.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
    }
    named(&field, own, "kube-vip", Duration::from_secs(30)).await?;
    for n in 0..4 {
        ensure!(field.timeline(vip(n)).holders_at(now()).is_empty(), "left behind; {}", field.logs());
        field.never_shared(vip(n), from)?;
    }
    Ok(())
}

/// No kind `IPAddress`, kube-vip's own role, kube-vip's cloud provider: only the image is another.
async fn as_kube_vip(ctx: &mut Ctx<()>) -> Result<()> {
    by_kube_vips_role(&Field::set(ctx, 2, 2, false).await?).await
}

/// The kind is there, and kube-vip's role has no right to see it.
async fn beside_allocator(ctx: &mut Ctx<()>) -> Result<()> {
    by_kube_vips_role(&Field::set(ctx, 2, 2, true).await?).await
}

async fn by_kube_vips_role(field: &Field) -> Result<()> {
    // What kube-vip's generated role has of what an agent needs; the manifests' own is taken away.
    field.server.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mooring-agent").await?;
    let rules = json!([
        {"apiGroups": [""], "resources": ["services", "nodes"], "verbs": ["list", "get", "watch", "update"]},
        {"apiGroups": [""], "resources": ["services/status"], "verbs": ["update"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "get", "watch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "get", "watch", "update", "create"]},
    ]);
    let role = |kind: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "kube-vip"}});
        if let (Some(all), Some(more)) = (object.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        object
    };
    field.server.apply(&role("ClusterRole", json!({"rules": rules}))).await?;
    let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kube-vip"});
    let subject = json!({"kind": "ServiceAccount", "name": "mooring-agent", "namespace": "kube-system"});
    field.server.apply(&role("ClusterRoleBinding", json!({"roleRef": to, "subjects": [subject]}))).await?;
    let from = now();
    field.start_agents(&kube_vips())?;
    // By kube-vip's cloud provider, and by hand.
    for (n, annotations, more) in [
        (0, json!({"kube-vip.io/loadbalancerIPs": vip(0).to_string()}), json!({})),
        (1, json!({}), json!({"loadBalancerIP": vip(1).to_string()})),
    ] {
        let mut spec = json!({
            "type": "LoadBalancer", "selector": {"app": "echo"},
            "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}],
        });
        if let (Some(all), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("s{n}"), "namespace": "default", "annotations": annotations}, "spec": spec,
        });
        field.server.create("/api/v1/namespaces/default/services", &object).await.context("the Service is refused")?;
    }
    let holder = field.settled(vip(0)).await?;
    ensure!(field.settled(vip(1)).await? == holder, "they are not together; {}", field.logs());
    ensure!(field.logs().contains("Services themselves state"), "it does not say so: {}", field.logs());
    let status = field.status(&holder).await?.services.context("nothing about Services")?;
    let one = status.vips.first().context("no VIP is shown")?;
    ensure!(one.carried.as_deref() == Some("holding") && one.services == ["default/s0"], "{status:?}");
    told(field, &holder).await?;
    // An agent that is killed finds what it left behind.
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let agent = field.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    agent.start_again()?;
    pass(15).await;
    ensure!(field.settled(vip(0)).await? == holder, "it moved; {}", field.logs());
    field.lab().agent(&holder)?.stop(Duration::from_secs(20)).await?;
    for n in 0..2 {
        let second = field.settled_but(vip(n), &[&holder]).await?;
        ensure!(second != holder);
        field.never_shared(vip(n), from)?;
    }
    field.nothing_lost(prober)?;
    let second = field.settled(vip(0)).await?;
    told(field, &second).await
}

/// Waits until both Services say that the node has their addresses, as kube-vip has it.
async fn told(field: &Field, node: &str) -> Result<()> {
    for n in 0..2 {
        let deadline = now() + SOON;
        loop {
            let service = field.server.get(&format!("/api/v1/namespaces/default/services/s{n}")).await?;
            let host = service["metadata"]["annotations"]["kube-vip.io/vipHost"] == node;
            let shown = &service["status"]["loadBalancer"]["ingress"];
            if host && shown.as_array().is_some_and(|all| all.len() == 1 && all[0]["ip"] == vip(n).to_string()) {
                break;
            }
            ensure!(now() < deadline, "it does not say so: {service}; {}", field.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

async fn to_sessions(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 6, true).await?;
    allow(&field).await?;
    let from = now();
    field.start_agents(&kube_vips())?;
    for n in 0..6 {
        field.make(n, "Cluster").await?;
    }
    let last = field.settled(vip(0)).await?;
    for n in 0..6 {
        ensure!(field.settled(vip(n)).await? == last);
        placed(&field, n, &last).await?;
    }
    let sessions = kube_vips().env("MOORING_SERVICES_PLACEMENT", "session");
    let others: Vec<String> = field.nodes.iter().filter(|node| **node != last).cloned().collect();
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&last), SOON).await?;
    for node in &others {
        field.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
        field.start_agent(node, &sessions)?;
    }
    // They find it on the wire, and leave it alone. It is no conflict that would cost a Service its address.
    pass(15).await;
    for n in 0..6 {
        ensure!(field.settled(vip(n)).await? == last, "it moved; {}", field.logs());
        placed(&field, n, &last).await?;
        ensure!(field.annotation(n, "mooring.dev/conflict").await?.is_none(), "told as a conflict; {}", field.logs());
        field.never_gone(vip(n), from + SOON)?;
    }
    field.nothing_lost(prober)?;
    // The last one: from here on sessions decide.
    let ends = now();
    field.lab().agent(&last)?.stop(Duration::from_secs(20)).await?;
    field.start_agent(&last, &sessions)?;
    for n in 0..6 {
        let deadline = now() + SOON;
        while !field.recorded(n).await.is_ok_and(|holder| holder.is_some()) {
            ensure!(now() < deadline, "no session has it; {}", field.logs());
            pass(1).await;
        }
        let holder = field.settled(vip(n)).await?;
        field.recorded_as(n, &holder).await?;
    }
    pass(5).await;
    let mut longest = Duration::ZERO;
    for n in 0..6 {
        field.never_shared(vip(n), from)?;
        longest = longest.max(total(&field.timeline(vip(n)).nobody(ends, now())));
    }
    ctx.note(&format!("nobody had a VIP for {} ms when the last node was moved", longest.as_millis()));
    ensure!(longest < SOON, "out for too long; {}", field.logs());
    Ok(())
}
