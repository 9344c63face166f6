//! The elector of one Lease and its VIPs: who holds them, and what this node does about it.
//!
//! ```text
//!                 take (compare-and-swap)            renew deadline passed, API away
//!   Following ───────────────────────────▶ Holding ─────────────────────────────────▶ Unleased (lapsed)
//!     ▲  ▲ └── API away, VIP free, my turn ──────────────▶ Unleased (provisional)          │
//!     │  └──── the segment or the Lease says: another's ────────────────────────────────────┘
//!     └──────── successor heard + 50 ms ◀── Leaving ◀── SIGTERM, unhealthy, and a better one is known
//! ```
//!
//! A step takes in one event, then `advance` does whatever is due. Everything that depends on time is written as
//! "if that moment has come, else wake me then".
//!
//! The state is cut by what it is about, one struct a file: `api` (calls and their answers), `segment` (what was heard),
//! `doubt` and `ensured` (the own hold), `candidacy` and `service` (whether this node may take the Lease, or should
//! hand it over), and one struct for each role. `invariants` says which combinations are legal.

mod api;
mod candidacy;
mod carrying;
mod challenge;
mod doubt;
mod ensured;
mod following;
mod foreign;
mod handing_over;
mod hearing;
mod holding;
mod intake;
mod invariants;
mod leaving;
mod looking;
mod mute;
mod offering;
mod participating;
mod process;
mod proxied;
mod recalling;
mod releasing;
mod searching;
mod segment;
mod service;
mod snapshot;
mod suspecting;
mod trying;
mod turns;
mod twins;
mod unleased;
mod vip;
mod writing;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::action::{Action, Report};
use super::event::{Event, Moment, Node};
use super::lease::Record;
use super::mac::Mac;
use super::name_taken::Told;
use super::observation::Observation;
use super::rules::Rules;
use super::step::Step;
use super::time::{Time, WallTime};
use api::Api;
use candidacy::Candidacy;
use doubt::Doubt;
use ensured::Ensured;
use following::Following;
use holding::Holding;
use leaving::Leaving;
pub(crate) use looking::WITNESSED;
use process::Process;
use recalling::Recall;
use releasing::Releasing;
use segment::Segment;
use service::Service;
pub use snapshot::Snapshot;
use suspecting::Suspicion;
pub use turns::Urgency;
use unleased::Unleased;
use vip::Vip;

/// Decides for one node whether it carries the VIPs of one Lease.
#[derive(Debug)]
pub struct Elector {
    rules: Rules,
    node: Node,
    /// All MAC addresses that this agent may have declared since it runs: those of a bond change.
    had: BTreeSet<Mac>,
    /// The transitions and the beginning of the tenure that this agent last had.
    tenure: Option<(u32, Option<WallTime>)>,
    /// When another machine with this node's name was last told of, and its MAC addresses.
    twin_told: Told,
    vips: BTreeMap<IpAddr, Vip>,
    role: Role,
    /// Since when it carries the VIPs, for whatever reason.
    carrying_since: Option<Time>,
    process: Process,
    /// The Lease as this node has seen it.
    lease: Observation,
    api: Api,
    segment: Segment,
    doubt: Doubt,
    ensured: Ensured,
    releasing: Option<Releasing>,
    recall: Recall,
    candidacy: Candidacy,
    service: Service,
    suspicion: Suspicion,
    step: Step<Action>,
}

/// What this node is for the VIPs.
#[derive(Debug)]
enum Role {
    /// It does not carry them.
    Following(Following),
    /// It carries them by the Lease.
    Holding(Holding),
    /// It carries them under a short fence, without a valid Lease.
    Unleased(Unleased),
    /// It carries them under a short fence until its successor is heard.
    Leaving(Leaving),
}

impl Elector {
    /// A candidate that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            segment: Segment::new(&rules),
            rules,
            node: Node::default(),
            had: BTreeSet::new(),
            tenure: None,
            twin_told: Told::default(),
            vips: BTreeMap::new(),
            role: Role::Following(Following::default()),
            carrying_since: None,
            process: Process::Running,
            lease: Observation::default(),
            api: Api::default(),
            doubt: Doubt::default(),
            ensured: Ensured::default(),
            releasing: None,
            recall: Recall::default(),
            candidacy: Candidacy::default(),
            service: Service::default(),
            suspicion: Suspicion::default(),
            step: Step::default(),
        }
    }

    /// Takes in what happened at that moment, and says what to do.
    pub fn step(&mut self, at: Moment, event: Event) -> Vec<Action> {
        if let Some(late) = self.step.begin(at) {
            self.late(late);
        }
        self.wait_for_turn(at.now);
        self.segment.witness.begin(at.now);
        self.take_in(event);
        self.step.wake = None;
        // Two roles may follow each other within one step; more than a few would be a fault, and wait for the next.
        for _ in 0..6 {
            self.step.again = false;
            self.advance();
            if !self.step.again {
                break;
            }
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        self.send_probes();
        self.step.finish()
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.step.wake
    }

    fn advance(&mut self) {
        self.advance_calls();
        self.advance_link();
        self.advance_releasing();
        self.advance_refresh();
        self.advance_peers();
        match &self.role {
            Role::Following(_) => self.advance_following(),
            Role::Holding(_) => self.advance_holding(),
            Role::Unleased(_) => self.advance_unleased(),
            Role::Leaving(_) => self.advance_leaving(),
        }
        self.advance_searches();
        self.advance_named();
        self.advance_witness();
        self.advance_doubt();
        self.advance_recall();
        self.advance_announcements();
    }

    fn due(&mut self, when: Time) -> bool {
        self.step.due(when)
    }

    fn act(&mut self, action: Action) {
        self.step.out.push(action);
    }

    fn report(&mut self, report: Report) {
        self.act(Action::Report(report));
    }

    fn become_role(&mut self, role: Role) {
        self.role = role;
        self.carrying_since = self.is_carrying().then(|| self.carrying_since.unwrap_or(self.step.at.now));
        self.step.again = true;
    }

    /// Whether this node may carry VIPs at all.
    fn is_able(&self) -> bool {
        !self.vips.is_empty() && self.segment.link.is_up() && !self.process.is_ending() && !self.node.macs.is_empty()
    }

    fn record(&self) -> Option<&Record> {
        self.lease.view().map(|v| &v.record)
    }
}
