//! The state as others see it: `mooring-agent status`, computed on request, and gauges.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::reports::Reports;
use crate::catalog::{Catalog, interface_text, of_control_plane};
use crate::core::mac::Mac;
use crate::core::placement::{Demand, Lacks};
use crate::core::session_vips::{SessionVips, VipState};
use crate::core::time::Time;
use crate::datapath::{Interface, clock};
use crate::ops::Ops;
use crate::ops::services::{ServiceVip, ServicesStatus, Watched};
use crate::reports::name_taken;
use crate::services::owned;

/// The shortest interval between two updates of the gauges; the loop steps at least as often.
const EVERY: Duration = Duration::from_secs(1);
/// How many successors are named.
const SUCCESSORS: usize = 3;

/// Sets the gauges, and answers status requests.
pub(super) struct Status {
    ops: Arc<Ops>,
    node: String,
    lease: String,
    next: Time,
    /// Another machine that uses this node's name.
    twin: Option<Vec<Mac>>,
}

impl Status {
    /// And where questions come from.
    pub(super) fn new(
        node: &str,
        lease: String,
        ops: &Arc<Ops>,
    ) -> (Self, mpsc::Receiver<oneshot::Sender<ServicesStatus>>) {
        let (ask, asked) = mpsc::channel(4);
        ops.ask_services(ask);
        (Self { ops: ops.clone(), node: node.to_owned(), lease, next: Time::default(), twin: None }, asked)
    }

