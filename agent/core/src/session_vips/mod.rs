//! The many VIPs of a node: the node's session, its watch over other nodes, and each VIP that it carries or may carry.
//!
//! ```text
//!   sessions (Leases) ──▶ Membership ──┐                       ┌──▶ ensure, remove, announce (lists)
//!   records (IPAddress) ──▶ Vip ───────┼──▶ consider(vip) ─────┼──▶ write the record
//!   frames ──▶ watches, challenges ────┘                       └──▶ end a session
//! ```
//!
//! A step takes in one event, and then considers the VIPs that the event concerns, and those whose time has come. Everything
//! that depends on time is written as "if that moment has come, else wake me then".
//!
//! The state is cut by what it is about, one struct a file: `own` (this node's session), `vip` with `record`, `hold` and
//! `taking`, `index` (VIPs by what they are looked up by), `calls` and `api`, `watching` and `asking` (the segments), `doubt`.
//! `invariants` says which combinations are legal.

mod apart;
mod api;
mod asking;
mod call;
mod calls;
mod carried;
mod carrying;
mod challenge;
mod closeness;
mod considering;
mod doubt;
mod ending;
mod following;
mod free;
mod handover;
mod hearing;
mod hold;
mod index;
mod input;
mod intake;
mod invariants;
mod lapsing;
mod leaving;
mod link_up;
mod mute;
mod node;
mod offering;
mod own;
mod owned;
mod pace;
mod provisional;
mod published;
mod publishing;
mod questions;
mod recalling;
mod record;
mod record_state;
mod records;
mod refreshing;
mod refusal;
mod renewed;
mod renewing;
mod report;
mod segment;
mod snapshot;
mod standing;
mod strangers;
mod table;
mod turns;
mod twins;
mod vip;
mod watchers;
mod watching;

#[cfg(test)]
mod tests;

pub use call::Call;
pub use input::Input;
pub use report::Report;
pub use snapshot::{Snapshot, VipState};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::core::{self, Core};
use crate::event::Moment;
use crate::frames::Frames;
use crate::rules::Rules;
use crate::session::Membership;
use crate::step::Step;
use crate::time::Time;
use apart::Apart;
use api::Api;
use asking::Asking;
use calls::Calls;
use carrying::Batch;
use doubt::Doubt;
use following::Following;
use index::Index;
use node::OwnNode;
use own::Own;
use owned::Owned;
use publishing::Publishing;
use questions::Questions;
use recalling::Recall;
use segment::Segment;
use strangers::Strangers;
use table::Table;
use watching::Watch;

/// What this core is told.
pub type Event = core::Event<Input>;
/// What this core wants done.
pub type Output = core::Output<Call, Report>;

/// Decides for one node which of many VIPs it carries.
#[derive(Debug)]
pub struct SessionVips {
    rules: Rules,
    node: OwnNode,
    /// All nodes' sessions.
    sessions: Membership,
    /// This node's session.
    own: Own,
    /// Addresses that are no VIPs of Services.
    owned: Owned,
    recall: Recall,
    /// The sessions whose Leases this node follows by name.
    following: Following,
    /// Member objects that this node is to write.
    publishing: Publishing,
    /// What a list of all sessions is to tell.
    questions: Questions,
    vips: Table,
    index: Index,
    /// The nodes that this one watches.
    watches: BTreeMap<String, Watch>,
    /// Own addresses of those nodes that are asked for apart from their VIPs.
    apart: Apart,
    /// Sessions have changed since the watches were chosen.
    rewatch: bool,
    asking: Asking,
    frames: Frames,
    segment: Segment,
    strangers: Strangers,
    calls: Calls,
    api: Api,
    doubt: Doubt,
    /// All VIPs that should exist are known.
    synced: bool,
    step: Step<Output>,
    batch: Batch,
}

impl Core for SessionVips {
    type Input = Input;
    type Call = Call;
    type Report = Report;

    fn step(&mut self, at: Moment, event: Event) -> Vec<Output> {
        if let Some(late) = self.step.begin(at) {
            self.late(late);
        }
        self.begin_watches();
        let heard = matches!(event, Event::Heard { .. });
        self.take_in(event);
        // Most frames are the expected answers to probes: nothing is to be done before the next wake-up.
        if heard && self.is_idle() {
            return self.step.finish();
        }
        self.step.wake = None;
        // One change may ask for another within the step. More than a few rounds would be a fault, and wait for the next step.
        for _ in 0..6 {
            self.step.again = false;
            self.advance();
            if !self.step.again && self.index.dirty.is_empty() {
                break;
            }
        }
        if self.step.again || !self.index.dirty.is_empty() {
            self.due(at.now + std::time::Duration::from_millis(1));
        }
        self.flush();
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        self.step.finish()
    }

    fn wake(&self) -> Option<Time> {
        self.step.wake
    }

    fn listens_for(&self) -> BTreeSet<IpAddr> {
        let gateways = self.node.interfaces.iter().flat_map(|i| i.gateways.iter().copied());
        let peers = self.sessions.live().flat_map(|(_, p)| p.view.links()).flat_map(|l| l.addresses.iter().copied());
        self.vips.keys().copied().chain(gateways).chain(peers).collect()
    }
}

impl SessionVips {
    /// The core of a node that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let segment = Segment::new(&rules);
        Self {
            rules,
            node: OwnNode::default(),
            sessions: Membership::default(),
            own: Own::default(),
            owned: Owned::default(),
            recall: Recall::default(),
            following: Following::default(),
            publishing: Publishing::default(),
            questions: Questions::default(),
            vips: Table::default(),
            index: Index::default(),
            watches: BTreeMap::new(),
            apart: Apart::default(),
            rewatch: true,
            asking: Asking::default(),
            frames: Frames::default(),
            segment,
            strangers: Strangers::default(),
            calls: Calls::default(),
            api: Api::default(),
            doubt: Doubt::default(),
            synced: false,
            step: Step::default(),
            batch: Batch::default(),
        }
    }

    /// Whether the event asked for nothing, and nothing is due.
    fn is_idle(&self) -> bool {
        !self.step.again
            && !self.rewatch
            && self.index.dirty.is_empty()
            && self.step.wake.is_some_and(|wake| wake > self.step.at.now)
    }

    fn advance(&mut self) {
        self.advance_calls();
        self.advance_own();
        self.advance_ends();
        self.advance_publishing();
        self.advance_questions();
        self.advance_writes();
        self.advance_owned();
        self.advance_vips();
        self.advance_watches();
        self.advance_peers();
        self.advance_unheard();
        self.advance_named();
        self.advance_asking();
        self.advance_reads();
    }

    fn due(&mut self, when: Time) -> bool {
        self.step.due(when)
    }

    fn report(&mut self, report: Report) {
        self.step.out.push(Output::Report(report));
    }

    /// All VIPs are considered in this step.
    fn all_dirty(&mut self) {
        self.index.dirty.extend(self.vips.keys().copied());
    }

    /// A node's session began, ended or declares something else: the VIPs that it holds, those without a holder, and those that
    /// wait here for a node that may have them are considered.
    fn session_changed(&mut self, node: &str) {
        self.owned.changed();
        self.claimants_changed();
        self.rewatch = true;
        self.step.again = true;
        self.index.dirty.extend(self.index.open.iter().chain(&self.index.stranded).copied());
        if let Some(held) = self.index.held.get(node) {
            self.index.dirty.extend(held.iter().copied());
        }
    }
}
