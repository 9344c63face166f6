//! Clusters that tests hand on: one that is not harmed is made as good as new for the next test with a lab of that shape.
//!
//! A rig that may hand its lab on calls [`leave`] when it is dropped; when its test has passed, [`settle`] renews the lab. A lab
//! of a test that failed ends with it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::host::lock;
use crate::ipam::server::{IPAM, Server};
use crate::lab::{Lab, Shape};

/// Where tests leave objects.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "mooring-system"];
/// The kinds of claims, addresses and pools: versions that are served, and plurals.
const KINDS: [(&str, &str); 6] = [
    ("v1beta2", "ipaddressclaims"),
    ("v1beta2", "ipaddresses"),
    ("v1alpha2", "inclusterippools"),
    ("v1alpha2", "globalinclusterippools"),
    ("v1alpha2", "inclusterprefixpools"),
    ("v1alpha2", "globalinclusterprefixpools"),
];
/// A lab that takes longer to renew is ended instead: a new lab is as quick.
const RENEWED: Duration = Duration::from_secs(20);

/// A lab, and whether it has the kind `IPAddress`.
#[derive(Debug)]
struct Left {
    lab: Lab,
    crds: bool,
}

/// What tests have left, by their folders.
static LEFT: Mutex<Vec<(PathBuf, Left)>> = Mutex::new(Vec::new());
/// What the next test may have.
static IDLE: Mutex<Vec<Left>> = Mutex::new(Vec::new());

/// A lab of that shape, new or as good as new, and whether it has the kind `IPAddress`: only where that is `wanted`.
///
/// # Errors
/// The lab's.
pub async fn lab(shape: Shape, wanted: bool) -> Result<(Lab, bool)> {
    let idle = {
        let mut all = lock(&IDLE);
        let fits = |left: &Left| left.lab.0.shape == shape && (wanted || !left.crds);
        // One that has the kind already is better.
        let place = all.iter().position(|left| fits(left) && left.crds == wanted).or_else(|| all.iter().position(fits));
        place.map(|place| all.swap_remove(place))
    };
    match idle {
        Some(left) => Ok((left.lab, left.crds)),
        None => Ok((Lab::up(shape).await?, false)),
    }
}

/// Leaves a lab to the test whose folder that is.
pub fn leave(dir: &Path, lab: Lab, crds: bool) {
    lock(&LEFT).push((dir.to_owned(), Left { lab, crds }));
}

/// A test is over. What it left is renewed for the next one if it `passed`, and ends otherwise.
pub async fn settle(dir: &Path, passed: bool) {
    let left: Vec<Left> = {
        let mut all = lock(&LEFT);
        let (mine, others) = std::mem::take(&mut *all).into_iter().partition(|(of, _)| of == dir);
        *all = others;
        let mine: Vec<(PathBuf, Left)> = mine;
        mine.into_iter().map(|(_, left)| left).collect()
    };
    for one in left {
        if passed && one.lab.0.shape.bind_admin && renewed(&one.lab).await {
            lock(&IDLE).push(one);
        } else {
            one.lab.down();
        }
    }
}

async fn renewed(lab: &Lab) -> bool {
    let work = async {
        lab.renew().await?;
        clear(&Server::of(lab.clone()).await?).await
    };
    match tokio::time::timeout(RENEWED, work).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::info!("{} is not handed on: {error:#}", lab.dir().display());
            false
        }
        Err(_) => false,
    }
}

/// Ends the labs that no test uses any more.
pub fn end() {
    let all = (std::mem::take(&mut *lock(&LEFT)), std::mem::take(&mut *lock(&IDLE)));
    drop(all);
}

/// Deletes what tests make of objects.
async fn clear(server: &Server) -> Result<()> {
    // Their finalizers wait for programs that no longer run.
    let services = |namespace: &str| format!("/api/v1/namespaces/{namespace}/services");
    for namespace in NAMESPACES {
        delete_each(server, &services(namespace)).await?;
    }
    for (version, plural) in KINDS {
        delete_each(server, &format!("{IPAM}/{version}/{plural}")).await?;
    }
    for namespace in NAMESPACES {
        let at = |group: &str, plural: &str| format!("/apis/{group}/namespaces/{namespace}/{plural}");
        let rbac = "rbac.authorization.k8s.io/v1";
        for path in [
            // An API server's own says who it is.
            at("coordination.k8s.io/v1", "leases?labelSelector=!apiserver.kubernetes.io/identity"),
            at("events.k8s.io/v1", "events"),
            at("discovery.k8s.io/v1", "endpointslices?labelSelector=kubernetes.io/service-name!=kubernetes"),
            format!("/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name=kubevip"),
            format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector=mooring.dev/member"),
            at(rbac, "rolebindings?labelSelector=!kubernetes.io/bootstrapping"),
            at(rbac, "roles?labelSelector=!kubernetes.io/bootstrapping"),
        ] {
            server.delete(&path).await?;
        }
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let admins = format!("fieldSelector=metadata.name!={}", crate::pki::ADMINS);
    for path in [
        "/api/v1/nodes?labelSelector=!node-role.kubernetes.io/control-plane".to_owned(),
        // It says what the control plane's VIP is.
        "/api/v1/namespaces/kube-public/configmaps?fieldSelector=metadata.name=cluster-info".to_owned(),
        format!("{rbac}/clusterrolebindings?labelSelector=!kubernetes.io/bootstrapping&{admins}"),
        format!("{rbac}/clusterroles?labelSelector=!kubernetes.io/bootstrapping"),
    ] {
        server.delete(&path).await?;
    }
    Ok(())
}

/// Deletes every object of a kind, whatever its finalizers wait for; that there is no such kind is as good.
async fn delete_each(server: &Server, path: &str) -> Result<()> {
    let list = match server.get(path).await {
        Err(refused) if refused.code == 404 => return Ok(()),
        list => list?,
    };
    let base = path.rsplit_once('/').map_or(("", path), |both| both);
    for one in list["items"].as_array().into_iter().flatten() {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        let path = match one["metadata"]["namespace"].as_str() {
            Some(namespace) if !path.contains("/namespaces/") => {
                format!("{}/namespaces/{namespace}/{}/{name}", base.0, base.1)
            }
            _ => format!("{path}/{name}"),
        };
        if name == "kubernetes" {
            continue;
        }
        let free = json!({"metadata": {"finalizers": Value::Null}});
        let patched =
            server.ask(Method::PATCH, &path, Some(("application/merge-patch+json", &free)), "application/json");
        for answer in [patched.await, server.delete(&path).await] {
            ensure!(answer.as_ref().map_or_else(|refused| refused.code == 404, |_| true), "{path}: {answer:?}");
        }
    }
    Ok(())
}
