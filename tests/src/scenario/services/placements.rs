//! VIPs placed as kube-vip places them: in one election with client-go's elector, which kube-vip uses. Then the change
//! to sessions.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::agents::AgentOptions;
use crate::assets;
use crate::host::{Process, Spec};
use crate::ipam::server::kube_vip_placement_roles;
use crate::ipam::services::ingress;
use crate::observe::echo;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("placements", global, "global-lease-with-client-go", 6).counting(),
        story!("placements", per_service, "lease-per-service-with-client-go", 6),
        story!("placements", per_service_crash, "lease-per-service-crash", 5).nightly(),
        story!("placements", as_kube_vip, "only-the-image-changed", 5).counting(),
        story!("placements", beside_allocator, "only-the-image-changed-beside-the-kind", 5).counting().nightly(),
        story!("placements", to_sessions, "on-to-sessions-node-by-node", 6).counting(),
    ]
}

/// The Lease that kube-vip's Services share, and its namespace.
const SHARED: (&str, &str) = ("kube-system", "plndr-svcs-lock");

/// As kube-vip's `DaemonSet` starts it, without other options.
fn kube_vips() -> AgentOptions {
    WorkerRig::options().env("MOORING_SERVICES", "").env("svc_enable", "true").env("prometheus_server", "")
}

/// With each Service's own Lease.
fn each() -> AgentOptions {
    kube_vips().env("svc_election", "true")
}

/// Grants the rights that the manifests give for the Lease, or for a Lease of each Service.
async fn allow(rig: &WorkerRig, per_service: bool) -> Result<()> {
    for object in kube_vip_placement_roles(per_service)? {
        rig.server.apply(&object).await.context("the role is refused")?;
    }
    Ok(())
}

/// client-go's elector for a Lease. After losing the Lease, the elector campaigns again.
async fn elector(rig: &WorkerRig, lease: (&str, &str)) -> Result<Process> {
    let program = tokio::task::spawn_blocking(|| assets::go_program("elector")).await??;
    let cluster = rig.lab().cluster()?;
    let config = cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &cluster.servers()[0])?;
    let path = rig.lab().dir().join("elector.conf");
    std::fs::write(&path, config)?;
    let spec = Spec::new("elector", program).args([
        format!("--kubeconfig={}", path.display()),
        format!("--namespace={}", lease.0),
        format!("--name={}", lease.1),
        "--identity=kube-vip".into(),
        "--release-on-cancel".into(),
        "--again".into(),
    ]);
    Ok(rig.lab().host("client")?.start(spec)?)
}

