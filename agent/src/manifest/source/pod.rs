//! A pod, and that of a `DaemonSet`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Maps, Shape, Source, Variable, left, text, texts};
use crate::manifest::schedule::Schedule;
use crate::settings::spec::find;

/// The settings of a pod; None: it runs something else.
pub(super) fn read(shape: Shape, spec: &Value, metadata: &Value, maps: Maps<'_>) -> Option<Source> {
    let container = spec["containers"].as_array()?.iter().find(|container| runs(container))?;
    let namespace = text(&metadata["namespace"]);
    let own = container["env"].as_array().into_iter().flatten().filter_map(|one| {
        let name = one["name"].as_str()?.to_owned();
        let value = match &one["valueFrom"] {
            Value::Null => Variable::of(text(&one["value"]).unwrap_or_default()),
            from => maps.filled(from, namespace.as_deref())?,
        };
        Some((name, value))
    });
    let (of_maps, elsewhere) = maps.all_of(&container["envFrom"]);
    let env: BTreeMap<String, Variable> = of_maps.into_iter().chain(own).collect();
    let has_account = |field: &str| spec[field].as_str().is_some_and(|name| !name.is_empty());
    Some(Source {
        shape,
        args: texts(&container["args"]),
        kubeconfig: kubeconfig(spec, container, &env),
        service_account: has_account("serviceAccountName") || has_account("serviceAccount"),
        env,
        namespace,
        schedule: Schedule::of(spec),
        elsewhere,
        left: left(spec),
    })
}

/// Whether a container is kube-vip's, or ours.
fn runs(container: &Value) -> bool {
    let names = [&container["image"], &container["name"]].map(|name| name.as_str().unwrap_or_default());
    let is_known = |name: &str| name.contains("kube-vip") || name.contains("mooring-agent");
    names.into_iter().any(is_known) || texts(&container["args"]).iter().any(|arg| arg == "manager")
}

/// The path on the node of what is mounted where the container looks for its kubeconfig.
fn kubeconfig(spec: &Value, container: &Value, env: &BTreeMap<String, Variable>) -> Option<String> {
    let said = env.get("k8s_config_file").and_then(Variable::text).filter(|path| !path.is_empty());
    let inside = said.map_or_else(|| find("kubeconfig").map(|spec| spec.default), Some)?;
    let mount = container["volumeMounts"].as_array()?.iter().find(|mount| mount["mountPath"] == inside)?;
    let volume = spec["volumes"].as_array()?.iter().find(|volume| volume["name"] == mount["name"])?;
    text(&volume["hostPath"]["path"])
}
