//! The acts about Services of type `LoadBalancer`: pods, kube-proxy, our `DaemonSet` and allocator as the
//! manifests are.

use std::io::Stdout;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::cluster::{KubeadmCluster, READY};
use super::images::{BACKEND, BACKEND_PORT};
use super::story::s;
use crate::observe::now;
use crate::report::{Report, Tone};
use crate::rig::traffic::QUESTION;
use crate::traffic::{Answer, Protocol, Stream, ask};

/// The Service.
const WEB: &str = "web";
/// Its port.
const PORT: u16 = 80;
/// kube-vip's `ConfigMap`: the quickest way to a pool.
const POOL: &str = "10.77.0.200/30";
/// How long a Service may take from its creation to an answer, on a busy machine.
const EXPOSED: Duration = Duration::from_secs(20);
/// Questions in a row.
const QUESTIONS: usize = 20;
/// Questions that may fail while a Service's VIP or its endpoints move.
const FAILED: usize = 3;

/// `kubectl apply -k`, and a pool.
pub async fn install(cluster: &KubeadmCluster) -> Result<String> {
    let begin = now();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/overlays/services");
    let folder = folder.canonicalize().context("find the manifests")?;
    // Dozens of objects, some of which the API server has to compile.
    cluster.kubectl_within(["apply", "--kustomize", &folder.display().to_string()], READY).await?;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip", "namespace": "kube-system"},
        "data": {"cidr-global": POOL},
    });
    cluster.apply("pool", &[config]).await?;
    let count = |path: &'static str| {
        move |object: &Value| object.pointer(path).and_then(Value::as_u64).is_some_and(|ready| ready >= 2)
    };
    let agents = ["--namespace=kube-system", "daemonset", "mooring-agent"];
    cluster.until(&agents, READY, count("/status/numberReady")).await.map_err(|error| told(error, cluster))?;
    let allocators = ["--namespace=mooring-system", "deployment", "mooring-allocator"];
    cluster.until(&allocators, READY, count("/status/readyReplicas")).await?;
    Ok(format!("two agents and two allocators ready after {}", s(now().since(begin))))
}

/// Two pods and a Service; the client asks it.
pub async fn expose(cluster: &KubeadmCluster) -> Result<String> {
    let labels = json!({"app": WEB});
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }]);
    let node = json!({"fieldRef": {"fieldPath": "spec.nodeName"}});
    let pods = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB, "namespace": "default"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "topologySpreadConstraints": spread,
                    "containers": [{
                        "name": WEB, "image": BACKEND,
                        "env": [{"name": "NODE", "valueFrom": node}],
                        "readinessProbe": {"httpGet": {"path": "/", "port": BACKEND_PORT}, "periodSeconds": 1},
                    }],
                },
            },
        },
    });
    cluster.apply("pods", &[pods]).await?;
    let ready = |object: &Value| object.pointer("/status/readyReplicas").and_then(Value::as_u64) == Some(2);
    cluster.until(&["deployment", WEB], READY, ready).await?;
    // Only the nodes with a pod answer for it, so its VIP has to be on one of them.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": WEB, "namespace": "default"},
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": labels,
            "ports": [{"port": PORT, "targetPort": BACKEND_PORT}],
        },
    });
    let applied = cluster.apply("service", &[service]).await?;
    let to = SocketAddr::new(external_ip(cluster).await?, PORT);
    let answer = answered(cluster, to, |_| true).await?;
    let took = now().since(applied.from);
    let client: IpAddr = cluster.rig.lab.host("client")?.ip4().into();
    let found = format!("{to} answers {} after kubectl apply began: {} sees {}", s(took), answer.backend, answer.sees);
    ensure!(answer.sees == client, "{found}, not the client's {client}");
    ensure!(took <= EXPOSED, "{found}; allowed: {}", s(EXPOSED));
    Ok(found)
}