/// Waits until the Lease names that holder.
async fn named(rig: &WorkerRig, (namespace, name): (&str, &str), wanted: &str, limit: Duration) -> Result<()> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let deadline = now() + limit;
    loop {
        let lease = rig.server.get(&path).await.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder == wanted {
            return Ok(());
        }
        ensure!(now() < deadline, "{namespace}/{name} names {holder:?}, not {wanted}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the record of the n-th VIP says that the Lease assigns the VIP to that node.
async fn placed(rig: &WorkerRig, n: u8, node: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let text = rig.annotation(n, "mooring.dev/holder").await?.unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        if record["node"] == node && record["lease"].is_string() {
            return Ok(());
        }
        ensure!(now() < deadline, "the record of {} is {text:?}, not of {node}; {}", vip(n), rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn global(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::set(ctx, 3, 4, true).await?;
    allow(&rig, false).await?;
    let kube_vip = elector(&rig, SHARED).await?;
    named(&rig, SHARED, "kube-vip", SOON).await?;
    let from = now();
    rig.start_agents(&kube_vips())?;
    for n in 0..3 {
        rig.make(n, "Cluster").await?;
    }
    // kube-vip holds the Lease: no agent carries a VIP for longer than the Lease lasts.
    pass(20).await;
    for vip in rig.vips() {
        ensure!(rig.timeline(*vip).holds().is_empty(), "taken beside a holder: {vip}; {}", rig.logs());
    }
    named(&rig, SHARED, "kube-vip", Duration::ZERO).await?;
    let status = rig.status("w1").await?.services.context("nothing about Services")?;
    let first = status.vips.first().context("no VIP is shown")?;
    ensure!(status.placement == "global-lease" && first.holder == "kube-vip" && first.carried.is_none(), "{status:?}");

    // kube-vip dies: when its Lease has ended, an agent has all VIPs.
    let killed = kube_vip.kill()?;
    kube_vip.ended(SOON).await?;
    named(&rig, SHARED, "kube-vip", Duration::ZERO).await?;
    let deadline = now() + Duration::from_secs(30);
    while rig.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "not taken; {}", rig.logs());
        pass(1).await;
    }
    ctx.note(&format!("taken {} s after it was killed", now().since(killed).as_secs()));
    let holder = rig.settled(vip(0)).await?;
    for n in 0..3 {
        ensure!(rig.settled(vip(n)).await? == holder, "they are not together; {}", rig.logs());
        placed(&rig, n, &holder).await?;
    }
    named(&rig, SHARED, &holder, SOON).await?;
    // A new Service, and kube-vip's elector that comes back and must wait.
    rig.make(3, "Cluster").await?;
    ensure!(rig.settled(vip(3)).await? == holder, "it is not with the others");
    kube_vip.start()?;
    pass(18).await;
    named(&rig, SHARED, &holder, Duration::ZERO).await?;
    // The agent stops after SIGTERM: kube-vip or another node gets the Lease, and the agent serves until then. Here
    // another node that takes part gets it.
    kube_vip.kill()?;
    kube_vip.ended(SOON).await?;
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    rig.lab().agent(&holder)?.stop(Duration::from_secs(20)).await?;
    let second = rig.settled_but(vip(0), &[&holder]).await?;
    for n in 0..4 {
        ensure!(rig.settled_but(vip(n), &[&holder]).await? == second);
        rig.never_gone(vip(n), now() - Duration::from_secs(10))?;
    }
    rig.nothing_lost(prober)?;
    // The power of that node fails: the segment is the witness for all VIPs.
    pass(3).await;
    let crash = rig.crash(&second)?;
    let third = rig.settled_but(vip(0), &[&holder, &second]).await?;
    ctx.note(&format!("{third} has them {} ms after the power of {second} failed", now().since(crash).as_millis()));
    ensure!(now().since(crash) < Duration::from_secs(8), "they moved late; {}", rig.logs());
    for n in 0..4 {
        ensure!(rig.settled_but(vip(n), &[&second]).await? == third);
        rig.never_shared(vip(n), from)?;
    }
    Ok(())
}

async fn per_service(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 4, true).await?;
    allow(&rig, true).await?;
    let own = ("default", "kubevip-s0");
    let kube_vip = elector(&rig, own).await?;
    named(&rig, own, "kube-vip", SOON).await?;
    let from = now();
    rig.start_agents(&each())?;
    for n in 0..3 {
        rig.make(n, "Cluster").await?;
    }
    rig.make(3, "Local").await?;
    rig.endpoints(3, &[("w2", true)]).await?;
    for n in [1, 2, 3] {
        let holder = rig.settled(vip(n)).await?;
        named(&rig, ("default", &format!("kubevip-s{n}")), &holder, SOON).await?;
        placed(&rig, n, &holder).await?;
    }
    ensure!(rig.settled(vip(3)).await? == "w2", "only w2 has an endpoint; {}", rig.logs());
    // The agents leave kube-vip's VIP to kube-vip.
    pass(20).await;
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "taken beside a holder; {}", rig.logs());
    // kube-vip gives up the Lease.
    kube_vip.terminate()?;
    kube_vip.ended(SOON).await?;
    let first = rig.settled(vip(0)).await?;
    named(&rig, own, &first, SOON).await?;
    // kube-vip comes back and must wait; the endpoint of the Service with policy `Local` moves, and the VIP moves with
    // it.
    kube_vip.start()?;
    rig.endpoints(3, &[("w2", true), ("w1", true)]).await?;
    pass(3).await;
    ensure!(rig.settled(vip(3)).await? == "w2", "it moved without need");
    rig.endpoints(3, &[("w1", true)]).await?;
    ensure!(rig.settled_but(vip(3), &["w2"]).await? == "w1");
    // The last endpoint goes: the VIP stays.
    rig.endpoints(3, &[]).await?;
    pass(5).await;
    ensure!(rig.settled(vip(3)).await? == "w1");
    // The node ends: kube-vip takes the VIP that the node gives up, and the agents leave it to kube-vip again.
    for node in &rig.nodes {
        rig.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
    }
    named(&rig, own, "kube-vip", Duration::from_secs(30)).await?;
    for n in 0..4 {
        ensure!(rig.timeline(vip(n)).holders_at(now()).is_empty(), "left behind; {}", rig.logs());
        rig.never_shared(vip(n), from)?;
    }
    Ok(())
}

