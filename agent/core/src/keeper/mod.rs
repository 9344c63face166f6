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

mod following;
mod holding;
mod intake;
mod leaving;
mod snapshot;
mod unleased;
mod writing;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::action::{Action, Report, Why};
use super::event::{Event, Moment, Node};
use super::lease::{LeaseView, Record};
use super::mac::Mac;
use super::moves::Moves;
use super::observation::Observation;
use super::rules::{LATE, MARGIN, Rules, SELF_PROBE};
use super::schedule::Schedule;
use super::time::Time;
use super::witness::{Target, Witness};
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
    reading: Option<Reading>,
    next_read: Time,
    next_write: Time,
    /// Nothing is taken before: a conflict, a lost race.
    hold_off: Time,
    /// A take waits for the segment to say that nobody has the VIP.
    searching: bool,
    participate_at: Option<Time>,
    /// When the VIP was found free with the API away, and how often a turn was taken since.
    free_since: Option<Time>,
    turns: u32,
    asked: Option<Asked>,
    better_at: Time,
    third_heard: BTreeMap<IpAddr, Time>,
    /// After a late step: nothing is announced or refreshed until the Lease or the segment was looked at since.
    unsure: Option<Time>,
    unsure_probe: Time,
    last_holder: String,
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
            reading: None,
            next_read: Time::default(),
            next_write: Time::default(),
            hold_off: Time::default(),
            searching: false,
            participate_at: None,
            free_since: None,
            turns: 0,
            asked: None,
            better_at: Time::default(),
            third_heard: BTreeMap::new(),
            unsure: None,
            unsure_probe: Time::default(),
            last_holder: String::new(),
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

    /// The own step came late: what the fence no longer covers is dropped, and nothing is sure.
    fn late(&mut self, by: Duration) {
        self.witness.forget(self.at.now);
        self.third_heard.clear();
        let covered_until = match &self.role {
            Role::Following => return,
            Role::Holding(holding) => holding.sent + self.rules.lease_duration,
            Role::Unleased(unleased) => unleased.until,
            Role::Leaving(leaving) => leaving.until,
        };
        self.report(Report::Late { by });
        if self.at.now + MARGIN >= covered_until {
            self.let_go(Why::Late);
        } else {
            self.unsure = Some(self.at.now);
            self.unsure_probe = self.at.now;
            self.next_write = self.at.now;
        }
    }

    /// Looks around after a late step: the segment is sure to have answered after a whole probe interval on time.
    fn advance_unsure(&mut self) {
        let Some(since) = self.unsure else { return };
        if matches!(self.role, Role::Following) {
            self.unsure = None;
            return;
        }
        if self.unsure_probe <= self.at.now && self.unsure_probe < since + SELF_PROBE {
            self.probe_vips();
            self.unsure_probe = since + SELF_PROBE;
        }
        // A holder by Lease waits for its write; without an answer it lapses, and then the segment decides.
        if !matches!(self.role, Role::Holding(_)) && self.due(since + SELF_PROBE) {
            self.sure_again();
        }
    }

    fn sure_again(&mut self) {
        if self.unsure.take().is_some() {
            self.again = true;
            for vip in self.vips.values_mut() {
                vip.schedule.restart(self.at.now);
            }
        }
    }

    /// Has every VIP on the interface until then.
    fn carry(&mut self, until: Time) {
        let addresses: Vec<IpAddr> = self.vips.keys().copied().collect();
        self.out.extend(addresses.into_iter().map(|address| Action::Carry { address, until }));
    }

    /// The end of the fence in force.
    fn fence(&self) -> Option<Time> {
        match &self.role {
            Role::Following => None,
            Role::Holding(holding) => Some(holding.sent + self.rules.lease_duration),
            Role::Unleased(unleased) => Some(unleased.until),
            Role::Leaving(leaving) => Some(leaving.until),
        }
    }

    /// The end of the fence that an address may be put back under: none while nothing is sure, nor for what an earlier run
    /// left behind, which only an own write (or a lapsed holder's refresh) brings back.
    fn fence_to_restore(&self) -> Option<Time> {
        let left_over = matches!(&self.role, Role::Unleased(u) if u.is_left_over());
        self.fence().filter(|until| self.at.now < *until && self.unsure.is_none() && !left_over)
    }

    /// Carries the VIPs no longer, and follows.
    fn let_go(&mut self, why: Why) {
        for (address, vip) in &mut self.vips {
            vip.put = false;
            vip.refused = false;
            vip.schedule.stop();
            self.out.push(Action::Drop { address: *address });
        }
        self.unsure = None;
        self.report(Report::LetGo(why));
        self.become_role(Role::Following);
    }

    fn advance_announcements(&mut self) {
        if matches!(self.role, Role::Following) || self.unsure.is_some() {
            return;
        }
        let now = self.at.now;
        let mut wakes = vec![];
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.put) {
            if vip.schedule.due(now) {
                self.out.push(Action::Announce { address: *address });
            }
            wakes.extend(vip.schedule.next());
        }
        for wake in wakes {
            self.due(wake);
        }
    }

    fn advance_link(&mut self) {
        if self.link == Some(true) {
            return;
        }
        let Some(since) = self.link_down_since else { return };
        if matches!(self.role, Role::Following) || !self.due(since + self.rules.link_down_delay) {
            return;
        }
        let release = matches!(self.role, Role::Holding(_));
        self.let_go(Why::LinkDown);
        if release {
            self.release(None);
        }
    }

    fn advance_witness(&mut self) {
        let (now, me) = (self.at.now, &self.rules.node);
        let following = matches!(self.role, Role::Following) && self.link == Some(true) && !self.shutting_down;
        let declaration = self.seen.view().and_then(LeaseView::declaration).filter(|d| d.holder != *me);
        let target = match declaration {
            _ if !following => Target::Nothing,
            Some(declaration) if !self.rules.witness_interval.is_zero() => Target::Holder(declaration.clone()),
            _ if self.searching || self.away.is_some() => Target::Anybody,
            _ => Target::Nothing,
        };
        let parties = self.third_parties();
        self.witness.aim(now, target, self.vips.keys().copied().collect(), parties);
        let (probes, missed) = self.witness.tick(now);
        if missed {
            self.report(Report::ProbeMissed);
            self.again = true;
        }
        self.out.extend(probes.into_iter().map(|p| Action::Probe { address: p.address, to: p.to }));
        if let Some(next) = self.witness.next() {
            self.due(next);
        }
    }

    /// The gateways and the nodes that take part, but for the own addresses and the VIPs: at most four, so that a suspicion
    /// stays cheap on a segment of many nodes.
    #[must_use]
    pub fn third_parties(&self) -> Vec<IpAddr> {
        let participants = self.seen.view().into_iter().flat_map(|v| v.notes.participants.values());
        let peers = participants.flat_map(|p| p.addresses.iter().copied());
        let own = &self.node.participant.addresses;
        let all = self.node.gateways.iter().copied().chain(peers);
        all.filter(|a| !own.contains(a) && !self.vips.contains_key(a)).take(4).collect()
    }

    /// The addresses of all other nodes that take part.
    fn peers(&self) -> Vec<IpAddr> {
        let participants = self.seen.view().into_iter().flat_map(|v| &v.notes.participants);
        let others = participants.filter(|(name, _)| **name != self.rules.node);
        others.flat_map(|(_, p)| p.addresses.iter().copied()).collect()
    }

    fn probe_vips(&mut self) {
        let addresses: Vec<IpAddr> = self.vips.keys().copied().collect();
        self.out.extend(addresses.into_iter().map(|address| Action::Probe { address, to: None }));
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
