//! `HelmRelease`, with which Flux installs a chart.

use serde_json::Value;

use super::Place;
use super::umbrella::of_release;

/// The values that the object gives.
pub(super) fn places(object: &Value) -> Vec<Place> {
    if object["kind"] != "HelmRelease" {
        return Vec::new();
    }
    let spec = &object["spec"];
    let others = spec["valuesFrom"].as_array().into_iter().flatten();
    let name = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let elsewhere = others.map(|one| format!("{} {}", name(one, "kind"), name(one, "name"))).collect();
    let chart = [&spec["chart"]["spec"]["chart"], &spec["chartRef"]["name"], &object["metadata"]["name"]];
    let found = of_release(&spec["values"], &chart);
    found.map(|values| Place::Values { values, elsewhere }).into_iter().collect()
}