/// A node of ours dies with several Services' Leases. The Lease of each would end after 15 s: the others do not wait for that. A holder
/// that is kube-vip, and dies at the same time, is waited for.
async fn per_service_crash(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::set(ctx, 3, 5, true).await?;
    allow(&rig, true).await?;
    let theirs = ("default", "kubevip-s4");
    let kube_vip = elector(&rig, theirs).await?;
    named(&rig, theirs, "kube-vip", SOON).await?;
    let from = now();
    rig.start_agents(&each())?;
    for n in 0..5 {
        rig.make(n, "Cluster").await?;
    }
    let mut victim = String::new();
    for n in 0..4 {
        victim = rig.settled(vip(n)).await?;
    }
    // Candidates and holders know each other by what they write on the Leases.
    pass(5).await;
    let had = rig.carried_by(&victim);
    ensure!(!had.is_empty(), "{victim} has none; {}", rig.logs());
    kube_vip.kill()?;
    kube_vip.ended(SOON).await?;
    let crash = rig.crash(&victim)?;
    for vip in &had {
        rig.settled_but(*vip, &[&victim]).await?;
    }
    let took = now().since(crash);
    ctx.note(&format!("{} VIPs on other nodes {} ms after the power of {victim} failed", had.len(), took.as_millis()));
    ensure!(took < Duration::from_secs(8), "the Leases were waited for; {}", rig.logs());
    named(&rig, theirs, "kube-vip", Duration::ZERO).await?;
    for n in 0..5 {
        rig.never_shared(vip(n), from)?;
    }
    Ok(())
}

/// No kind `IPAddress`, kube-vip's own role, kube-vip's cloud provider: only the image differs.
async fn as_kube_vip(ctx: &mut Ctx<()>) -> Result<()> {
    by_kube_vips_role(&WorkerRig::set(ctx, 2, 3, false).await?).await
}

/// The kind is there, and kube-vip's role has no right to see it.
async fn beside_allocator(ctx: &mut Ctx<()>) -> Result<()> {
    by_kube_vips_role(&WorkerRig::set(ctx, 2, 3, true).await?).await
}

async fn by_kube_vips_role(rig: &WorkerRig) -> Result<()> {
    // The part of an agent's rights that kube-vip's generated role has; the test deletes the manifests' own role.
    rig.server.delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mooring-agent").await?;
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
    rig.server.apply(&role("ClusterRole", json!({"rules": rules}))).await?;
    let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kube-vip"});
    let subject = json!({"kind": "ServiceAccount", "name": "mooring-agent", "namespace": "kube-system"});
    rig.server.apply(&role("ClusterRoleBinding", json!({"roleRef": to, "subjects": [subject]}))).await?;
    let from = now();
    rig.start_agents(&kube_vips())?;
    // Addresses set by kube-vip's cloud provider, and by hand.
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
        rig.server.create("/api/v1/namespaces/default/services", &object).await.context("the Service is refused")?;
    }
    let holder = rig.settled(vip(0)).await?;
    ensure!(rig.settled(vip(1)).await? == holder, "they are not together; {}", rig.logs());
    ensure!(rig.logs().contains("Services themselves state"), "it does not say so: {}", rig.logs());
    holds(rig, &holder).await?;
    told(rig, &holder).await?;
    // A killed agent finds its own VIPs again after a restart.
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let agent = rig.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    agent.start_again()?;
    pass(15).await;
    ensure!(rig.settled(vip(0)).await? == holder, "it moved; {}", rig.logs());
    rig.lab().agent(&holder)?.stop(Duration::from_secs(20)).await?;
    for n in 0..2 {
        let second = rig.settled_but(vip(n), &[&holder]).await?;
        ensure!(second != holder);
        rig.never_shared(vip(n), from)?;
    }
    rig.nothing_lost(prober)?;
    let second = rig.settled(vip(0)).await?;
    told(rig, &second).await?;
    asks_for_another(rig).await
}

