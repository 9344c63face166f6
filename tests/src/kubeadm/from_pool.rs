//! From a pool to an API server that answers: a Cluster of Cluster API gets its endpoint from the allocator, and kubeadm is fed with
//! the bootstrap data that Cluster API makes of it. Nobody types the address.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::cloud_config;
use super::cluster::{KubeadmCluster, Parts, put};
use super::config;
use super::images::REPOSITORY;
use super::run::run;
use super::story::{PATIENCE, s};
use crate::assets::{self, KUBERNETES};
use crate::ipam::cluster_parts;
use crate::ipam::endpoint::{ARGS, rights};
use crate::ipam::managers::{Managers, infrastructure, until};
use crate::ipam::scope::{POOL, Scope};
use crate::ipam::server::Crds;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::runner::Skip;

/// The only control plane.
const NODE: &str = "cp1";
/// The name of the Cluster.
const NAME: &str = "prod";
/// What the static pod says before it gets its address.
const ELSEWHERE: &str = "192.0.2.10";
/// How long `kubeadm init` may take on a busy machine.
const MADE: Duration = Duration::from_mins(5);
/// A folder of patches for kubeadm: Cluster API's kinds have no place for the kubelet's own settings.
const PATCHES: &str = "/etc/kubernetes/patches";

/// The whole way, on a machine of its own beside a management cluster.
pub async fn all_the_way(parts: &Parts) -> Result<String> {
    let cluster = KubeadmCluster::machines(parts, &[NODE]).await?;
    let outcome = on(&cluster, parts).await;
    let outcome = outcome.with_context(|| cluster.logs());
    cluster.down();
    outcome
}

async fn on(cluster: &KubeadmCluster, parts: &Parts) -> Result<String> {
    let management = AllocatorRig::up(Crds::ClusterApi).await?;
    let managers =
        Managers::start(&management.server).await.map_err(|error| match error.downcast::<assets::Error>() {
            Ok(error) => Skip(error.to_string()).into(),
            Err(other) => other,
        })?;
    rights(&management).await?;
    let allocator = management.start_with("allocator", &ARGS).await?;
    let scope = management.scope().await?;
    let vip = cluster.rig.lab.vip();
    scope.create(POOL, "endpoints", json!({"addresses": [vip.to_string()], "prefix": 24}), json!({})).await?;

    let from = now();
    let pod = cluster.manifest(ELSEWHERE, &parts.images.agent).await?;
    let made = cluster_parts::Parts { scope: &scope, name: NAME.to_owned() };
    made.create_for_machine(&pod, &format!("v{KUBERNETES}"), kubeadm(cluster)?).await?;
    let (data, kubeconfig) = tokio::select! {
        found = bootstrap(&managers, &made, &scope) => found?,
        ended = infrastructure(&management.server, &scope.ns) => { ended?; bail!("the stand-in for the infrastructure has ended") }
    };
    let written = now().since(from);
    ensure!(!data.contains(ELSEWHERE), "the address of before is still there:\n{data}");

    let machine = cluster.machine(NODE)?;
    let script = put(machine, "bootstrap.sh", &cloud_config::script(&data)?)?;
    let prober = cluster.rig.prober()?;
    let begin = now();
    run(&machine.host, machine.shell("bootstrap").args([script]), MADE)
        .await
        .with_context(|| machine.log("kubelet", 8))?;
    prober.answer_after(begin, Some(NODE), PATIENCE).await?;
    fs::write(cluster.kubeconfig(), kubeconfig).context("write the Cluster's kubeconfig")?;
    // The far end: the kubeconfig that Cluster API made, through the VIP.
    cluster.kubectl(["get", "--raw=/readyz"]).await.context("the API does not answer on the pool's address")?;
    cluster.nodes_ready().await?;
    allocator.stop().await?;
    Ok(format!(
        "{vip} from the pool: bootstrap data after {}, node {NODE} ready through the VIP after {}",
        s(written),
        s(now().since(from))
    ))
}

/// The bootstrap data of the first Machine, and the Cluster's kubeconfig.
async fn bootstrap(
    managers: &Managers,
    made: &cluster_parts::Parts<'_>,
    scope: &Scope<'_>,
) -> Result<(String, String)> {
    let configs = format!("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/{}/kubeadmconfigs", scope.ns);
    let secret = until(managers, "bootstrap data", || async {
        let list = scope.rig.server.get(&configs).await?;
        Ok(list.pointer("/items/0/status/dataSecretName").and_then(Value::as_str).map(str::to_owned))
    });
    let data = made.secret(&secret.await?, "value").await?;
    let kubeconfig =
        until(managers, "a kubeconfig", async || Ok(made.secret(&format!("{NAME}-kubeconfig"), "value").await.ok()));
    Ok((data, kubeconfig.await?))
}

/// What the `KubeadmControlPlane` says besides the static pod: what this machine needs, and no address.
fn kubeadm(cluster: &KubeadmCluster) -> Result<Value> {
    let host = &cluster.machine(NODE)?.host;
    let kubelet =
        json!({"path": format!("{PATCHES}/kubeletconfiguration+merge.json"), "content": config::kubelet().to_string()});
    Ok(json!({
        "files": [kubelet],
        "clusterConfiguration": {"imageRepository": REPOSITORY, "apiServer": {"certSANs": ["localhost"]}},
        "initConfiguration": {
            "nodeRegistration": config::node(host), "skipPhases": ["addon"], "patches": {"directory": PATCHES},
        },
    }))
}
