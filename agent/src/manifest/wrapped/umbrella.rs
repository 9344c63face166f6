//! Values of a chart: of kube-vip's own, or of one that has it as a part.

use serde_json::Value;

use super::Place;

/// The names under which another chart has the values of kube-vip's.
const NAMES: [&str; 4] = ["kube-vip", "kubevip", "kubeVip", "kube_vip"];

/// The values of kube-vip's chart in a file that is no object, but values.
pub(super) fn places(object: &Value) -> Vec<Place> {
    if object["kind"].is_string() {
        return Vec::new();
    }
    let values = part(object).unwrap_or(object);
    vec![Place::Values { values: values.clone(), elsewhere: Vec::new() }]
}

/// The values of kube-vip's chart in those of a release. `chart`: the names of the chart and of the release.
pub(super) fn of_release(values: &Value, chart: &[&Value]) -> Option<Value> {
    let is_kube_vip = || chart.iter().any(|name| name.as_str().is_some_and(|name| name.contains("kube-vip")));
    part(values).or_else(|| is_kube_vip().then_some(values)).cloned()
}

fn part(values: &Value) -> Option<&Value> {
    NAMES.iter().map(|name| &values[*name]).find(|part| part.is_object())
}
