//! Who may claim from a pool without a namespace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{ParseExpressionError, Selector, SelectorExt as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Which namespaces may claim: those named, and those whose labels match. With neither, none may.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,

    /// By label. An empty selector matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector")]
    pub selector: Option<LabelSelector>,
}

/// A selector makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("spec.allowedNamespaces.selector: {0}")]
pub struct SelectorError(
    /// Why.
    #[from]
    ParseExpressionError,
);

impl AllowedNamespaces {
    /// Whether a namespace of that name, with these labels, may claim.
    ///
    /// # Errors
    /// The selector makes no sense: an operator that is not known, or values that do not go with it.
    pub fn allows(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<bool, SelectorError> {
        if self.names.iter().any(|one| one == name) {
            return Ok(true);
        }
        let Some(selector) = self.selector.clone() else { return Ok(false) };
        Ok(Selector::try_from(selector)?.matches(labels))
    }

    /// Whether labels play a part: without, nobody need look at the namespaces.
    #[must_use]
    pub fn needs_labels(&self) -> bool {
        self.selector.is_some()
    }
}

/// `metav1.LabelSelector`.
fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "By label. An empty selector matches all.",
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string"},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::AllowedNamespaces;

    #[test]
    fn by_name_or_by_label() {
        let text = r#"{"names":["a"],"selector":{"matchLabels":{"team":"net"}}}"#;
        let allowed: AllowedNamespaces = serde_json::from_str(text).expect("JSON");
        let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
        assert!(allowed.allows("a", &labels("x")).expect("a selector"));
        assert!(allowed.allows("b", &labels("net")).expect("a selector"));
        assert!(!allowed.allows("b", &labels("x")).expect("a selector"));
        assert!(!AllowedNamespaces::default().allows("a", &labels("net")).expect("a selector"));
    }
}
