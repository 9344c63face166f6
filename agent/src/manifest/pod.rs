//! The static pod and the `DaemonSet`.

use super::carried::Carried;
use super::container::{self, Account, is_default};
use super::schedule::Schedule;
use super::source::Variable;
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
    /// A pod that the API server has, with a service account.
    Pod,
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
    /// What the manifest that is translated says besides.
    pub kept: Kept,
}

/// What a translated manifest says besides the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// It mounts a kubeconfig.
    pub kubeconfig: bool,
    /// The nodes on which it runs; None: nothing is translated.
    pub schedule: Option<Schedule>,
    /// The variables whose values stand elsewhere.
    pub variables: Vec<Carried>,
}

/// Why a manifest cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// Static pods have no service account.
    #[error("a static pod has no service account: leave --in-cluster out, or print a daemonset")]
    StaticPodInCluster,
    /// Nor does a kubelet read other objects for it.
    #[error(
        "{variable} is taken from {from}, which no static pod can read: give the setting as a flag, or print a daemonset"
    )]
    StaticPodRefers {
        /// The variable.
        variable: String,
        /// The object.
        from: String,
    },
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
        Kind::StaticPod => {
            let refers = |one: &&Carried| matches!(&one.value, Variable::Filled(from) if from["fieldRef"].is_null());
            if let Some(one) = options.kept.variables.iter().find(refers) {
                return Err(PodError::StaticPodRefers { variable: one.name.clone(), from: one.value.words() });
            }
            static_pod(loaded, options)
        }
        Kind::Pod => api_pod(loaded, options),
        Kind::DaemonSet => daemon_set(loaded, options, account),
    })
}

/// Whether a pod that is translated, and that has a service account, goes on with it.
pub(super) fn keeps_account(loaded: &Loaded, options: &Options) -> bool {
    account(Kind::DaemonSet, loaded, options) == Ok(Account::InCluster)
}

/// A `DaemonSet` has a service account, unless somebody asked for a kubeconfig.
fn account(kind: Kind, loaded: &Loaded, options: &Options) -> Result<Account, PodError> {
    let said = loaded.settings.api.credentials;
    let in_cluster = options.in_cluster || said == Credentials::InCluster;
    match kind {
        Kind::StaticPod if in_cluster => Err(PodError::StaticPodInCluster),
        Kind::StaticPod => Ok(Account::Kubeconfig),
        Kind::Pod => Ok(Account::InCluster),
        Kind::DaemonSet => {
            let by_file =
                said == Credentials::Kubeconfig || options.kept.kubeconfig || !is_default(loaded, "kubeconfig");
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
{}{}",
        settings.lease.namespace,
        labels(settings, false),
        settings.handover_grace.as_secs() + END,
        indented(&kept_schedule(options), 2),
        indented(&container::render(loaded, options, Account::Kubeconfig, false), 2)
    )
}

/// The nodes of a pod that is translated.
fn kept_schedule(options: &Options) -> String {
    options.kept.schedule.as_ref().map(Schedule::render).unwrap_or_default()
}

fn api_pod(loaded: &Loaded, options: &Options) -> String {
    let settings = &loaded.settings;
    format!(
        "\
# A pod with a service account: apply it, and what `mooring-agent manifest rbac` prints with the same settings.
apiVersion: v1
kind: Pod
metadata:
  name: mooring-agent
  namespace: {}
  labels: {{{}}}
spec:
  serviceAccountName: {}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  priorityClassName: system-node-critical
  enableServiceLinks: false
  # The agent hands its VIPs over before it ends (--handover-grace).
  terminationGracePeriodSeconds: {}
{}{}",
        settings.lease.namespace,
        labels(settings, false),
        account_name(settings),
        settings.handover_grace.as_secs() + END,
        indented(&kept_schedule(options), 2),
        indented(&container::render(loaded, options, Account::InCluster, true), 2)
    )
}

/// The service account of the agents of these VIPs.
fn account_name(settings: &Settings) -> &'static str {
    if settings.control_plane() { "mooring-agent-control-plane" } else { "mooring-agent" }
}

fn daemon_set(loaded: &Loaded, options: &Options, account: Account) -> String {
    let settings = &loaded.settings;
    let on_control_plane = options.taint || settings.control_plane();
    // Beside the DaemonSet for all other nodes: a name and labels of its own, and the same service account.
    let beside = on_control_plane && !settings.control_plane();
    let name = account_name(settings);
    let kept = options.kept.schedule.as_ref().filter(|kept| !options.taint && keeps_nodes(settings, kept));
    let about = match kept {
        _ if settings.control_plane() => CONTROL_PLANE,
        None => SERVICES,
        Some(_) => SERVICES_KEPT,
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
{}{}",
        if beside { "-services-on-control-planes" } else { "" },
        settings.lease.namespace,
        vips(settings, beside),
        labels(settings, beside),
        settings.handover_grace.as_secs() + END,
        indented(&kept.map_or_else(|| own_schedule(on_control_plane), Schedule::render), 6),
        indented(&container::render(loaded, options, account, true), 6)
    )
}

const CONTROL_PLANE: &str = "# One agent on each control-plane node: they elect the holder of the control plane's VIP.";
const SERVICES: &str = "\
# VIPs of Services. The control plane's VIP is the static pod's matter (static-pod/), or that of manifests/agent-control-plane; one
# agent does both on such a node, so they are left out here.";
const SERVICES_KEPT: &str = "\
# VIPs of Services, on the nodes where kube-vip serves them. One agent serves a node: where a static pod of Mooring's runs, let it do
# both (MOORING_SERVICES), and keep this one off.";

/// Whether the pods of a translated manifest stay on its nodes. Where it chooses none, the control plane's VIP is for
/// control-plane nodes all the same: other nodes have no API server.
pub(super) fn keeps_nodes(settings: &Settings, schedule: &Schedule) -> bool {
    schedule.chooses() || !settings.control_plane()
}

fn own_schedule(on_control_plane: bool) -> String {
    format!(
        "\
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - {{key: node-role.kubernetes.io/control-plane, operator: {}}}
# A node that is not ready, under pressure, or closed to other pods goes on with its VIPs.
tolerations:
- {{operator: Exists}}
",
        if on_control_plane { "Exists" } else { "DoesNotExist" }
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
