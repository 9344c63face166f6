//! The keeper of one Lease and its VIPs: who holds them, and what this node does about it.
//!
//! ```text
//!                 take (compare-and-swap)            renew deadline passed, API away
//!   Following ───────────────────────────▶ Holding ─────────────────────────────────▶ Unleased (lapsed)
//!     ▲  ▲ └── API away, VIP free, my turn ──────────────▶ Unleased (provisional)          │
//!     │  └──── the segment or the Lease says: another's ────────────────────────────────────┘
//!     └──────── successor heard + 50 ms ◀── Leaving ◀── SIGTERM, unhealthy, and a better one is known
//! ```
//!
//! A step takes in one event, then [`Keeper::advance`] does whatever is due: everything that depends on time is written as
//! "if that moment has come, else wake me then".

mod carrying;
mod doubt;
mod following;
mod holding;
mod intake;
mod leaving;
mod looking;
mod snapshot;
mod unleased;
mod writing;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::action::{Action, Report};
use super::event::{Event, Moment, Node};
use super::lease::{Declaration, Record};
use super::mac::Mac;
use super::moves::Moves;
use super::observation::Observation;
use super::rules::{LATE, Rules};
use super::schedule::Schedule;
use super::time::Time;
use super::witness::Witness;
use holding::Holding;
use leaving::Leaving;
pub use snapshot::Snapshot;
use unleased::Unleased;
use writing::Flight;

/// See the module's text.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not one state")]
pub struct Keeper {
    rules: Rules,
    node: Node,
    vips: BTreeMap<IpAddr, Vip>,
    role: Role,
    seen: Observation,
    witness: Witness,
    moves: Moves,
    health: Option<bool>,
    link: Option<bool>,
    link_down_since: Option<Time>,
    shutting_down: bool,
    left: bool,
    /// Since when no call to the API has been answered.
    away: Option<Time>,
    flight: Option<Flight>,
    /// The last writes that were given up without an answer: they may have taken effect, or may yet.
    unanswered: VecDeque<Flight>,
    reading: Option<Reading>,
    next_read: Time,
    next_write: Time,
    /// Nothing is taken before: a conflict, a lost race.
    hold_off: Time,
    /// The interface took none of the VIPs: nothing is carried before.
    refused_until: Time,
    /// A take waits for the segment to say that nobody has the VIP.
    searching: bool,
    participate_at: Option<Time>,
    /// When the VIP was found free with the API away, and how often a turn was taken since.
    free_since: Option<Time>,
    turns: u32,
    asked: Option<Asked>,
    better_at: Time,
    /// The tenure whose holder was told to be silent: told once, however often the Lease is tried.
    told_silent: Option<Declaration>,
    /// When the peers were asked last, none of them was healthy either.
    nobody_was_better: bool,
    third_heard: BTreeMap<IpAddr, Time>,
    /// After a late step: nothing is announced or refreshed until the Lease or the segment was looked at since.
    unsure: Option<Time>,
    unsure_probe: Time,
    /// When the kernel drops the VIPs, by the lifetime asked for last.
    dropped_at: Time,
    /// When that was asked for, and the end it was to have.
    carried: (Time, Time),
    /// The last late step: what was sent before it proves nothing any more.
    late_at: Time,
    last_holder: String,
    /// Who had the VIP that was to be taken, and when it was heard.
    foreign_heard: Option<(Mac, Time)>,
    foreign_told: Option<(Mac, Time)>,
    next_id: u64,
    wake: Option<Time>,
    again: bool,
    at: Moment,
    out: Vec<Action>,
}

#[derive(Debug)]
struct Vip {
    schedule: Schedule,
    put: bool,
    /// The datapath refused it the last time.
    refused: bool,
    defended: Option<Time>,
    /// When it was removed by others, lately.
    removed: VecDeque<Time>,
}

#[derive(Debug)]
enum Role {
    Following,
    Holding(Holding),
    Unleased(Unleased),
    Leaving(Leaving),
}

#[derive(Debug)]
struct Reading {
    id: u64,
    sent: Time,
    until: Time,
    /// The version that was known when it was sent.
    known: Option<String>,
}

/// Peers were asked for their health.
#[derive(Debug)]
struct Asked {
    id: u64,
    at: Time,
    healthy: Option<Vec<IpAddr>>,
}

impl Keeper {
    /// A candidate that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let witness = Witness::new(rules.witness_interval, rules.witness_misses);
        Self {
            rules,
            witness,
            node: Node::default(),
            vips: BTreeMap::new(),
            role: Role::Following,
            seen: Observation::default(),
            moves: Moves::default(),
            health: None,
            link: None,
            link_down_since: None,
            shutting_down: false,
            left: false,
            away: None,
            flight: None,
            unanswered: VecDeque::new(),
            reading: None,
            next_read: Time::default(),
            next_write: Time::default(),
            hold_off: Time::default(),
            refused_until: Time::default(),
            searching: false,
            participate_at: None,
            free_since: None,
            turns: 0,
            asked: None,
            better_at: Time::default(),
            told_silent: None,
            nobody_was_better: false,
            third_heard: BTreeMap::new(),
            unsure: None,
            unsure_probe: Time::default(),
            dropped_at: Time::default(),
            carried: (Time::default(), Time::default()),
            late_at: Time::default(),
            last_holder: String::new(),
            foreign_heard: None,
            foreign_told: None,
            next_id: 0,
            wake: None,
            again: false,
            at: Moment::default(),
            out: vec![],
        }
    }

    /// Takes in what happened at that moment, and says what to do.
    pub fn step(&mut self, at: Moment, event: Event) -> Vec<Action> {
        self.at = at;
        if let Some(wake) = self.wake.filter(|wake| at.now > *wake + LATE) {
            self.late(at.now.since(wake));
        }
        self.witness.begin(at.now);
        self.take_in(event);
        self.wake = None;
        // Two roles may follow each other within one step; more than a few would be a fault, and wait for the next.
        for _ in 0..6 {
            self.again = false;
            self.advance();
            if !self.again {
                break;
            }
        }
        std::mem::take(&mut self.out)
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.wake
    }

    fn advance(&mut self) {
        self.advance_calls();
        self.advance_link();
        match &self.role {
            Role::Following => self.advance_following(),
            Role::Holding(_) => self.advance_holding(),
            Role::Unleased(_) => self.advance_unleased(),
            Role::Leaving(_) => self.advance_leaving(),
        }
        self.advance_witness();
        self.advance_unsure();
        self.advance_announcements();
    }

    /// Whether that moment has come; if not, the keeper wants to be stepped then.
    fn due(&mut self, when: Time) -> bool {
        if self.at.now >= when {
            return true;
        }
        self.wake = Some(self.wake.map_or(when, |wake| wake.min(when)));
        false
    }

    fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    fn report(&mut self, report: Report) {
        self.out.push(Action::Report(report));
    }

    fn become_role(&mut self, role: Role) {
        self.role = role;
        self.searching = false;
        self.free_since = None;
        self.again = true;
    }

    /// Whether this node may carry VIPs at all.
    fn is_able(&self) -> bool {
        !self.vips.is_empty() && self.link == Some(true) && !self.shutting_down && !self.node.macs.is_empty()
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn view_record(&self) -> Option<&Record> {
        self.seen.view().map(|v| &v.record)
    }
}
