//! What runs elsewhere calls the commands that people call, with the same toolchain; and has no more rights than it needs.

use std::fs;

use serde_json::{Value, json};

use crate::release;

fn workflow(name: &str) -> Value {
    let text = fs::read_to_string(release::root().join(".github/workflows").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// The steps of a workflow's job; none where it calls another workflow.
fn steps_of(job: &Value) -> Vec<Value> {
    job["steps"].as_array().cloned().unwrap_or_default()
}

fn steps(name: &str) -> Vec<Value> {
    workflow(name)["jobs"].as_object().unwrap().values().flat_map(steps_of).collect()
}

fn runs<'a>(steps: &'a [Value], command: &'a str) -> impl Iterator<Item = &'a str> {
    steps.iter().filter_map(|step| step["run"].as_str()).filter(move |run| run.contains(command))
}

#[test]
fn workflows_call_the_lab_with_the_toolchain_of_the_workspace() {
    for (name, command) in [
        ("ci.yaml", "cargo lab test"),
        ("nightly.yaml", "cargo lab nightly"),
        ("release.yaml", "cargo lab release \"$GITHUB_REF_NAME\""),
    ] {
        let steps = steps(name);
        assert_eq!(runs(&steps, command).count(), 1, "{name} calls `{command}` once");
        let version = env!("CARGO_PKG_RUST_VERSION");
        for part in [format!("rustup toolchain install {version} "), format!("rustup default {version}")] {
            assert_eq!(runs(&steps, &part).count(), 1, "{name} calls `{part}` once");
        }
        // Nothing else is tested or built elsewhere than what these commands do.
        for run in runs(&steps, "") {
            let others = run.matches("cargo ").count() - run.matches("cargo lab ").count();
            assert_eq!(others, 0, "{name}: {run}");
        }
    }
}

/// A tag of somebody else's repository may become another commit any day.
#[test]
fn actions_are_named_by_their_commits() {
    for name in ["ci.yaml", "nightly.yaml", "release.yaml"] {
        for action in steps(name).iter().filter_map(|step| step["uses"].as_str()) {
            let (who, commit) = action.split_once('@').unwrap_or((action, ""));
            assert!(who.starts_with("actions/"), "{name}: {action} is not of GitHub's own");
            let digest = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(digest, "{name}: {action} is not named by its commit");
        }
    }
}

#[test]
fn the_nightly_round_runs_each_night_and_may_only_read() {
    let nightly = workflow("nightly.yaml");
    assert_eq!(nightly["on"]["schedule"].as_array().map(Vec::len), Some(1));
    assert_eq!(nightly["permissions"], json!({"contents": "read"}));
    // Seeds of its own for each night, as many as one sweep runs.
    assert_eq!(runs(&steps("nightly.yaml"), "$((GITHUB_RUN_NUMBER * SEEDS))").count(), 1);
}

#[test]
fn a_release_is_tested_first_and_what_may_write_runs_nothing_of_the_source() {
    let release = workflow("release.yaml");
    assert_eq!(release["permissions"], json!({}));
    let jobs = &release["jobs"];
    assert_eq!(jobs["test"]["uses"], "./.github/workflows/ci.yaml");
    for (job, before) in [("build", "test"), ("images", "build"), ("draft", "images")] {
        assert_eq!(jobs[job]["needs"], before, "{job}");
    }
    let rights = [
        ("test", json!({"contents": "read"})),
        ("build", json!({"contents": "read"})),
        ("images", json!({"packages": "write"})),
        ("draft", json!({"contents": "write"})),
    ];
    assert_eq!(jobs.as_object().unwrap().len(), rights.len());
    for (job, rights) in rights {
        assert_eq!(jobs[job]["permissions"], rights, "{job}");
        let steps = steps_of(&jobs[job]);
        let source = steps.iter().any(|step| step["uses"].as_str().is_some_and(|uses| uses.contains("/checkout@")));
        assert_eq!(source, job == "build", "{job}");
    }
}
