//! The many VIPs of a node: its session, its watch over other nodes, and each VIP that it carries or might.
//!
//! ```text
//!   sessions (Leases) ──▶ Directory ──┐                       ┌──▶ carry, drop, announce (lists)
//!   records (IPAddress) ──▶ Vip ──────┼──▶ consider(vip) ─────┼──▶ write the record
//!   frames ──▶ witnesses, challenges ─┘                       └──▶ end a session
//! ```
//!
//! A step takes in one event, and then considers the VIPs that it concerns, and those whose time has come. Everything that
//! depends on time is written as "if that moment has come, else wake me then".

mod action;
mod asking;
mod calls;
mod carried;
mod carrying;
mod challenge;
mod claim;
mod doubt;
mod ending;
mod event;
mod free;
mod handover;
mod intake;
mod leaving;
mod own;
mod pace;
mod records;
mod snapshot;
mod table;
mod vip;
mod watching;

#[cfg(test)]
mod tests;

pub use action::{Action, Ask, Report};
pub use event::{Event, Interface};
pub use snapshot::{Snapshot, VipState};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::event::Moment;
use crate::mac::Mac;
use crate::rules::{LATE, Rules};
use crate::session::Directory;
use crate::time::Time;
use asking::Asking;
use calls::Calls;
use carrying::Batch;
use claim::Claim;
use own::Own;
use table::Table;
use vip::Vip;
use watching::Watch;

/// See the module's text.
#[derive(Debug)]
pub struct Fleet {
    rules: Rules,
    interfaces: Vec<Interface>,
    macs: Vec<Mac>,
    /// Since when the link of an interface is down.
    down: BTreeMap<u32, Time>,
    sessions: Directory,
    own: Own,
    vips: Table,
    /// The VIPs by the node that their record names.
    held: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The VIPs that nobody holds, or that are handed over.
    open: BTreeSet<IpAddr>,
    /// The VIPs that are carried here.
    carried: BTreeSet<IpAddr>,
    /// Those whose holder's session is not known: considered again when all have been listed.
    unclear: BTreeSet<IpAddr>,
    /// Those to be considered in this step.
    dirty: BTreeSet<IpAddr>,
    timers: BTreeSet<(Time, IpAddr)>,
    watches: BTreeMap<String, Watch>,
    /// Sessions have changed since the watches were chosen.
    rewatch: bool,
    asking: Asking,
    calls: Calls,
    /// All VIPs that should exist are known.
    synced: bool,
    /// Since when no call to the API has been answered.
    away: Option<Time>,
    /// When the API was back: what was known before may be over, the own session too. Nothing is taken before that was
    /// renewed and all sessions were listed since.
    back: Option<Time>,
    /// After the API was away, or at the start: takes look at the segment first, until then.
    looks_until: Time,
    /// After a late step: nothing is announced, refreshed or taken until the session was renewed or the segment asked since.
    unsure: Option<Time>,
    /// The last late step: what was sent before it proves nothing any more.
    late_at: Time,
    /// When a VIP was last defended against another host, by an answer of the API.
    defended: BTreeMap<Mac, Time>,
    /// When an address that is no VIP was last heard on an interface: third parties.
    third_heard: BTreeMap<u32, Time>,
    next_id: u64,
    wake: Option<Time>,
    again: bool,
    at: Moment,
    batch: Batch,
    out: Vec<Action>,
}

