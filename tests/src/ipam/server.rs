//! One API server with CRDs of claims and pools, and plain requests to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::assets::{self, Project};
use crate::lab::{Lab, Shape};
use crate::observe::now;
use crate::shipped::objects;

/// Longest time for one request on a busy machine.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest time until the API server serves a new kind or applies a new policy.
const TAKEN_UP: Duration = Duration::from_mins(1);

/// The API group of pools and claims.
pub const IPAM: &str = "/apis/ipam.cluster.x-k8s.io";

/// The CRDs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crds {
    /// Mooring's pools, and Mooring's own claims and addresses: a cluster without Cluster API.
    Standalone,
    /// Mooring's pools beside Cluster API's claims, addresses and Clusters.
    ClusterApi,
    /// As [`Crds::ClusterApi`], with the pools of the in-cluster provider instead of Mooring's.
    Theirs,
}

/// An API server in a lab; when this is dropped, the lab ends.
pub struct Server {
    lab: Lab,
    /// A client with all rights.
    pub client: Client,
}

/// A request that the API server refused: status code and message.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refused {
    /// The status code, 409 for example; 0: no answer.
    pub code: u16,
    /// The message of the API server.
    pub message: String,
}

impl Server {
    /// An API server without CRDs.
    pub async fn bare() -> Result<Self> {
        Self::of(Lab::up(Shape::api_servers(1)).await?).await
    }

    /// The first API server of a lab that is up.
    pub async fn of(lab: Lab) -> Result<Self> {
        let cluster = lab.cluster()?;
        let server = cluster.servers().first().cloned().context("no API server")?;
        let client = cluster.client(&cluster.pki().super_admin()?, &server).await?;
        Ok(Self { lab, client })
    }

    /// An API server with these CRDs.
    pub async fn with(crds: Crds) -> Result<Self> {
        Self::shaped(Shape::api_servers(1), crds).await
    }

    /// The first API server of a new lab of that shape, with these CRDs.
    pub async fn shaped(shape: Shape, crds: Crds) -> Result<Self> {
        // The first download of the CRDs takes long: it is done before the server starts.
        let fetched = tokio::task::spawn_blocking(move || match crds {
            Crds::Standalone => Ok(vec![]),
            Crds::ClusterApi => assets::crds(Project::ClusterApi),
            Crds::Theirs => {
                Ok([assets::crds(Project::ClusterApi)?, assets::crds(Project::InClusterProvider)?].concat())
            }
        });
        let files = fetched.await??;
        let server = Self::of(Lab::up(shape).await?).await?;
        for file in files {
            server.install_all(documents(&file)?).await?;
        }
        if crds != Crds::Theirs {
            server.install("crds").await?;
        }
        if crds == Crds::Standalone {
            server.install("crds/standalone").await?;
        }
        Ok(server)
    }

    /// The lab of the API server.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Adds the CRDs of pools, and the standalone CRDs of claims and addresses.
    pub async fn up() -> Result<Self> {
        Self::with(Crds::Standalone).await
    }

    /// Applies the CRDs of a folder of `manifests`, and waits until they are served.
    pub async fn install(&self, folder: &str) -> Result<()> {
        self.install_all(documents_of(folder)?).await
    }

