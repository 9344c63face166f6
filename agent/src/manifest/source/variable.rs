//! Variables of a container, and what fills them in.

use serde_json::Value;

use super::{Elsewhere, text};

/// The pod's field with the name of its node.
const NODE_NAME: &str = "spec.nodeName";
/// The pod's field with its namespace.
const NAMESPACE: &str = "metadata.namespace";

/// A value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// It stands in the manifest.
    Text(String),
    /// The manifest is a template, and this has placeholders of it.
    Placeholder(String),
    /// The kubelet fills it in: `valueFrom`.
    Filled(Value),
}

impl Variable {
    /// A text of a manifest, which may be a template of clusterctl's, of Helm's or of Go's.
    pub(super) fn of(text: String) -> Self {
        if text.contains("${") || text.contains("{{") { Self::Placeholder(text) } else { Self::Text(text) }
    }

    /// The value, if it stands in the manifest and says something.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value that a placeholder has if nobody gives another, as in `${NAME:=value}`.
    #[must_use]
    pub fn default(&self) -> Option<&str> {
        let Self::Placeholder(text) = self else { return None };
        let inner = text.trim().strip_prefix("${")?.strip_suffix('}')?;
        let (_, default) = inner.split_once(['=', '-'])?;
        (!default.contains(['$', '{', '"'])).then_some(default)
    }

    /// Whether it is the name of the pod's node.
    #[must_use]
    pub fn is_node_name(&self) -> bool {
        matches!(self, Self::Filled(from) if from["fieldRef"]["fieldPath"] == NODE_NAME)
    }

    /// The value, or what it is taken from, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let from = match self {
            Self::Text(text) | Self::Placeholder(text) => return text.clone(),
            Self::Filled(from) => from,
        };
        if let Some(field) = from["fieldRef"]["fieldPath"].as_str() {
            return field.to_owned();
        }
        let Some((kind, object)) = from.as_object().and_then(|from| from.iter().next()) else { return String::new() };
        let [name, key] = ["name", "key"].map(|field| object[field].as_str().unwrap_or_default());
        format!("{kind} {name}/{key}")
    }
}

/// The objects of the file, among which a `ConfigMap` may have values.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a>(pub(super) &'a [&'a Value]);

impl<'a> Maps<'a> {
    fn named(self, name: &Value) -> Option<&'a Value> {
        self.0.iter().copied().find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == *name)
    }

    /// What `valueFrom` stands for, in a pod of this namespace; None: for nothing.
    pub(super) fn filled(self, from: &Value, namespace: Option<&str>) -> Option<Variable> {
        let as_it_is = || Variable::Filled(from.clone());
        if from["fieldRef"]["fieldPath"] == NAMESPACE {
            return Some(namespace.map_or_else(as_it_is, |namespace| Variable::Text(namespace.to_owned())));
        }
        let reference = &from["configMapKeyRef"];
        let Some(map) = self.named(&reference["name"]).filter(|_| reference.is_object()) else {
            return Some(as_it_is());
        };
        let value = reference["key"].as_str().and_then(|key| text(&map["data"][key]));
        match value {
            Some(value) => Some(Variable::of(value)),
            None => (reference["optional"] != true).then(as_it_is),
        }
    }

    /// The variables of `envFrom`, and what is not in the file.
    pub(super) fn all_of(self, list: &Value) -> (Vec<(String, Variable)>, Elsewhere) {
        let (mut found, mut elsewhere) = (Vec::new(), Vec::new());
        for one in list.as_array().into_iter().flatten() {
            let map = self.named(&one["configMapRef"]["name"]).filter(|_| one["configMapRef"].is_object());
            if let Some(map) = map {
                let prefix = one["prefix"].as_str().unwrap_or_default();
                let data = map["data"].as_object().into_iter().flatten();
                found.extend(
                    data.filter_map(|(key, value)| Some((format!("{prefix}{key}"), Variable::of(text(value)?)))),
                );
            } else if let Some((kind, object)) =
                one.as_object().and_then(|one| one.iter().find(|(_, of)| of["name"].is_string()))
            {
                elsewhere.push(("envFrom", format!("{kind} {}", object["name"].as_str().unwrap_or_default())));
            }
        }
        (found, elsewhere)
    }
}
