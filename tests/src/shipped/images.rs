//! The images start as the manifests start them: the release's archives, unpacked, and run by runc with the user of the image,
//! the capabilities of the manifests, a root file system that cannot be written, and a network namespace of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::assets;
use crate::release::{Binary, Program, Release, Target};
use crate::runner::Skip;
use crate::userns;

/// What the manifests let the agent keep.
const KEPT: [&str; 2] = ["CAP_NET_ADMIN", "CAP_NET_RAW"];
/// How long a program that goes on running is watched, in seconds.
const WATCHED: &str = "3";

/// Builds both programs, packs them, and starts them.
pub fn start(folder: &Path) -> Result<()> {
    if !userns::is_machine_root() {
        return Err(Skip("runc is run as root only".into()).into());
    }
    let runc = assets::ensure("runc", "runc").map_err(|error| Skip(error.to_string()))?;
    let target = Target::of_host().context("no release is for this machine")?;
    let release = Release::of_last_commit(env!("CARGO_PKG_VERSION"), None, true)?;
    for program in Program::ALL {
        let binary: Binary = release.build(program, target)?;
        let bundle = folder.join(program.name());
        let config = unpack(&release.archive(&binary)?, &bundle.join("rootfs"))?;
        let container = Container { runc: &runc, bundle: &bundle, config: &config };

        let (ended, said) = container.run(&["version"], &[])?;
        ensure!(ended && said == format!("{} {}\n", program.name(), release.version), "{program:?} version: {said}");
        match program {
            Program::Agent => agent(&container)?,
            Program::Allocator => {
                let (ended, said) = container.run(&["run"], &[])?;
                // There is no cluster: it says so, with a reason that names it.
                ensure!(said.contains("mooring-allocator starts"), "{ended}: {said}");
            }
        }
    }
    Ok(())
}

/// With its two capabilities the agent runs until it is asked to end; without one it says which.
fn agent(container: &Container<'_>) -> Result<()> {
    let arguments = ["run", "--address", "192.0.2.10", "--kubeconfig", "/none"];
    let (_, said) = container.run(&arguments, &KEPT)?;
    for wanted in ["mooring-agent starts", "kubeconfig /none does not exist", "asked to end"] {
        ensure!(said.contains(wanted), "{wanted:?} is not in what the agent says:\n{said}");
    }
    let (ended, said) = container.run(&arguments, &KEPT[..1])?;
    ensure!(!ended && said.contains("missing NET_RAW"), "without NET_RAW: {said}");
    Ok(())
}

/// An image that was unpacked.
struct Container<'a> {
    runc: &'a Path,
    bundle: &'a Path,
    /// Its configuration in the image.
    config: &'a Value,
}

impl Container<'_> {
    /// Runs it with these arguments, for some seconds at most. Returns whether it ended well, and what it said.
    fn run(&self, arguments: &[&str], capabilities: &[&str]) -> Result<(bool, String)> {
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
            .arg(self.runc)
            .arg("--root")
            .arg(self.bundle.join("state"))
            .args(["run", "--bundle"])
            .arg(self.bundle)
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
    tar::Archive::new(GzDecoder::new(blob(&manifest["layers"][0])?.as_slice())).unpack(to)?;
    Ok(serde_json::from_slice(blob(&manifest["config"])?)?)
}
