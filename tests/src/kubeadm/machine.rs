//! A host of the lab as a machine that kubeadm can use: containerd, a kubelet, images, a pod network.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::cgroups::Cgroups;
use super::images::{PAUSE, REPOSITORY};
use super::run::{Run, run};
use crate::assets::{self, Containers, Product};
use crate::host::{Host, Process, Spec};
use crate::lab::Lab;
use crate::observe::now;

/// What makes the host a machine.
const SCRIPT: &str = include_str!("machine.sh");
/// The name of its process.
pub const MACHINE: &str = "machine";
/// Where containerd listens, on every host.
pub const SOCKET: &str = "/run/containerd/containerd.sock";
/// How long containerd may take to start on a busy machine.
const STARTED: Duration = Duration::from_mins(1);
/// How long an image may take.
const IMPORTED: Duration = Duration::from_mins(2);

/// The programs that a machine has.
#[derive(Clone, Debug)]
pub struct Programs {
    /// containerd and what it needs.
    pub containers: Containers,
    /// kubeadm.
    pub kubeadm: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
    kubelet: PathBuf,
}

impl Programs {
    /// Finds them; the first time they are fetched or built.
    ///
    /// # Errors
    /// One cannot be had.
    pub fn find() -> Result<Self> {
        let path = |product| anyhow::Ok(assets::one(product)?.path);
        Ok(Self {
            kubeadm: path(Product::Kubeadm)?,
            kubectl: path(Product::Kubectl)?,
            kubelet: path(Product::Kubelet)?,
            containers: assets::containers()?,
        })
    }

    /// The folders of PATH that a machine has before others.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let own = [&self.kubelet, &self.kubeadm, &self.kubectl, &self.containers.runc];
        let own = own.into_iter().filter_map(|path| path.parent());
        own.chain([self.containers.folder.as_path()]).map(Path::to_owned).collect()
    }

    /// PATH on a machine.
    fn path(&self) -> Result<String> {
        let own = self.folders().into_iter();
        let rest = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(own.chain(rest)).context("a folder's name has a colon")?;
        Ok(path.to_string_lossy().into_owned())
    }
}

/// A host as a machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The host.
    pub host: Host,
    /// What runs on it.
    pub programs: Programs,
    process: Process,
    path: String,
}

/// The network of a host's pods.
#[must_use]
pub fn pods_of(host: &Host) -> String {
    format!("10.244.{}.0/24", host.number())
}

impl Machine {
    /// Starts it, with these images.
    ///
    /// # Errors
    /// The kernel refuses a mount, containerd does not start, or an image is refused.
    pub async fn start(
        lab: &Lab,
        host: &Host,
        programs: &Programs,
        cgroups: &Cgroups,
        images: &[PathBuf],
    ) -> Result<Self> {
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            host.netns().sysctl(key, "1")?;
        }
        let disk = disk(host);
        let write = |name: &str, text: &str| {
            let path = disk.join(name);
            let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
            parent.and_then(|()| fs::write(&path, text)).with_context(|| format!("write {}", path.display()))
        };
        write("machine.sh", SCRIPT)?;
        write("routes", &routes(lab, host))?;
        write("containerd.toml", &containerd(&disk, &programs.containers.folder))?;
        write("etc/cni/net.d/10-lab.conflist", &network(host))?;
        let path = programs.path()?;
        let process = host.start(
            Spec::new(MACHINE, "/bin/sh")
                .args([disk.join("machine.sh").display().to_string(), disk.display().to_string()])
                .args([lab.hosts_file().display().to_string(), cgroups.of(host.name())])
                .env("PATH", &path),
        )?;
        let machine = Self { host: host.clone(), programs: programs.clone(), process, path };
        machine.up().await?;
        for image in images {
            let import = machine.ctr("import").args(["images", "import", "--local", &image.display().to_string()]);
            run(&machine.host, import, IMPORTED).await.with_context(|| format!("import {}", image.display()))?;
        }
        Ok(machine)
    }

    /// Waits until containerd answers.
    ///
    /// # Errors
    /// It does not.
    pub async fn up(&self) -> Result<()> {
        let deadline = now() + STARTED;
        while let Err(error) = run(&self.host, self.ctr("ctr-version").args(["version"]), Duration::from_secs(5)).await
        {
            if !self.process.is_running() {
                bail!("{} is no machine: {}", self.host.name(), self.process.log_tail(8));
            }
            if now() > deadline {
                bail!("containerd on {} does not start: {error:#}; {}", self.host.name(), self.log("containerd", 8));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// A command of containerd's tool, about what the kubelet runs. `name`: that of its log.
    #[must_use]
    pub fn ctr(&self, name: &str) -> Run {
        Run::new(name, self.programs.containers.folder.join("ctr")).args(["--namespace", "k8s.io", "--address", SOCKET])
    }

    /// A command of kubeadm.
    #[must_use]
    pub fn kubeadm(&self, name: &str) -> Run {
        Run::new(name, &self.programs.kubeadm).env("PATH", &self.path)
    }

    /// The shell, with the machine's programs.
    #[must_use]
    pub fn shell(&self, name: &str) -> Run {
        Run::new(name, "/bin/sh").env("PATH", &self.path)
    }

    /// A file on it, wherever this process looks from: `etc/kubernetes/admin.conf`.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        disk(&self.host).join(path)
    }

    /// The last lines of a log: `containerd`, `kubelet`.
    #[must_use]
    pub fn log(&self, name: &str, lines: usize) -> String {
        let text = fs::read(self.file(&format!("{name}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n    ")
    }
}

/// What outlives a crash.
fn disk(host: &Host) -> PathBuf {
    host.dir().join("disk")
}

/// A line for each other host: its pods, and its address. What is none of theirs goes to the client, which drops it.
fn routes(lab: &Lab, host: &Host) -> String {
    let outside = lab.host("client").map_or_else(|_| "\n".to_owned(), |client| format!("\ndefault {}\n", client.ip4()));
    let others = lab.hosts().into_iter().filter(|other| other.name() != host.name());
    others.map(|other| format!("{} {}", pods_of(&other), other.ip4())).collect::<Vec<_>>().join("\n") + &outside
}

fn containerd(disk: &Path, plugins: &Path) -> String {
    let (disk, plugins) = (disk.display(), plugins.display());
    format!(
        "\
version = 3
root = \"/var/lib/containerd\"
state = \"/run/containerd\"
[grpc]
  address = \"{SOCKET}\"
[plugins.\"io.containerd.internal.v1.opt\"]
  path = \"{disk}/opt\"
[plugins.\"io.containerd.cri.v1.images\".pinned_images]
  sandbox = \"{REPOSITORY}/pause:{PAUSE}\"
[plugins.\"io.containerd.cri.v1.runtime\"]
  # The machine's root may not be allowed to take less than its own.
  restrict_oom_score_adj = true
  [plugins.\"io.containerd.cri.v1.runtime\".cni]
    bin_dirs = [\"{plugins}\"]
    conf_dir = \"/etc/cni/net.d\"
[plugins.\"io.containerd.grpc.v1.cri\"]
  stream_server_address = \"127.0.0.1\"
"
    )
}

/// A bridge, and routes between the hosts.
fn network(host: &Host) -> String {
    serde_json::json!({
        "cniVersion": "1.0.0", "name": "lab",
        "plugins": [{
            "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
            "ipam": {
                "type": "host-local", "ranges": [[{"subnet": pods_of(host)}]], "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
    .to_string()
}
