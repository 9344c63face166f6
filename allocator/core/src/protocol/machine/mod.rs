//! The allocation protocol: `step(moment, event) -> actions`.
//!
//! The machine is level-triggered. An event changes the known state, and marks the claims, objects and pools that the
//! event concerns. The machine then evaluates each of these again. Each has at most one write under way.

mod allocating;
mod answers;
mod claims;
mod comparing;
mod disposing;
mod gate;
mod intake;
#[cfg(debug_assertions)]
mod invariants;
mod outside;
mod pools;
mod settling;
mod sharing;
mod vanished;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::names::{ClaimKind, Key, PoolKind, PoolRef, Uid};
use crate::provider::Provider;
use crate::remote::Doubt;
use crate::work::{BackOff, Moment, Retry, WorkQueue};

use self::claims::Claims;
use self::pools::PoolSlot;
use self::sharing::Shared;
use self::vanished::Vanished;
use self::waiting::Waiting;
use super::action::{Action, Report, Write};
use super::event::Event;
use super::objects::{Address, Claim, Pool};
use super::registry::Registry;

/// After this delay without being shown, a created object is looked for by a list.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// After this delay without seeing an object's claim, the claim is read.
const DOUBT: Duration = Duration::from_secs(1);
/// After this delay, a waiting claim gets a report of what it waits for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Delay between the first change that a pool's status does not show and the write of the status.
const STATUS_BEHIND: Duration = Duration::from_millis(500);
/// Delay between two lists, while one list after another is wanted.
const LISTS: BackOff = BackOff { first: Duration::from_millis(250), last: Duration::from_secs(10) };
/// Delay between two lists with which the objects of another kind are compared.
const COMPARED: Duration = Duration::from_millis(250);
/// After this time without a list, the next lists are not delayed.
const LISTS_QUIET: Duration = Duration::from_mins(1);
/// After this delay, a claim that was read but not shown by the watch is read again.
const BEHIND: Duration = Duration::from_secs(5);
/// The most claims that are read at a time.
const READS: usize = 16;
/// The most bound claims at a time whose metadata is told which address they have.
const RECORDS: usize = 8;
/// Delay before the claim of another provider's pool is read again that owns an object of ours.
const FOREIGN_AGAIN: Duration = Duration::from_mins(1);
/// Delay before a failed write is tried again.
const RETRY: BackOff = BackOff { first: Duration::from_millis(50), last: Duration::from_secs(30) };

/// What to evaluate next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Claim(u32),
    Address(u32),
    Pool(Arc<PoolRef>),
    List(ClaimKind),
    Vanished(Key),
}

/// Consistent lists of the addresses of one kind of claims.
///
/// Invariants: one list of a kind is under way at a time, and another is wanted only after a list that is under way; every
/// listener is a claim.
#[derive(Debug, Default)]
struct Lists {
    under_way: Option<u64>,
    /// A list that began before the request proves nothing: another list is wanted afterwards.
    again: bool,
    /// Claims that wait for a list, or for what it shows.
    listeners: BTreeSet<u32>,
    /// When the last list was requested.
    last: Duration,
    /// When the next list may be requested.
    retry: Retry,
    /// The last list that has come of those that were requested.
    ended: Option<u64>,
}

