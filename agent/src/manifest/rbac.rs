//! The service account of the agents, and its rights.

use crate::settings::{Placement, Settings};

/// What every agent with VIPs of Services needs: the roles, and the service account of nodes that are no control planes.
const SERVICES: &str = include_str!("../../../manifests/agent/rbac.yaml");
/// With kube-vip's placements: the Leases of Services.
const KUBE_VIP_PLACEMENT: &str = include_str!("../../../manifests/agent/kube-vip-placement/rbac.yaml");
/// The Lease of the control plane's VIP, and the service account of control-plane nodes.
const CONTROL_PLANE: &str = include_str!("../../../manifests/agent-control-plane/rbac.yaml");
/// The roles of the agents with VIPs of Services, for the service account of control-plane nodes.
const CONTROL_PLANE_SERVICES: &str = include_str!("../../../manifests/agent-control-plane/services/rbac.yaml");

/// The rights that an agent with these settings needs, when it uses a service account. In the namespace of its Lease.
#[must_use]
pub fn render(settings: &Settings) -> String {
    let services = settings.services.as_ref();
    let leases = services.is_some_and(|services| matches!(services.placement, Placement::Leases(_)));
    let placement = if settings.control_plane() {
        KUBE_VIP_PLACEMENT.replace("name: mooring-agent, namespace", "name: mooring-agent-control-plane, namespace")
    } else {
        KUBE_VIP_PLACEMENT.to_owned()
    };
    let parts = [
        (settings.control_plane(), CONTROL_PLANE),
        (services.is_some(), SERVICES),
        (settings.control_plane() && services.is_some(), CONTROL_PLANE_SERVICES),
        (leases, &placement),
    ];
    let wanted: Vec<&str> = parts.iter().filter(|(wanted, _)| *wanted).map(|(_, text)| *text).collect();
    let namespace = &settings.lease.namespace;
    wanted
        .join("---\n")
        .replace("namespace: kube-system", &format!("namespace: {namespace}"))
        .replace("[plndr-cp-lock]", &format!("[{}]", settings.lease.name))
}
