//! The CRDs in `manifests/crds` and in the chart are those that the Rust types make, and the book's page of kinds says the same.
//! `UPDATE_CRDS=1 cargo test -p mooring-api
//! --test crds` writes them anew. The chart's other files are those of `manifests/monitoring`, and are written anew with them: Helm
//! reads nothing outside a chart's folder.
#![allow(clippy::expect_used, reason = "a test that cannot go on shall say where")]

use std::path::{Path, PathBuf};

use mooring_api::crds;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The file has this text, or gets it with `UPDATE_CRDS`.
fn is_up_to_date(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_CRDS").is_some() {
        std::fs::write(path, text).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == text, "{} is out of date: UPDATE_CRDS=1 writes it anew", path.display());
}

#[test]
fn the_manifests_are_up_to_date() {
    for folder in ["manifests/crds", "charts/mooring-allocator/files/crds"] {
        for file in crds::files().expect("the CRDs can be made") {
            // Pools of outside systems are no part of the chart.
            if folder.starts_with("charts") && file.path.starts_with("phpipam/") {
                continue;
            }
            is_up_to_date(&root().join(folder).join(&file.path), &file.text);
        }
    }
}

#[test]
fn the_page_of_kinds_is_up_to_date() {
    let page = crds::reference::page().expect("the page can be made");
    is_up_to_date(&root().join("docs/src/reference/kinds.md"), &page);
}

#[test]
fn the_charts_have_the_same_alerts_and_dashboard() {
    let monitoring = root().join("manifests/monitoring");
    for program in ["agent", "allocator"] {
        let file = format!("{program}-rules.yaml");
        let rules = std::fs::read_to_string(monitoring.join(&file)).expect("the rules are there");
        let (_, spec) = rules.split_once("\nspec:\n").expect("the rules have a spec");
        let groups: String = spec.lines().flat_map(|line| [line.strip_prefix("  ").unwrap_or(line), "\n"]).collect();
        let text = format!("# As in manifests/monitoring/{file}, below spec.\n{groups}");
        is_up_to_date(&root().join(format!("charts/mooring-{program}/files/rules.yaml")), &text);
    }
    let dashboard = std::fs::read_to_string(monitoring.join("mooring.json")).expect("the dashboard is there");
    is_up_to_date(&root().join("charts/mooring-agent/files/mooring.json"), &dashboard);
}
