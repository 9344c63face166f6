//! Sessions: one Lease per node instead of one per VIP. The types of what is written on that Lease, and on the `IPAddress` of a
//! VIP.
//!
//! A session's Lease says whether the node's agent is there, and how others reach the node. An *incarnation* of the session
//! begins once and ends once. A VIP's record names its holder by an incarnation, and may be replaced when that has ended.

mod ends;
mod link;
mod membership;
mod peer;
mod published;
mod record;

pub use link::{Link, Subnet};
pub use membership::{Membership, Shown};
pub use peer::{Peer, Standing};
pub use published::Member;
pub use record::{AddressView, Holder};

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::lease::Record;
use crate::placement::Labels;
use crate::time::WallTime;

/// One life of a session: it begins with a write that counts the transitions up, and ends with another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The Lease's `metadata.uid`.
    pub uid: String,
    /// The Lease's `leaseTransitions`.
    pub transitions: u32,
}

/// A session's Lease as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The node whose session it is.
    pub node: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: String,
    /// `holderIdentity` is the node, or empty: ended.
    pub record: Record,
    /// What the agent declares about itself.
    #[serde(default)]
    pub declared: Option<Declared>,
    /// The node that ended it and the reason, for people.
    #[serde(default)]
    pub end: Option<End>,
    /// Its agent publishes a member object. Agents of before do not: every node watches their Leases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
}

/// `mooring.dev/session`: what an agent declares for one incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Declared {
    /// Must equal the record's: in any other incarnation this is void.
    pub transitions: u32,
    /// The node's interfaces.
    pub links: Vec<Link>,
    /// The node is about to leave: others may take its VIPs.
    pub leaving: bool,
    /// The version that the first write of the incarnation got. None: not known yet.
    pub began: Option<String>,
    /// The version that the Lease had before: by then the previous incarnation had ended. None: there was no Lease.
    pub after: Option<String>,
    /// The control plane's VIPs, by the settings of the node: no VIP of a Service has one of these addresses. Older agents
    /// do not declare them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<IpAddr>,
    /// VIPs that the node carried without a record, and has let go of: whoever carries them announces them again. Older agents
    /// neither declare nor read this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_go: Option<LetGo>,
    /// What Kubernetes says of the node. Older agents do not declare it: they watch all Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Those of the node's labels that selectors of VIPs ask for. Older agents do not declare them.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Of a node that declares none.
static NO_LABELS: Labels = Labels::new();

/// VIPs that a node has let go of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetGo {
    /// When, by the node's wall clock: tells one note from the next.
    pub at: WallTime,
    /// Which.
    pub vips: Vec<IpAddr>,
}

impl Declared {
    /// Whether the node has the address for something else than a VIP of Services: as a VIP of the control plane, or on a link
    /// that `counts`.
    #[must_use]
    pub fn has(&self, address: IpAddr, counts: impl Fn(&Link) -> bool) -> bool {
        let own = |link: &Link| counts(link) && link.addresses.contains(&address);
        self.reserved.contains(&address) || self.links.iter().any(own)
    }
}

/// `mooring.dev/ended`: for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The node that wrote it.
    pub by: String,
    /// Why.
    pub cause: EndCause,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Its own agent ended it.
    Planned,
    /// It was not renewed in time.
    Expired,
    /// The node fell silent on all segments that the witness shares with it.
    Abandoned,
}

impl View {
    /// Whether it has not ended.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.record.holder.is_empty()
    }

    /// Which incarnation it shows.
    #[must_use]
    pub fn is_of(&self, incarnation: &Incarnation) -> bool {
        self.uid == incarnation.uid && self.record.transitions == incarnation.transitions
    }

    /// The incarnation that it shows.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        Incarnation { uid: self.uid.clone(), transitions: self.record.transitions }
    }

    /// Whether both say the same to other nodes: they differ in no more than when the session was renewed.
    #[must_use]
    pub fn says_as(&self, other: &Self) -> bool {
        self.is_of(&other.incarnation()) && self.is_live() == other.is_live() && self.declared() == other.declared()
    }

    /// Whether this is at least as new a state of the Lease as the other. Versions count on when a Lease is deleted and made again.
    #[must_use]
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        !is_lower(&self.version, &other.version)
    }

    /// What its agent declared for this incarnation.
    #[must_use]
    pub fn declared(&self) -> Option<&Declared> {
        self.declared.as_ref().filter(|d| d.transitions == self.record.transitions)
    }

    /// Its interfaces; none when it has ended or says nothing.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        self.declared().filter(|_| self.is_live()).map_or(&[], |d| d.links.as_slice())
    }

    /// The control plane's VIPs, as its agent declares them; none when it has ended or says nothing.
    #[must_use]
    pub fn reserved(&self) -> &[IpAddr] {
        self.declared().filter(|_| self.is_live()).map_or(&[], |d| d.reserved.as_slice())
    }

    /// What Kubernetes says of the node, as its agent declares it; the best, if it says nothing.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.declared().and_then(|d| d.standing).unwrap_or_default()
    }

    /// The node's labels that selectors ask for, as its agent declares them.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        self.declared().map_or(&NO_LABELS, |d| &d.labels)
    }

    /// Whether its agent offers VIPs that it has on some link, because nobody answers it there.
    #[must_use]
    pub fn offers(&self) -> bool {
        self.links().iter().any(|link| link.unheard)
    }

    /// Whether its agent has declared that others may take its VIPs.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.is_live() && self.declared().is_some_and(|d| d.leaving)
    }
}

/// Whether a version is surely lower than another.
#[must_use]
pub fn is_lower(version: &str, than: &str) -> bool {
    matches!((number(version), number(than)), (Some(this), Some(other)) if this < other)
}

/// A version as a number: since 1.35 Kubernetes says that versions may be compared so (they always were etcd's revisions).
#[must_use]
pub fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
