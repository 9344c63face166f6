//! The container of the agent, and what it mounts of the node.

use std::fmt::Write as _;

use super::yaml::scalar;
use crate::settings::spec::find;
use crate::settings::{Loaded, Origin, Placement, Settings};

/// Where the pod's credentials come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// A kubeconfig of the node's.
    Kubeconfig,
    /// The pod's service account.
    InCluster,
}

/// `containers` and `volumes`. `port`: whether the metrics' port is declared.
pub(super) fn render(loaded: &Loaded, image: &str, account: Account, port: bool) -> String {
    let settings = &loaded.settings;
    let mut text = format!(
        "\
containers:
- name: mooring-agent
  image: {}
  imagePullPolicy: IfNotPresent
  args: [run]
  env:
",
        scalar(image)
    );
    // Writing to a String cannot fail.
    for (name, value) in variables(loaded, account) {
        let _ = writeln!(text, "  - {{name: {name}, value: {}}}", scalar(&value));
    }
    if is_default(loaded, "node-name") {
        text.push_str("  - name: MOORING_NODE_NAME\n    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}\n");
    }
    probes(&mut text, settings, port);
    text.push_str(
        "  \
  resources:
    requests: {cpu: 20m, memory: 16Mi}
  securityContext:
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    seccompProfile: {type: RuntimeDefault}
    capabilities: {drop: [ALL], add: [NET_ADMIN, NET_RAW]}
  volumeMounts:
",
    );
    let run_dir = scalar(&settings.run_dir.display().to_string());
    let kubeconfig = scalar(&settings.api.kubeconfig.display().to_string());
    let by_file = account == Account::Kubeconfig;
    if by_file {
        let _ = writeln!(text, "  - {{name: kubeconfig, mountPath: {kubeconfig}, readOnly: true}}");
    }
    let _ = writeln!(text, "  - {{name: run, mountPath: {run_dir}}}\nvolumes:");
    if by_file {
        let _ = writeln!(text, "- name: kubeconfig\n  hostPath: {{path: {kubeconfig}, type: FileOrCreate}}");
    }
    let _ = writeln!(text, "- name: run\n  hostPath: {{path: {run_dir}, type: DirectoryOrCreate}}");
    text
}

/// Whether nobody gave the setting.
pub(super) fn is_default(loaded: &Loaded, name: &str) -> bool {
    loaded.effective.iter().any(|one| one.name == name && one.source == Origin::Default)
}

/// The settings that were given, as our environment variables, in the order of the table.
fn variables(loaded: &Loaded, account: Account) -> Vec<(String, String)> {
    let leases = |settings: &Settings| {
        settings.services.as_ref().is_some_and(|services| matches!(services.placement, Placement::Leases(_)))
    };
    let mut variables: Vec<(String, String)> = Vec::new();
    for one in &loaded.effective {
        // kube-vip's settings for Services mean kube-vip's placement. Without them Mooring's own is the default.
        let theirs = one.name == "services-placement" && leases(&loaded.settings);
        let given = one.source != Origin::Default || theirs;
        if one.name == "credentials" && account == Account::InCluster {
            variables.push(("MOORING_CREDENTIALS".into(), "in-cluster".into()));
        } else if let Some(spec) = find(one.name).filter(|_| given) {
            variables.push((spec.env(), one.value.clone()));
        }
    }
    variables
}

/// The probes, where health is served on a port.
fn probes(text: &mut String, settings: &Settings, port: bool) {
    let Some(listen) = &settings.metrics else { return };
    let address = listen.from_the_host();
    let (host, number) = (scalar(&address.ip().to_string()), address.port());
    if port {
        text.push_str("  # The port of --metrics, on the node's own addresses.\n");
        let _ = writeln!(text, "  ports:\n  - {{name: metrics, containerPort: {number}}}");
    } else {
        let _ = writeln!(
            text,
            "  # Metrics and probes are on port {number} of the node (--metrics). The port is not declared: a kubelet refuses a static pod\n  \
             # for good if another pod of the node declares the same port."
        );
    }
    let _ = writeln!(
        text,
        "  livenessProbe:
    httpGet: {{host: {host}, path: /livez, port: {number}}}
    periodSeconds: 10
    failureThreshold: 3
  readinessProbe:
    httpGet: {{host: {host}, path: /readyz, port: {number}}}"
    );
}
