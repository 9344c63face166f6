//! A cluster that kubeadm makes: three control planes with our static pod, workers, and a client outside.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use serde_json::Value;

use super::cgroups::Cgroups;
use super::config::{self, Join, documents};
use super::images::Images;
use super::machine::{Machine, Programs};
use super::run::{Ran, Run, run};
use crate::agents::AgentOptions;
use crate::assets::{self, Profile};
use crate::host::Host;
use crate::lab::{Lab, Shape};
use crate::observe::https::{Https, Target};
use crate::observe::now;
use crate::rig::control_plane::ControlPlaneRig;

/// All machines.
pub const ALL: [&str; 5] = ["cp1", "cp2", "cp3", "w1", "w2"];
/// The workers, and the last part of their addresses.
pub const WORKERS: [(&str, u8); 2] = [("w1", 31), ("w2", 32)];
/// How long `kubeadm init` or `join` may take on a busy machine.
const MADE: Duration = Duration::from_mins(5);
/// How long nodes and pods may take to be ready.
pub const READY: Duration = Duration::from_mins(3);
/// For one command of kubectl.
const ASKED: Duration = Duration::from_secs(30);
/// What kubeadm finds wrong with a namespace and need not: the kernel of a machine, and programs that only it would use.
pub const IGNORED: &str = "SystemVerification,ImagePull,FileExisting-conntrack,FileExisting-crictl,FileExisting-ethtool,\
                       FileExisting-iptables,FileExisting-socat,FileExisting-tc,Swap,NumCPU,Mem";
/// Where a control plane has our static pod.
const STATIC_POD: &str = "etc/kubernetes/manifests/mooring-agent.yaml";

/// What clusters are made of.
pub struct Parts {
    /// The programs of a machine.
    pub programs: Programs,
    /// The images.
    pub images: Images,
    agent: PathBuf,
    /// Where the archives are; deleted with this.
    _folder: tempfile::TempDir,
}

impl Parts {
    /// Finds or builds all: minutes the first time. `profile`: how our programs are built.
    ///
    /// # Errors
    /// Something cannot be had.
    pub fn find(profile: Profile) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("mooring-images-").tempdir().context("make a folder")?;
        let programs = Programs::find()?;
        let images = Images::write(folder.path(), profile)?;
        Ok(Self { programs, images, agent: assets::agent(profile)?, _folder: folder })
    }
}

/// The cluster. It ends when it is dropped; the cgroups are the last.
pub struct KubeadmCluster {
    /// Its lab, and observers of the VIP.
    pub rig: ControlPlaneRig,
    /// The control planes and workers.
    pub machines: BTreeMap<String, Machine>,
    client: Host,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    agent: PathBuf,
    _cgroups: Cgroups,
}

impl KubeadmCluster {
    /// Starts machines; no cluster is made yet. `names`: which of `cp1` to `cp3` and [`WORKERS`].
    ///
    /// # Errors
    /// The kernel refuses something, or an image is refused.
    pub async fn machines(parts: &Parts, names: &[&str]) -> Result<Self> {
        let shape = WORKERS.iter().fold(Shape::segment(), |shape, (name, number)| shape.with_host(name, *number));
        // Before the hosts, so that it ends after them.
        let cgroups = Cgroups::new();
        let lab = Lab::up(shape).await?;
        let starting = names.iter().map(|&name| {
            let (lab, cgroups) = (&lab, &cgroups);
            async move {
                let host = lab.host(name)?;
                let control_plane = lab.control_planes().iter().any(|one| one == name);
                let more = if control_plane { &parts.images.control_plane[..] } else { &[] };
                let images = [&parts.images.node[..], more].concat();
                let machine = Machine::start(lab, &host, &parts.programs, cgroups, &images).await?;
                anyhow::Ok((name.to_owned(), machine))
            }
        });
        let machines = try_join_all(starting).await?.into_iter().collect();
        let client = lab.host("client")?;
        Ok(Self {
            kubeconfig: client.dir().join("admin.conf"),
            rig: ControlPlaneRig::on(lab, AgentOptions::default())?,
            machines,
            client,
            kubectl: parts.programs.kubectl.clone(),
            agent: parts.agent.clone(),
            _cgroups: cgroups,
        })
    }

