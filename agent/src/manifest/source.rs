//! The settings that a manifest gives: a static pod, a `DaemonSet`, or the values of kube-vip's Helm chart.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::settings::kube_vip::ENTRIES;
use crate::settings::spec::{SETTINGS, find};

/// The pod's field with the name of its node.
pub(super) const NODE_NAME: &str = "spec.nodeName";
/// The size limit of a manifest, in bytes.
const LONGEST: u64 = 4 << 20;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A pod: a static pod of a control-plane node.
    Pod,
    /// A `DaemonSet`.
    DaemonSet,
    /// Values of kube-vip's chart, which makes a `DaemonSet` of them.
    ChartValues,
}

/// A value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// It stands in the manifest.
    Text(String),
    /// The kubelet fills it in: the path of the pod's field, or another source's name.
    Filled(String),
}

/// The settings of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is.
    pub shape: Shape,
    /// The container's arguments.
    pub args: Vec<String>,
    /// The container's environment, in the order of the names.
    pub env: BTreeMap<String, Variable>,
    /// The kubeconfig that is mounted, by its path on the node. None: the pod uses its service account.
    pub kubeconfig: Option<String>,
    /// The object's namespace, if it says one.
    pub namespace: Option<String>,
    /// Where more of the environment stands: the kind and the name.
    pub env_from: Vec<String>,
    /// Fields of the pod that no setting has, and that are not carried over.
    pub left: Vec<(&'static str, String)>,
}

/// The kubeconfig that kubeadm makes on the first node only. kube-vip needs it there; Mooring does with `admin.conf`.
const SUPER_ADMIN: &str = "super-admin.conf";

/// The kubeconfig that every control-plane node has in its place; None: it is another one.
#[must_use]
pub fn for_super_admin(path: &str) -> Option<String> {
    path.ends_with(SUPER_ADMIN).then(|| path.replace(SUPER_ADMIN, "admin.conf"))
}

/// Fields of a pod, and values of the chart, that decide where an agent runs or whether its image can be pulled.
const LEFT: [&str; 2] = ["nodeSelector", "imagePullSecrets"];

/// Why a manifest gives no settings.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}: check its path and mode", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// It is too long to be a manifest.
    #[error("{} has more than 4 MiB: it is no manifest", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is no YAML.
    #[error("{} is not valid YAML: {problem}", path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        problem: String,
    },
    /// No object in it runs kube-vip or mooring-agent.
    #[error(
        "{} has no pod, DaemonSet or chart values of kube-vip's (it has {found}): give the file with the container of kube-vip or mooring-agent",
        path.display()
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// The kinds found.
        found: String,
    },
    /// A value is not in the file.
    #[error(
        "{name} is taken from {from}, which is not in the file: write its value into the file, or give the setting as a flag"
    )]
    Elsewhere {
        /// The variable.
        name: String,
        /// What the kubelet takes it from.
        from: String,
    },
    /// Several do.
    #[error("{} has {count} objects that run kube-vip or mooring-agent: give one of them alone", path.display())]
    Several {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

impl Source {
    /// The environment with which its settings are worked out on no particular node: the node's name is left to the kubelet.
    ///
    /// # Errors
    /// A setting's value stands elsewhere, as in a `ConfigMap`.
    pub fn environment(&self) -> Result<BTreeMap<String, String>, SourceError> {
        let mut all = BTreeMap::new();
        if let Some(from) = self.env_from.first() {
            return Err(SourceError::Elsewhere { name: "envFrom".to_owned(), from: from.clone() });
        }
        for (name, variable) in &self.env {
            match variable {
                Variable::Text(text) => _ = all.insert(name.clone(), text.clone()),
                Variable::Filled(from) if from == NODE_NAME || !is_read(name) => {}
                Variable::Filled(from) => {
                    return Err(SourceError::Elsewhere { name: name.clone(), from: from.clone() });
                }
            }
        }
        Ok(all)
    }
}

/// Whether kube-vip or Mooring reads this variable.
fn is_read(name: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.env == name) || SETTINGS.iter().any(|spec| spec.env() == name)
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// It cannot be read, or it does not have exactly one object with settings.
pub fn read(path: &Path) -> Result<Source, SourceError> {
    let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
    let file: Box<dyn io::Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(unreadable)?) };
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(SourceError::TooLong { path: path.to_owned() });
    }
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Source, SourceError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| SourceError::NotYaml { path: path.to_owned(), problem: error.to_string() })?;
    let documents: Vec<&Value> = documents.iter().flat_map(objects).collect();
    let mut found: Vec<Source> = documents.iter().copied().filter_map(settings).collect();
    match (found.len(), found.pop()) {
        (1, Some(source)) => Ok(source),
        (0, _) => {
            let kinds: Vec<&str> = documents.iter().filter_map(|one| one["kind"].as_str()).collect();
            let found = if kinds.is_empty() { "no object with a kind".to_owned() } else { kinds.join(", ") };
            Err(SourceError::Nothing { path: path.to_owned(), found })
        }
        (count, _) => Err(SourceError::Several { path: path.to_owned(), count }),
    }
}

/// The objects of a document: a List, as `kubectl get -o yaml` prints several, has them as items.
fn objects(document: &Value) -> Vec<&Value> {
    match document["items"].as_array() {
        Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.iter().collect(),
        _ => vec![document],
    }
}

