//! The charts, as Helm renders them: they pass its lint, and where a chart and the manifests say the same, both give the same
//! objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::objects;
use crate::assets;
use crate::release::{self, Program};
use crate::runner::Skip;

/// Values of a chart (in its folder `ci`), and the folders and components of `manifests` that say the same.
struct Same {
    chart: Program,
    values: &'static str,
    folders: &'static [&'static str],
    components: &'static [&'static str],
}

const SAME: [Same; 12] = [
    Same { chart: Program::Agent, values: "services", folders: &["agent"], components: &[] },
    Same { chart: Program::Agent, values: "kube-vip", folders: &["agent"], components: &["agent/kube-vip-placement"] },
    Same {
        chart: Program::Agent,
        values: "lease-per-service",
        folders: &["agent"],
        components: &["agent/kube-vip-placement", "agent/kube-vip-placement/lease-per-service"],
    },
    Same { chart: Program::Agent, values: "control-plane", folders: &["agent-control-plane"], components: &[] },
    Same {
        chart: Program::Agent,
        values: "k3s",
        folders: &["agent", "agent-control-plane"],
        components: &["agent-control-plane/services"],
    },
    Same { chart: Program::Allocator, values: "claims-only", folders: &["overlays/management"], components: &[] },
    Same { chart: Program::Allocator, values: "services", folders: &["allocator"], components: &["crds/standalone"] },
    Same {
        chart: Program::Allocator,
        values: "endpoints",
        folders: &["allocator"],
        components: &["crds/standalone", "allocator/endpoints"],
    },
    Same {
        chart: Program::Allocator,
        values: "machine-addresses",
        folders: &["allocator"],
        components: &["crds/standalone", "allocator/machine-addresses"],
    },
    Same {
        chart: Program::Allocator,
        values: "phpipam",
        folders: &["allocator"],
        components: &["crds/standalone", "allocator/phpipam"],
    },
    Same {
        chart: Program::Allocator,
        values: "metal3",
        folders: &["allocator"],
        components: &["crds/standalone", "crds/metal3", "allocator/metal3"],
    },
    Same {
        chart: Program::Allocator,
        values: "openstack",
        folders: &["allocator"],
        components: &["crds/standalone", "crds/openstack", "allocator/openstack"],
    },
];

/// Labels that a chart gives to all that it makes, and manifests give otherwise.
const LABELS: [&str; 6] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
];

/// Where a chart is installed.
const fn namespace(chart: Program) -> &'static str {
    match chart {
        Program::Agent => "kube-system",
        Program::Allocator => "mooring-system",
    }
}

fn folder(chart: Program) -> PathBuf {
    release::root().join("charts").join(chart.name())
}

/// Helm, found or built; without it the charts are not tested.
fn helm() -> Result<PathBuf> {
    assets::helm().map_err(|error| Skip(error.to_string()).into())
}

/// `helm lint` of each chart, with its defaults and with each file of `ci`.
pub fn pass_lint() -> Result<()> {
    let helm = helm()?;
    for chart in Program::ALL {
        let folder = folder(chart);
        let run = |more: &[&Path]| {
            let mut command = Command::new(&helm);
            command.arg("lint").arg("--strict").arg(&folder);
            for file in more {
                command.arg("--values").arg(file);
            }
            assets::run(&mut command).map(drop)
        };
        run(&[])?;
        let mut count = 0;
        for entry in fs::read_dir(folder.join("ci")).context("read the charts' folder ci")? {
            run(&[&entry?.path()])?;
            count += 1;
        }
        ensure!(count >= 3, "charts/{}/ci has only {count} files", chart.name());
    }
    Ok(())
}

/// Each chart gives the objects of the manifests that say the same.
pub fn equal_manifests() -> Result<()> {
    let helm = helm()?;
    for same in SAME {
        let name = same.chart.name();
        let values = folder(same.chart).join("ci").join(format!("{}-values.yaml", same.values));
        let mut command = Command::new(&helm);
        command.args(["template", name, "--namespace", namespace(same.chart)]).arg(folder(same.chart));
        let chart = named(&assets::run(command.arg("--values").arg(&values))?)?;
        let manifests = named(&built(same.folders, same.components)?)?;
        let what =
            format!("charts/{name} with ci/{}-values.yaml, and manifests/{}", same.values, same.folders.join(", "));
        let keys = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        ensure!(keys(&chart) == keys(&manifests), "{what}: {:#?}\n{:#?}", keys(&chart), keys(&manifests));
        for (key, object) in &chart {
            ensure!(*object == manifests[key], "{what}: {key} differs:\n{object:#}\n{:#}", manifests[key]);
        }
    }
    Ok(())
}

/// What kustomize makes of these folders and components together.
fn built(folders: &[&str], components: &[&str]) -> Result<String> {
    let here = tempfile::tempdir()?;
    // kustomize takes relative paths only.
    let place = here.path().canonicalize()?;
    let up = "../".repeat(place.components().count() - 1);
    let manifests = release::root().join("manifests");
    let manifests = manifests.strip_prefix("/").context("the source has no absolute path")?;
    let paths =
        |names: &[&str]| names.iter().map(|name| format!("{up}{}/{name}", manifests.display())).collect::<Vec<_>>();
    let kustomization = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": paths(folders),
        "components": paths(components),
    });
    fs::write(place.join("kustomization.yaml"), kustomization.to_string())?;
    Ok(release::kustomize(&place)?)
}

/// The objects by their names, without what cannot be the same. A chart makes no Namespace: Helm does.
fn named(text: &str) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for mut object in objects(text)? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
        let name = format!("{kind} {}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        if kind == "Namespace" {
            continue;
        }
        same_form(&mut object);
        ensure!(all.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    Ok(all)
}

/// Takes Helm's labels away, at every depth, and puts what has no order into one.
fn same_form(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !LABELS.contains(&key.as_str()) && key != "helm.sh/resource-policy");
            for (key, field) in fields.iter_mut() {
                same_form(field);
                if let (Value::Array(list), "env" | "subjects") = (field, key.as_str()) {
                    list.sort_by_key(|one| one["name"].as_str().map(str::to_owned));
                }
            }
            let empty = |field: &Value| field == &serde_json::json!({}) || field == &serde_json::json!([]);
            let optional = ["labels", "annotations", "env"];
            fields.retain(|key, field| !(optional.contains(&key.as_str()) && empty(field)));
        }
        Value::Array(list) => list.iter_mut().for_each(same_form),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_of_helm_and_the_order_of_variables_do_not_count() {
        let chart = "---\nkind: A\nmetadata: {name: a, labels: {helm.sh/chart: x}}\nenv: [{name: b}, {name: a}]\n";
        let same =
            "kind: A\nmetadata: {name: a}\nenv: [{name: a}, {name: b}]\n---\nkind: Namespace\nmetadata: {name: n}\n";
        assert_eq!(named(chart).unwrap(), named(same).unwrap());
        for other in [
            "kind: A\nmetadata: {name: a}\nenv: [{name: a}, {name: c}]\n",
            "kind: A\nmetadata: {name: a, labels: {other: x}}\nenv: [{name: a}, {name: b}]\n",
            "kind: A\nmetadata: {name: b}\nenv: [{name: a}, {name: b}]\n",
        ] {
            assert_ne!(named(chart).unwrap(), named(other).unwrap(), "{other}");
        }
        assert!(named("kind: A\nmetadata: {name: a}\n---\nkind: A\nmetadata: {name: a}\n").is_err());
    }
}
