//! What runs elsewhere calls the commands that people call, with the same toolchain.

use std::fs;

use serde_json::Value;

use crate::release;

fn steps(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(release::root().join(".github/workflows").join(name)).unwrap();
    let workflow: Value = serde_saphyr::from_str(&text).unwrap();
    let jobs = workflow["jobs"].as_object().unwrap();
    jobs.values().flat_map(|job| job["steps"].as_array().unwrap().clone()).collect()
}

#[test]
fn workflows_call_the_lab_with_the_toolchain_of_the_workspace() {
    for (name, command) in [("ci.yaml", "cargo lab test"), ("release.yaml", "cargo lab release \"$GITHUB_REF_NAME\"")] {
        let steps = steps(name);
        let runs = |step: &&Value| step["run"].as_str().is_some_and(|run| run.contains(command));
        assert_eq!(steps.iter().filter(runs).count(), 1, "{name} calls `{command}` once");
        let toolchain =
            steps.iter().find(|step| step["uses"].as_str().is_some_and(|uses| uses.contains("rust-toolchain")));
        assert_eq!(toolchain.unwrap()["with"]["toolchain"], env!("CARGO_PKG_RUST_VERSION"), "{name}");
        // Nothing else is tested or built elsewhere than what these commands do.
        for step in &steps {
            let run = step["run"].as_str().unwrap_or_default();
            let others = run.matches("cargo ").count() - run.matches("cargo lab ").count();
            assert_eq!(others, 0, "{name}: {run}");
        }
    }
}
