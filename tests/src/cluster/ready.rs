//! Waits until the cluster is ready.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;
use http::Request;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{API_SERVER, Cluster, ETCD, Error};
use crate::host::{self, Host};
use crate::pki;

/// How long a cluster may take to start. Usually seconds; more on a loaded machine with few cores.
const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);
/// How long the API servers have to list themselves before the lab lists them.
const HELP_AFTER: Duration = Duration::from_millis(500);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);

impl Cluster {
    /// Waits until every API server that should run is ready and `default/kubernetes` lists them all.
    ///
    /// # Errors
    /// A process ended, or it takes longer than 90 s; the message has the end of the log.
    pub async fn ready(&self) -> Result<(), Error> {
        let deadline = Instant::now() + LIMIT;
        try_join_all(self.control_planes.iter().map(|host| self.api_ready_by(host, deadline))).await?;
        let client = self.client_of(&self.client, &self.pki.super_admin()?, &self.servers()[0]).await?;
        let wanted: BTreeSet<_> = self.control_planes.iter().map(|host| host.ip4().to_string()).collect();
        let help_after = Instant::now() + HELP_AFTER;
        let mut helped = false;
        while listed(&client).await != wanted {
            self.check("default/kubernetes to list all API servers", &self.control_planes[0], deadline)?;
            if !helped && Instant::now() > help_after {
                helped = list(&client, &wanted).await.is_ok();
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Waits until the API server of that host says that it is ready, for at most 90 s.
    ///
    /// # Errors
    /// As [`Cluster::ready`].
    pub async fn api_ready(&self, host: &Host) -> Result<(), Error> {
        self.api_ready_by(host, Instant::now() + LIMIT).await
    }

    async fn api_ready_by(&self, host: &Host, deadline: Instant) -> Result<(), Error> {
        let server = pki::url(host.ip4().into());
        let client = self.client_of(&self.client, &self.pki.super_admin()?, &server).await?;
        while !is_ready(&client).await {
            self.check("its /readyz", host, deadline)?;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Checks that everything that should run does run, and that there is time left.
    fn check(&self, what: &str, host: &Host, deadline: Instant) -> Result<(), Error> {
        for (host, name) in self
            .members
            .iter()
            .map(|host| (host, ETCD))
            .chain(self.control_planes.iter().map(|host| (host, API_SERVER)))
        {
            let process = host.process(name)?;
            if let host::Status::Ended { how, .. } = process.status() {
                return Err(process.error(how).into());
            }
        }
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(host.process(API_SERVER)?.error(format!("waited {} s for {what}", LIMIT.as_secs())).into())
    }
}

async fn is_ready(client: &Client) -> bool {
    let Ok(request) = Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    matches!(tokio::time::timeout(ANSWER, client.request_text(request)).await, Ok(Ok(_)))
}

/// The API servers that clients can find.
async fn listed(client: &Client) -> BTreeSet<String> {
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    let kubernetes = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    // Without an answer, no API server is listed.
    let Ok(Ok(found)) = tokio::time::timeout(ANSWER, slices.list(&kubernetes)).await else {
        return BTreeSet::new();
    };
    let endpoints = found.items.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
    endpoints.flat_map(|endpoint| endpoint.addresses).collect()
}

/// Lists the API servers, as they do themselves. If several add themselves in the same instant, one loses the write and
/// tries again only 10 s later. Its own entry in etcd, from which the list is made, is there, so the others do not
/// change the list back.
async fn list(client: &Client, addresses: &BTreeSet<String>) -> Result<(), kube::Error> {
    let slice: Vec<_> = addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let old: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let ports = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
    let params = PatchParams::default();
    let old = Patch::Merge(json!({"subsets": [{"addresses": old, "ports": ports}]}));
    Api::<Endpoints>::namespaced(client.clone(), "default").patch("kubernetes", &params, &old).await?;
    let slice = Patch::Merge(json!({"endpoints": slice}));
    Api::<EndpointSlice>::namespaced(client.clone(), "default").patch("kubernetes", &params, &slice).await.map(drop)
}
