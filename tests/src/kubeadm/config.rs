//! What kubeadm is told. It is the plain way, but for what a namespace cannot do: limits of the machine, cgroups of quality.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::cluster::IGNORED;
use super::images::REPOSITORY;
use super::machine::SOCKET;
use super::proxy::Mode;
use crate::assets::KUBERNETES;
use crate::host::Host;

/// Of the lab alone, which nobody else can reach.
const TOKEN: &str = "abcdef.0123456789abcdef";
const CERTIFICATE_KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What a node becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// One more control plane.
    ControlPlane,
    /// A worker.
    Worker,
}

/// The file for `kubeadm init` on the first control plane, whose endpoint is the VIP.
#[must_use]
pub fn init(host: &Host, vip: IpAddr) -> String {
    let mut proxy = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "conntrack": {"maxPerCore": 0}, "oomScoreAdj": 0,
    });
    Mode::default().put(&mut proxy);
    documents(&[
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
            "localAPIEndpoint": endpoint(host), "certificateKey": CERTIFICATE_KEY, "nodeRegistration": node(host),
            "skipPhases": ["addon/coredns"],
            "bootstrapTokens": [{
                "token": TOKEN, "ttl": "24h0m0s", "usages": ["signing", "authentication"],
                "groups": ["system:bootstrappers:kubeadm:default-node-token"],
            }],
        }),
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
            "kubernetesVersion": format!("v{KUBERNETES}"), "clusterName": "lab", "imageRepository": REPOSITORY,
            "controlPlaneEndpoint": server(vip), "encryptionAlgorithm": "ECDSA-P256",
            "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16"},
        }),
        kubelet(),
        proxy,
    ])
}

/// What a kubelet in a namespace needs.
#[must_use]
pub fn kubelet() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs", "failCgroupV1": false, "cgroupsPerQOS": false,
        // An empty list would be lost: kubeadm writes this file again.
        "enforceNodeAllocatable": ["none"],
        "oomScoreAdj": 0, "failSwapOn": false, "fileCheckFrequency": "2s", "resolvConf": "/etc/resolv.conf",
        // The images are of no registry: a kubelet may not make room on a disk that others have filled.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    })
}

/// The file for `kubeadm join` through the VIP.
#[must_use]
pub fn join(host: &Host, vip: IpAddr, what: Join) -> String {
    let mut file = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "nodeRegistration": node(host),
        "discovery": {
            "bootstrapToken": {"apiServerEndpoint": server(vip), "token": TOKEN, "unsafeSkipCAVerification": true},
        },
    });
    if what == Join::ControlPlane {
        file["controlPlane"] = json!({"certificateKey": CERTIFICATE_KEY, "localAPIEndpoint": endpoint(host)});
    }
    documents(&[file])
}

fn server(vip: IpAddr) -> String {
    format!("{vip}:6443")
}

fn endpoint(host: &Host) -> Value {
    json!({"advertiseAddress": host.ip4().to_string(), "bindPort": 6443})
}

/// How the host's node is registered.
#[must_use]
pub fn node(host: &Host) -> Value {
    json!({
        "name": host.name(), "criSocket": format!("unix://{SOCKET}"), "imagePullPolicy": "IfNotPresent",
        "ignorePreflightErrors": IGNORED.split(',').collect::<Vec<_>>(),
        "kubeletExtraArgs": [{"name": "node-ip", "value": host.ip4().to_string()}],
    })
}

/// Objects as one file. JSON is YAML.
#[must_use]
pub fn documents(all: &[Value]) -> String {
    all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}
