//! An image as an OCI archive: an image layout in a tar file. `docker load`, `podman load`, `skopeo copy oci-archive:` and
//! `ctr images import` read it.

use serde_json::{Value, json};

use super::archive::{self, Entry};
use super::program::Program;
use super::source::Commit;
use super::{Error, Target, Version};
use crate::assets;

/// What an image is made of.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The program in it.
    pub program: Program,
    /// Its binary.
    pub binary: &'a [u8],
    /// For which machines.
    pub target: Target,
    /// Its version.
    pub version: &'a Version,
    /// The name that it gets where it is loaded: `mooring-agent:0.1.0`.
    pub name: &'a str,
    /// What it was made of.
    pub commit: &'a Commit,
}

/// A blob of the layout, and how others refer to it.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: assets::sha256_of(&bytes), bytes }
    }

    fn of(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len()})
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}

impl Image<'_> {
    /// The archive.
    ///
    /// # Errors
    /// The commit's time cannot be written.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let time = self.commit.rfc3339()?;
        let layer = archive::tar(vec![Entry::new(self.program.name(), self.binary).executable()], self.commit.time)?;
        let unpacked = assets::sha256_of(&layer);
        let layer = Blob::new(archive::gzip(&layer)?);
        let labels = self.program.labels(&self.version.to_string(), &self.commit.revision);
        let config = Blob::of(&json!({
            "architecture": self.target.arch(),
            "os": "linux",
            "created": time,
            "config": {
                "User": self.program.user(),
                "Entrypoint": [self.program.path()],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{unpacked}")]},
            "history": [{"created": time, "created_by": "cargo lab release"}],
        }));
        let manifest = Blob::of(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
            "annotations": labels,
        }));
        let mut listed = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        listed["platform"] = json!({"architecture": self.target.arch(), "os": "linux"});
        let tag = self.version.to_string();
        // The first is how containerd names the image, the second is what skopeo looks for.
        listed["annotations"] =
            json!({"io.containerd.image.name": full(self.name), "org.opencontainers.image.ref.name": tag});
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [listed],
        });
        // For a Docker that knows no OCI layout (before 25).
        let docker = json!([{"Config": config.path(), "RepoTags": [self.name], "Layers": [layer.path()]}]);
        let mut entries = vec![
            Entry::new("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string()),
            Entry::new("index.json", index.to_string()),
            Entry::new("manifest.json", docker.to_string()),
        ];
        entries.extend([layer, config, manifest].map(|blob| Entry::new(blob.path(), blob.bytes)));
        archive::tar(entries, self.commit.time)
    }
}

/// The name with its registry. `ctr images import` takes a name as it is, and a kubelet looks for the full one.
fn full(name: &str) -> String {
    match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_has_its_registry() {
        for (name, wanted) in [
            ("mooring-agent:0.1.0", "docker.io/library/mooring-agent:0.1.0"),
            ("mooring/mooring-agent:0.1.0", "docker.io/mooring/mooring-agent:0.1.0"),
            ("registry.example.org/mooring/mooring-agent:0.1.0", "registry.example.org/mooring/mooring-agent:0.1.0"),
            ("localhost/mooring-agent:0.1.0", "localhost/mooring-agent:0.1.0"),
            ("registry:5000/mooring-agent:0.1.0", "registry:5000/mooring-agent:0.1.0"),
        ] {
            assert_eq!(full(name), wanted);
        }
    }
}