    /// The gauges, and what the agent waits for.
    pub(super) fn update(&mut self, now: Time, session_vips: &SessionVips) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let (wanted, carried) = session_vips.counts();
        self.ops.metrics.services(wanted, carried);
        let twin = session_vips.twin();
        if twin != self.twin.as_deref() {
            self.ops.readiness.set("services-node-name", twin.map(name_taken));
            self.twin = twin.map(<[Mac]>::to_vec);
        }
    }

    pub(super) fn status(
        &self,
        session_vips: &SessionVips,
        catalog: &Catalog,
        interfaces: &[Interface],
        reports: &Reports,
    ) -> ServicesStatus {
        let vips = session_vips.vips().filter_map(|state| self.vip(&state, session_vips, catalog, reports));
        let mut vips: Vec<ServiceVip> = vips.chain(owned(catalog)).collect();
        for (address, services) in catalog.refused() {
            let named = services.into_iter().map(ToString::to_string).collect();
            let why = of_control_plane(&address);
            match vips.iter_mut().find(|vip| vip.address == address) {
                Some(vip) => vip.why = why,
                None => vips.push(ServiceVip {
                    address,
                    object: String::new(),
                    services: named,
                    interface: String::new(),
                    holder: String::new(),
                    carried: None,
                    next: vec![],
                    why,
                }),
            }
        }
        let (snapshot, now) = (session_vips.snapshot(), clock::boottime());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ServicesStatus {
            placement: "session".to_owned(),
            session: snapshot.session.to_owned(),
            lease: self.lease.clone(),
            transitions: snapshot.incarnation.map(|incarnation| incarnation.transitions),
            ends_in_ms: snapshot.ends.map(|end| millis(end.since(now))),
            api_away_ms: snapshot.api_away.map(|since| millis(now.since(since))),
            api_server: reports.server().unwrap_or_default(),
            interfaces: interfaces.iter().filter(|one| one.exists()).map(|one| one.name.clone()).collect(),
            probes: interfaces
                .iter()
                .filter_map(|one| Some((one.name.clone(), session_vips.echo(one.index)?)))
                .collect(),
            watches: snapshot.watches.into_iter().map(|(node, silent)| Watched { node, silent }).collect(),
            vips,
        }
    }

    fn vip(
        &self,
        state: &VipState,
        session_vips: &SessionVips,
        catalog: &Catalog,
        reports: &Reports,
    ) -> Option<ServiceVip> {
        let demand = catalog.demand_of(state.address);
        if demand.is_none() && state.carried.is_none() {
            return None;
        }
        let holder = state.holder.as_ref().map(|holder| holder.node.clone()).unwrap_or_default();
        let next: Vec<String> = session_vips
            .successors(state.address)
            .into_iter()
            .filter(|node| *node != holder)
            .take(SUCCESSORS)
            .collect();
        let selected = session_vips.is_any_node_selected(state.address);
        let why = self.why(state, demand, selected, &next, reports.why(state.address));
        Some(ServiceVip {
            address: state.address,
            object: catalog.key_of(state.address).map(ToString::to_string).unwrap_or_default(),
            services: catalog.services_of(state.address).into_iter().map(ToString::to_string).collect(),
            interface: demand.map(|demand| interface_text(&demand.interface)).unwrap_or_default(),
            holder,
            carried: state.carried.map(str::to_owned),
            next,
            why,
        })
    }

    /// Why the VIP is on its node. `selected`: any node has the labels that the VIP asks for.
    fn why(
        &self,
        state: &VipState,
        demand: Option<&Demand>,
        selected: bool,
        next: &[String],
        told: Option<&str>,
    ) -> String {
        let Some(demand) = demand else { return "it should not exist any more".into() };
        let refused = |what: &str| state.refused.as_ref().map(|reason| format!("{what}: {reason}"));
        match (state.carried, state.record) {
            (Some("recorded"), _) => {
                told.unwrap_or("held here, and stays until something is wrong with this node").into()
            }
            (Some("beside"), _) => "carried here; the record on its IPAddress is being written".into(),
            (Some("provisional"), _) => "carried here without the API: nobody else answers for it".into(),
            (Some(_), _) => "left over from before a restart; looked into".into(),
            (None, "unknown") => "not all sessions are known yet".into(),
            (None, "absent") => "its IPAddress was not seen yet".into(),
            (None, "mine" | "others" | "offered") if state.lacks.is_some() => {
                self.not_there(state, next).unwrap_or_default()
            }
            (None, "mine") => refused("held here, and this node cannot carry it")
                .unwrap_or_else(|| told.unwrap_or("held here; not on the interface yet").into()),
            (None, "others") => "a VIP stays where it is while its node's session lives".into(),
            (None, "offered") => refused("its holder hands it over, and this node cannot carry it")
                .unwrap_or_else(|| "its holder hands it over".into()),
            (None, _) => told.map_or_else(|| self.nobody(state.address, demand, selected, next), str::to_owned),
        }
    }

    /// Why the VIP is on no node though a record names one, or on a node that should not have it.
    fn not_there(&self, state: &VipState, next: &[String]) -> Option<String> {
        let holder = &state.holder.as_ref()?.node;
        let who = if *holder == self.node { "this node" } else { holder };
        let text = match state.lacks? {
            Lacks::Labels => format!("{who} has it, without the labels it asks for"),
            Lacks::Endpoint => format!("{who} has it, without a ready endpoint (externalTrafficPolicy: Local)"),
            Lacks::Interface => format!("held by {who}, which cannot carry it: it has no interface for it"),
            Lacks::Link => format!("held by {who}, which cannot carry it: the link of its interface is down"),
        };
        Some(match next.first() {
            Some(first) if *first == self.node => format!("{text}; this node is to take it"),
            Some(first) => format!("{text}; {first} is to take it"),
            None => format!("{text}; no other node may have it now"),
        })
    }

    fn nobody(&self, address: IpAddr, demand: &Demand, selected: bool, next: &[String]) -> String {
        if let Some(first) = next.first() {
            let who = if *first == self.node { "this node" } else { first };
            return format!("nobody holds it; {who} is to take it");
        }
        let mut reasons = Vec::new();
        if demand.local.as_ref().is_some_and(|nodes| nodes.is_empty()) {
            reasons.push("no node has a ready endpoint (externalTrafficPolicy: Local)".to_owned());
        }
        if let Some(selector) = demand.selector.as_ref().filter(|_| !selected) {
            reasons.push(format!("no node has the labels it asks for ({selector})"));
        }
        if reasons.is_empty() {
            let interface = interface_text(&demand.interface);
            reasons.push(format!("no node whose session lives may have {address} on its interface ({interface}), up"));
        }
        reasons.join("; ")
    }
}
