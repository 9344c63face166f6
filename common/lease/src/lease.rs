//! The Lease: the record that client-go's electors read and write, and Mooring's annotations on it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mac::Mac;
use super::planted::{Bug, is_planted};
use super::time::WallTime;

/// The `spec` of a `coordination.k8s.io/v1` Lease, as client-go's leader election uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// `holderIdentity`; empty when the Lease was released.
    pub holder: String,
    /// `leaseDurationSeconds`; an absent, zero or negative value is read as zero.
    pub duration: Duration,
    /// `acquireTime`.
    pub acquired: Option<WallTime>,
    /// `renewTime`.
    pub renewed: Option<WallTime>,
    /// `leaseTransitions`; negative ones count as 0.
    pub transitions: u32,
}

/// A Lease as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// `metadata.resourceVersion`: what a compare-and-swap compares.
    pub version: String,
    /// The holder, and since when it holds the Lease.
    pub record: Record,
    /// Mooring's annotations on the Lease.
    #[serde(default)]
    pub notes: Notes,
}

/// Mooring's annotations on a Lease. client-go and kube-vip keep annotations when they take a Lease, so each part says
/// which tenure it belongs to, and is void in any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// `mooring.dev/tenure`: the holder takes part in witnessing.
    pub tenure: Option<Tenure>,
    /// `mooring.dev/handover`: the node that is to take a released Lease.
    pub handover: Option<Handover>,
    /// `mooring.dev/participants`: the nodes that take part, by name. Facts about nodes, not about a tenure.
    pub participants: BTreeMap<String, Participant>,
    /// `mooring.dev/let-go`: the last hold without a Lease that ended. A fact about a node, not about a tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_go: Option<LetGo>,
}

/// What a holder writes with each renewal. A kube-vip that adopts the Lease of its own node keeps the annotations and the
/// tenure, and renews: what an agent declared there before is void from that renewal on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenure {
    /// What the holder declares.
    #[serde(flatten)]
    pub declared: Declaration,
    /// Must equal the record's `renewed`.
    #[serde(default)]
    pub renewed: Option<WallTime>,
    /// No host answers the holder: it offers the Lease to a node that is answered. Older agents neither write nor read this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unheard: bool,
}

/// The holder takes part: it answers probes while it carries the VIP, and yields to the rightful holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Must equal the record's `holder`.
    pub holder: String,
    /// Must equal the record's `transitions`.
    pub transitions: u32,
    /// Must equal the record's `acquired`.
    pub acquired: Option<WallTime>,
    /// The MAC addresses from which the holder answers for the VIP.
    pub macs: Vec<Mac>,
    /// The VIPs that candidates may probe: the first few that the holder carries. If the holder lets one of them go, it
    /// writes the Lease anew at once. Empty: the holder does not say (an agent before this field existed), and
    /// candidates probe the VIPs that they know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<IpAddr>,
}

/// A planned hand-over: `from` serves until it hears its successor's announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The node that released the Lease.
    pub from: String,
    /// The node that is to take the Lease; any node may 200 ms later. Empty: any node, at once.
    pub to: String,
    /// The released record's `transitions`: in any other tenure the hand-over is void.
    pub transitions: u32,
    /// The released record's `acquired`, likewise.
    pub acquired: Option<WallTime>,
}

/// A node has let go of VIPs that it carried, and announced, without a Lease: whoever holds the Lease announces them again.
/// Agents before this note existed keep it, as they keep what others write on the Lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetGo {
    /// The node.
    pub node: String,
    /// When, by that node's clock: only whether it is another time than before counts.
    pub at: WallTime,
}

/// The most participants that a Lease names: each renewal sends all of them to all candidates.
pub const MOST_PARTICIPANTS: usize = 64;

/// A node that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    /// All its MAC addresses on the segment.
    pub macs: Vec<Mac>,
    /// Its own addresses on the segment, at most one a family.
    pub addresses: Vec<IpAddr>,
    /// The addresses at which `default/kubernetes` lists its API server, at most one a family: on any interface. Empty:
    /// it has none, or none is found yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_servers: Vec<IpAddr>,
}