/// The protocol, over a provider of addresses.
///
/// Invariants, besides those of the parts: a claim, an object or a pool has at most one write or read under way, and
/// the pending note is about this write or read; each record is under way; each known pair of duplicates is noted once; no claim waits for a pool
/// twice, and a claim that waits for a particular address is found under this address. The machine alone keeps the
/// claims and addresses: other code reads them ([`Machine::claim`], [`Machine::address`]).
#[derive(Debug)]
pub struct Machine<P> {
    provider: P,
    work: WorkQueue<VecDeque<Who>, Write, Action>,
    /// Claims, addresses and pools were listed.
    listed: [bool; 3],
    /// metal3's were, too.
    metal3_listed: bool,
    /// The kinds of pools that may not be listed, and why.
    refused: BTreeMap<PoolKind, String>,
    shared: Shared,
    claims: Claims,
    /// Claims that are gone, and what is kept for the next ones of their names.
    vanished: BTreeMap<Key, Vanished>,
    addresses: Registry,
    pools: BTreeMap<Arc<PoolRef>, PoolSlot>,
    waiting: HashMap<Arc<PoolRef>, Waiting>,
    /// The object, and the owner of this object, for which a claim is read.
    reads: HashMap<u64, (u32, Uid)>,
    /// Objects whose claims are to be read when other reads have ended.
    reads_wait: BTreeSet<u32>,
    /// The writes under way that tell bound claims' metadata which address they have.
    records: BTreeSet<u64>,
    /// Claims for which such a write is to be made when others have ended.
    records_wait: BTreeSet<u32>,
    /// The claims that entries of outside systems name, and that are being read.
    doubts: HashMap<u64, Doubt>,
    lists: Lists,
    /// The number of the last action before this allocator led.
    led_from: u64,
    /// Those of metal3's claims.
    metal3_lists: Lists,
    /// Pools may have gained or lost common addresses.
    pools_changed: bool,
    /// Pairs of bound objects with a common address, by slot, the lower slot first.
    duplicates: BTreeSet<(u32, u32)>,
    seed: u64,
}

impl<P: Provider> Machine<P> {
    /// Creates a machine that knows nothing yet. `seed`: any number, different for each process, for jitter and random
    /// order.
    pub fn new(provider: P, seed: u64) -> Self {
        Self {
            provider,
            work: WorkQueue::default(),
            listed: [false; 3],
            metal3_listed: false,
            refused: BTreeMap::new(),
            shared: Shared::default(),
            claims: Claims::default(),
            vanished: BTreeMap::new(),
            addresses: Registry::default(),
            pools: BTreeMap::new(),
            waiting: HashMap::new(),
            reads: HashMap::new(),
            reads_wait: BTreeSet::new(),
            records: BTreeSet::new(),
            records_wait: BTreeSet::new(),
            doubts: HashMap::new(),
            led_from: 0,
            lists: Lists::default(),
            metal3_lists: Lists::default(),
            pools_changed: false,
            duplicates: BTreeSet::new(),
            seed,
        }
    }

    /// The source of the addresses, read-only.
    pub const fn provider(&self) -> &P {
        &self.provider
    }

