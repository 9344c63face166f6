//! From a Rust type to a CRD.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::rules::{self, Rules};

/// A CRD cannot be made: a mistake in the source, which no input can bring about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rule is for a field that the type does not have.
    #[error("{kind} has no {place} for a rule")]
    Place {
        /// The kind.
        kind: &'static str,
        /// A JSON pointer within its spec.
        place: &'static str,
    },
    /// What was made is no CRD.
    #[error("{kind}: {source}")]
    Shape {
        /// The kind.
        kind: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// It cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Json(serde_json::Error),
    /// It cannot be written as YAML.
    #[error("cannot be written as YAML: {0}")]
    Yaml(String),
}

/// A kind.
#[expect(clippy::struct_field_names, reason = "kind is what Kubernetes calls it")]
pub(super) struct Kind {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub labels: Value,
    pub versions: Vec<Version>,
}

/// A version of a kind.
pub(super) struct Version {
    pub name: &'static str,
    pub stored: bool,
    /// What clients are warned with; nothing where it is not deprecated.
    pub deprecated: Option<String>,
    pub columns: Value,
    pub description: &'static str,
    pub spec: Value,
    /// The status and its subresource, where it has one.
    pub status: Option<Value>,
}

impl Kind {
    /// The CRD.
    pub(super) fn crd(self) -> Result<CustomResourceDefinition, Error> {
        let versions: Vec<Value> = self.versions.iter().map(Version::to_json).collect();
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group), "labels": self.labels},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.kind.to_lowercase(),
                    "categories": ["cluster-api"],
                },
                "conversion": {"strategy": "None"},
                "versions": versions,
            },
        });
        serde_json::from_value(crd).map_err(|source| Error::Shape { kind: self.kind, source })
    }
}

impl Version {
    fn to_json(&self) -> Value {
        let mut properties = Map::from_iter([
            ("apiVersion".to_owned(), json!({"type": "string"})),
            ("kind".to_owned(), json!({"type": "string"})),
            ("metadata".to_owned(), json!({"type": "object"})),
            ("spec".to_owned(), self.spec.clone()),
        ]);
        let mut version = json!({
            "name": self.name,
            "served": true,
            "storage": self.stored,
            "additionalPrinterColumns": self.columns,
        });
        if let Some(status) = &self.status {
            properties.insert("status".to_owned(), status.clone());
            version["subresources"] = json!({"status": {}});
        }
        if let Some(warning) = &self.deprecated {
            version["deprecated"] = json!(true);
            version["deprecationWarning"] = json!(warning);
        }
        version["schema"] = json!({"openAPIV3Schema": {
            "type": "object",
            "description": self.description,
            "required": ["spec"],
            "properties": properties,
        }});
        version
    }
}

/// The structural schema of a type, with rules.
pub(super) fn schema<T: JsonSchema>(kind: &'static str, rules: &Rules) -> Result<Value, Error> {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    rules::put(&mut schema, rules).map_err(|place| Error::Place { kind, place })?;
    Ok(schema)
}

/// Takes out what only Rust cares for: titles, and nulls. An absent field and a null are the same to us, and the API server
/// removes nulls where the schema does not have them, so that CEL sees absent fields only.
fn tidy(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("title");
    object.remove("nullable");
    object.remove("$schema");
    // Widths of Rust that OpenAPI does not know.
    if object
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| !["int32", "int64", "date-time"].contains(&format))
    {
        object.remove("format");
    }
    // Defaults of Rust's types; those meant for the API server are put in by `extend` and are not empty.
    if object
        .get("default")
        .is_some_and(|default| default.is_null() || default == "" || default == &json!([]) || default.is_object())
    {
        object.remove("default");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        // Lines of the source are no paragraphs.
        *text = text.replace("\n\n", "\u{0}").replace('\n', " ").replace('\u{0}', "\n\n").replace('`', "");
    }
    for key in ["properties", "items", "additionalProperties"] {
        match object.get_mut(key) {
            Some(Value::Object(inner)) if key == "properties" => inner.values_mut().for_each(tidy),
            Some(inner) => tidy(inner),
            None => {}
        }
    }
}
