//! The allocation protocol: `step(moment, event) -> actions`.
//!
//! It is level-triggered: an event changes what is known, and marks the claims, objects and pools that it concerns; each
//! of these is then looked at anew, and has at most one write under way.

mod allocating;
mod answers;
mod claims;
mod disposing;
mod gate;
mod intake;
mod pools;
mod settling;
mod sharing;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid};
use crate::provider::Provider;

use self::claims::Claims;
use self::pools::PoolSlot;
use self::sharing::Shared;
use self::waiting::Waiting;
use super::action::{Action, Report, Write};
use super::event::{Event, Moment};
use super::objects::Claim;
use super::registry::Registry;

/// An object that was created but not shown for so long is looked for by a list.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// An object whose claim was not seen for so long: the claim is asked for.
const DOUBT: Duration = Duration::from_secs(1);
/// A claim that waits for so long is told for what.
const PATIENCE: Duration = Duration::from_secs(3);
/// A pool's status is written so long after the first change that it does not show.
const STATUS_BEHIND: Duration = Duration::from_millis(500);
/// A failed write is tried again after this, doubled each time, up to [`RETRY_LAST`].
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// Who is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Claim(u32),
    Address(u32),
    Pool(Arc<PoolRef>),
    List,
}

/// The protocol, over a provider of addresses.
#[derive(Debug)]
pub struct Machine<P> {
    provider: P,
    moment: Moment,
    /// This allocator leads until then.
    leads: Option<Duration>,
    /// Claims, addresses and pools were listed.
    listed: [bool; 3],
    shared: Shared,
    claims: Claims,
    addresses: Registry,
    pools: BTreeMap<Arc<PoolRef>, PoolSlot>,
    waiting: HashMap<Arc<PoolRef>, Waiting>,
    writes: HashMap<u64, (Who, Write)>,
    /// For the sake of which object a claim is read, and of which owner of it.
    reads: HashMap<u64, (u32, Uid)>,
    /// The list under way, and whether another one is wanted after it.
    list: Option<u64>,
    list_again: bool,
    /// Claims that wait for a list, or for what it shows.
    listeners: BTreeSet<u32>,
    /// Pools may have got, or lost, addresses in common.
    pools_changed: bool,
    /// Bound objects that have an address in common, by slot, the lower first.
    duplicates: BTreeSet<(u32, u32)>,
    timers: BTreeSet<(Duration, Who)>,
    dirty: VecDeque<Who>,
    actions: Vec<Action>,
    ids: u64,
    seed: u64,
}

impl<P: Provider> Machine<P> {
    /// A machine that knows nothing yet. `seed`: any number, another for each process: for jitter and random order.
    pub fn new(provider: P, seed: u64) -> Self {
        Self {
            provider,
            moment: Moment::default(),
            leads: None,
            listed: [false; 3],
            shared: Shared::default(),
            claims: Claims::default(),
            addresses: Registry::default(),
            pools: BTreeMap::new(),
            waiting: HashMap::new(),
            writes: HashMap::new(),
            reads: HashMap::new(),
            list: None,
            list_again: false,
            listeners: BTreeSet::new(),
            pools_changed: false,
            duplicates: BTreeSet::new(),
            timers: BTreeSet::new(),
            dirty: VecDeque::new(),
            actions: Vec::new(),
            ids: 0,
            seed,
        }
    }

    /// Where the addresses come from, to look at.
    pub const fn provider(&self) -> &P {
        &self.provider
    }

    /// A claim as it was last told, to tell it again with another hold.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<&Claim> {
        self.claims.find(key).and_then(|slot| self.claims.get(slot)).map(|known| &known.claim)
    }

    /// When a [`Event::Tick`] is wanted at the latest; None: none is.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Something happened: what is to be done?
    pub fn step(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.moment = moment;
        self.take_in(event);
        if std::mem::take(&mut self.pools_changed) {
            self.dirty.extend(self.pools.keys().cloned().map(Who::Pool));
        }
        while self.timers.first().is_some_and(|(at, _)| *at <= moment.now) {
            if let Some((_, who)) = self.timers.pop_first() {
                self.dirty.push_back(who);
            }
        }
        if self.listed == [true; 3] {
            loop {
                self.wake();
                let Some(who) = self.dirty.pop_front() else { break };
                self.look_at(&who);
            }
        }
        std::mem::take(&mut self.actions)
    }

    fn look_at(&mut self, who: &Who) {
        if !self.leading() {
            // All are looked at again when it leads.
            return;
        }
        match who {
            Who::Claim(slot) => self.look_at_claim(*slot),
            Who::Address(slot) => self.look_at_address(*slot),
            Who::Pool(reference) => self.look_at_pool(reference),
            Who::List => self.ask_for_list(),
        }
    }

    fn leading(&self) -> bool {
        self.leads.is_some_and(|until| self.moment.now < until)
    }

    fn mark(&mut self, who: Who) {
        self.dirty.push_back(who);
    }

    fn later(&mut self, at: Duration, who: Who) {
        self.timers.insert((at, who));
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn write(&mut self, who: Who, write: Write) -> u64 {
        let id = self.id();
        self.writes.insert(id, (who, write.clone()));
        self.actions.push(Action::Write { id, write });
        id
    }

    fn report(&mut self, report: Report) {
        self.actions.push(Action::Report(report));
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        crate::book::mix(self.seed)
    }

    /// Half to one and a half times the delay after this many failures.
    fn jitter(&mut self, failures: u32) -> Duration {
        let delay = RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_LAST);
        let part = u32::try_from(self.random() % 1024).unwrap_or(0);
        delay / 2 + delay.saturating_mul(part) / 1024
    }

    /// Asks for a list that begins after now; its number.
    fn want_list(&mut self) -> u64 {
        if self.list.is_some() {
            self.list_again = true;
            return self.ids + 1;
        }
        self.ask_for_list();
        self.ids
    }

    fn ask_for_list(&mut self) {
        if self.list.is_none() {
            let id = self.id();
            self.list = Some(id);
            self.actions.push(Action::ListAddresses { id });
        }
    }
}