fn settings(object: &Value) -> Option<Source> {
    match object["kind"].as_str() {
        // Those of k3s and RKE2, and that of Flux: values of any chart.
        Some("HelmChart" | "HelmChartConfig") if is_kube_vip(object, &object["spec"]["chart"]) => {
            of_chart(&serde_saphyr::from_str::<Value>(object["spec"]["valuesContent"].as_str()?).ok()?)
        }
        Some("HelmRelease") if is_kube_vip(object, &object["spec"]["chart"]["spec"]["chart"]) => {
            of_chart(&object["spec"]["values"])
        }
        Some("Pod") => of_pod(Shape::Pod, &object["spec"], &object["metadata"]),
        Some("DaemonSet") => of_pod(Shape::DaemonSet, &object["spec"]["template"]["spec"], &object["metadata"]),
        Some(_) => None,
        None => of_chart(object),
    }
}

fn is_kube_vip(object: &Value, chart: &Value) -> bool {
    [chart, &object["metadata"]["name"]].iter().any(|name| name.as_str().is_some_and(|name| name.contains("kube-vip")))
}

fn of_pod(shape: Shape, spec: &Value, metadata: &Value) -> Option<Source> {
    let containers = spec["containers"].as_array()?;
    let runs = |container: &&Value| {
        let names = [&container["image"], &container["name"]].map(|name| name.as_str().unwrap_or_default());
        let is_known = |name: &str| name.contains("kube-vip") || name.contains("mooring-agent");
        names.into_iter().any(is_known) || texts(&container["args"]).iter().any(|arg| arg == "manager")
    };
    let container = containers.iter().find(runs)?;
    let env = container["env"].as_array().into_iter().flatten().filter_map(|one| {
        let name = one["name"].as_str()?.to_owned();
        let value = match &one["valueFrom"] {
            Value::Null => Variable::Text(text(&one["value"]).unwrap_or_default()),
            from => Variable::Filled(filled(from)),
        };
        Some((name, value))
    });
    let env: BTreeMap<String, Variable> = env.collect();
    let kubeconfig = kubeconfig(spec, container, &env);
    let namespace = text(&metadata["namespace"]);
    let (args, env_from, left) = (texts(&container["args"]), env_from(&container["envFrom"]), left(spec));
    Some(Source { shape, args, env, kubeconfig, namespace, env_from, left })
}

/// The path on the node of what is mounted where the container looks for its kubeconfig.
fn kubeconfig(spec: &Value, container: &Value, env: &BTreeMap<String, Variable>) -> Option<String> {
    let inside = match env.get("k8s_config_file") {
        Some(Variable::Text(path)) if !path.is_empty() => path,
        _ => find("kubeconfig")?.default,
    };
    let mount = container["volumeMounts"].as_array()?.iter().find(|mount| mount["mountPath"] == inside)?;
    let volume = spec["volumes"].as_array()?.iter().find(|volume| volume["name"] == mount["name"])?;
    text(&volume["hostPath"]["path"])
}

/// The chart gives `config.address` as `address`, `env` and `envValueFrom` as they are, and `extraArgs` as flags.
fn of_chart(values: &Value) -> Option<Source> {
    let env = values["env"].as_object();
    let extra = values["extraArgs"].as_object();
    let address = text(&values["config"]["address"]).filter(|address| !address.is_empty());
    if env.is_none() && extra.is_none() && address.is_none() {
        return None;
    }
    let given =
        env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), Variable::Text(text(value)?))));
    let by_kubelet = values["envValueFrom"].as_object().into_iter().flatten();
    let by_kubelet = by_kubelet.map(|(name, from)| (name.clone(), Variable::Filled(filled(from))));
    let address = address.map(|address| ("address".to_owned(), Variable::Text(address)));
    let args = extra.into_iter().flatten().map(|(name, value)| match text(value) {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    });
    let args = std::iter::once("manager".to_owned()).chain(args).collect();
    Some(Source {
        shape: Shape::ChartValues,
        args,
        env: address.into_iter().chain(given).chain(by_kubelet).collect(),
        kubeconfig: None,
        namespace: text(&values["namespaceOverride"]).filter(|name| !name.is_empty()),
        env_from: env_from(&values["envFrom"]),
        left: left(values),
    })
}

/// The objects whose keys are variables of a container.
fn env_from(list: &Value) -> Vec<String> {
    let of = |one: &Value| {
        let (kind, object) = one.as_object()?.iter().find(|(_, object)| object["name"].is_string())?;
        Some(format!("{kind} {}", object["name"].as_str()?))
    };
    list.as_array().into_iter().flatten().filter_map(of).collect()
}

fn left(of: &Value) -> Vec<(&'static str, String)> {
    let is_empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    LEFT.into_iter().filter(|field| !is_empty(&of[*field])).map(|field| (field, of[field].to_string())).collect()
}

/// What the kubelet takes a value from, in words.
fn filled(from: &Value) -> String {
    let field = from.pointer("/fieldRef/fieldPath").and_then(Value::as_str);
    field.map(str::to_owned).or_else(|| from.as_object()?.keys().next().cloned()).unwrap_or_default()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(text).collect()
}

/// A scalar as text: charts have booleans and numbers without quotes.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
