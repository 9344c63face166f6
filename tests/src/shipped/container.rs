//! An image, unpacked, and run by runc with the user of the image, the capabilities of the manifests, a root file system that
//! cannot be written, and a network namespace of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::assets;
use crate::runner::Skip;
use crate::userns;

/// How long a program that goes on running is watched, in seconds.
const WATCHED: &str = "3";

/// An image that was unpacked.
pub(super) struct Container {
    runc: PathBuf,
    bundle: PathBuf,
    /// Its configuration in the image.
    pub config: Value,
}

impl Container {
    /// Unpacks an OCI archive below that folder. Skips where nothing can be run.
    pub fn unpacked(archive: &[u8], bundle: &Path) -> Result<Self> {
        if !userns::is_machine_root() {
            return Err(Skip("runc is run as root only".into()).into());
        }
        let runc = assets::ensure("runc", "runc").map_err(|error| Skip(error.to_string()))?;
        let config = unpack(archive, &bundle.join("rootfs"))?;
        Ok(Self { runc, bundle: bundle.to_owned(), config })
    }

    /// Where its files are.
    pub fn files(&self) -> PathBuf {
        self.bundle.join("rootfs")
    }

    /// Runs it with these arguments, for some seconds at most. Returns whether it ended well, and what it said.
    pub fn run(&self, arguments: &[&str], capabilities: &[&str]) -> Result<(bool, String)> {
        let said = &self.config["config"];
        let user = said["User"].as_str().and_then(|user| user.split_once(':')).context("the image has no user")?;
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("the user {text:?} is no number"));
        let mut words: Vec<&str> =
            said["Entrypoint"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.extend(arguments);
        let kinds = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
        let spec = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": number(user.0)?, "gid": number(user.1)?},
                "args": words,
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            },
            "root": {"path": "rootfs", "readonly": true},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/run/mooring", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=0700"]},
            ],
            "hostname": "image",
            "linux": {"namespaces": kinds},
        });
        fs::write(self.bundle.join("config.json"), spec.to_string())?;
        // Longer than a program may take to end by itself.
        let output = Command::new("timeout")
            .args(["--kill-after=10", WATCHED])
            .arg(&self.runc)
            .arg("--root")
            .arg(self.bundle.join("state"))
            .args(["run", "--bundle"])
            .arg(&self.bundle)
            .arg(format!("mooring-image-{}", std::process::id()))
            .output()
            .context("start runc")?;
        let all = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&all).into_owned()))
    }
}

/// Unpacks the layer of an OCI archive, and returns the image's configuration.
fn unpack(archive: &[u8], to: &Path) -> Result<Value> {
    let mut blobs = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        blobs.insert(entry.path()?.display().to_string(), bytes);
    }
    let blob = |descriptor: &Value| {
        let path = descriptor["digest"].as_str().unwrap_or_default().replacen(':', "/", 1);
        blobs.get(&format!("blobs/{path}")).with_context(|| format!("the archive has no {path}"))
    };
    let index: Value = serde_json::from_slice(blobs.get("index.json").context("the archive has no index.json")?)?;
    let manifest: Value = serde_json::from_slice(blob(&index["manifests"][0])?)?;
    ensure!(manifest["layers"].as_array().is_some_and(|layers| layers.len() == 1), "not one layer: {manifest}");
    tar::Archive::new(GzDecoder::new(blob(&manifest["layers"][0])?.as_slice())).unpack(to)?;
    Ok(serde_json::from_slice(blob(&manifest["config"])?)?)
}
