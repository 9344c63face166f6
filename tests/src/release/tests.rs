//! A whole release of something that stands for the programs: nothing is compiled here.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use super::*;

const REGISTRY: &str = "registry.example.org/mooring";

fn release() -> Release {
    Release {
        root: root(),
        version: Version::read(env!("CARGO_PKG_VERSION")).unwrap(),
        registry: Some(REGISTRY.to_owned()),
        commit: Commit { revision: "0123456789".repeat(4), time: 1_767_323_045 },
    }
}

/// This machine has the linker for its own kind.
fn target() -> Target {
    Target::of_host().unwrap_or(Target::Amd64)
}

fn binaries() -> Vec<Binary> {
    let binary = |program: Program| {
        // Something that gzip has work with.
        let bytes = (0..50_000_u32).flat_map(|n| (n * 7 + n / 251).to_le_bytes()).chain(program.name().bytes());
        Binary { program, target: target(), bytes: bytes.collect() }
    };
    Program::ALL.map(binary).into()
}

fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(folder).unwrap().into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

/// The files of a tar archive.
fn unpacked(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(bytes);
    let mut all = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        all.insert(entry.path().unwrap().display().to_string(), content);
    }
    all
}

#[test]
fn a_release_made_twice_is_the_same_and_whole() {
    if assets::on_path("kubectl").is_none() && assets::on_path("kustomize").is_none() {
        println!("skipped: neither kubectl nor kustomize is installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let names = release().write(&binaries(), &one).unwrap();
    release().write(&binaries().into_iter().rev().collect::<Vec<_>>(), &other).unwrap();
    let all = content(&one);
    assert_eq!(all, content(&other));
    assert_eq!(names.len(), all.len());

    // What the sums say, by the program that people use.
    assets::run(Command::new("sha256sum").current_dir(&one).args(["--check", "--strict", "SHA256SUMS"])).unwrap();
    assert_eq!(String::from_utf8(all[Path::new("SHA256SUMS")].clone()).unwrap().lines().count(), all.len() - 1);
    let version = env!("CARGO_PKG_VERSION");
    let mode = |name: &str| fs::metadata(one.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&format!("mooring-agent-{version}-linux-{}", target().arch())), 0o755);

    // No manifest names an image that is not the release's.
    let mut images = 0;
    for (name, bytes) in all.iter().filter(|(name, _)| name.extension().is_some_and(|end| end == "yaml")) {
        for line in String::from_utf8(bytes.clone()).unwrap().lines().filter(|line| line.contains(" image: ")) {
            let ours = Program::ALL
                .iter()
                .any(|program| line.ends_with(&format!("image: {REGISTRY}/{}:{version}", program.name())));
            assert!(ours, "{}: {line}", name.display());
            images += 1;
        }
    }
    assert_eq!(images, 8, "static pod 1, services 2, k3s 3, management 1, clusterctl 1");
}

#[test]
fn clusterctl_finds_what_it_looks_for() {
    if assets::on_path("kubectl").is_none() && assets::on_path("kustomize").is_none() {
        println!("skipped: neither kubectl nor kustomize is installed");
        return;
    }
    let files: BTreeMap<_, _> = manifests::all(&root(), &release().version, None).unwrap().into_iter().collect();
    let text = String::from_utf8(files["ipam-components.yaml"].clone()).unwrap();
    let objects = crate::shipped::objects(&text).unwrap();
    for object in &objects {
        let (kind, metadata) = (&object["kind"], &object["metadata"]);
        assert_eq!(metadata["labels"]["cluster.x-k8s.io/provider"], "ipam-mooring", "{kind} {metadata}");
        if kind == "CustomResourceDefinition" {
            assert_eq!(metadata["labels"]["clusterctl.cluster.x-k8s.io"], "", "{metadata}");
            // The contract that metadata.yaml names.
            assert!(metadata["labels"]["cluster.x-k8s.io/v1beta2"].is_string(), "{metadata}");
        }
    }
    let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
    assert_eq!((count("Namespace"), count("Deployment"), count("CustomResourceDefinition")), (1, 1, 4));
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    // The selector of a Deployment never changes: a label of clusterctl's must not be in it.
    assert!(deployment["spec"]["selector"]["matchLabels"].get("cluster.x-k8s.io/provider").is_none());
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["name"], "manager");
}

#[test]
fn an_image_is_what_its_digests_say() {
    let release = release();
    for binary in binaries() {
        let files = unpacked(&release.archive(&binary).unwrap());
        let json = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(assets::sha256_of(bytes), digest);
            assert_eq!(descriptor["size"], bytes.len());
            bytes.clone()
        };
        assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");
        let listed = &json("index.json")["manifests"][0];
        assert_eq!(listed["annotations"]["io.containerd.image.name"], release.image(binary.program));
        let manifest: Value = serde_json::from_slice(&blob(listed)).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let mut layer = Vec::new();
        let packed = blob(&manifest["layers"][0]);
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", assets::sha256_of(&layer)));
        assert_eq!(config["config"]["User"], binary.program.user());
        let program = config["config"]["Entrypoint"][0].as_str().unwrap().trim_start_matches('/');
        assert_eq!(unpacked(&layer), [(program.to_owned(), binary.bytes)].into());
        // The form before OCI names the same blobs.
        let docker = &json("manifest.json")[0];
        assert!(files.contains_key(docker["Config"].as_str().unwrap()));
        assert!(files.contains_key(docker["Layers"][0].as_str().unwrap()));
    }
}
