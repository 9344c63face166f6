//! Reports to people about many VIPs: log lines, Events, metrics; conflicts on the `IPAddress`. An event of hundreds of
//! VIPs is reported once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::calls::Calls;
use super::coalesce::Coalesced;
use super::conflicts::Conflicts;
use crate::api::addresses::placed;
use crate::api::{EventNote, Events, Regarding, Severity};
use crate::catalog::Catalog;
use crate::cluster::Cluster;
use crate::core::action::{Cause, Why};
use crate::core::echo::State;
use crate::core::event::Moment;
use crate::core::session::EndCause;
use crate::core::session_vips::Report;
use crate::core::time::{Time, WallTime};
use crate::ops::Ops;
use crate::ops::metrics::{Takeover, Transition};
use crate::reports::{because, echo, echo_event, let_go, name_taken, names};

/// After this time, the same conflict is written on the object again, in case its annotation was removed.
const AGAIN: Duration = Duration::from_mins(1);

/// The reports made about VIPs, and the reason for each VIP's place.
pub(super) struct Reports {
    node: String,
    namespace: String,
    lease: String,
    cluster: Cluster,
    ops: Arc<Ops>,
    /// Why each VIP is on its node, as far as this node had a part in the decision.
    why: BTreeMap<IpAddr, String>,
    conflicts: BTreeMap<IpAddr, (String, Time)>,
    /// The cluster was found to have no kind `IPAddress`.
    no_kind: bool,
    coalesced: Coalesced,
    claims: Conflicts,
    /// The process was asked to end.
    leaving: bool,
}

impl Reports {
    /// `lease`: namespace and name of the session.
    pub(super) fn new(node: String, lease: (String, String), cluster: Cluster, ops: Arc<Ops>) -> Self {
        let (namespace, lease) = lease;
        Self {
            node,
            namespace,
            lease,
            cluster,
            ops,
            why: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            no_kind: false,
            coalesced: Coalesced::default(),
            claims: Conflicts::default(),
            leaving: false,
        }
    }

    /// Why a VIP is on its node, as far as this node had a part in the decision.
    pub(super) fn why(&self, address: IpAddr) -> Option<&str> {
        self.why.get(&address).map(String::as_str)
    }

    /// The process was asked to end.
    pub(super) const fn leave(&mut self) {
        self.leaving = true;
    }

    /// Where Events are sent.
    pub(super) fn events(&self) -> &Events {
        &self.cluster.events
    }

    /// The API server in use, and whether it answers.
    pub(super) fn server(&self) -> Option<String> {
        self.cluster.servers.status().current
    }

    /// Whether the cluster has the kind `IPAddress`.
    pub(super) fn kind(&mut self, version: Option<&str>) {
        let text = "the cluster has no kind IPAddress (ipam.cluster.x-k8s.io, v1beta1 or v1beta2): install the CRDs; \
                    until then there are no VIPs of Services";
        match version {
            Some(version) => tracing::info!(version, "kind IPAddress found; its objects say which VIPs there are"),
            None if !self.no_kind => tracing::warn!("{text}"),
            None => {}
        }
        self.no_kind = version.is_none();
        let waits = version.is_none().then(|| text.to_owned());
        self.ops.readiness.set("services-kind", waits);
    }

    /// Whether the namespace of sessions exists.
    pub(super) fn namespace(&self, exists: bool) {
        let waits = (!exists).then(|| {
            format!(
                "the namespace {} for the sessions of nodes does not exist: apply manifests/agent, or create the \
                 namespace and the Role in it; until then this node carries no VIPs of Services, and tries again every \
                 30 s",
                self.namespace
            )
        });
        if let Some(text) = &waits {
            tracing::warn!("{text}");
        } else {
            tracing::info!(namespace = self.namespace, "the namespace for the sessions of nodes exists now");
        }
        self.ops.readiness.set("services-namespace", waits);
    }