impl Fleet {
    /// Of a node that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            interfaces: vec![],
            macs: vec![],
            down: BTreeMap::new(),
            sessions: Directory::default(),
            own: Own::default(),
            vips: Table::default(),
            held: BTreeMap::new(),
            open: BTreeSet::new(),
            carried: BTreeSet::new(),
            unclear: BTreeSet::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            watches: BTreeMap::new(),
            rewatch: false,
            asking: Asking::default(),
            calls: Calls::default(),
            synced: false,
            away: None,
            back: None,
            looks_until: Time::default(),
            unsure: None,
            late_at: Time::default(),
            defended: BTreeMap::new(),
            third_heard: BTreeMap::new(),
            next_id: 0,
            wake: None,
            again: false,
            at: Moment::default(),
            batch: Batch::default(),
            out: vec![],
        }
    }

    /// Takes in what happened at that moment, and says what to do.
    pub fn step(&mut self, at: Moment, event: Event) -> Vec<Action> {
        self.at = at;
        if let Some(wake) = self.wake.filter(|wake| at.now > *wake + LATE) {
            self.late(at.now.since(wake));
        }
        self.begin_watches();
        let heard = matches!(event, Event::Heard { .. });
        self.take_in(event);
        // Most frames are the answers that were expected: nothing follows from them before the next moment that was waited for.
        if heard && self.is_idle() {
            return std::mem::take(&mut self.out);
        }
        self.wake = None;
        // What is done may ask for more within one step; more than a few rounds would be a fault, and wait for the next.
        for _ in 0..6 {
            self.again = false;
            self.advance();
            if !self.again && self.dirty.is_empty() {
                break;
            }
        }
        if self.again || !self.dirty.is_empty() {
            self.due(at.now + std::time::Duration::from_millis(1));
        }
        self.flush();
        std::mem::take(&mut self.out)
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// Whether the event asked for nothing, and nothing is due.
    fn is_idle(&self) -> bool {
        !self.again && !self.rewatch && self.dirty.is_empty() && self.wake.is_some_and(|wake| wake > self.at.now)
    }

    fn advance(&mut self) {
        self.advance_calls();
        self.advance_own();
        self.advance_ends();
        self.advance_writes();
        self.advance_vips();
        self.advance_watches();
        self.advance_asking();
        self.advance_reads();
    }

    /// Considers every VIP that an event concerned or whose time has come.
    fn advance_vips(&mut self) {
        while let Some((when, address)) = self.timers.first().copied() {
            if when > self.at.now {
                self.due(when);
                break;
            }
            self.timers.remove(&(when, address));
            if let Some(vip) = self.vips.get_mut(&address) {
                vip.wake = None;
            }
            self.dirty.insert(address);
        }
        for address in std::mem::take(&mut self.dirty) {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if let Some(wake) = vip.wake.take() {
                self.timers.remove(&(wake, address));
            }
            let outer = self.wake.take();
            self.consider(&mut vip);
            vip.wake = self.wake.take();
            if let Some(wake) = vip.wake {
                self.timers.insert((wake, address));
            }
            self.wake = outer;
            if let Some(wake) = vip.wake {
                self.due(wake);
            }
            if vip.is_needed() {
                self.vips.insert(address, vip);
            } else {
                if let Some(wake) = vip.wake {
                    self.timers.remove(&(wake, address));
                }
                self.open.remove(&address);
            }
        }
    }

    fn consider(&mut self, vip: &mut Vip) {
        let claim = self.claim(vip);
        self.ask_about_holder(vip);
        if claim.is_open() {
            self.open.insert(vip.address);
        } else {
            self.open.remove(&vip.address);
            // Should it be open again, everybody's turn begins anew.
            vip.open_since = None;
        }
        vip.forsaken |= vip.demand.is_none() && claim == Claim::Free { was_held: true };
        if vip.hold.is_some() {
            self.consider_carried(vip, &claim);
        } else {
            self.consider_free(vip, &claim);
        }
        self.announce_due(vip);
    }

    /// Whether that moment has come; if not, the core wants to be stepped then.
    fn due(&mut self, when: Time) -> bool {
        if self.at.now >= when {
            return true;
        }
        self.wake = Some(self.wake.map_or(when, |wake| wake.min(when)));
        false
    }

    fn report(&mut self, report: Report) {
        self.out.push(Action::Report(report));
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// All VIPs are considered in this step.
    fn all_dirty(&mut self) {
        self.dirty.extend(self.vips.keys().copied());
    }

    /// A node's session began, ended or declares something else: what it holds is considered, and what nobody holds.
    fn session_changed(&mut self, node: &str) {
        self.rewatch = true;
        self.again = true;
        self.dirty.extend(self.open.iter().copied());
        if let Some(held) = self.held.get(node) {
            self.dirty.extend(held.iter().copied());
        }
    }
}
