//! The values of kube-vip's chart.

use serde_json::{Value, json};

use super::{Maps, Shape, Source, Variable, left, text};
use crate::manifest::schedule::Schedule;

/// The settings of the values; None: they are another chart's. The chart gives `config.address` as `address`, `env` and
/// `envValueFrom` as they are, and `extraArgs` as flags.
pub(super) fn read(values: &Value, elsewhere: Vec<String>, maps: Maps<'_>) -> Option<Source> {
    let env = values["env"].as_object();
    let extra = values["extraArgs"].as_object();
    let address = text(&values["config"]["address"]).filter(|address| !address.is_empty());
    if env.is_none() && extra.is_none() && address.is_none() {
        return None;
    }
    let namespace = text(&values["namespaceOverride"]).filter(|name| !name.is_empty());
    let given = env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), Variable::of(text(value)?))));
    let by_kubelet = values["envValueFrom"].as_object().into_iter().flatten();
    let by_kubelet =
        by_kubelet.filter_map(|(name, from)| Some((name.clone(), maps.filled(from, namespace.as_deref())?)));
    let address = address.map(|address| ("address".to_owned(), Variable::of(address)));
    let args = extra.into_iter().flatten().map(|(name, value)| match text(value) {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    });
    let (of_maps, of_env) = maps.all_of(&values["envFrom"]);
    Some(Source {
        shape: Shape::ChartValues,
        args: std::iter::once("manager".to_owned()).chain(args).collect(),
        env: of_maps.into_iter().chain(address).chain(given).chain(by_kubelet).collect(),
        kubeconfig: None,
        service_account: true,
        namespace,
        schedule: schedule(values),
        elsewhere: of_env.into_iter().chain(elsewhere.into_iter().map(|from| ("values", from))).collect(),
        left: left(values),
    })
}

/// Whoever gives no tolerations has those of the chart.
fn schedule(values: &Value) -> Schedule {
    let mut schedule = Schedule::of(values);
    if values["tolerations"].is_null() {
        schedule.tolerations =
            json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]);
    }
    schedule
}
