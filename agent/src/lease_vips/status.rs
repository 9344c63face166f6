//! The state as others see it: `mooring-agent status`, computed on request.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::assignments::{lease_of, shared};
use crate::catalog::{Catalog, interface_text, of_control_plane};
use crate::core::lease_vips::{LeaseState, LeaseVips};
use crate::core::mac::Mac;
use crate::core::placement::Demand;
use crate::core::time::Time;
use crate::datapath::Interface;
use crate::ops::services::{ServiceVip, ServicesStatus};
use crate::services::owned;
use crate::settings::Leases;

/// The sources of the status.
pub(super) struct Status<'a> {
    pub(super) leases: &'a Leases,
    pub(super) lease_vips: &'a LeaseVips,
    pub(super) catalog: &'a Catalog,
    /// The control plane's VIPs.
    pub(super) reserved: &'a BTreeSet<IpAddr>,
    pub(super) interfaces: &'a [Interface],
    pub(super) server: Option<String>,
    pub(super) now: Time,
}

impl Status<'_> {
    pub(super) fn status(&self) -> ServicesStatus {
        let states: BTreeMap<String, LeaseState> =
            self.lease_vips.states().into_iter().map(|state| (state.name.clone(), state)).collect();
        let away = states.values().filter_map(|state| state.elector.as_ref()?.api_away).min();
        let probes = states.values().filter_map(|state| Some(state.elector.as_ref()?.echo)).max();
        let millis = |since: Time| u64::try_from(self.now.since(since).as_millis()).unwrap_or(u64::MAX);
        ServicesStatus {
            placement: placement(self.leases).to_owned(),
            session: String::new(),
            lease: shared(self.leases),
            transitions: None,
            ends_in_ms: None,
            api_away_ms: away.map(millis),
            api_server: self.server.clone().unwrap_or_default(),
            interfaces: self.interfaces.iter().filter(|one| one.exists()).map(|one| one.name.clone()).collect(),
            probes: probes.map(|worst| (String::new(), worst)).into_iter().collect(),
            watches: vec![],
            vips: self.catalog.demands().map(|demand| self.vip(demand, &states)).chain(owned(self.catalog)).collect(),
        }
    }

    fn vip(&self, demand: &Demand, states: &BTreeMap<String, LeaseState>) -> ServiceVip {
        let lease = lease_of(self.leases, self.catalog, demand.address);
        let state = states.get(&lease);
        let elector = state.and_then(|state| state.elector.as_ref());
        let holder = elector.and_then(|k| k.lease.as_ref()).map(|view| view.record.holder.clone()).unwrap_or_default();
        let reserved = self.reserved.contains(&demand.address);
        let here = self.lease_vips.is_carried(demand.address);
        let held_back = state.and_then(|state| state.held_back.iter().find(|(address, _)| *address == demand.address));
        let object = self.catalog.ip_address(demand.address).map(|object| object.metadata.key().to_string());
        ServiceVip {
            address: demand.address,
            object: object.unwrap_or_default(),
            services: self.catalog.services_of(demand.address).into_iter().map(ToString::to_string).collect(),
            interface: interface_text(&demand.interface),
            why: if reserved {
                of_control_plane(&demand.address)
            } else {
                why(&lease, &holder, elector.is_some(), held_back)
            },
            holder: if reserved { String::new() } else { holder },
            carried: elector.filter(|_| here).map(|elector| elector.role.to_owned()),
            next: vec![],
        }
    }
}

/// The name of the placement, for people and programs.
pub(super) const fn placement(leases: &Leases) -> &'static str {
    if leases.per_service { "lease-per-service" } else { "global-lease" }
}

fn why(lease: &str, holder: &str, campaigns: bool, held_back: Option<&(IpAddr, Option<Mac>)>) -> String {
    match held_back {
        Some((_, Some(mac))) => format!("not taken: {mac} answers for it; find that host and remove the address"),
        Some((_, None)) => "looked for on the segment before it is taken".to_owned(),
        None if !campaigns => {
            format!("this node does not take part in {lease}: no interface, no ready endpoint (Local), or drained")
        }
        None if holder.is_empty() => format!("nobody holds {lease}"),
        None => format!("{holder} holds {lease}"),
    }
}
