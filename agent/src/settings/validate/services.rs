//! Which VIPs of Services the agent serves, and what places them.

use mooring_common::settings::{Gathered, Origin, Warning};

use super::super::parse::{self, Problem};
use super::super::types::{Leases, Placement, Services, ServicesInterface};
use super::field;
use crate::catalog::Classes;

pub(super) fn services(g: &mut Gathered, kube_vip: bool) -> Option<Option<Services>> {
    let on = field(g, "services", parse::on_off);
    let interface = field(g, "services-interface", |text| match text {
        "" => Ok(ServicesInterface::Same),
        "auto" => Ok(ServicesInterface::Auto),
        name => parse::interface(name).map(ServicesInterface::Named),
    });
    let sessions = field(g, "sessions-namespace", parse::subdomain);
    let placement = placement(g, on == Some(true), kube_vip);
    let (on, interface, sessions, placement) = (on?, interface?, sessions?, placement?);
    Some(on.then_some(Services { interface, sessions, placement }))
}

/// What decides which node has which VIP. If kube-vip's setting names switch Services on, other nodes may still run
/// kube-vip: then kube-vip's placement is used, and no VIP is on two nodes.
fn placement(g: &mut Gathered, on: bool, kube_vip: bool) -> Option<Placement> {
    let (own, name) = field(g, "services-lease-name", lease_name)?;
    // Before lease-name says of the other Lease where that is; whether it makes sense is asked there.
    let namespace = own.unwrap_or_else(|| g.get("namespace").0.trim().to_owned());
    let of_kube_vip = match g.get("services").1 {
        Origin::KubeVip(_) => true,
        // A flag of both.
        Origin::Flag(_) => kube_vip,
        _ => false,
    };
    let (given, source) = g.get("services-placement");
    if given.is_empty() {
        g.default("services-placement", if of_kube_vip { "global-lease" } else { "session" }.to_owned());
    }
    let words = [("session", None), ("global-lease", Some(false)), ("lease-per-service", Some(true))];
    let per_service = field(g, "services-placement", |text| parse::one_of(text, &words))?;
    let updates = field(g, "service-updates", parse::on_off)?;
    let class = field(g, "lb-class-name", parse::class)?;
    g.show("lb-class-name", if class.is_empty() { parse::NO_CLASS } else { &class });
    let classes = Classes {
        name: class,
        only: field(g, "lb-class-only", parse::on_off)?,
        legacy: field(g, "lb-class-legacy-handling", parse::on_off)?,
    };
    let Some(per_service) = per_service else { return Some(Placement::Sessions) };
    let theirs = match source {
        Origin::KubeVip(_) | Origin::Default => true,
        Origin::Flag(name) => name != "--services-placement",
        _ => false,
    };
    if on && theirs {
        let text = "VIPs of Services are placed by kube-vip's Leases, so that you can move nodes one by one; when no node \
                    runs kube-vip any more, set MOORING_SERVICES_PLACEMENT=session on each";
        g.warnings.push(Warning { setting: "services-placement".into(), text: text.into() });
    }
    Some(Placement::Leases(Leases { namespace, name, per_service, updates, classes }))
}

/// `name`, or `namespace/name`.
pub(super) fn lease_name(text: &str) -> Result<(Option<String>, String), Problem> {
    match text.split_once('/') {
        Some((namespace, name)) => Ok((Some(parse::subdomain(namespace)?), parse::subdomain(name)?)),
        None => Ok((None, parse::subdomain(text)?)),
    }
}
