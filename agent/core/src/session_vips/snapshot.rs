//! The state for `mooring-agent status` and metrics: where each VIP is, and why.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Serialize;

use super::SessionVips;
use super::hold::Basis;
use super::record_state::RecordState;
use super::vip::Vip;
use crate::mac::Mac;
use crate::placement::{Lacks, lacks, order};
use crate::session::{Holder, Incarnation};
use crate::time::Time;

/// One VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VipState {
    /// The VIP.
    pub address: IpAddr,
    /// `recorded`, `beside`, `provisional` or `left-over` when it is carried here.
    pub carried: Option<&'static str>,
    /// Whether it is on the interface.
    pub put: bool,
    /// Whom its record names.
    pub holder: Option<Holder>,
    /// `mine`, `free`, `others`, `offered`, `absent` or `unknown`: what the record and the sessions say.
    pub record: &'static str,
    /// What the node that the record names lacks, if it is there.
    pub lacks: Option<Lacks>,
    /// Why this node's interface does not take it, as far as that was tried lately.
    pub refused: Option<String>,
}

/// The node's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// `none`, `live`, `lapsed` or `leaving`.
    pub session: &'static str,
    /// Its incarnation.
    pub incarnation: Option<Incarnation>,
    /// When it ends if it is not renewed.
    pub ends: Option<Time>,
    /// Since when no call to the API was answered.
    pub api_away: Option<Time>,
    /// The MAC addresses of another machine that uses this node's name.
    pub twin: Option<Vec<Mac>>,
    /// The nodes that this one watches, and whether each is silent.
    pub watches: Vec<(String, bool)>,
}

impl SessionVips {
    /// The session.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let session = match &self.own.tenure {
            None => "none",
            Some(_) if self.own.gives_all() => "leaving",
            Some(tenure) if tenure.lapsed => "lapsed",
            Some(_) => "live",
        };
        Snapshot {
            session,
            incarnation: self.own.tenure.as_ref().map(|t| t.incarnation.clone()),
            ends: self.session_ends(),
            api_away: self.api.away,
            twin: self.twin().map(<[Mac]>::to_vec),
            watches: self.watches.iter().map(|(node, w)| (node.clone(), w.silent_since.is_some())).collect(),
        }
    }

    /// One VIP.
    #[must_use]
    pub fn vip(&self, address: IpAddr) -> Option<VipState> {
        let vip = self.vips.get(&address)?;
        let carried = vip.hold.map(|hold| match hold.basis {
            Basis::Recorded => "recorded",
            Basis::Beside(_) => "beside",
            Basis::Provisional => "provisional",
            Basis::LeftOver => "left-over",
        });
        let record = match self.record_state(vip) {
            RecordState::Unknown => "unknown",
            RecordState::Absent => "absent",
            RecordState::Mine => "mine",
            RecordState::Free { .. } => "free",
            RecordState::Others { consents: true, .. } => "offered",
            RecordState::Others { .. } => "others",
        };
        let lacks = self.holder_lacks(vip);
        let refused = vip.refusal.reason(self.step.at.now).map(str::to_owned);
        Some(VipState { address, carried, put: vip.is_put(), holder: vip.holder().cloned(), record, lacks, refused })
    }

    fn holder_lacks(&self, vip: &Vip) -> Option<Lacks> {
        let holder = vip.holder()?;
        let peer =
            self.sessions.get(&holder.node).filter(|peer| peer.view.is_live() && peer.view.is_of(&holder.session))?;
        lacks(vip.demand.as_ref()?, &holder.node, self.labels_of(&holder.node, peer), peer.view.links())
    }

    /// How many VIPs should exist, and how many are carried here.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.vips.values().filter(|vip| vip.demand.is_some()).count(), self.index.carried.len())
    }

    /// Whether a VIP of that address is known.
    #[must_use]
    pub fn knows(&self, address: IpAddr) -> bool {
        self.vips.contains_key(&address)
    }

    /// All VIPs, in the order of their addresses.
    pub fn vips(&self) -> impl Iterator<Item = VipState> + '_ {
        let all: BTreeSet<IpAddr> = self.vips.keys().copied().collect();
        all.into_iter().filter_map(|address| self.vip(address))
    }

    /// The nodes that would have a VIP now, the best first.
    #[must_use]
    pub fn successors(&self, address: IpAddr) -> Vec<String> {
        let Some(vip) = self.vips.get(&address) else { return vec![] };
        let Some(demand) = &vip.demand else { return vec![] };
        order(demand, vip.seed, self.candidates(self.latecomers(vip))).into_iter().map(str::to_owned).collect()
    }

    /// Whether any node whose session lives has the labels that a VIP asks for.
    #[must_use]
    pub fn is_any_node_selected(&self, address: IpAddr) -> bool {
        let demand = self.vips.get(&address).and_then(|vip| vip.demand.as_ref());
        demand.is_none_or(|demand| self.sessions.live().any(|(node, peer)| demand.selects(self.labels_of(node, peer))))
    }

    /// The node that declares a MAC address, as far as this one knows.
    #[must_use]
    pub fn node_with(&self, mac: Mac) -> Option<&str> {
        self.sessions.with_mac(mac)
    }
}
