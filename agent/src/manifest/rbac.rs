//! The service account of the agents, and its rights.

use crate::settings::{Address, Placement, Settings};

/// What every agent with VIPs of Services needs: the roles, and the service account of nodes that are no control planes.
const SERVICES: &str = include_str!("../../../manifests/agent/rbac.yaml");
/// With kube-vip's placements: the Lease that all Services share.
const SHARED_LEASE: &str = include_str!("../../../manifests/agent/kube-vip-placement/rbac.yaml");
/// A Lease for each Service.
const LEASE_PER_SERVICE: &str = include_str!("../../../manifests/agent/kube-vip-placement/lease-per-service/rbac.yaml");
/// What kube-vip's agent writes on Services.
const SERVICE_UPDATES: &str = include_str!("../../../manifests/agent/kube-vip-placement/service-updates.yaml");
/// The Lease of the control plane's VIP, and the service account of control-plane nodes.
const CONTROL_PLANE: &str = include_str!("../../../manifests/agent-control-plane/rbac.yaml");
/// The roles of the agents with VIPs of Services, for the service account of control-plane nodes.
const CONTROL_PLANE_SERVICES: &str = include_str!("../../../manifests/agent-control-plane/services/rbac.yaml");

/// The names of Leases and `ConfigMap` objects that agents may write among the sessions.
const LEASE_POLICY: &str = include_str!("../../../manifests/agent/lease-policy.yaml");
/// A VIP that an `IPAddress` names.
const NAMED_ADDRESS: &str = include_str!("../../../manifests/agent-control-plane/named-address/rbac.yaml");

/// The agents' own namespace, in all of these.
const NAMESPACE: &str = "namespace: kube-system";

/// The rights that an agent with these settings needs, when it uses a service account. In the namespace of its Lease.
#[must_use]
pub fn render(settings: &Settings) -> String {
    let services = settings.services.as_ref();
    let leases = services.and_then(|services| match &services.placement {
        Placement::Leases(leases) => Some(leases),
        Placement::Sessions => None,
    });
    let of_control_plane = |text: &str| {
        let account = if settings.control_plane() { "mooring-agent-control-plane" } else { "mooring-agent" };
        text.replace("name: mooring-agent, namespace", &format!("name: {account}, namespace"))
    };
    let here = format!("namespace: {}", settings.lease.namespace);
    let shared = leases.filter(|leases| !leases.per_service).map(|leases| {
        // The Lease may be elsewhere than the agents' service account.
        let (role, account) = SHARED_LEASE.rsplit_once("subjects:").unwrap_or((SHARED_LEASE, ""));
        let role = role.replace("[plndr-svcs-lock]", &format!("[{}]", leases.name));
        let role = role.replace(NAMESPACE, &format!("namespace: {}", leases.namespace));
        of_control_plane(&format!("{role}subjects:{}", account.replace(NAMESPACE, &here)))
    });
    let parts = [
        (settings.control_plane(), CONTROL_PLANE.to_owned()),
        (services.is_some(), SERVICES.to_owned()),
        (settings.control_plane() && services.is_some(), CONTROL_PLANE_SERVICES.to_owned()),
        (leases.is_some_and(|leases| leases.per_service), of_control_plane(LEASE_PER_SERVICE)),
        (leases.is_some_and(|leases| leases.updates), of_control_plane(SERVICE_UPDATES)),
        (settings.addresses.iter().any(|address| matches!(address, Address::Object(_))), NAMED_ADDRESS.to_owned()),
        (services.is_some(), LEASE_POLICY.to_owned()),
    ];
    let sessions = services.map_or("mooring-system", |services| &services.sessions);
    let in_place = |text: String| {
        text.replace(NAMESPACE, &here)
            .replace(":serviceaccount:kube-system:", &format!(":serviceaccount:{}:", settings.lease.namespace))
            .replace("namespace: mooring-system", &format!("namespace: {sessions}"))
            .replace("metadata.name: mooring-system", &format!("metadata.name: {sessions}"))
            .replace("[plndr-cp-lock]", &format!("[{}]", settings.lease.name))
    };
    let wanted = parts.into_iter().filter_map(|(wanted, text)| wanted.then(|| in_place(text)));
    wanted.chain(shared).collect::<Vec<_>>().join("---\n")
}