impl Participant {
    /// Whether its API server is one of these. A node that does not say where its API server is has it at its own address.
    #[must_use]
    pub fn serves_at(&self, servers: &[IpAddr]) -> bool {
        let own = if self.api_servers.is_empty() { &self.addresses } else { &self.api_servers };
        own.iter().any(|address| servers.contains(address))
    }
}

impl LeaseView {
    /// The holder's declaration for the tenure that the record shows. None if the Lease has no holder, or if the holder
    /// does not take part (client-go, kube-vip).
    #[must_use]
    pub fn declaration(&self) -> Option<&Declaration> {
        let record = &self.record;
        let tenure = self.notes.tenure.as_ref()?;
        if tenure.renewed != record.renewed && !is_planted(Bug::BelievesKeptDeclaration) {
            return None;
        }
        Some(&tenure.declared).filter(|d| {
            !record.holder.is_empty()
                && d.holder == record.holder
                && d.transitions == record.transitions
                && d.acquired == record.acquired
        })
    }

    /// Whether the holder offers the Lease to nodes that are heard, because nothing answers it.
    #[must_use]
    pub fn is_offered(&self) -> bool {
        self.declaration().is_some() && self.notes.tenure.as_ref().is_some_and(|tenure| tenure.unheard)
    }

    /// Whether a node other than `node` has the Lease and declares nothing: kube-vip, or another program with client-go's elector.
    #[must_use]
    pub fn is_of_other_program(&self, node: &str) -> bool {
        !self.record.holder.is_empty() && self.record.holder != node && self.declaration().is_none()
    }

    /// The hand-over under way, if the Lease is released for one.
    #[must_use]
    pub fn handover(&self) -> Option<&Handover> {
        let record = &self.record;
        self.notes.handover.as_ref().filter(|h| {
            record.holder.is_empty() && h.transitions == record.transitions && h.acquired == record.acquired
        })
    }

    /// The participant that has this MAC address.
    #[must_use]
    pub fn participant_with(&self, mac: Mac) -> Option<&str> {
        let declared = self.declaration().filter(|d| d.macs.contains(&mac)).map(|d| d.holder.as_str());
        declared.or_else(|| {
            let mut all = self.notes.participants.iter();
            all.find(|(_, p)| p.macs.contains(&mac)).map(|(name, _)| name.as_str())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> LeaseView {
        let (acquired, renewed) = (Some(WallTime(7)), Some(WallTime(9)));
        let record = Record { holder: "cp1".into(), transitions: 3, acquired, renewed, ..Record::default() };
        let declared = Declaration { holder: "cp1".into(), transitions: 3, acquired, macs: vec![], vips: vec![] };
        let tenure = Tenure { declared, renewed, unheard: false };
        let notes = Notes { tenure: Some(tenure), ..Notes::default() };
        LeaseView { version: "1".into(), record, notes }
    }

    #[test]
    fn a_declaration_kept_by_another_holder_is_void() {
        let mut view = held();
        assert!(view.declaration().is_some());
        view.record.holder = "cp2".into();
        assert!(view.declaration().is_none());
    }

    #[test]
    fn a_declaration_of_an_earlier_tenure_of_the_same_node_is_void() {
        let mut view = held();
        view.record.acquired = Some(WallTime(8));
        assert!(view.declaration().is_none());
        let mut view = held();
        view.record.transitions = 4;
        assert!(view.declaration().is_none());
    }

    #[test]
    fn a_declaration_kept_by_another_program_of_the_same_node_is_void() {
        let mut view = held();
        view.record.renewed = Some(WallTime(11));
        assert!(view.declaration().is_none());
        let mut view = held();
        view.notes.tenure.as_mut().unwrap().renewed = None;
        assert!(view.declaration().is_none(), "one that does not say with which renewal it was written");
    }
}
