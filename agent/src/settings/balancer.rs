//! kube-vip's load balancer, where it listens on another port than the API server.

use std::collections::BTreeMap;

use mooring_common::settings::{Origin, SettingsError};

use super::Given;
use super::gather::refusal;
use super::kube_vip::{ENTRIES, Part, go_bool};

/// The port on which kube-vip's load balancer listens, unless `lb_port` says another.
const PORT: &str = "6443";

/// The port of the load balancer, if it is switched on and its port is not the API server's: the VIP would stop answering there.
pub(super) fn conflict(given: &Given, env: &BTreeMap<String, String>, port: &str) -> Option<(Part, SettingsError)> {
    let said = |name: &str| {
        let entry = ENTRIES.iter().find(|entry| entry.env == name)?;
        let flag = given.0.get(entry.flag).map(|value| (value, Origin::Flag(format!("--{}", entry.flag))));
        let variable = || env.get(name).map(|value| (value, Origin::KubeVip(name.to_owned())));
        flag.or_else(variable).map(|(value, from)| (value.trim(), from)).filter(|(value, _)| !value.is_empty())
    };
    let (_, switch) = said("lb_enable").filter(|(on, _)| go_bool(on) == Some(true))?;
    let (listens, from) = said("lb_port").unwrap_or((PORT, switch));
    let advice = format!(
        "the VIP would no longer answer on port {listens}, where kube-vip's load balancer listens: Mooring has none. Let clients use \
         port {port}, and remove lb_enable and lb_port; or set port to {listens}, if the API server listens there"
    );
    let error = refusal("lb_port", listens, from, "not supported", &advice);
    (listens != port.trim()).then_some((Part::ControlPlane, error))
}
