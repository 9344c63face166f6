//! `Application`, with which Argo CD installs a chart, and `ApplicationSet`, which makes applications.

use serde_json::Value;

use super::Place;
use super::parameters::set;
use super::umbrella::of_release;

/// The values that each source gives.
pub(super) fn places(object: &Value) -> Vec<Place> {
    let spec = match object["kind"].as_str() {
        Some("Application") => &object["spec"],
        Some("ApplicationSet") => &object["spec"]["template"]["spec"],
        _ => return Vec::new(),
    };
    let several = spec["sources"].as_array().into_iter().flatten();
    let place = |source: &Value| {
        let values = of(&source["helm"]);
        let files = source["helm"]["valueFiles"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let elsewhere = files.map(|name| format!("the file {name}")).collect();
        let found = of_release(&values, &[&source["chart"], &source["path"], &object["metadata"]["name"]]);
        found.map(|values| Place::Values { values, elsewhere })
    };
    several.chain([&spec["source"]]).filter(|source| source["helm"].is_object()).filter_map(place).collect()
}

/// An object of values counts before a text of values, and a parameter before both.
fn of(helm: &Value) -> Value {
    let text = || helm["values"].as_str().and_then(|text| serde_saphyr::from_str(text).ok());
    let object = Some(helm["valuesObject"].clone()).filter(Value::is_object);
    let mut values = object.or_else(text).unwrap_or_default();
    for one in helm["parameters"].as_array().into_iter().flatten() {
        if let Some(name) = one["name"].as_str() {
            set(&mut values, name, one["value"].clone());
        }
    }
    values
}