/// The node with the VIP is drained, by kubectl and by our annotation; then it comes back.
pub async fn drain(report: &mut Report<Stdout>, cluster: &KubeadmCluster) -> Result<String> {
    let to = SocketAddr::new(external_ip(cluster).await?, PORT);
    let holder = holder(cluster).await?;
    let stream = Stream::start(&cluster.rig.client()?, Protocol::Tcp, to, QUESTION)?;
    let begin = now();
    cluster.kubectl(["annotate", "node", &holder, "mooring.dev/drain=true"]).await?;
    report
        .event(Tone::Plain, &format!("{holder}, which carries {}, is annotated with mooring.dev/drain=true", to.ip()));
    let next = moved(cluster, &holder).await?;
    let moved_after = now().since(begin);
    cluster.kubectl_within(["drain", &holder, "--ignore-daemonsets", "--delete-emptydir-data"], READY).await?;
    report.event(Tone::Plain, &format!("kubectl has drained {holder}; {next} carries the VIP"));
    answered(cluster, to, |answer| answer.backend == next).await?;
    cluster.kubectl(["uncordon", &holder]).await?;
    cluster.kubectl(["annotate", "node", &holder, "mooring.dev/drain-"]).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (asked, failed) = (stream.asked().len(), stream.unanswered(begin));
    let mut found =
        format!("{next} has the VIP after {}; {} of {asked} questions failed", s(moved_after), failed.len());
    if let Some(Err(why)) = failed.first().map(|one| &one.answer) {
        found = format!("{found} (the first: {why})");
    }
    ensure!(failed.len() <= FAILED, "{found}; allowed: {FAILED}");
    Ok(found)
}

async fn external_ip(cluster: &KubeadmCluster) -> Result<IpAddr> {
    let ip = |service: &Value| {
        service.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str).map(str::to_owned)
    };
    let service = cluster.until(&["service", WEB], EXPOSED, |service| ip(service).is_some()).await?;
    Ok(ip(&service).context("it has no address")?.parse()?)
}

/// The node that the Service names as that of its VIP.
async fn holder(cluster: &KubeadmCluster) -> Result<String> {
    let service = cluster.until(&["service", WEB], EXPOSED, |service| host(service).is_some()).await?;
    host(&service).context("no node has its VIP")
}

async fn moved(cluster: &KubeadmCluster, from: &str) -> Result<String> {
    let other = |service: &Value| host(service).is_some_and(|host| host != from);
    let service = cluster.until(&["service", WEB], EXPOSED, other).await?;
    host(&service).context("no node has its VIP")
}

fn host(service: &Value) -> Option<String> {
    service.pointer("/metadata/annotations/kube-vip.io~1vipHost").and_then(Value::as_str).map(str::to_owned)
}

/// Asks the Service until it answers, and some times more: then every question must be answered.
pub async fn answer(cluster: &KubeadmCluster) -> Result<String> {
    let to = SocketAddr::new(external_ip(cluster).await?, PORT);
    answered(cluster, to, |_| true).await?;
    let client: IpAddr = cluster.rig.lab.host("client")?.ip4().into();
    for _ in 0..QUESTIONS {
        let from = cluster.rig.client()?;
        let answer = tokio::task::spawn_blocking(move || ask(&from, Protocol::Tcp, to, QUESTION)).await??;
        let answer = answer.with_context(|| format!("{to} answers no more"))?;
        ensure!(answer.sees == client, "{} sees {}, not the client's {client}", answer.backend, answer.sees);
    }
    Ok(format!("{to} answers {QUESTIONS} of {QUESTIONS} questions, and sees the client's address"))
}

/// Asks from the client until the wanted backend answers.
async fn answered(cluster: &KubeadmCluster, to: SocketAddr, wanted: impl Fn(&Answer) -> bool) -> Result<Answer> {
    let deadline = now() + EXPOSED;
    loop {
        let client = cluster.rig.client()?;
        match tokio::task::spawn_blocking(move || ask(&client, Protocol::Tcp, to, QUESTION)).await?? {
            Ok(answer) if wanted(&answer) => return Ok(answer),
            other if now() > deadline => bail!("{to}: {other:?}{}", cluster.logs()),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// With what the kubelets say.
fn told(error: anyhow::Error, cluster: &KubeadmCluster) -> anyhow::Error {
    error.context(cluster.logs())
}
