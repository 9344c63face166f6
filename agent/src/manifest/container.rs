//! The container of the agent, and what it mounts of the node.

use std::fmt::Write as _;

use super::carried::Carried;
use super::pod::Options;
use super::source::Variable;
use super::yaml::{flow, scalar};
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
pub(super) fn render(loaded: &Loaded, options: &Options, account: Account, port: bool) -> String {
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
        scalar(&options.image)
    );
    // Writing to a String cannot fail.
    for (name, value) in variables(loaded, account, &options.kept.variables) {
        let _ = writeln!(text, "  - {{name: {name}, value: {}}}", scalar(&value));
    }
    for one in &options.kept.variables {
        let _ = writeln!(text, "  - name: {}\n    {}", one.name, carried(&one.value));
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

/// Where the value of a variable comes from.
fn carried(value: &Variable) -> String {
    match value {
        Variable::Filled(from) => format!("valueFrom: {}", flow(from)),
        // A placeholder with quotes of its own is written without any: that is how it stood there.
        Variable::Placeholder(text) if text.contains('"') => format!("value: {text}"),
        Variable::Text(text) | Variable::Placeholder(text) => {
            format!("value: {}", serde_json::Value::from(text.as_str()))
        }
    }
}

/// Whether nobody gave the setting.
pub(super) fn is_default(loaded: &Loaded, name: &str) -> bool {
    loaded.effective.iter().any(|one| one.name == name && one.source == Origin::Default)
}

/// The settings that were given, as our environment variables, in the order of the table. Not those that are carried over.
fn variables(loaded: &Loaded, account: Account, carried: &[Carried]) -> Vec<(String, String)> {
    let leases = |settings: &Settings| {
        settings.services.as_ref().is_some_and(|services| matches!(services.placement, Placement::Leases(_)))
    };
    let mut variables: Vec<(String, String)> = Vec::new();
    for one in &loaded.effective {
        // kube-vip's settings for Services mean kube-vip's placement. Without them Mooring's own is the default.
        let theirs = one.name == "services-placement" && leases(&loaded.settings);
        let is_carried = carried.iter().any(|carried| carried.setting == one.name);
        let given = (one.source != Origin::Default || theirs) && !is_carried;
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