    /// Applies what `kubectl apply -k manifests/FOLDER` would: the files and folders that its `kustomization.yaml` names.
    pub async fn kustomize(&self, folder: &str) -> Result<()> {
        for object in kustomized(&manifests()?.join(folder))? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.apply(&object).await.with_context(|| format!("{name} is refused"))?;
            if object["kind"] == "CustomResourceDefinition" {
                self.established(&name).await?;
            }
        }
        Ok(())
    }

    /// The same API server for another user, with the rights that this user was given.
    pub async fn as_user(&self, user: &str) -> Result<Self> {
        let cluster = self.lab.cluster()?;
        let server = cluster.servers().first().cloned().context("no API server")?;
        let identity = cluster.pki().client(user, &["system:serviceaccounts"], None)?;
        Ok(Self { lab: self.lab.clone(), client: cluster.client(&identity, &server).await? })
    }

    async fn install_all(&self, crds: Vec<Value>) -> Result<()> {
        for crd in crds {
            let name = crd["metadata"]["name"].as_str().context("a CRD without a name")?.to_owned();
            self.apply(&crd).await.with_context(|| format!("{name} is refused"))?;
            self.established(&name).await?;
        }
        Ok(())
    }

    /// Waits until a CRD is established without an error, and its objects can be listed.
    pub async fn established(&self, name: &str) -> Result<()> {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let deadline = now() + TAKEN_UP;
        loop {
            let crd = self.get(&path).await?;
            let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |kind: &str, status: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == status);
            ensure!(!is("NonStructuralSchema", "True"), "{name}: {conditions:?}");
            let (group, plural) = (crd["spec"]["group"].clone(), crd["spec"]["names"]["plural"].clone());
            let served: Vec<&Value> = crd["spec"]["versions"].as_array().context("no versions")?.iter().collect();
            let mut listed = is("Established", "True") && is("NamesAccepted", "True");
            for version in served {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let path = format!("/apis/{}/{}/{}", text(&group), text(&version["name"]), text(&plural));
                listed = listed && self.get(&path).await.is_ok();
            }
            if listed {
                return Ok(());
            }
            ensure!(now() < deadline, "{name} is not served: {conditions:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Applies an object server-side, as `kubectl apply --server-side --force-conflicts` does.
    pub async fn apply(&self, object: &Value) -> Result<Value, Refused> {
        let (kind, name) =
            (object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"].as_str().unwrap_or_default());
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let plural = match kind.to_lowercase() {
            kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
            kind => format!("{kind}s"),
        };
        let base = if version.contains('/') { "/apis" } else { "/api" };
        let namespace =
            object["metadata"]["namespace"].as_str().map_or_else(String::new, |ns| format!("namespaces/{ns}/"));
        let path = format!("{base}/{version}/{namespace}{plural}/{name}?fieldManager=test&force=true");
        self.call(Method::PATCH, &path, Some(("application/apply-patch+yaml", object))).await
    }

    /// Reads an object.
    pub async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.call(Method::GET, path, None).await
    }

    /// Creates an object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.call(Method::POST, path, Some(("application/json", object))).await
    }

    /// Replaces an object.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, Refused> {
        self.call(Method::PUT, path, Some(("application/json", object))).await
    }

    /// Merges a patch into an object.
    pub async fn merge(&self, path: &str, change: &Value) -> Result<Value, Refused> {
        self.call(Method::PATCH, path, Some(("application/merge-patch+json", change))).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.call(Method::DELETE, path, None).await
    }

    /// Repeats a request until it is refused: a new policy takes effect a moment after its creation.
    pub async fn until_refused(&self, path: &str, method: &Method, body: Option<&Value>) -> Result<Refused> {
        let deadline = now() + TAKEN_UP;
        loop {
            let sent = body.map(|body| ("application/merge-patch+json", body));
            match self.call(method.clone(), path, sent).await {
                Err(refused) if refused.code == 403 || refused.code == 422 => return Ok(refused),
                Err(other) => bail!("{path}: {other}"),
                Ok(_) => ensure!(now() < deadline, "{path} is not refused"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value, Refused> {
        self.ask(method, path, body, "application/json").await
    }

    /// Sends a request; `accept` selects the form of the answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
        accept: &str,
    ) -> Result<Value, Refused> {
        let mut request = Request::builder().method(method).uri(path).header(http::header::ACCEPT, accept);
        if let Some((kind, _)) = body {
            request = request.header(http::header::CONTENT_TYPE, kind);
        }
        let failed = |message: String| Refused { code: 0, message };
        let body = body.map_or_else(Vec::new, |(_, body)| body.to_string().into_bytes());
        let request = request.body(body).map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(ANSWER, self.client.request::<Value>(request)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(Refused { code: status.code, message: status.message.clone() }),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", ANSWER.as_secs()))),
        }
    }
}

/// The objects in the YAML files of a folder of `manifests`, without the files of kustomize.
pub fn documents_of(folder: &str) -> Result<Vec<Value>> {
    let folder = manifests()?.join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "yaml") && !path.ends_with("kustomization.yaml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(documents(&file)?);
    }
    ensure!(!all.is_empty(), "nothing in {}", folder.display());
    Ok(all)
}

/// The objects that a `kustomization.yaml` names, in its order.
fn kustomized(folder: &Path) -> Result<Vec<Value>> {
    let list = documents(&folder.join("kustomization.yaml"))?.remove(0);
    let mut all = Vec::new();
    for resource in list["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let path = folder.join(resource);
        all.extend(if path.is_dir() { kustomized(&path)? } else { documents(&path)? });
    }
    ensure!(!all.is_empty(), "nothing in {}", folder.display());
    Ok(all)
}

/// The objects in one YAML file of `manifests`.
pub fn documents_in(file: &str) -> Result<Vec<Value>> {
    documents(&manifests()?.join(file))
}

/// The roles of agents that place VIPs of Services as kube-vip does: by one Lease, or by one for each Service.
pub fn kube_vip_placement_roles(per_service: bool) -> Result<Vec<Value>> {
    let leases = if per_service { "lease-per-service/rbac.yaml" } else { "rbac.yaml" };
    let mut all = documents_in(&format!("agent/kube-vip-placement/{leases}"))?;
    all.extend(documents_in("agent/kube-vip-placement/service-updates.yaml")?);
    Ok(all)
}

/// The objects of a file in YAML.
///
/// # Errors
/// It cannot be read.
pub fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    objects(&text).with_context(|| format!("{} is no YAML", file.display()))
}

fn manifests() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?;
    Ok(root.join("manifests"))
}

/// Makes an object of the group.
#[must_use]
pub fn object(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("ipam.cluster.x-k8s.io/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The path of the objects of a kind; namespaced objects are in `default`.
#[must_use]
pub fn place(version: &str, kind: &str) -> String {
    place_in(version, kind, "default")
}

/// The path of the objects of a kind, in this namespace if the kind has namespaces.
#[must_use]
pub fn place_in(version: &str, kind: &str, namespace: &str) -> String {
    let plural = if kind == "IPAddress" { "ipaddresses".to_owned() } else { format!("{}s", kind.to_lowercase()) };
    let namespace = if kind.starts_with("Global") { String::new() } else { format!("namespaces/{namespace}/") };
    format!("{IPAM}/{version}/{namespace}{plural}")
}
