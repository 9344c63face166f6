//! The machines without a cluster, for a person who makes one by hand, as the book says.

use anyhow::Result;

use super::cluster::{ALL, IGNORED, KubeadmCluster, Parts, WORKERS};
use super::images::{BACKEND, BACKEND_PORT};
use super::{config, story};
use crate::assets::{KUBERNETES, Profile};

/// Where the first control plane has the file for `kubeadm init`.
const FILE: &str = "etc/kubernetes/lab.yaml";

/// Machines with containerd, a kubelet, kubeadm and all images, and a host outside. Nothing is done with them.
///
/// # Errors
/// [`Skip`](crate::runner::Skip) where the machine cannot do it; or the machines do not start.
pub async fn machines() -> Result<(KubeadmCluster, Parts)> {
    let parts = story::parts(Profile::Release).await?;
    let cluster = KubeadmCluster::machines(&parts, &ALL).await?;
    let machine = cluster.machine("cp1")?;
    super::cluster::put(machine, FILE, &config::init(&machine.host, cluster.rig.lab.vip()))?;
    Ok((cluster, parts))
}

/// What a person needs to know. `enter`: the command that enters a host, up to its name.
#[must_use]
pub fn explain(cluster: &KubeadmCluster, parts: &Parts, enter: &str) -> String {
    let (vip, images) = (cluster.rig.lab.vip(), &parts.images);
    let workers = WORKERS.map(|(name, _)| name).join(", ");
    let lines = [
        ("machines", format!("{}; workers {workers}", cluster.rig.lab.control_planes().join(", "))),
        ("a shell", format!("{enter} cp1")),
        ("a command", format!("{enter} cp1 kubeadm version")),
        ("outside", format!("{enter} client (a host of the segment that is no node; kubectl is there)")),
        ("kubeconfig", format!("{}, once kubeadm has made it", cluster.admin_conf().display())),
        ("addresses", format!("10.77.0.0/24; {vip} is free for the VIP, 10.77.0.200 to 10.77.0.203 for Services")),
        ("our images", format!("{}, {}: imported; nothing is pulled", images.agent, images.allocator)),
        ("for pods", format!("kubectl create deployment web --image={BACKEND} --port={BACKEND_PORT}")),
        ("a Service", format!("kubectl expose deployment web --type=LoadBalancer --port=80 --target-port={BACKEND_PORT}")),
        ("manifest", format!("ctr --namespace k8s.io run --rm docker.io/library/{} print \\", images.agent)),
        ("", format!("  /mooring-agent manifest static-pod --address {vip} --image {}", images.agent)),
        ("init", format!("kubeadm init --config /{FILE} --upload-certs")),
        ("", format!("the file has --control-plane-endpoint {vip}:6443, Kubernetes {KUBERNETES}, and what")),
        ("", "network namespaces need: limits of the kubelet and of kube-proxy, no CoreDNS".to_owned()),
        ("join", "what init prints, and the next line".to_owned()),
        ("", format!("--ignore-preflight-errors={IGNORED}")),
        ("containers", "ctr --namespace k8s.io (there is no crictl and no docker); to end one as crictl stop does:".to_owned()),
        ("", "  ctr --namespace k8s.io tasks kill --signal SIGTERM ID; `ctr --namespace k8s.io containers list` has the IDs".to_owned()),
    ];
    lines.map(|(what, text)| format!("{what:<11} {text}")).join("\n")
}