    /// Whether this node may write its member object.
    pub(super) fn member_refused(&self, why: Option<&str>) {
        let waits = why.map(|why| {
            format!(
                "this node may not write its member object, mooring-member.{} in {}: {why}; until then it carries no \
                 VIPs of Services",
                self.node, self.namespace
            )
        });
        if let Some(text) = &waits {
            tracing::warn!("{text}");
        }
        self.ops.readiness.set("services-member", waits);
    }

    /// Reports the result of one step.
    pub(super) fn tell(&mut self, at: Moment, reports: &[Report], catalog: &Catalog, calls: &Calls) {
        let mut many: BTreeMap<(&'static str, String), (Vec<IpAddr>, Severity)> = BTreeMap::new();
        for report in reports {
            if let Some((address, text)) = had_by_lease(report, catalog) {
                // This is not an error. The state lasts until the last node of that placement has ended.
                tracing::debug!(%address, "{text}");
                self.why.insert(address, text);
                continue;
            }
            self.count(report);
            if let Some((address, reason, text, severity)) = of_many(report) {
                self.remember(address, report, &text);
                many.entry((reason, text)).or_insert_with(|| (vec![], severity)).0.push(address);
            } else {
                self.tell_of_segment(report);
                self.tell_one(at, report, catalog, calls);
            }
        }
        for ((reason, what), (addresses, severity)) in many {
            let text = format!("{}: {what}", names(&addresses));
            Self::say(severity, reason, &text);
            match addresses.as_slice() {
                [one] if self.coalesced.alone(at.now, &(reason, what), *one, severity) => {
                    self.event(self.object(*one, catalog), severity, reason, &text);
                }
                [_] => {}
                _ => self.event(self.session(), severity, reason, &text),
            }
        }
        for ((reason, text), (addresses, severity)) in self.coalesced.due(at.now) {
            self.event(self.session(), severity, reason, &format!("{}: {text}", names(&addresses)));
        }
    }

    fn tell_one(&mut self, at: Moment, report: &Report, catalog: &Catalog, calls: &Calls) {
        use Severity::{Normal, Warning};
        let (severity, reason, address, text) = match report {
            Report::Began { adopted: false, .. } => {
                (Normal, "SessionBegan", None, "the node's session began".to_owned())
            }
            Report::Began { .. } => {
                (Normal, "SessionBegan", None, "the node's session goes on after a restart".to_owned())
            }
            Report::Ended if self.leaving => {
                (Normal, "SessionEnded", None, "the node's session ended because the agent was told to end".to_owned())
            }
            Report::Ended => (
                Warning,
                "SessionEnded",
                None,
                "another node ended this node's session: all VIPs are removed".to_owned(),
            ),
            Report::NameTaken { macs } => (Warning, "NodeNameTaken", None, name_taken(macs)),
            Report::Lapsed => (
                Warning,
                "SessionLapsed",
                None,
                "the session could not be renewed: its VIPs stay until another host is heard to have them".to_owned(),
            ),
            Report::Confirmed => (Normal, "SessionConfirmed", None, "the session is renewed again".to_owned()),
            Report::EndedOther { node, cause } => {
                (Warning, "SessionOfOtherEnded", None, format!("ended the session of {node}: {}", end_cause(*cause)))
            }
            Report::ForeignOwner { address, mac } => {
                self.conflict(at, *address, &format!("{mac} answers for it"), catalog, calls);
                let text =
                    format!("{address} is not taken: {mac} answers for it; find that host and remove the address");
                (Warning, "ForeignOwner", Some(*address), text)
            }
            Report::Owned { address, node, control_plane } => {
                let whose = if *control_plane {
                    format!("it is a VIP of the control plane, by the settings of {node}")
                } else {
                    format!("it is an address of the node {node}")
                };
                self.conflict(at, *address, &whose, catalog, calls);
                self.why.insert(*address, whose.clone());
                let text = format!(
                    "{address} is not carried: {whose}; give the Service another address; or, if {node} has left the cluster, delete its Lease mooring-session.{node} and its ConfigMap mooring-member.{node}"
                );
                (Warning, "AddressOfNode", Some(*address), text)
            }
            Report::Contested { address, mac, node: None } => {
                // A single frame may be a mistake, and the agent defends the address. A host that goes on has the
                // address (RFC 5227 section 2.4 b).
                if self.claims.goes_on(at.now, *address, *mac) {
                    self.conflict(at, *address, &format!("{mac} claims it"), catalog, calls);
                }
                let text = format!("{mac} claims {address}, which is held here; find that host and remove the address");
                (Warning, "AddressContested", Some(*address), text)
            }
            Report::Contested { address, mac, node: Some(node) } => (
                Warning,
                "AddressContested",
                Some(*address),
                format!(
                    "{node} ({mac}) answers for {address}, which is held here; if that lasts, set strictARP in kube-proxy on that node"
                ),
            ),
            Report::Defended { address } => (
                Normal,
                "AddressDefended",
                Some(*address),
                format!("announced {address} again because another host claimed it"),
            ),
            Report::Restored { address } => (
                Warning,
                "AddressRestored",
                Some(*address),
                format!(
                    "{address} was removed by another program, and put back; look for what manages addresses there"
                ),
            ),
            Report::CannotCarry { address, reason } => {
                let text = format!("cannot carry {address}: {reason}");
                self.why.insert(*address, text.clone());
                (Warning, "CannotCarry", Some(*address), text)
            }
            Report::CannotRemove { address, reason } => {
                (Warning, "CannotRemove", Some(*address), crate::reports::cannot_remove(*address, reason))
            }
            // A starved node makes no API call about this: that would be more work.
            Report::Late { by } => return tracing::warn!("{}", late(*by)),
            Report::Outrun { address } => return tracing::debug!(%address, "another node wrote the record first"),
            Report::Took { .. }
            | Report::LetGo { .. }
            | Report::HandingOver { .. }
            | Report::Echo { .. }
            | Report::Answered
            | Report::Mute { .. } => return,
        };
        Self::say(severity, reason, &text);
        let regarding = address.map_or_else(|| self.session(), |address| self.object(address, catalog));
        self.event(regarding, severity, reason, &text);
    }

    /// Whether other hosts answer this node's probes has changed; or they do not hear it.
    fn tell_of_segment(&mut self, report: &Report) {
        let (severity, reason, text) = match report {
            Report::Echo { interface, state } => {
                let Some((severity, reason, _)) = echo_event(*state) else { return };
                (severity, reason, format!("{}: {}", interface_name(*interface), echo(*state)))
            }
            Report::Mute { interface } => (
                Severity::Warning,
                "NotHeard",
                format!(
                    "no host on the segment has answered this node since it took VIPs on {}: gives them back; look for what keeps this node's ARP or neighbour discovery from leaving",
                    interface_name(*interface)
                ),
            ),
            _ => return,
        };
        Self::say(severity, reason, &text);
        self.event(self.session(), severity, reason, &text);
    }

    /// Writes the conflict on the `IPAddress`: the allocator then gives another address, unless a user requested this
    /// one.
    fn conflict(&mut self, at: Moment, address: IpAddr, what: &str, catalog: &Catalog, calls: &Calls) {
        let known = self.conflicts.get(&address);
        if known.is_some_and(|(text, told)| text == what && at.now.since(*told) < AGAIN) {
            return;
        }
        self.conflicts.retain(|_, (_, told)| at.now.since(*told) < AGAIN);
        self.conflicts.insert(address, (what.to_owned(), at.now));
        if let Some(key) = catalog.key_of(address) {
            let uid = catalog.uid_of(address).map(str::to_owned);
            calls.tell_conflict(key.clone(), uid, format!("{}: {what}, heard by {}", stamp(at.wall), self.node));
        }
    }

    fn remember(&mut self, address: IpAddr, report: &Report, text: &str) {
        match report {
            Report::LetGo { .. } => drop(self.why.remove(&address)),
            _ => drop(self.why.insert(address, text.to_owned())),
        }
    }

    fn say(severity: Severity, reason: &'static str, text: &str) {
        match severity {
            Severity::Normal => tracing::info!(reason, "{text}"),
            Severity::Warning => tracing::warn!(reason, "{text}"),
        }
    }

    fn event(&self, regarding: Regarding, severity: Severity, reason: &'static str, text: &str) {
        let note = format!("{}: {text}", self.node);
        self.cluster.events.send(EventNote { regarding, severity, reason, action: "Advertise", note });
    }

    fn session(&self) -> Regarding {
        Regarding::Lease { namespace: self.namespace.clone(), name: self.lease.clone(), uid: None }
    }

    fn object(&self, address: IpAddr, catalog: &Catalog) -> Regarding {
        match catalog.key_of(address) {
            Some(key) => Regarding::Address {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                uid: catalog.uid_of(address).map(str::to_owned),
            },
            None => self.session(),
        }
    }

    fn count(&self, report: &Report) {
        let metrics = &self.ops.metrics;
        match report {
            Report::Took { cause, .. } => {
                metrics.transition(Transition::Taken);
                metrics.takeover(Takeover::from(*cause));
            }
            Report::LetGo { why, .. } => metrics.transition(Transition::from(*why)),
            Report::Contested { address, .. }
            | Report::ForeignOwner { address, .. }
            | Report::Owned { address, .. } => {
                metrics.conflict(*address);
            }
            Report::Echo { state, .. } => metrics.probes(*state),
            Report::Answered => metrics.probes(State::Answered),
            _ => {}
        }
    }
}

/// Why a session has ended, for people.
const fn end_cause(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Planned => "it has left",
        EndCause::Expired => "it was not renewed in time",
        EndCause::Abandoned => "the node fell silent on the segment while others answered",
    }
}

