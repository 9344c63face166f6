//! CRDs as the files of `manifests/crds`.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::build::Error;
use super::{pools, standalone};
use crate::GROUP;

/// A file, by its path within `manifests/crds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `ipam.cluster.x-k8s.io_inclusterippools.yaml`
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All that is generated for `manifests/crds`.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn files() -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for (folder, crds) in [("", pools()?), ("standalone/", standalone()?)] {
        for crd in crds {
            let text = format!("# Generated from the Rust types in allocator/api: do not edit.\n{}", to_yaml(&crd)?);
            files.push(File { path: format!("{folder}{GROUP}_{}.yaml", crd.spec.names.plural), text });
        }
    }
    Ok(files)
}

/// A CRD as YAML.
///
/// # Errors
/// [`Error::Yaml`]
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, Error> {
    // By way of a value: its keys are in order.
    let mut value = serde_json::to_value(crd).map_err(Error::Yaml)?;
    if let Some(conversion) = value.pointer_mut("/spec/conversion").and_then(Value::as_object_mut) {
        // In place of a CRD that names a webhook, "None" alone is refused: the webhook must be taken away, by name.
        conversion.entry("webhook").or_insert(Value::Null);
    }
    let mut text = String::new();
    block(&mut text, &value, 0);
    Ok(text)
}

/// A value on lines of its own, indented by so many spaces.
fn block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                text.push_str(&" ".repeat(indent));
                field(text, key, value, indent);
            }
        }
        Value::Array(items) => {
            for item in items {
                text.push_str(&" ".repeat(indent));
                text.push_str("- ");
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        for (n, (key, value)) in fields.iter().enumerate() {
                            if n > 0 {
                                text.push_str(&" ".repeat(indent + 2));
                            }
                            field(text, key, value, indent + 2);
                        }
                    }
                    // JSON is YAML.
                    other => line(text, other),
                }
            }
        }
        other => line(text, other),
    }
}

/// `key: value`, after an indent that is written already.
fn field(text: &mut String, key: &str, value: &Value, indent: usize) {
    scalar(text, key);
    text.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(text, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(text, value, indent);
        }
        other => {
            text.push(' ');
            line(text, other);
        }
    }
}

fn line(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => scalar(text, string),
        // Bounds are floats in the types of CRDs.
        Value::Number(number) if number.to_string().ends_with(".0") => {
            text.push_str(number.to_string().trim_end_matches(".0"));
        }
        // Writing to a String cannot fail.
        other => _ = write!(text, "{other}"),
    }
    text.push('\n');
}

/// A string: plain where YAML cannot take it for anything else, as JSON otherwise.
fn scalar(text: &mut String, string: &str) {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let plain = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.')
        && string.chars().all(|c| word(c) || c == ' ')
        && !string.ends_with(' ')
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&string.to_lowercase().as_str())
        && string.len() > 1;
    if plain {
        text.push_str(string);
    } else {
        _ = write!(text, "{}", Value::from(string));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::block;

    #[test]
    fn what_yaml_would_take_for_something_else_is_quoted() {
        let value = json!({
            "a": {"b": [{"c": "True", "d": 1}, "1.5", []], "e": {}}, "on": "plain words", "f": "a: b", "g": "x\ny", "h": true
        });
        let mut text = String::new();
        block(&mut text, &value, 0);
        let expected = "\"a\":\n  \"b\":\n  - \"c\": \"True\"\n    \"d\": 1\n  - \"1.5\"\n  - []\n  \"e\": {}\n\"f\": \"a: b\"\n\
                        \"g\": \"x\\ny\"\n\"h\": true\n\"on\": plain words\n";
        assert_eq!(text, expected);
    }
}
