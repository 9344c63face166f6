//! The manifests of a release: the folders of `manifests` built by kustomize, the static pod, and what clusterctl reads.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::program::Program;
use super::{Error, Version};
use crate::assets;

/// The folders that are built, and the files that they become.
const BUILT: [(&str, &str); 5] = [
    ("overlays/services", "mooring-services.yaml"),
    ("overlays/k3s", "mooring-k3s.yaml"),
    ("overlays/management", "mooring-management.yaml"),
    ("monitoring", "mooring-monitoring.yaml"),
    // The names are clusterctl's.
    ("overlays/clusterctl", "ipam-components.yaml"),
];

/// The files that go with them as they are: for clusterctl, and one that kustomize does not take.
const COPIED: [(&str, &str); 3] = [
    ("manifests/overlays/clusterctl/metadata.yaml", "metadata.yaml"),
    ("manifests/policies/claim-finalizer.yaml", "mooring-policy-claim-finalizer.yaml"),
    ("static-pod/mooring-agent.yaml", "mooring-agent-static-pod.yaml"),
];

/// All of them, by their names.
///
/// # Errors
/// There is no kustomize, it refuses a folder, or `metadata.yaml` does not know the version.
pub fn all(root: &Path, version: &Version, registry: Option<&str>) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut made = Vec::new();
    for (folder, name) in BUILT {
        made.push((name, kustomize(&root.join("manifests").join(folder))?));
    }
    for (file, name) in COPIED {
        let path = root.join(file);
        made.push((name, fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))?));
    }
    let mut files = Vec::new();
    for (name, text) in made {
        if name == "metadata.yaml" {
            knows(&text, version)?;
        }
        if name == "ipam-components.yaml" {
            without_variables(&text)?;
        }
        let text = match registry {
            Some(registry) => in_registry(&text, registry),
            None => text,
        };
        files.push((name.to_owned(), text.into_bytes()));
    }
    Ok(files)
}

/// What `kubectl kustomize` makes of a folder.
///
/// # Errors
/// There is neither kubectl nor kustomize, or it refuses.
pub fn kustomize(folder: &Path) -> Result<String, Error> {
    let (program, verb) = match (assets::on_path("kubectl"), assets::on_path("kustomize")) {
        (Some(kubectl), _) => (kubectl, "kustomize"),
        (None, Some(kustomize)) => (kustomize, "build"),
        (None, None) => {
            let detail = "install kubectl (https://kubernetes.io/docs/tasks/tools) or kustomize".to_owned();
            return Err(assets::Error::Missing { program: "kubectl".into(), detail }.into());
        }
    };
    Ok(assets::run(Command::new(program).arg(verb).arg(folder))?)
}

/// The same text with the images of that registry.
fn in_registry(text: &str, registry: &str) -> String {
    Program::ALL.iter().fold(text.to_owned(), |text, program| {
        let name = program.name();
        text.replace(&format!("image: {name}:"), &format!("image: {registry}/{name}:"))
    })
}

/// clusterctl refuses a provider whose `metadata.yaml` does not name the series of the release.
fn knows(metadata: &str, version: &Version) -> Result<(), Error> {
    let wrong = |problem: String| Error::unexpected("manifests/overlays/clusterctl/metadata.yaml", problem);
    let said: Value = serde_saphyr::from_str(metadata).map_err(|error| wrong(error.to_string()))?;
    let (major, minor) = version.series();
    let mut all = said["releaseSeries"].as_array().into_iter().flatten();
    if all.any(|one| one["major"] == major && one["minor"] == minor) {
        return Ok(());
    }
    Err(wrong(format!("it has no series {major}.{minor}: add it under releaseSeries, with the contract that it keeps")))
}

/// clusterctl takes `${NAME}` for a variable of its own.
fn without_variables(text: &str) -> Result<(), Error> {
    let found = text.lines().find(|line| line.contains("${"));
    found.map_or(Ok(()), |line| {
        Err(Error::unexpected(
            "ipam-components.yaml",
            format!("clusterctl would replace a variable here: {}", line.trim()),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries() {
        let text = "  image: mooring-agent:0.1.0\n- image: mooring-allocator:0.1.0\n  image: other:1\n";
        let there = "  image: r.example/m/mooring-agent:0.1.0\n- image: r.example/m/mooring-allocator:0.1.0\n  image: other:1\n";
        assert_eq!(in_registry(text, "r.example/m"), there);
    }

    #[test]
    fn clusterctl_gets_a_known_series_and_no_variables() {
        let file = super::super::root().join("manifests/overlays/clusterctl/metadata.yaml");
        let metadata = fs::read_to_string(file).unwrap();
        knows(&metadata, &Version::read(env!("CARGO_PKG_VERSION")).unwrap()).unwrap();
        let unknown = knows(&metadata, &Version::read("99.1.0").unwrap()).unwrap_err().to_string();
        assert!(unknown.contains("99.1"), "{unknown}");
        assert!(without_variables("a: $(b) $c").is_ok() && without_variables("a: ${b}").is_err());
    }
}
