//! An image as an OCI archive: an image layout in a tar file. `docker load`, `podman load`, `skopeo copy oci-archive:` and
//! `ctr images import` read it.

use std::io;

use serde_json::{Value, json};

use super::archive::{self, Entry};
use crate::assets;

/// What an image is made of.
#[derive(Clone, Debug)]
pub struct Image {
    /// The names that it gets where it is loaded, each with a tag: `mooring-agent:0.1.0`.
    pub names: Vec<String>,
    /// For which machines, as Go calls them: `amd64`.
    pub architecture: &'static str,
    /// Its configuration, without what is said of the layer.
    pub config: Value,
    /// What is said of it without being part of it.
    pub annotations: Value,
    /// Its files.
    pub layer: Layer,
    /// When it was made, in seconds since 1970.
    pub time: u64,
}

/// The files of an image.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The files.
    pub entries: Vec<Entry>,
    /// Whether they are packed: smaller, and much slower to make.
    pub packed: bool,
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

impl Layer {
    /// Its blob, the media type of that, and the digest of what is in it.
    fn blob(self, time: u64) -> io::Result<(Blob, &'static str, String)> {
        let layer = archive::tar(self.entries, time)?;
        let unpacked = assets::sha256_of(&layer);
        Ok(if self.packed {
            (Blob::new(archive::gzip(&layer)?), "application/vnd.oci.image.layer.v1.tar+gzip", unpacked)
        } else {
            (Blob::new(layer), "application/vnd.oci.image.layer.v1.tar", unpacked)
        })
    }
}

impl Image {
    /// The archive.
    ///
    /// # Errors
    /// A path is too long for a tar archive.
    pub fn archive(self) -> io::Result<Vec<u8>> {
        let Self { names, architecture, mut config, annotations, layer, time } = self;
        let (layer, media_type, unpacked) = layer.blob(time)?;
        config["architecture"] = architecture.into();
        config["os"] = "linux".into();
        config["rootfs"] = json!({"type": "layers", "diff_ids": [format!("sha256:{unpacked}")]});
        let config = Blob::of(&config);
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor(media_type)],
        });
        if !annotations.is_null() {
            manifest["annotations"] = annotations;
        }
        let manifest = Blob::of(&manifest);
        // One image, once for each of its names.
        let listed = names.iter().map(|name| {
            let mut listed = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
            listed["platform"] = json!({"architecture": architecture, "os": "linux"});
            let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
            // The first is how containerd names the image, the second is what skopeo looks for.
            listed["annotations"] =
                json!({"io.containerd.image.name": full(name), "org.opencontainers.image.ref.name": tag});
            listed
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": listed.collect::<Vec<_>>(),
        });
        // For a Docker that knows no OCI layout (before 25).
        let docker = json!([{"Config": config.path(), "RepoTags": names, "Layers": [layer.path()]}]);
        let mut entries = vec![
            Entry::new("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string()),
            Entry::new("index.json", index.to_string()),
            Entry::new("manifest.json", docker.to_string()),
        ];
        entries.extend([layer, config, manifest].map(|blob| Entry::new(blob.path(), blob.bytes)));
        archive::tar(entries, time)
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
