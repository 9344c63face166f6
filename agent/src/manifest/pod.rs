//! The static pod and the `DaemonSet`.

use super::container::{self, Account, is_default};
use super::yaml::indented;
use crate::settings::{Credentials, Loaded, Settings};

/// The image, unless another one is given. A release that is made for a registry names it there.
pub const IMAGE: &str = match option_env!("MOORING_IMAGE") {
    Some(image) => image,
    None => concat!("mooring-agent:", env!("CARGO_PKG_VERSION")),
};

/// What `priorityClassName: system-node-critical` stands for.
const NODE_CRITICAL: u32 = 2_000_001_000;
/// How long a pod has to end after its hand-over, in seconds.
const END: u64 = 15;

/// What kind of object runs the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file in the kubelet's folder of static pods.
    StaticPod,
    /// A `DaemonSet`.
    DaemonSet,
}

/// What a manifest says besides the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The image of the agent.
    pub image: String,
    /// The pod uses its service account, whatever else is there.
    pub in_cluster: bool,
    /// A `DaemonSet` for control-plane nodes only, whatever VIPs it has.
    pub taint: bool,
    /// The manifest that is translated mounts a kubeconfig.
    pub kubeconfig: bool,
}

/// Why a manifest cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// Static pods have no service account.
    #[error("a static pod has no service account: leave --in-cluster out, or print a daemonset")]
    StaticPodInCluster,
    /// The folder of a file is not mounted.
    #[error(
        "{setting} is {path}, which is outside {run_dir}, the only folder that the pod can write: give a file in it"
    )]
    OutsideRunDir {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: String,
        /// The agent's own folder.
        run_dir: String,
    },
}

/// The manifest.
///
/// # Errors
/// The settings do not fit a pod of this kind.
pub fn render(kind: Kind, loaded: &Loaded, options: &Options) -> Result<String, PodError> {
    let settings = &loaded.settings;
    for (setting, path) in [("status-socket", Some(&settings.status_socket)), ("record", settings.record.as_ref())] {
        if let Some(path) = path.filter(|path| !path.starts_with(&settings.run_dir)) {
            let (path, run_dir) = (path.display().to_string(), settings.run_dir.display().to_string());
            return Err(PodError::OutsideRunDir { setting, path, run_dir });
        }
    }
    let account = account(kind, loaded, options)?;
    Ok(match kind {
        Kind::StaticPod => static_pod(loaded, options),
        Kind::DaemonSet => daemon_set(loaded, options, account),
    })
}

/// A `DaemonSet` has a service account, unless somebody asked for a kubeconfig.
fn account(kind: Kind, loaded: &Loaded, options: &Options) -> Result<Account, PodError> {
    let said = loaded.settings.api.credentials;
    let in_cluster = options.in_cluster || said == Credentials::InCluster;
    match kind {
        Kind::StaticPod if in_cluster => Err(PodError::StaticPodInCluster),
        Kind::StaticPod => Ok(Account::Kubeconfig),
        Kind::DaemonSet => {
            let by_file = said == Credentials::Kubeconfig || options.kubeconfig || !is_default(loaded, "kubeconfig");
            Ok(if by_file && !in_cluster { Account::Kubeconfig } else { Account::InCluster })
        }
    }
}

fn static_pod(loaded: &Loaded, options: &Options) -> String {
    let settings = &loaded.settings;
    format!(
        "\
# A static pod for a control-plane node: put it into /etc/kubernetes/manifests before `kubeadm init` or `join`, with your VIP.
# Neither hostAliases nor super-admin.conf are needed.
apiVersion: v1
kind: Pod
metadata:
  name: mooring-agent
  namespace: {}
  labels: {{{}}}
spec:
  hostNetwork: true
  # The kubelet looks no priority class up for a static pod: without the number it may evict the pod under pressure, and ends
  # it first at a shutdown of the node.
  priorityClassName: system-node-critical
  priority: {NODE_CRITICAL}
  enableServiceLinks: false
  # The agent hands its VIPs over before it ends (--handover-grace).
  terminationGracePeriodSeconds: {}
{}",
        settings.lease.namespace,
        labels(settings, false),
        settings.handover_grace.as_secs() + END,
        indented(&container::render(loaded, &options.image, Account::Kubeconfig, false), 2)
    )
}

fn daemon_set(loaded: &Loaded, options: &Options, account: Account) -> String {
    let settings = &loaded.settings;
    let on_control_plane = options.taint || settings.control_plane();
    // Beside the DaemonSet for all other nodes: a name and labels of its own, and the same service account.
    let beside = on_control_plane && !settings.control_plane();
    let (about, name) = if settings.control_plane() {
        (
            "# One agent on each control-plane node: they elect the holder of the control plane's VIP.",
            "mooring-agent-control-plane",
        )
    } else {
        (
            "\
# VIPs of Services. The control plane's VIP is the static pod's matter (static-pod/), or that of manifests/agent-control-plane; one
# agent does both on such a node, so they are left out here.",
            "mooring-agent",
        )
    };
    let account_name = match account {
        Account::InCluster => format!("      serviceAccountName: {name}\n"),
        Account::Kubeconfig => String::new(),
    };
    format!(
        "\
{about}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {name}{}
  namespace: {}
  labels: {{{PART}}}
spec:
  selector:
    matchLabels: {{app.kubernetes.io/name: mooring-agent, mooring.dev/vips: {}}}
  # Node after node: each hands its VIPs over before it ends.
  updateStrategy:
    rollingUpdate: {{maxUnavailable: 1}}
  template:
    metadata:
      labels: {{{}}}
    spec:
{account_name}      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      priorityClassName: system-node-critical
      enableServiceLinks: false
      terminationGracePeriodSeconds: {}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {{key: node-role.kubernetes.io/control-plane, operator: {}}}
      # A node that is not ready, under pressure, or closed to other pods goes on with its VIPs.
      tolerations:
      - {{operator: Exists}}
{}",
        if beside { "-services-on-control-planes" } else { "" },
        settings.lease.namespace,
        vips(settings, beside),
        labels(settings, beside),
        settings.handover_grace.as_secs() + END,
        if on_control_plane { "Exists" } else { "DoesNotExist" },
        indented(&container::render(loaded, &options.image, account, true), 6)
    )
}

const PART: &str = "app.kubernetes.io/name: mooring-agent, app.kubernetes.io/part-of: mooring";

fn labels(settings: &Settings, beside: bool) -> String {
    format!("{PART}, mooring.dev/vips: {}", vips(settings, beside))
}

const fn vips(settings: &Settings, beside: bool) -> &'static str {
    match (settings.addresses.is_empty(), beside) {
        (true, false) => "services",
        (true, true) => "services-on-control-planes",
        (false, _) => "control-plane",
    }
}

#[cfg(test)]
mod tests;
