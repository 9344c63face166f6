//! What a program is made of, as `CycloneDX` JSON: every crate of its tree of dependencies, with its license and its digest; and
//! what the linker puts into every program ([`runtime`]).
//!
//! The tree is that of `cargo metadata`, for the release's target, without what only builds or tests need. Features are those
//! of the whole workspace, so that a crate may be named that a program does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::program::Program;
use super::source::Commit;
use super::{Error, Target, runtime};
use crate::assets;

/// What `cargo metadata` says, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None: a package of the workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// None: needed by the program itself.
    kind: Option<String>,
}

/// A package of `Cargo.lock`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
}

impl Package {
    /// The package URL; that of our own packages is the same in form, they are published nowhere.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn component(&self, kind: &str, sums: &BTreeMap<Locked<'_>, &str>) -> Value {
        let mut said = json!({
            "type": kind,
            "bom-ref": self.purl(),
            "name": self.name,
            "version": self.version,
            "purl": self.purl(),
        });
        if let Some(license) = &self.license {
            // Old packages write `MIT/Apache-2.0`, which is no SPDX expression.
            said["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(sum) = sums.get(&Locked { name: &self.name, version: &self.version })
            && self.source.is_some()
        {
            said["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        said
    }
}

/// What a program for that target is made of. `digest` is the SHA-256 of its binary.
///
/// # Errors
/// Cargo does not know its dependencies.
pub fn of(root: &Path, program: Program, target: Target, digest: &str, commit: &Commit) -> Result<Value, Error> {
    let mut cargo = Command::new(assets::cargo()?);
    cargo.current_dir(root).args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", target.triple()]);
    let said = assets::run(&mut cargo)?;
    let metadata: Metadata =
        serde_json::from_str(&said).map_err(|error| Error::unexpected("cargo metadata", error.to_string()))?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).map_err(Error::io("read Cargo.lock"))?;
    let sums = sums(&lock);

    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|one| (one.id.as_str(), one)).collect();
    let unknown = || Error::unexpected("cargo metadata", format!("it does not name the package {}", program.name()));
    let own = metadata.packages.iter().find(|one| one.source.is_none() && one.name == program.name());
    let own = own.ok_or_else(unknown)?;
    let tree = tree(&metadata.resolve.nodes, &own.id);
    let purl = |id: &&str| packages.get(id).map(|one| one.purl());
    let mut components: Vec<(String, Value)> = tree
        .keys()
        .filter(|id| **id != own.id)
        .filter_map(|id| packages.get(id))
        .map(|one| (one.purl(), one.component("library", &sums)))
        .collect();
    let linked = runtime::components(target)?.into_iter();
    let linked: Vec<_> = linked.map(|one| (one["bom-ref"].as_str().unwrap_or_default().to_owned(), one)).collect();
    let refs: Vec<String> = linked.iter().map(|(name, _)| name.clone()).collect();
    components.extend(linked);
    components.sort_by(|one, other| one.0.cmp(&other.0));
    let mut dependencies: Vec<(String, Vec<String>)> = tree
        .iter()
        .filter_map(|(id, needs)| {
            Some((purl(id)?, needs.iter().filter_map(purl).collect::<BTreeSet<_>>().into_iter().collect()))
        })
        .collect();
    for (_, needs) in dependencies.iter_mut().filter(|(name, _)| *name == own.purl()) {
        needs.extend(refs.iter().cloned());
        needs.sort();
    }
    dependencies.extend(refs.into_iter().map(|name| (name, Vec::new())));
    dependencies.sort();

    let mut subject = own.component("application", &sums);
    subject["hashes"] = json!([{"alg": "SHA-256", "content": digest}]);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": commit.rfc3339()?,
            "tools": {"components": [{"type": "application", "name": "cargo lab release", "version": own.version}]},
            "component": subject,
        },
        "components": components.into_iter().map(|(_, one)| one).collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(|(one, needs)| json!({"ref": one, "dependsOn": needs})).collect::<Vec<_>>(),
    }))
}

/// A package and all that it needs, each with what it needs itself.
fn tree<'a>(nodes: &'a [Node], from: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let nodes: BTreeMap<&str, &Node> = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut found = BTreeMap::new();
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let needed = |one: &&Dependency| one.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let all = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
        let needs: Vec<&str> = all.iter().filter(needed).map(|one| one.pkg.as_str()).collect();
        open.extend(&needs);
        found.insert(id, needs);
    }
    found
}

/// The digests of `Cargo.lock`: those of the packages' archives.
fn sums(lock: &str) -> BTreeMap<Locked<'_>, &str> {
    let mut all = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        if let (Some(name), Some(version), Some(sum)) =
            (field(block, "name"), field(block, "version"), field(block, "checksum"))
        {
            all.insert(Locked { name, version }, sum);
        }
    }
    all
}

/// The text after `key = ` in a package of `Cargo.lock`.
fn field<'a>(block: &'a str, key: &str) -> Option<&'a str> {
    block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_tree_is_named_with_license_and_digest() {
        let root = super::super::root();
        let Some(target) = Target::of_host() else { return };
        let commit = Commit { revision: "0".repeat(40), time: 0 };
        for program in Program::ALL {
            let said = of(&root, program, target, "d1", &commit).unwrap();
            assert_eq!(said, of(&root, program, target, "d1", &commit).unwrap());
            let components = said["components"].as_array().unwrap();
            let named: BTreeSet<&str> = components.iter().filter_map(|one| one["purl"].as_str()).collect();
            // What Cargo says in another way.
            let mut cargo = Command::new(assets::cargo().unwrap());
            cargo.current_dir(&root).args([
                "tree",
                "--locked",
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--target",
                target.triple(),
            ]);
            let tree = assets::run(cargo.args(["--package", program.name(), "--format", "{p}"])).unwrap();
            let mut count = 0;
            for line in tree.lines().skip(1) {
                let mut words = line.split(' ');
                let (name, version) = (words.next().unwrap(), words.next().unwrap().trim_start_matches('v'));
                let purl = format!("pkg:cargo/{name}@{version}");
                assert!(named.contains(purl.as_str()), "{purl} is missing");
                count += 1;
            }
            assert!(count > 100, "only {count}");
            let (linked, crates): (Vec<_>, Vec<_>) =
                components.iter().partition(|one| !one["purl"].as_str().unwrap().starts_with("pkg:cargo/"));
            assert_eq!(linked.len(), 3, "{linked:?}");
            let all = said["dependencies"].as_array().unwrap();
            let own = all.iter().find(|one| one["ref"] == said["metadata"]["component"]["bom-ref"]).unwrap();
            for part in linked {
                assert!(own["dependsOn"].as_array().unwrap().contains(&part["bom-ref"]), "{own}");
            }
            for component in crates {
                assert!(component["licenses"][0]["expression"].is_string(), "{component}");
                let ours = component["name"].as_str().unwrap().starts_with("mooring-");
                assert_eq!(component["hashes"][0]["content"].is_string(), !ours, "{component}");
            }
            assert_eq!(said["metadata"]["component"]["hashes"][0]["content"], "d1");
            // What only tests use.
            assert!(!named.iter().any(|one| one.starts_with("pkg:cargo/proptest@")), "{named:#?}");
        }
    }
}
