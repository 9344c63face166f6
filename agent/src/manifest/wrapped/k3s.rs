//! `HelmChart` and `HelmChartConfig`, with which k3s and RKE2 install a chart.

use serde_json::Value;

use super::Place;
use super::parameters::set;
use super::umbrella::of_release;

/// The values that the object gives.
pub(super) fn places(object: &Value) -> Vec<Place> {
    if !matches!(object["kind"].as_str(), Some("HelmChart" | "HelmChartConfig")) {
        return Vec::new();
    }
    let spec = &object["spec"];
    let mut values =
        spec["valuesContent"].as_str().and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or_default();
    for (name, value) in spec["set"].as_object().into_iter().flatten() {
        set(&mut values, name, value.clone());
    }
    let secrets = spec["valuesSecrets"].as_array().into_iter().flatten();
    let elsewhere = secrets.map(|one| format!("Secret {}", one["name"].as_str().unwrap_or_default())).collect();
    let found = of_release(&values, &[&spec["chart"], &object["metadata"]["name"]]);
    found.map(|values| Place::Values { values, elsewhere }).into_iter().collect()
}