    /// The claim of this name, as last shown.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<&Arc<Claim>> {
        self.claims.find(key).and_then(|slot| self.claims.get(slot)).map(|known| &known.claim)
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.slots().filter_map(|slot| Some(&self.claims.get(slot)?.claim))
    }

    /// The address with this uid, as last shown.
    #[must_use]
    pub fn address(&self, uid: &Uid) -> Option<&Arc<Address>> {
        self.addresses.find(uid).and_then(|slot| self.addresses.get(slot)).map(|entry| &entry.address)
    }

    /// The addresses of this name, as last shown: one that is gone may be among them until its end is shown.
    pub fn addresses_named(&self, key: &Key) -> impl Iterator<Item = &Arc<Address>> {
        self.addresses.named(key).iter().filter_map(|slot| Some(&self.addresses.get(*slot)?.address))
    }

    /// All addresses, in no order.
    pub fn addresses(&self) -> impl Iterator<Item = &Arc<Address>> {
        self.addresses.slots().filter_map(|slot| Some(&self.addresses.get(slot)?.address))
    }

    /// A pool, as last shown.
    #[must_use]
    pub fn pool(&self, reference: &PoolRef) -> Option<&Pool> {
        self.pools.get(reference).map(|slot| &slot.pool)
    }

    /// The latest time for an [`Event::Tick`]; None: no tick is needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        [self.work.next_tick(), self.provider.next_tick()].into_iter().flatten().min()
    }

    /// Processes an event and returns the actions to take.
    pub fn step(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.work.begin(moment);
        self.provider.begin(moment.now, self.work.leading());
        self.take_in(event);
        if std::mem::take(&mut self.pools_changed) {
            self.work.mark_all(self.pools.keys().cloned().map(Who::Pool));
        }
        self.work.wake_due();
        if self.listed == [true; 3] {
            loop {
                self.wake();
                if let Some(who) = self.work.next_marked() {
                    self.look_at(&who);
                } else if self.reads.len() < READS
                    && let Some(slot) = self.reads_wait.pop_first()
                {
                    self.look_at(&Who::Address(slot));
                } else if self.records.len() < RECORDS
                    && let Some(slot) = self.records_wait.pop_first()
                {
                    self.look_at(&Who::Claim(slot));
                } else {
                    break;
                }
            }
        }
        self.call_outside();
        #[cfg(debug_assertions)]
        self.check();
        self.work.end()
    }

    fn look_at(&mut self, who: &Who) {
        if let Who::Vanished(key) = who {
            return self.look_at_vanished(key);
        }
        if !self.work.leading() {
            // The machine evaluates everything again when it becomes the leader.
            return;
        }
        if self.waits_for_kind(who) {
            // The machine evaluates everything again when the kinds are listed.
            return self.tell_refused(who);
        }
        match who {
            Who::Claim(slot) => self.look_at_claim(*slot),
            Who::Address(slot) => self.look_at_address(*slot),
            Who::Pool(reference) => self.look_at_pool(reference),
            Who::List(kind) => self.ask_for_list(*kind),
            Who::Vanished(key) => self.look_at_vanished(key),
        }
    }

    fn write(&mut self, who: Who, write: Write) -> u64 {
        self.work.write(who, write, |id, write| Action::Write { id, write })
    }

    fn report(&mut self, report: Report) {
        self.work.act(Action::Report(report));
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        crate::book::mix(self.seed)
    }

    /// Half to one and a half times the delay after this many failures.
    fn jitter(&mut self, failures: u32) -> Duration {
        let random = self.random();
        RETRY.jittered(failures, random)
    }

    /// Whether something of a pool must wait: its kind may not be listed; or it is metal3's, and not all of metal3's kinds were
    /// listed.
    fn waits_for_kind(&self, who: &Who) -> bool {
        let pool = match who {
            _ if self.metal3_listed && self.refused.is_empty() => return false,
            Who::Claim(slot) => self.claims.get(*slot).map(|known| &known.claim.pool),
            Who::Address(slot) => self.addresses.get(*slot).map(|entry| &entry.address.pool),
            Who::Pool(reference) => Some(reference),
            Who::List(_) | Who::Vanished(_) => None,
        };
        pool.is_some_and(|pool| {
            self.refused.contains_key(&pool.kind) || (pool.kind == PoolKind::Metal3IPPool && !self.metal3_listed)
        })
    }

    const fn lists(&mut self, of: ClaimKind) -> &mut Lists {
        match of {
            ClaimKind::ClusterApi => &mut self.lists,
            ClaimKind::Metal3 => &mut self.metal3_lists,
        }
    }

    /// Requests a list that begins after now. Returns the list's number.
    fn want_list(&mut self, of: ClaimKind) -> u64 {
        let (now, last) = (self.work.now(), self.work.last_id());
        let lists = self.lists(of);
        if lists.under_way.is_some() {
            lists.again = true;
            return last + 1;
        }
        if let Some(at) = lists.retry.waits(now) {
            self.work.mark_at(at, Who::List(of));
            return last + 1;
        }
        self.ask_for_list(of);
        self.work.last_id()
    }

    /// Requests a list that begins after now, for objects that wait to be bound. Returns the list's number.
    fn want_list_soon(&mut self, of: ClaimKind) -> u64 {
        let soon = self.lists(of).last + COMPARED;
        let retry = &mut self.lists(of).retry;
        retry.not_before = retry.not_before.min(soon);
        retry.failures = 0;
        self.want_list(of)
    }

    fn ask_for_list(&mut self, of: ClaimKind) {
        let now = self.work.now();
        let lists = self.lists(of);
        if let Some(at) = lists.retry.waits(now) {
            return self.work.mark_at(at, Who::List(of));
        }
        if lists.under_way.is_none() {
            if now > lists.last + LISTS_QUIET {
                lists.retry.failures = 0;
            }
            lists.retry.back_off(now, LISTS);
            lists.last = now;
            let id = self.work.id();
            self.lists(of).under_way = Some(id);
            self.work.act(Action::ListAddresses { of, id });
        }
    }
}
