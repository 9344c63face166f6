//! Clusters that other programs served, at the moment when Mooring comes: objects exactly as those programs leave them, with
//! what they tolerate. After the switch no address changes hands, none is lost, and nothing is written that is not
//! Mooring's.

mod back;
mod cloud_provider;
mod in_cluster;
mod installed;
mod metallb;
mod moved;
mod odd;
mod provider;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::contract::rule;
use super::story;
use crate::ipam::scope::{ADDRESS, Scope};
use crate::ipam::services::{SERVICE, annotation, ingress};
use crate::rig::allocator::name;
use crate::runner::Test;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("migration", cloud_provider::kept, "cloud-provider-whatever-it-tolerated", 5),
        story!("migration", cloud_provider::down, "cloud-provider-kube-vip-was-down", 5),
        story!("migration", metallb::left_alone, "metallb-is-left-alone", 5),
        story!("migration", metallb::moved, "metallb-addresses-are-kept", 5),
        story!("migration", metallb::contested, "two-controllers-do-not-fight", 5),
        rule!(in_cluster::as_left, "in-cluster-objects-as-they-are-left", "migration", ClusterApi),
        rule!(odd::odd, "in-cluster-whatever-it-tolerated", "migration", ClusterApi),
        rule!(odd::paused, "in-cluster-a-paused-cluster-is-left-alone", "migration", ClusterApi),
        rule!(moved::moved, "clusterctl-move-changes-no-address", "migration", ClusterApi),
        story!("migration", back::control_plane, "back-to-kube-vip-control-plane", 5),
        story!("migration", back::services, "back-to-kube-vip-services", 8),
        story!("migration", installed::pools, "installed-a-pool-in-use-stays", 5),
        story!("migration", installed::leases, "installed-agents-write-sessions-only", 5),
    ]
}

/// The finalizer of Services of every controller of load balancers.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Creates a Service as another program left it: its metadata, changes to its spec, and its status.
async fn left(scope: &Scope<'_>, name: &str, (meta, spec, points): (Value, Value, Value)) -> Result<()> {
    let mut all = scope.balanced(80, "TCP");
    if let (Some(all), Value::Object(spec)) = (all.as_object_mut(), spec) {
        all.extend(spec);
    }
    scope.service_with(name, all, meta).await?;
    if points != json!([]) {
        let status = json!({"status": {"loadBalancer": {"ingress": points}}});
        scope.rig.server.merge(&format!("{}/status", scope.service_path(name)), &status).await?;
    }
    Ok(())
}

/// The versions of all Services of a scope.
fn versions(scope: &Scope<'_>) -> Vec<(String, String)> {
    let version = |one: &Value| (name(one).to_owned(), one["metadata"]["resourceVersion"].to_string());
    scope.rig.world.look(|state| state.all(SERVICE, &scope.ns).map(version).collect())
}

/// Waits until the allocator serves a new Service, which therefore has seen all others; returns the address.
async fn newcomer(scope: &Scope<'_>, name: &str) -> Result<String> {
    scope.service(name).await?;
    let has = scope.advertised(name).await?;
    ensure!(has.len() == 1, "{name} has {has:?}");
    Ok(has[0].clone())
}

/// No two Services of a scope show one address, except those that share it on purpose, and no two `IPAddress` objects have
/// one.
fn nothing_twice(scope: &Scope<'_>, sharing: &[&str]) -> Result<()> {
    let shown = scope.rig.world.look(|state| {
        let services = state.all(SERVICE, &scope.ns).filter(|one| !sharing.contains(&name(one)));
        let mut shown: Vec<String> = services.flat_map(ingress).collect();
        shown.sort();
        shown
    });
    ensure!(shown.windows(2).all(|pair| pair[0] != pair[1]), "{shown:?}");
    let given = scope.rig.world.look(|state| {
        let all = state.all(ADDRESS, "").filter(|one| annotation(one, "mooring.dev/quarantined-until").is_none());
        let mut all: Vec<String> = all.map(|one| one["spec"]["address"].to_string()).collect();
        all.sort();
        all
    });
    ensure!(given.windows(2).all(|pair| pair[0] != pair[1]), "{given:?}");
    Ok(())
}
