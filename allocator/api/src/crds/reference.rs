//! docs/src/reference/kinds.md, made from the CRDs.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::build::Error;
use super::{metal3, openstack, phpipam, pools, standalone};

const HEAD: &str = "\
# Kinds

<!-- Made from the CRDs of allocator/api by its tests: UPDATE_CRDS=1 cargo test -p mooring-api --test crds -->

The fields of the kinds that Mooring knows, in the version that the API server stores. `[]` after a name is an entry of a list.
The API server refuses an object that breaks a rule; the rules are given by what it then says.
";

const POOLS: &str = "
## Pools

Mooring brings these CRDs ([The allocator](../allocator.md)).
";

const OUTSIDE: &str = "
## Pools of outside systems

Each is a component of its own ([Providers](../providers.md)).
";

const STANDALONE: &str = "
## Claims and addresses

These CRDs are Cluster API's. Mooring brings them only to a cluster that has no Cluster API.
";

const METAL3: &str = "
## metal3's kinds

These CRDs are metal3's. Mooring brings them only to a cluster that has no metal3 ([metal3's pools](../metal3.md)).
";

const OPENSTACK: &str = "
## OpenStack's floating IPs

This CRD is that of Cluster API's provider for OpenStack. Mooring brings it only to a cluster that does not have that provider
([OpenStack](../openstack.md)).
";

/// The whole page.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn page() -> Result<String, Error> {
    let mut page = HEAD.to_owned();
    for (head, crds) in [
        (POOLS, pools()?),
        (OUTSIDE, phpipam()?),
        (STANDALONE, standalone()?),
        (METAL3, metal3()?),
        (OPENSTACK, openstack()?),
    ] {
        page.push_str(head);
        for crd in &crds {
            kind(&mut page, crd)?;
        }
    }
    Ok(page)
}

/// A section. Writing to a String cannot fail.
fn kind(page: &mut String, crd: &CustomResourceDefinition) -> Result<(), Error> {
    let versions = &crd.spec.versions;
    let Some(stored) = versions.iter().find(|version| version.storage) else { return Ok(()) };
    let schema = stored.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = serde_json::to_value(schema).map_err(Error::Json)?;
    let name = &crd.spec.names.kind;
    let about = text(&schema, "description");
    let scope = if crd.spec.scope == "Cluster" { "without a namespace" } else { "in a namespace" };
    let others: Vec<String> =
        versions.iter().filter(|one| !one.storage && one.served).map(|one| format!("`{}`", one.name)).collect();
    let others = if others.is_empty() { String::new() } else { format!(" Also served: {}.", others.join(", ")) };
    let _ = writeln!(page, "\n### {name}\n\n{about} `{}/{}`, {scope}.{others}\n", crd.spec.group, stored.name);
    let _ = writeln!(page, "| field | type | default | |\n| --- | --- | --- | --- |");
    let mut rules = Vec::new();
    for part in ["spec", "status"] {
        if let Some(field) = schema["properties"].get(part) {
            fields(page, &mut rules, part, field);
        }
    }
    if !rules.is_empty() {
        let _ = writeln!(page, "\nRules of {name}:\n\n{}", rules.join("\n"));
    }
    Ok(())
}

/// A row for each field below `path`, and what the rules of `path` and below say.
fn fields(page: &mut String, rules: &mut Vec<String>, path: &str, schema: &Value) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let line = format!("- `{path}{}`: {}", text(rule, "fieldPath"), text(rule, "message"));
        if !rules.contains(&line) {
            rules.push(line);
        }
    }
    if schema["type"] == "array" {
        return fields(page, rules, &format!("{path}[]"), &schema["items"]);
    }
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let default = match &field["default"] {
            Value::Null if required(name) && path.starts_with("spec") => "none: must be given".to_owned(),
            Value::Null => String::new(),
            default => format!("`{default}`"),
        };
        let about = text(field, "description").replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | {} | {default} | {about} |", kind_of(field));
        // Its parts have no descriptions: they are Kubernetes's own.
        if !is_label_selector(field) {
            fields(page, rules, &path, field);
        }
    }
}

fn is_label_selector(field: &Value) -> bool {
    field["properties"].get("matchExpressions").is_some()
}

/// A field's type, with its bounds.
fn kind_of(field: &Value) -> String {
    if is_label_selector(field) {
        return "label selector".to_owned();
    }
    let number = |key: &str| field[key].as_f64();
    match text(field, "type") {
        "array" => {
            let of = kind_of(&field["items"]);
            let most = number("maxItems").map(|most| format!(", at most {most}")).unwrap_or_default();
            format!("list of {of}{most}")
        }
        "object" if field["additionalProperties"].is_object() => {
            format!("map to {}", kind_of(&field["additionalProperties"]))
        }
        "integer" => match (number("minimum"), number("maximum")) {
            (Some(least), Some(most)) => format!("integer, {least} to {most}"),
            (Some(least), None) => format!("integer, at least {least}"),
            (None, Some(most)) => format!("integer, at most {most}"),
            (None, None) => "integer".to_owned(),
        },
        "string" if field["enum"].is_array() => {
            let values = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            values.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
        }
        "string" if text(field, "format") == "date-time" => "time".to_owned(),
        other => other.to_owned(),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_field_has_its_row_and_says_what_it_is() {
        let page = super::page().unwrap();
        for row in [
            "| `spec.allocationPrefixLength` | integer, 1 to 128 | `64` | ",
            "| `spec.poolRef.name` | string | none: must be given | ",
            "| `status.conditions[].status` | `True`, `False`, `Unknown` |  | ",
            "| `spec.allowedNamespaces.selector` | label selector |  | ",
            "| `spec.excludedAddresses` | list of string, at most 2048 |  | ",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            assert!(!row.ends_with("|  |"), "a field without a description: {row}");
        }
    }
}
