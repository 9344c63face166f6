//! Set-ups of kube-vip as people have them: their settings, in a frame of our own.

use serde_json::{Value, json};

use super::super::*;
use super::{made, read};
use crate::manifest::report::Verdict;
use crate::settings::kube_vip::ENTRIES;

/// The set-ups that use something that Mooring does not do, and the setting that says so.
const REFUSED: [(&str, &str); 8] = [
    ("kubespray-bgp", "bgp_enable"),
    ("cap-packet-bgp", "bgp_enable"),
    ("bgp-gateway-chart", "bgp_enable"),
    ("harvester", "enable_service_security"),
    ("talos-vlan-services", "enable_service_security"),
    ("openstack-rke2", "enable_node_labeling"),
    ("microk8s", "lb_port"),
    ("palette-edge", "vip_ddns"),
];

fn variable((name, value): (&String, &Value)) -> Value {
    let from = match value["from"].as_str() {
        None => return json!({"name": name, "value": value}),
        Some("fieldRef") => json!({"fieldRef": {"fieldPath": value["fieldPath"]}}),
        Some(kind) => {
            let mut reference = value.clone();
            reference.as_object_mut().unwrap().remove("from");
            json!({kind: reference})
        }
    };
    json!({"name": name, "valueFrom": from})
}

fn framed(set_up: &Value) -> Value {
    let env: Vec<Value> = set_up["env"].as_object().unwrap().iter().map(variable).collect();
    let mut container = json!({"name": "kube-vip", "image": "kube-vip:1", "args": set_up["args"], "env": env});
    let metadata = json!({"name": "kube-vip", "namespace": "kube-system"});
    match set_up["kind"].as_str().unwrap() {
        "DaemonSet" => {
            let spec = json!({"serviceAccountName": "kube-vip", "containers": [container]});
            json!({"kind": "DaemonSet", "metadata": metadata, "spec": {"template": {"spec": spec}}})
        }
        "Pod" => {
            let path = "/etc/kubernetes/admin.conf";
            container["volumeMounts"] = json!([{"name": "kubeconfig", "mountPath": path}]);
            let volumes = json!([{"name": "kubeconfig", "hostPath": {"path": path}}]);
            json!({"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], "volumes": volumes}})
        }
        _ => json!({"config": set_up["config"], "env": set_up["env"]}),
    }
}

#[test]
fn each_moves_as_printed_or_is_refused_by_the_name_of_a_setting() {
    let all: Vec<Value> = serde_json::from_str(include_str!("set_ups.json")).unwrap();
    let mut moved = 0;
    for set_up in &all {
        let name = set_up["name"].as_str().unwrap();
        let from = read(&framed(set_up).to_string()).unwrap();
        let rows = from.rows(&Given::default());
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, setting)| *setting);
        match (made(&from), refused) {
            (Ok(text), None) => {
                moved += 1;
                let stopped = [Verdict::NotSupported, Verdict::Invalid];
                assert!(rows.iter().all(|row| !stopped.contains(&row.verdict)), "{name}: {rows:#?}");
                let again = read(&text).unwrap();
                let [before, mut after] = [&from, &again].map(|one| one.load(&Given::default()).unwrap().settings);
                // A pod with a service account says so.
                after.api.credentials = before.api.credentials;
                assert_eq!(before, after, "{name}: {text}");
            }
            (Err(error), Some(setting)) => {
                let said = error.to_string();
                assert!(said.contains(setting), "{name}: {said}");
                let row = rows.iter().find(|row| row.setting == setting).unwrap();
                assert_eq!(row.verdict, Verdict::NotSupported, "{name}: {row:?}");
            }
            (made, _) => panic!("{name}: {made:?}"),
        }
        for row in rows.iter().filter(|row| ENTRIES.iter().any(|entry| entry.env == row.setting)) {
            assert!(!row.value.is_empty() || row.verdict == Verdict::NoEffect, "{name}: {row:?}");
        }
    }
    assert_eq!((moved, all.len()), (22, 30));
}
