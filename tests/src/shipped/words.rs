//! The words that programs write for people stand in the book: the reasons of Events and conditions, the metrics, and the names of
//! annotations, labels and finalizers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::release;

/// Where reasons are written, below the root.
const REASONS: [&str; 9] = [
    "agent/src/reports.rs",
    "agent/src/catalog/remarks.rs",
    "agent/src/session_vips/reports.rs",
    "agent/src/control_plane/objects.rs",
    "allocator/api/src/conditions.rs",
    "allocator/services/src/reason.rs",
    "allocator/src/driver/claims/notes.rs",
    "allocator/src/driver/placement_hints.rs",
    "allocator/src/driver/service_controller/notes.rs",
];

/// Words of the same files that are no reasons: the actions of Events.
const ACTIONS: [&str; 2] = ["HandOver", "MakePools"];

/// Where metrics are registered.
const METRICS: [&str; 2] = ["agent/src/ops/metrics.rs", "allocator/src/ops/metrics.rs"];

fn read(path: &str) -> String {
    fs::read_to_string(release::root().join(path)).unwrap()
}

/// Where names on objects are read and written, below the root.
const MARKED: [&str; 7] = [
    "agent/src",
    "agent/core/src",
    "allocator/src",
    "allocator/api/src",
    "allocator/core/src",
    "allocator/services/src",
    "common",
];

/// How names of others and our own begin.
const PREFIXES: [&str; 3] = ["mooring.dev/", "kube-vip.io/", "service.kubernetes.io/"];

/// Names of programs and of a class, which no object has in its metadata.
const NO_MARKS: [&str; 3] = ["mooring.dev/agent", "mooring.dev/allocator", "kube-vip.io/kube-vip-class"];

/// The string literals of a Rust file, without its tests.
fn literals(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    code.join("\n").split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// As `WaitingForNode` is, or `VIPTaken`: several words, each with a capital.
fn is_reason(word: &str) -> bool {
    let capitals = word.chars().filter(char::is_ascii_uppercase).count();
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && capitals >= 2
        && word.chars().any(|c| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_alphabetic())
}

/// The Rust files below a folder, without those that only tests have.
fn rust_files(folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(release::root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}/{name}");
        if entry.file_type().unwrap().is_dir() && name != "tests" {
            rust_files(&path, found);
        } else if Path::new(&name).extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

fn pages(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &pages(&path);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn every_reason_is_in_the_book() {
    let book = pages(&release::root().join("docs/src"));
    let mut reasons = BTreeSet::new();
    for file in REASONS {
        let of_file: BTreeSet<String> = literals(file).into_iter().filter(|word| is_reason(word)).collect();
        assert!(!of_file.is_empty(), "{file} has no reasons: they are elsewhere now");
        reasons.extend(of_file);
    }
    let missing: Vec<&String> = reasons
        .iter()
        .filter(|reason| !ACTIONS.contains(&reason.as_str()) && !book.contains(&format!("`{reason}`")))
        .collect();
    assert!(missing.is_empty(), "reasons of Events or conditions that no page explains: {missing:?}");
}

#[test]
fn every_metric_is_in_the_book() {
    let book = pages(&release::root().join("docs/src"));
    for file in METRICS {
        let names = names_of_metrics(file);
        assert!(names.len() > 5, "{file} registers few metrics: they are elsewhere now");
        let missing: Vec<&String> = names.iter().filter(|name| !book.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "metrics of {file} that the book does not have: {missing:?}");
    }
}

/// What the registry's functions are called with first.
fn names_of_metrics(file: &str) -> Vec<String> {
    let text = read(file).replace(".register_with_unit(", ".register(");
    let calls = text.split(".register(").skip(1);
    let first = calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split('"').next());
    first.map(str::to_owned).collect()
}

#[test]
fn every_name_on_objects_is_on_its_page() {
    let page = read("docs/src/reference/annotations.md");
    let mut files = Vec::new();
    for folder in MARKED {
        rust_files(folder, &mut files);
    }
    let mut count = 0;
    for file in files {
        for literal in literals(&file) {
            // A selector has a value too.
            let name = literal.split('=').next().unwrap_or_default();
            let mark = PREFIXES.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()));
            let name_like = name.chars().all(|c| c.is_ascii_alphanumeric() || "./-".contains(c));
            if mark && name_like && !NO_MARKS.contains(&name) {
                assert!(
                    page.contains(&format!("`{name}`")),
                    "{file} has {name}, which docs/src/reference/annotations.md has not"
                );
                count += 1;
            }
        }
    }
    assert!(count > 30, "only {count} names: they are elsewhere now");
}
