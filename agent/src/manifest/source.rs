//! The settings of a manifest: a static pod, a `DaemonSet`, or the values of kube-vip's Helm chart.

mod chart;
mod pod;
mod variable;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::variable::Maps;
pub use self::variable::Variable;
use super::schedule::Schedule;
use super::wrapped::{Document, Place, Step, Way, documents, places};

/// The size limit of a manifest, in bytes.
const LONGEST: u64 = 4 << 20;
/// How deep a manifest may stand in texts within texts.
const DEEPEST: usize = 4;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A pod: a static pod of a control-plane node, or one that the API server has.
    Pod,
    /// A `DaemonSet`.
    DaemonSet,
    /// Values of kube-vip's chart, which makes a `DaemonSet` of them.
    ChartValues,
}

/// What stands in another object or file, in words, each with the field that says so.
pub type Elsewhere = Vec<(&'static str, String)>;

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
    /// Whether the pod names a service account. No static pod does.
    pub service_account: bool,
    /// The object's namespace, if it says one.
    pub namespace: Option<String>,
    /// The nodes on which it runs.
    pub schedule: Schedule,
    /// More of its environment, or of its values.
    pub elsewhere: Elsewhere,
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

/// Fields of a pod, and values of the chart, that decide whether its image can be pulled.
const LEFT: [&str; 1] = ["imagePullSecrets"];

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
        /// The kinds found, and what could not be unpacked.
        found: String,
    },
    /// A value is not in the file.
    #[error("{name} is taken from {from}, which is not in the file: {advice}")]
    Elsewhere {
        /// The variable, or the field.
        name: String,
        /// What it is taken from.
        from: String,
        /// What to do.
        advice: String,
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

/// The variables that name the control plane's VIP.
const ADDRESSES: [&str; 3] = ["MOORING_ADDRESS", "address", "vip_address"];

impl Source {
    /// In an object that makes machines, an empty address is a place into which somebody writes it later.
    fn await_address(&mut self) {
        let is_known = |name: &str| self.env.get(name).is_some_and(|value| value.text() != Some(""));
        if !ADDRESSES.into_iter().any(is_known) {
            let empty = ADDRESSES.into_iter().find(|name| self.env.contains_key(*name));
            if let Some(value) = empty.and_then(|name| self.env.get_mut(name)) {
                *value = Variable::Placeholder(String::new());
            }
        }
    }
}

/// Reads a file; `-` is standard input. The settings, and where in the file they stand.
///
/// # Errors
/// It cannot be read, or it does not have exactly one object with settings.
pub(super) fn read(path: &Path) -> Result<(Source, Way), SourceError> {
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

fn parse(path: &Path, text: &str) -> Result<(Source, Way), SourceError> {
    let mut search = Search::default();
    search.text(text, &[], 0);
    match (search.found.len(), search.found.pop()) {
        (1, Some(found)) => Ok(found),
        (0, _) => Err(match search.problem {
            Some(problem) if search.seen.is_empty() => SourceError::NotYaml { path: path.to_owned(), problem },
            problem => {
                search.seen.extend(problem.map(|_| "a document that is not valid YAML".to_owned()));
                let found =
                    if search.seen.is_empty() { "no object with a kind".to_owned() } else { search.seen.join(", ") };
                SourceError::Nothing { path: path.to_owned(), found }
            }
        }),
        (count, _) => Err(SourceError::Several { path: path.to_owned(), count }),
    }
}

/// What a search has found so far.
#[derive(Default)]
struct Search {
    found: Vec<(Source, Way)>,
    /// The kinds of the file's objects, and what could not be unpacked.
    seen: Vec<String>,
    /// Why one of the file's documents is no YAML.
    problem: Option<String>,
}

impl Search {
    /// Searches a text, and the texts within it. `around`: the objects outside it.
    fn text(&mut self, text: &str, around: &[&Value], depth: usize) {
        let documents = documents(text);
        let of_text = documents.iter().filter_map(|document| document.value.as_ref().ok()).flat_map(objects);
        let all: Vec<&Value> = around.iter().copied().chain(of_text.map(|(_, object)| object)).collect();
        for document in &documents {
            match &document.value {
                Ok(value) => {
                    for (path, object) in objects(value) {
                        self.object(object, &path, (text, document), &all, depth);
                    }
                }
                Err(problem) if depth == 0 => _ = self.problem.get_or_insert_with(|| problem.clone()),
                Err(_) => {}
            }
        }
    }

    /// Searches an object. `at`: its place in the document of the text.
    fn object(&mut self, object: &Value, at: &[Step], of: (&str, &Document), all: &[&Value], depth: usize) {
        let (text, document) = of;
        let kind = object["kind"].as_str();
        if depth == 0 {
            self.seen.extend(kind.map(str::to_owned));
        }
        let maps = Maps(all);
        // Of several in one document within an object, none could be put back without the others.
        let is_alone = depth == 0 || at.is_empty();
        let source = match kind.filter(|_| is_alone) {
            Some("Pod") => pod::read(Shape::Pod, &object["spec"], &object["metadata"], maps),
            Some("DaemonSet") => {
                pod::read(Shape::DaemonSet, &object["spec"]["template"]["spec"], &object["metadata"], maps)
            }
            _ => None,
        };
        if let Some(source) = source {
            self.found.push((source, Way::to(text, document)));
            return;
        }
        for place in places(object) {
            match place {
                Place::Packed(what) => self.seen.push(what),
                // A text within an object that is no object itself may be anything.
                Place::Values { .. } if depth > 0 && kind.is_none() => {}
                Place::Values { values, elsewhere } => {
                    let source = chart::read(&values, elsewhere, maps);
                    self.found.extend(source.map(|source| (source, Way::to(text, document))));
                }
                Place::Text { text: inner, path, coding } if depth < DEEPEST => {
                    let before = self.found.len();
                    self.text(&inner, all, depth + 1);
                    for (source, way) in self.found.iter_mut().skip(before) {
                        source.await_address();
                        let path = at.iter().chain(&path).cloned().collect();
                        *way = std::mem::take(way).from(text, document, path, coding);
                    }
                }
                Place::Text { .. } => {}
            }
        }
    }
}

/// The objects of a document, and where they stand: a List, as `kubectl get -o yaml` prints several, has them as items.
fn objects(document: &Value) -> Vec<(Vec<Step>, &Value)> {
    let place = |(at, item)| (vec![Step::Field("items".to_owned()), Step::Entry(at)], item);
    match document["items"].as_array() {
        Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
            items.iter().enumerate().map(place).collect()
        }
        _ => vec![(Vec::new(), document)],
    }
}

fn left(of: &Value) -> Vec<(&'static str, String)> {
    let is_empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    LEFT.into_iter().filter(|field| !is_empty(&of[*field])).map(|field| (field, of[field].to_string())).collect()
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
