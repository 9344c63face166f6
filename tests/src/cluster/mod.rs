//! The cluster of a lab: etcd and kube-apiserver on its hosts.

mod api_server;
pub(crate) mod client;
mod error;
mod etcd;
mod ready;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};

pub use error::Error;

use crate::assets::{self, Binaries};
use crate::host::{self, Host, Process};
use crate::lab::{Shape, Topology};
use crate::pki::{self, Identity, Pki};
use crate::progress;

/// The name of the API server's process on its host.
pub const API_SERVER: &str = "kube-apiserver";
/// The name of etcd's process on its host.
pub const ETCD: &str = "etcd";

/// The cluster of a lab.
#[derive(Debug)]
pub struct Cluster {
    pki: Pki,
    binaries: Binaries,
    topology: Topology,
    control_planes: Vec<Host>,
    /// Hosts with an etcd member.
    members: Vec<Host>,
    /// The host from which the lab itself sends requests.
    client: Host,
    audit_policy: Option<String>,
    bind_admin: bool,
}

impl Cluster {
    /// Finds the binaries, makes certificates and kubeconfigs, and starts everything; does not wait.
    pub(crate) async fn prepare(shape: &Shape, hosts: &BTreeMap<String, Host>, dir: &Path) -> Result<Self, Error> {
        let find = tokio::task::spawn_blocking(assets::find).await;
        let binaries = find.map_err(|error| Error::Etcd(format!("looking for it failed: {error}")))??;
        progress::line(format_args!("{}\n{}", binaries.kube_apiserver, binaries.etcd));
        let host = |name: &str| {
            hosts.get(name).cloned().ok_or_else(|| host::Error::Unknown { what: "host", name: name.to_owned() })
        };
        let control_planes: Vec<_> =
            hosts.iter().filter(|(name, _)| name.starts_with("cp")).map(|(_, host)| host.clone()).collect();
        let members = match shape.topology {
            Topology::External(_) => vec![host("etcd")?],
            Topology::Segment | Topology::Stacked(_) => control_planes.clone(),
        };
        let mut addresses: Vec<IpAddr> = control_planes.iter().flat_map(Host::addresses).collect();
        addresses.extend(&shape.vips);
        let service = Ipv4Addr::new(10, 96, 0, 1);
        addresses.extend([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into(), service.into()]);
        let pki = Pki::new(&dir.join("pki"), &addresses)?;
        let audit_policy = shape.audit.then(|| pki.path("audit-policy.yaml"));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(host::Error::io(format!("write {}", path.display())))
        };
        if let Some(policy) = &audit_policy {
            let rules = "omitStages: [RequestReceived]\nrules:\n- level: Metadata\n";
            write(Path::new(policy), &format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}"))?;
        }
        let server = pki::url(shape.vips.first().copied().unwrap_or_else(|| Ipv4Addr::LOCALHOST.into()));
        let admin = pki.kubeconfig(&pki.admin()?, &server)?;
        write(&dir.join("admin.conf"), &admin)?;
        write(&dir.join("super-admin.conf"), &pki.kubeconfig(&pki.super_admin()?, &server)?)?;
        for host in &control_planes {
            write(&host.dir().join("admin.conf"), &admin)?;
        }
        let client = host("client")?;
        let (topology, bind_admin) = (shape.topology, shape.bind_admin);
        let cluster = Self { pki, binaries, topology, control_planes, members, client, audit_policy, bind_admin };
        for host in &cluster.members {
            host.start(cluster.etcd(host))?;
        }
        for host in &cluster.control_planes {
            host.start(cluster.api_server(host))?;
        }
        Ok(cluster)
    }

    /// Waits until the cluster is ready, and makes the Node objects.
    pub(crate) async fn up(&self) -> Result<(), Error> {
        self.ready().await?;
        let client = self.client(&self.pki.super_admin()?, &self.servers()[0]).await?;
        let nodes = Api::<Node>::all(client);
        for host in &self.control_planes {
            let mut node = Node::default();
            node.metadata.name = Some(host.name().to_owned());
            let role = "node-role.kubernetes.io/control-plane".to_owned();
            node.metadata.labels = Some(BTreeMap::from([(role, String::new())]));
            let what = format!("create Node {}", host.name());
            nodes.create(&PostParams::default(), &node).await.map_err(Error::api(what))?;
        }
        if self.bind_admin { self.bind_admin().await } else { Ok(()) }
    }

    /// Gives the user of admin.conf all rights, as the last phase of `kubeadm init` does.
    ///
    /// # Errors
    /// No API server answers, or the user has the rights already.
    pub async fn bind_admin(&self) -> Result<(), Error> {
        let binding = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": pki::ADMINS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": pki::ADMINS}],
        });
        let binding: ClusterRoleBinding =
            serde_json::from_value(binding).map_err(|error| Error::Etcd(format!("a wrong binding: {error}")))?;
        let client = self.client_of(&self.client, &self.pki.super_admin()?, &self.servers()[0]).await?;
        let bindings = Api::<ClusterRoleBinding>::all(client);
        let what = "bind the admin";
        bindings.create(&PostParams::default(), &binding).await.map_err(Error::api(what)).map(drop)
    }

    /// The certificate authority; makes users and kubeconfigs.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// The URL of each API server, in the order of the control planes.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.control_planes.iter().map(|host| pki::url(host.ip4().into())).collect()
    }

    /// The binaries it runs.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The API server's process on a control plane.
    ///
    /// # Errors
    /// There is none on that host.
    pub fn api(&self, host: &str) -> Result<Process, Error> {
        let found = self.control_planes.iter().find(|one| one.name() == host);
        let unknown = || host::Error::Unknown { what: "API server on", name: host.to_owned() };
        Ok(found.ok_or_else(unknown)?.process(API_SERVER)?)
    }

    /// A client whose connections come from the lab's `client` host. `server`: one of [`Cluster::servers`], or
    /// [`pki::url`] of a VIP.
    ///
    /// # Errors
    /// The server is not a URL.
    pub async fn client(&self, user: &Identity, server: &str) -> Result<Client, Error> {
        self.client_of(&self.client, user, server).await
    }

    /// A client whose connections come from that host, wherever the caller runs.
    ///
    /// # Errors
    /// The server is not a URL.
    pub async fn client_of(&self, host: &Host, user: &Identity, server: &str) -> Result<Client, Error> {
        client::make(host.netns(), &self.pki.kubeconfig(user, server)?, server).await
    }
}