/// The first Service asks for the third VIP, and then for nothing: its status shows that address alone, and no node carries the one
/// from before.
async fn asks_for_another(rig: &WorkerRig) -> Result<()> {
    let path = "/api/v1/namespaces/default/services/s0";
    // Somebody else's.
    let mut all = rig.server.get(path).await?["status"]["loadBalancer"]["ingress"].clone();
    all.as_array_mut().context("it shows no address")?.push(json!({"ip": "192.0.2.9"}));
    rig.server.merge(&format!("{path}/status"), &json!({"status": {"loadBalancer": {"ingress": all}}})).await?;
    for asked in [Some(vip(2).to_string()), None] {
        let change = json!({"metadata": {"annotations": {"kube-vip.io/loadbalancerIPs": asked}}});
        rig.server.merge(path, &change).await?;
        let wanted = [vip(2).to_string(), "192.0.2.9".to_owned()];
        let deadline = now() + SOON;
        loop {
            let service = rig.server.get(path).await?;
            let mut shown = ingress(&service);
            shown.sort();
            if shown == wanted && rig.timeline(vip(0)).holders_at(now()).is_empty() {
                break;
            }
            ensure!(now() < deadline, "{asked:?}: {service}; {}", rig.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        rig.settled(vip(2)).await?;
    }
    Ok(())
}

/// Waits until the node says that it holds the first VIP: the kernel has an address a moment before the agent says so.
async fn holds(rig: &WorkerRig, node: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let status = rig.status(node).await?.services.context("nothing about Services")?;
        let one = status.vips.first().context("no VIP is shown")?;
        if one.carried.as_deref() == Some("holding") && one.services == ["default/s0"] {
            return Ok(());
        }
        ensure!(now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until both Services name the node as the holder of their addresses, in kube-vip's form.
async fn told(rig: &WorkerRig, node: &str) -> Result<()> {
    for n in 0..2 {
        let deadline = now() + SOON;
        loop {
            let service = rig.server.get(&format!("/api/v1/namespaces/default/services/s{n}")).await?;
            let host = service["metadata"]["annotations"]["kube-vip.io/vipHost"] == node;
            let shown = &service["status"]["loadBalancer"]["ingress"];
            if host && shown.as_array().is_some_and(|all| all.len() == 1 && all[0]["ip"] == vip(n).to_string()) {
                break;
            }
            ensure!(now() < deadline, "it does not say so: {service}; {}", rig.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

async fn to_sessions(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 6, true).await?;
    allow(&rig, false).await?;
    let from = now();
    rig.start_agents(&kube_vips())?;
    for n in 0..6 {
        rig.make(n, "Cluster").await?;
    }
    let last = rig.settled(vip(0)).await?;
    for n in 0..6 {
        ensure!(rig.settled(vip(n)).await? == last);
        placed(&rig, n, &last).await?;
    }
    let sessions = kube_vips().env("MOORING_SERVICES_PLACEMENT", "session");
    let others: Vec<String> = rig.nodes.iter().filter(|node| **node != last).cloned().collect();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&last), SOON).await?;
    for node in &others {
        rig.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
        rig.start_agent(node, &sessions)?;
    }
    // The agents hear the VIPs on the wire, and leave them alone. They do not report a conflict, which would cost a
    // Service its address.
    pass(15).await;
    for n in 0..6 {
        ensure!(rig.settled(vip(n)).await? == last, "it moved; {}", rig.logs());
        placed(&rig, n, &last).await?;
        ensure!(rig.annotation(n, "mooring.dev/conflict").await?.is_none(), "told as a conflict; {}", rig.logs());
        rig.never_gone(vip(n), from + SOON)?;
    }
    rig.nothing_lost(prober)?;
    // The last agent: from here on sessions decide.
    let ends = now();
    rig.lab().agent(&last)?.stop(Duration::from_secs(20)).await?;
    rig.start_agent(&last, &sessions)?;
    for n in 0..6 {
        let deadline = now() + SOON;
        while !rig.recorded(n).await.is_ok_and(|holder| holder.is_some()) {
            ensure!(now() < deadline, "no session has it; {}", rig.logs());
            pass(1).await;
        }
        let holder = rig.settled(vip(n)).await?;
        rig.recorded_as(n, &holder).await?;
    }
    pass(5).await;
    let mut longest = Duration::ZERO;
    for n in 0..6 {
        rig.never_shared(vip(n), from)?;
        longest = longest.max(total(&rig.timeline(vip(n)).nobody(ends, now())));
    }
    ctx.note(&format!("nobody had a VIP for {} ms when the last node was moved", longest.as_millis()));
    ensure!(longest < SOON, "out for too long; {}", rig.logs());
    Ok(())
}
