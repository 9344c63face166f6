//! Publishes the state: `mooring-agent status`, gauges, readiness.

use std::collections::VecDeque;
use std::sync::Arc;

use super::lease_client::LeaseClient;
use crate::core::elector::Snapshot;
use crate::core::event::Moment;
use crate::core::fence;
use crate::core::time::Time;
use crate::datapath::Interface;
use crate::ops::Ops;
use crate::ops::status::{ApiStatus, Candidate, LeaseReport, Report, Transition, VipReport, WitnessReport};
use crate::reports::name_taken;
use crate::settings::Settings;

/// The published state.
#[derive(Debug)]
pub struct Status {
    ops: Arc<Ops>,
    transitions: VecDeque<Transition>,
    last: Option<Snapshot>,
    role: &'static str,
}

impl Status {
    /// A status without content.
    #[must_use]
    pub const fn new(ops: Arc<Ops>) -> Self {
        Self { ops, transitions: VecDeque::new(), last: None, role: "following" }
    }

    /// Updates the state after a step. Only changed parts are rebuilt: there are ten steps a second and more.
    pub fn update(
        &mut self,
        at: Moment,
        snapshot: Snapshot,
        why: Option<String>,
        settings: &Settings,
        interface: Option<&Interface>,
        api: &LeaseClient,
    ) {
        let metrics = &self.ops.metrics;
        // The Lease of another program ends without a step that would change the snapshot.
        let is_other = snapshot.lease.as_ref().is_some_and(|lease| lease.is_of_other_program(&settings.node_name));
        metrics.lease_of_other_program(is_other && snapshot.expires.is_some_and(|end| end > at.now));
        if why.is_none() && self.last.as_ref() == Some(&snapshot) {
            return;
        }
        metrics.lease_held(snapshot.role == "holding");
        let deadline = kernels(snapshot.fence);
        for (address, put) in &snapshot.vips {
            metrics.held(*address, *put);
            metrics.fence(*address, deadline.filter(|_| *put));
        }
        let dropped =
            self.last.iter().flat_map(|last| &last.vips).filter(|(a, _)| !snapshot.vips.iter().any(|(b, _)| a == b));
        for (address, _) in dropped {
            metrics.forget(*address);
        }
        self.waits(&snapshot, api);
        let mut report = self.report(&snapshot, settings, interface, api);
        if snapshot.role != self.role || why.is_some() {
            self.role.clone_into(&mut report.state);
            report.note(at.wall, snapshot.role, why.unwrap_or_default());
            self.role = snapshot.role;
        }
        self.transitions.clone_from(&report.transitions);
        self.ops.report.send_replace(Arc::new(report));
        self.last = Some(snapshot);
    }

    /// Sets readiness. The address task reports the interface and its addresses itself.
    fn waits(&self, snapshot: &Snapshot, api: &LeaseClient) {
        let readiness = &self.ops.readiness;
        readiness.set("link", (snapshot.link == Some(false)).then(|| "the interface's link is down".to_owned()));
        readiness.set("node-name", snapshot.twin.as_deref().map(name_taken));
        let unknown = snapshot.lease.is_none() && snapshot.api_away.is_some();
        let why =
            || api.servers().status().error.map_or_else(|| "no API server answers (yet)".to_owned(), |e| e.to_string());
        readiness.set("api", unknown.then(why));
        readiness.set("vip", snapshot.vips.is_empty().then(|| "no VIP: its name says none (yet)".to_owned()));
    }

    fn report(
        &self,
        snapshot: &Snapshot,
        settings: &Settings,
        interface: Option<&Interface>,
        api: &LeaseClient,
    ) -> Report {
        let record = snapshot.lease.as_ref().map(|l| &l.record);
        let fence_until = |put: bool| kernels(snapshot.fence).filter(|_| put);
        let vips = snapshot.vips.iter().map(|(address, put)| VipReport {
            address: *address,
            prefix: settings.prefix.of(*address),
            carried: *put,
            fence_until: fence_until(*put),
        });
        let participants = snapshot.lease.iter().flat_map(|l| &l.notes.participants);
        let candidates = participants.map(|(node, p)| Candidate {
            node: node.clone(),
            addresses: p.addresses.clone(),
            healthy: (*node == settings.node_name).then_some(snapshot.healthy).flatten(),
        });
        let status = api.servers().status();
        let failing = status.error.as_ref().map(ToString::to_string);
        Report {
            node: settings.node_name.clone(),
            interface: interface.map(|i| i.name.clone()).unwrap_or_default(),
            state: snapshot.role.to_owned(),
            vips: vips.collect(),
            lease: LeaseReport {
                name: format!("{}/{}", settings.lease.namespace, settings.lease.name),
                holder: record.map(|r| r.holder.clone()).unwrap_or_default(),
                expires: snapshot.expires,
                transitions: record.map_or(0, |r| r.transitions),
                renewed: snapshot.changed,
                api: ApiStatus {
                    server: status.current.unwrap_or_default(),
                    ok: snapshot.api_away.is_none() && failing.is_none(),
                    last_error: failing.or_else(|| snapshot.api_away.map(|_| "no answer".to_owned())),
                },
            },
            witness: WitnessReport {
                state: witness(snapshot, settings).to_owned(),
                misses: snapshot.misses,
                answered: snapshot.heard,
                probes: snapshot.echo,
            },
            candidates: candidates.collect(),
            transitions: self.transitions.clone(),
        }
    }
}

fn witness(snapshot: &Snapshot, settings: &Settings) -> &'static str {
    match (settings.witness, snapshot.watching) {
        (None, _) => "off",
        (_, true) if snapshot.misses > 0 => "suspects",
        (_, true) => "watches",
        (_, false) => "rests",
    }
}

/// When the kernel drops an address: the end of the Lease, or of a short fence, less the margin of its lifetime.
fn kernels(fence: Option<Time>) -> Option<Time> {
    fence.map(|deadline| deadline - fence::LIFETIME_MARGIN)
}
