//! Lists what the cluster's state is made of. What may not be read is named, and the rest is shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::judge::Objects;
use crate::api::addresses::Addresses;
use crate::api::ask::Collection;
use crate::api::race::Limits;
use crate::api::sessions::Sessions;
use crate::api::{ApiError, LeaseApi, LeaseSettings, Servers, Settings, Source};

/// For one list.
const WITHIN: Duration = Duration::from_secs(15);
/// Objects in one part of a list.
const PART: u32 = 500;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kubeconfig; None: the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the control plane's Lease.
    pub namespace: String,
    /// Its name.
    pub lease: String,
    /// The namespace of the sessions.
    pub sessions: String,
}

/// Nothing could be read.
#[derive(Debug, thiserror::Error)]
#[error("the cluster's state cannot be read: {0}")]
pub struct ReadError(#[from] ApiError);

/// Reads everything.
///
/// # Errors
/// No API server answers, or the credentials are not accepted. What the credentials may not read is no error.
pub async fn read(place: &Place) -> Result<Objects, ReadError> {
    let servers = servers(place);
    let mut objects = Objects::default();
    let settings = LeaseSettings {
        namespace: place.namespace.clone(),
        name: place.lease.clone(),
        annotations: std::collections::BTreeMap::new(),
    };
    let lease = LeaseApi::new(servers.clone(), settings).read(WITHIN).await;
    let name = format!("{}/{}", place.namespace, place.lease);
    objects.control_plane =
        allowed(lease, "the control plane's Lease", &mut objects.unread)?.and_then(|read| Some((name, read.view?)));
    let sessions = Sessions::new(servers.clone(), place.sessions.clone()).list(WITHIN).await;
    objects.sessions = allowed(sessions, "sessions", &mut objects.unread)?.unwrap_or_default();
    let addresses = match Addresses::discover(&servers, WITHIN).await {
        Ok(Some(addresses)) => addresses.list(WITHIN).await,
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    objects.addresses = allowed(addresses, "IPAddresses", &mut objects.unread)?.unwrap_or_default();
    if objects.addresses.is_empty() {
        return Ok(objects);
    }
    let services = list(&servers, "/api/v1/services", "services", Some("spec.type=LoadBalancer")).await;
    objects.services = allowed(services, "Services", &mut objects.unread)?.unwrap_or_default();
    let nodes = list(&servers, "/api/v1/nodes", "nodes", None).await;
    objects.nodes = allowed(nodes, "Nodes", &mut objects.unread)?.unwrap_or_default();
    if objects.services.iter().any(crate::api::objects::Service::is_local) {
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        let slices = list(&servers, path, "endpointslices.discovery.k8s.io", None).await;
        objects.slices = allowed(slices, "EndpointSlices", &mut objects.unread)?;
    }
    Ok(objects)
}

fn servers(place: &Place) -> Servers {
    let source = place.kubeconfig.clone().map_or(Source::InCluster, Source::File);
    let settings = Settings { local: None, server_name: None, ..Settings::control_plane(source, "status") };
    Servers::new(settings, Arc::new(()))
}

async fn list<T: DeserializeOwned>(
    servers: &Servers,
    path: &str,
    resource: &'static str,
    fields: Option<&str>,
) -> Result<Vec<T>, ApiError> {
    let collection = Collection { path, resource, what: resource, fields, labels: None };
    servers.ask_for_all(collection, &mut Some(PART), Limits::within(WITHIN)).await.map(|(all, _)| all)
}

/// What may not be read is noted.
fn allowed<T>(result: Result<T, ApiError>, what: &str, unread: &mut Vec<String>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(read) => Ok(Some(read)),
        Err(error @ (ApiError::Forbidden { .. } | ApiError::NotFound { .. })) => {
            unread.push(format!("{what}: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
