//! Cluster API's topologies: a `ClusterClass` may make a file of a variable of a `Cluster`, or of a template of its own.

use serde_json::Value;

use super::{Coding, Place, Step};

/// The variables that are texts, and the templates.
pub(super) fn places(object: &Value) -> Vec<Place> {
    match object["kind"].as_str() {
        Some("Cluster") => search(object, Vec::new(), &["spec", "topology", "variables", "*", "value"]),
        Some("ClusterClass") => {
            let inside = ["spec", "patches", "*", "definitions", "*", "jsonPatches", "*", "valueFrom", "template"];
            search(object, Vec::new(), &inside)
        }
        _ => Vec::new(),
    }
}

/// The texts at a path, on which `*` is each entry of a list.
fn search(value: &Value, at: Vec<Step>, path: &[&str]) -> Vec<Place> {
    let on = |step| at.iter().cloned().chain([step]).collect();
    match path {
        [] => {
            let text = value.as_str().map(str::to_owned);
            text.map(|text| Place::Text { path: at, text, coding: Coding::Plain }).into_iter().collect()
        }
        ["*", rest @ ..] => {
            let items = value.as_array().into_iter().flatten().enumerate();
            items.flat_map(|(index, item)| search(item, on(Step::Entry(index)), rest)).collect()
        }
        [name, rest @ ..] => search(&value[*name], on(Step::Field((*name).to_owned())), rest),
    }
}
