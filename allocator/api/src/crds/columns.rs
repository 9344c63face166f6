//! The columns of `kubectl get`: those of the in-cluster provider and Cluster API, and whether all is well.

use serde_json::{Value, json};

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "description": description})
}

/// What all kinds with conditions have: the provider's columns come first.
fn ready() -> Value {
    let path = ".status.conditions[?(@.type==\"Ready\")].status";
    column("Ready", "string", path, "Whether all is well; `kubectl describe` says why not")
}

/// What people must see who make one pool after another: two of two namespaces may give one address twice.
fn overlapping(what: &str) -> Value {
    let path = ".status.conditions[?(@.type==\"Overlapping\")].status";
    let mut column =
        column("Overlapping", "string", path, &format!("Whether another pool has some of its {what}, too"));
    // Wide output: the narrow one is the in-cluster provider's, and whether all is well.
    column["priority"] = 1.into();
    column
}

fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp", "How long ago it was made")
}

/// Of address pools (`what`: addresses) and prefix pools (prefixes).
pub(super) fn pool(what: &str, name: &str) -> Vec<Value> {
    vec![
        column(name, "string", &format!(".spec.{what}"), &format!("The {what} of the pool")),
        column("Total", "integer", ".status.ipAddresses.total", &format!("How many {what} there are")),
        column("Free", "integer", ".status.ipAddresses.free", &format!("How many {what} may be given")),
        column("Used", "integer", ".status.ipAddresses.used", &format!("How many {what} were given")),
        ready(),
        overlapping(what),
        age(),
    ]
}

/// Of pools whose addresses an outside system gives.
pub(super) fn outside_pool() -> Vec<Value> {
    let mut all = pool("addresses", "Addresses");
    all.remove(0);
    all
}

/// Of address pools in the old form. The old CRD's First and Last looked at fields that do not exist.
pub(super) fn old_pool() -> Vec<Value> {
    let mut all = vec![
        column("Subnet", "string", ".spec.subnet", "The network of the pool"),
        column("First", "string", ".spec.start", "The first address of the pool"),
        column("Last", "string", ".spec.end", "The last address of the pool"),
    ];
    all.extend(pool("addresses", "Addresses"));
    all
}

/// Of pools of floating IPs.
pub(super) fn floating_ip_pool() -> Vec<Value> {
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    vec![
        column("Ready", "string", ready, "Whether floating IPs are given"),
        column("Network", "string", ".status.floatingIPNetwork.name", "The external network"),
        column("Max", "integer", ".spec.maxIPs", "The most that claims may have"),
        age(),
    ]
}

/// Of metal3's pools: as metal3 has them.
pub(super) fn metal3_pool() -> Vec<Value> {
    let path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name";
    vec![column("Cluster", "string", path, "The Cluster of the pool"), age()]
}

/// Of metal3's claims.
pub(super) fn metal3_claim() -> Vec<Value> {
    vec![
        column("Pool", "string", ".spec.pool.name", "The name of the pool"),
        column("Address", "string", ".status.address.name", "The name of the address"),
        column("Error", "string", ".status.errorMessage", "Why it has none"),
        age(),
    ]
}

/// Of metal3's addresses.
pub(super) fn metal3_address() -> Vec<Value> {
    vec![
        column("Address", "string", ".spec.address", "The address"),
        column("Pool", "string", ".spec.pool.name", "The name of the pool"),
        column("Claim", "string", ".spec.claim.name", "The name of the claim"),
        age(),
    ]
}

fn pool_ref() -> [Value; 2] {
    [
        column("Pool Name", "string", ".spec.poolRef.name", "The name of the pool"),
        column("Pool Kind", "string", ".spec.poolRef.kind", "The kind of the pool"),
    ]
}

/// Of claims.
pub(super) fn claim() -> Vec<Value> {
    pool_ref().into_iter().chain([ready(), age()]).collect()
}

/// Of addresses.
pub(super) fn address() -> Vec<Value> {
    let mut all = vec![column("Address", "string", ".spec.address", "The address")];
    all.extend(pool_ref());
    all.push(age());
    all
}