/// An interface's name for people.
fn interface_name(index: u32) -> String {
    let name = nix::net::if_::if_indextoname(index);
    name.map_or_else(|_| format!("interface {index}"), |name| name.to_string_lossy().into_owned())
}

fn late(by: std::time::Duration) -> String {
    format!(
        "the agent ran {} ms late: the node was stopped or starved of CPU; looking again before anything is announced",
        by.as_millis()
    )
}

/// The VIP, and what to say of it, if the host that answers for it has it by a Lease of kube-vip.
fn had_by_lease(report: &Report, catalog: &Catalog) -> Option<(IpAddr, String)> {
    let by = |address: &IpAddr| catalog.ip_address(*address).and_then(placed);
    let (address, by, who) = match report {
        Report::ForeignOwner { address, mac } => (address, by(address)?, mac.to_string()),
        // Another node may have the address for itself: that is a conflict.
        Report::Owned { address, node, control_plane: false } => {
            (address, by(address).filter(|by| by.node == *node)?, node.clone())
        }
        _ => return None,
    };
    let text = format!("{} has it by the Lease {} (kube-vip's placement): {who} answers for it", by.node, by.lease);
    Some((*address, text))
}

/// A report of an event that happens to many VIPs at once: the VIP, reason, text, severity.
fn of_many(report: &Report) -> Option<(IpAddr, &'static str, String, Severity)> {
    use Severity::{Normal, Warning};
    Some(match report {
        Report::Took { address, cause: cause @ Cause::Provisional } => {
            (*address, "ProvisionalHold", format!("carried here: {}", because(*cause)), Warning)
        }
        Report::Took { address, cause: Cause::Adopted } => {
            (*address, "VIPTaken", "carried here: its record names this node".to_owned(), Normal)
        }
        Report::Took { address, cause } => (*address, "VIPTaken", format!("carried here: {}", because(*cause)), Normal),
        Report::LetGo { address, why } => {
            let severity = if matches!(why, Why::HandedOver | Why::NotWanted) { Normal } else { Warning };
            (*address, "VIPReleased", format!("no longer carried here: {}", let_go(*why)), severity)
        }
        Report::HandingOver { address, to } => (*address, "HandingOver", format!("handed over to {to}"), Normal),
        _ => return None,
    })
}

fn stamp(at: WallTime) -> String {
    Timestamp::from_microsecond(at.0).map_or_else(|_| "at an unknown time".to_owned(), |at| format!("{at:.0}"))
}
