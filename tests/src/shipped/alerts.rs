//! Each alert has its section in the book, and the book has no section of an alert that is gone.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::objects;
use crate::release;

/// The alerts of a file of `manifests/monitoring`.
fn alerts(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(release::root().join("manifests/monitoring").join(file)).unwrap();
    let all = objects(&text).unwrap();
    let groups = all.iter().flat_map(|object| object["spec"]["groups"].as_array().unwrap());
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules.filter(|rule| rule["alert"].is_string()).cloned().collect()
}

#[test]
fn every_alert_has_its_section_and_every_section_its_alert() {
    let page = fs::read_to_string(release::root().join("docs/src/alerts.md")).unwrap();
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut named = BTreeSet::new();
    for file in ["agent-rules.yaml", "allocator-rules.yaml"] {
        let alerts = alerts(file);
        assert!(alerts.len() > 5, "{file} has only {}", alerts.len());
        for alert in alerts {
            let name = alert["alert"].as_str().unwrap().to_owned();
            assert!(sections.contains(name.as_str()), "docs/src/alerts.md has no section {name}");
            let section = format!("alerts.md#{}", name.to_lowercase());
            assert_eq!(alert["annotations"]["runbook"], section, "{name}");
            let severity = alert["labels"]["severity"].as_str().unwrap();
            assert!(page.contains(&format!("| `{severity}` |")), "{name}: {severity} is no severity of the page");
            for text in ["summary", "description"] {
                assert!(alert["annotations"][text].is_string(), "{name} has no {text}");
            }
            assert!(named.insert(name.clone()), "{name} is there twice");
        }
    }
    let gone: Vec<&&str> = sections.iter().filter(|section| !named.contains(**section)).collect();
    assert!(gone.is_empty(), "docs/src/alerts.md explains what is no alert: {gone:?}");
}