    /// One of the machines.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn machine(&self, name: &str) -> Result<&Machine> {
        self.machines.get(name).with_context(|| format!("there is no machine {name}"))
    }

    /// Puts the static pod on a control plane, as `mooring-agent manifest` prints it: with the VIP, and that image.
    ///
    /// # Errors
    /// The agent does not print it, or the file cannot be written.
    pub async fn static_pod(&self, node: &str, image: &str) -> Result<()> {
        let manifest = self.manifest(&self.rig.lab.vip().to_string(), image).await?;
        replace(&self.machine(node)?.file(STATIC_POD), &manifest)
    }

    /// The static pod for that VIP, as `mooring-agent manifest` prints it.
    ///
    /// # Errors
    /// The agent does not print it.
    pub async fn manifest(&self, vip: &str, image: &str) -> Result<String> {
        let print = Run::new("manifest", &self.agent);
        let print = print.args(["manifest", "static-pod", "--address", vip, "--image", image]);
        Ok(run(&self.client, print, ASKED).await?.text)
    }

    /// `kubeadm init` on the first control plane.
    ///
    /// # Errors
    /// It fails; the message says what it said.
    pub async fn init(&self) -> Result<Ran> {
        let machine = self.machine("cp1")?;
        let file = put(machine, "init.yaml", &config::init(&machine.host, self.rig.lab.vip()))?;
        let init = machine.kubeadm("kubeadm-init").args(["init", "--config", &file, "--upload-certs"]);
        let ran = run(&machine.host, init, MADE).await.with_context(|| machine.log("kubelet", 8))?;
        fs::copy(self.admin_conf(), &self.kubeconfig).context("copy admin.conf")?;
        Ok(ran)
    }

    /// `kubeadm join` through the VIP.
    ///
    /// # Errors
    /// As [`KubeadmCluster::init`].
    pub async fn join(&self, node: &str, what: Join) -> Result<Ran> {
        let machine = self.machine(node)?;
        let file = put(machine, "join.yaml", &config::join(&machine.host, self.rig.lab.vip(), what))?;
        let join = machine.kubeadm("kubeadm-join").args(["join", "--config", &file]);
        run(&machine.host, join, MADE).await.with_context(|| machine.log("kubelet", 8))
    }

    /// kubectl with the admin.conf that kubeadm wrote, whose server is the VIP, on the client outside of the cluster.
    ///
    /// # Errors
    /// It fails.
    pub async fn kubectl<S: Into<String>>(&self, args: impl IntoIterator<Item = S>) -> Result<Ran> {
        self.kubectl_within(args, ASKED).await
    }

    /// The same, for a command that takes its time.
    ///
    /// # Errors
    /// It fails.
    pub async fn kubectl_within<S: Into<String>>(
        &self,
        args: impl IntoIterator<Item = S>,
        limit: Duration,
    ) -> Result<Ran> {
        let kubectl = Run::new("kubectl", &self.kubectl).env("HOME", &self.client.dir().display().to_string());
        let kubectl = kubectl.args([format!("--kubeconfig={}", self.kubeconfig.display())]);
        run(&self.client, kubectl.args(args), limit).await
    }

    /// What `kubectl get ... --output=json` says.
    ///
    /// # Errors
    /// It fails.
    pub async fn get(&self, what: &[&str]) -> Result<Value> {
        let args = ["get", "--output=json"].iter().chain(what).map(|&word| word.to_owned());
        let ran = self.kubectl(args).await?;
        serde_json::from_str(&ran.text).context("kubectl prints no JSON")
    }

    /// Waits until kubectl shows something; it may fail meanwhile.
    ///
    /// # Errors
    /// It does not within `limit`; the message has what was shown last.
    pub async fn until(&self, what: &[&str], limit: Duration, good: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = now() + limit;
        loop {
            let seen = self.get(what).await;
            match seen {
                Ok(value) if good(&value) => return Ok(value),
                _ if now() < deadline => tokio::time::sleep(Duration::from_millis(300)).await,
                Ok(value) => bail!("waited {} s for {}: {}", limit.as_secs(), what.join(" "), brief(&value)),
                Err(error) => return Err(error.context(format!("waited {} s", limit.as_secs()))),
            }
        }
    }

    /// Waits until all machines are nodes that are ready.
    ///
    /// # Errors
    /// They are not.
    pub async fn nodes_ready(&self) -> Result<()> {
        let all = self.machines.len();
        let ready = |nodes: &Value| items(nodes).filter(|node| is(node, "Ready")).count() == all;
        self.until(&["nodes"], READY, ready).await.map(drop)
    }

    /// Waits until the agent on that control plane runs with that image and is ready.
    ///
    /// # Errors
    /// It is not.
    pub async fn agent_ready(&self, node: &str, image: &str) -> Result<()> {
        let pod = format!("mooring-agent-{node}");
        let ready =
            |pod: &Value| is(pod, "Ready") && pod.pointer("/spec/containers/0/image").is_some_and(|is| is == image);
        self.until(&["--namespace=kube-system", "pod", &pod], READY, ready).await.map(drop)
    }

    /// Waits until the API server of that control plane is ready, asked at its own address.
    ///
    /// # Errors
    /// It is not.
    pub async fn api_ready(&self, node: &str) -> Result<()> {
        let server = format!("--server=https://{}:6443", self.machine(node)?.host.ip4());
        let deadline = now() + READY;
        while let Err(error) = self.kubectl([server.as_str(), "get", "--raw=/readyz"]).await {
            if now() > deadline {
                return Err(error.context(format!("waited {} s", READY.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    /// A client that reads the API by HTTPS through the VIP, 20 times a second. It needs no certificate of its own.
    ///
    /// # Errors
    /// There is no certificate of the CA.
    pub fn https(&self) -> Result<Https> {
        let ca = self.machine("cp1")?.file("etc/kubernetes/pki/ca.crt");
        let target = Target {
            address: SocketAddr::new(self.rig.lab.vip(), 6443),
            name: "kubernetes".into(),
            path: "/readyz".into(),
            ca: fs::read(&ca).with_context(|| format!("read {}", ca.display()))?,
            client: None,
            keep: false,
        };
        Ok(Https::start(&self.rig.client()?, target)?)
    }

    /// Writes objects to a file of the client, and applies it.
    ///
    /// # Errors
    /// The API server refuses them.
    pub async fn apply(&self, name: &str, objects: &[Value]) -> Result<Ran> {
        let file = self.client.dir().join(format!("{name}.yaml"));
        fs::write(&file, documents(objects)).with_context(|| format!("write {}", file.display()))?;
        self.kubectl(["apply", "--server-side", "--filename", &file.display().to_string()]).await
    }

    /// The last lines of what may say why, for errors.
    #[must_use]
    pub fn logs(&self) -> String {
        let of =
            |machine: &Machine| format!("\n--- {}: kubelet\n    {}", machine.host.name(), machine.log("kubelet", 6));
        self.machines.values().map(of).collect()
    }

    /// What kubectl reads.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the first control plane's `admin.conf` is, for all hosts.
    #[must_use]
    pub fn admin_conf(&self) -> PathBuf {
        self.rig.lab.dir().join("cp1/disk/etc/kubernetes/admin.conf")
    }

    /// How a person gets onto the hosts, and kubectl onto the cluster. `enter`: the command that enters a host, up to its name.
    #[must_use]
    pub fn way_in(&self, enter: &str) -> String {
        let hosts = self.machines.keys().map(|name| format!("{name:<8} {enter} {name}"));
        let kubectl = format!("kubectl  {enter} client kubectl --kubeconfig={} get nodes", self.kubeconfig.display());
        hosts.chain([kubectl]).collect::<Vec<_>>().join("\n")
    }

    /// The folders of the programs that a person uses on the hosts.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        self.machines.values().next().map(|machine| machine.programs.folders()).unwrap_or_default()
    }

    /// Keeps the logs of all hosts, and says where they are.
    #[must_use]
    pub fn keep(&self) -> PathBuf {
        self.rig.lab.keep_logs()
    }

    /// Ends all.
    pub fn down(self) {
        self.rig.lab.clone().down();
    }
}

/// The objects of a list.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// Whether an object's condition of that type is true.
#[must_use]
pub fn is(object: &Value, condition: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter(|one| one["type"] == condition).any(|one| one["status"] == "True")
}

/// Writes a static pod as a careful person does: the kubelet reads the folder at any time, but no file that begins with a dot.
///
/// # Errors
/// It cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("it has no folder")?;
    let whole = folder.join(".new");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&whole, text))
        .and_then(|()| fs::rename(&whole, path))
        .with_context(|| format!("write {}", path.display()))
}

/// Writes a file on a machine, and answers its path as everybody sees it.
///
/// # Errors
/// It cannot be written.
pub fn put(machine: &Machine, name: &str, text: &str) -> Result<String> {
    let path = machine.file(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path.display().to_string())
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(600).collect()
}
