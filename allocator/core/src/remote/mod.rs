//! Pools whose addresses come from a system outside the cluster. That system is asked over a network: it may be slow, hang,
//! fail half-way, lose what it has to say, or be changed by people.
//!
//! This module decides which calls are made, and what their answers mean. The edge makes the calls ([`Call`]), each with a
//! deadline, and brings the answers.
//!
//! **No entry is leaked.** The intent is recorded before the call: the claim has our finalizer before anything is asked for it,
//! and each entry is made together with its key, the claim's uid. So whatever is killed when, the claim is still there, and a
//! search for its uid finds its entries:
//!
//! 1. A claim whose finalizer another process may have written is searched for before an entry is made for it.
//! 2. A lost answer is followed by a search, never by a second request.
//! 3. The finalizers of a claim and of its `IPAddress` stay until a search has found nothing, or what it found was deleted.
//! 4. A request can have its effect after the search that followed it. The regular look at all entries ([`audit`]) finds what
//!    it left: an entry whose claim is gone, or that is one too many.
//!
//! **No address twice.** A claim's entries are deleted only if the claim is being deleted and its machine is gone, or if the API
//! server has said that the claim is gone. Both are final: a call that was decided on an old view, and arrives late, deletes
//! nothing that is in use. An entry is deleted by its number, which is never given again, and only if it bears the claim's
//! mark. That the system gives one address to two claims is noticed by the book of all pools, before an object is created, and
//! by the protocol's gate.
//!
//! **A slow system slows nobody else.** No call blocks. Each pool has a [`gate`]: a bounded number of calls, back-off with jitter,
//! one call at a time after a failure. A full pool is asked again only when it may have room.
//!
//! Interleavings that were thought through; the simulator plays them (`protocol/sim`):
//! - killed between the request and its answer; between the answer and the object; between the object and the bind;
//! - killed between the deletion of the entry and the removal of the finalizer: the next search finds nothing;
//! - an answer lost before and after the effect, and an effect after the search;
//! - the claim deleted while its request is under way: the deletion waits for the answer, then searches anew;
//! - the claim deleted before it had an object; made again under its name while the old entry is still there;
//! - the lead lost and gained with a request under way: its answer is dropped, all is searched again;
//! - two allocators that both think they lead: two entries of one claim, of which one is one too many;
//! - an entry deleted by people while its request, its object or its release is under way;
//! - the pool paused, changed, or removed by force, in any of these states.

mod account;
mod answers;
mod asking;
mod audit;
mod call;
mod gate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid};
use crate::work::BackOff;

pub use account::Waiter;
pub use call::{Answer, Call, Drift, Entry, Failure, Mark, Note, Orphans, RemoteSpec, What};

use account::Account;
use audit::Shown;
use gate::Gate;

/// How long it is remembered that a claim has no entry.
const CLEAR_LASTS: Duration = Duration::from_mins(1);
/// Why a pool without a usable spec is not called.
const UNUSABLE: &str = "it is paused, or its spec has an error: see its conditions";
/// After a request without an answer, the search waits this long: the request may still be waiting to be served.
const SETTLES: Duration = Duration::from_secs(3);
/// After a request without an answer, a claim that goes waits this long before the search that lets it go. What comes later is an
/// entry that belongs to nobody. phpIPAM's requests wait 30 s for its lock, and a call has ended after some of them.
const LINGERS: Duration = Duration::from_secs(20);
/// Delay before a claim's call that failed is made again.
const AGAIN: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_secs(30) };
/// The most claims that are read after a look.
const DOUBTS: usize = 32;

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A claim may go on.
    Account(Uid),
    /// That a claim has no entry, or that a request for one was lost, is forgotten.
    Forget(Uid),
    /// A pool may be called again, or must be looked at.
    Pool(Arc<PoolRef>),
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Job {
    Account(Uid, What),
    /// The deletion of an entry that belongs to nobody, or is one too many.
    Orphan(Entry),
    List,
}

/// A claim that an entry names, and that is not known here: whether it is gone must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The pool.
    pub pool: Arc<PoolRef>,
    /// The entry.
    pub entry: Entry,
    /// The claim's name.
    pub key: Key,
    /// The claim's uid.
    pub claim: Uid,
}

/// What came of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// This claim or address may go on.
    For(Waiter),
    /// What the pool's status says has changed.
    Pool(Arc<PoolRef>),
    /// To be told to people.
    Note(Arc<PoolRef>, Note),
    /// Whether a claim is gone must be read; then call [`Remote::claim_is_gone`] if it is.
    Doubt(Doubt),
}

/// Why something must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For an answer, since this time.
    Answer(Duration),
    /// The pool is full; what the system said.
    Full(String),
    /// The system fails; what it said.
    Trouble(String),
    /// This claim cannot have what it asks for; what the system said.
    Unfit(String),
}

/// All pools of outside systems.
///
/// Invariants: an account whose call is under way is found by the call's number; an account that wants a call is in its pool's
/// queue, or starved, or has a timer.
#[derive(Debug)]
pub struct Remote {
    now: Duration,
    leading: bool,
    seed: u64,
    ids: u64,
    pools: BTreeMap<Arc<PoolRef>, Gate>,
    accounts: BTreeMap<Uid, Account>,
    by_slot: HashMap<u32, Uid>,
    under_way: HashMap<u64, (Arc<PoolRef>, Job)>,
    /// The claims that wait for an address that somebody else here has, until they are told that it is free.
    held: BTreeSet<Uid>,
    objects: BTreeMap<u32, (Arc<PoolRef>, Shown)>,
    /// Entries to delete that belong to nobody, by pool.
    condemned: BTreeMap<Arc<PoolRef>, Vec<Entry>>,
    timers: BTreeSet<(Duration, Timer)>,
    calls: Vec<Call>,
    news: Vec<News>,
}

impl Remote {
    /// Knows nothing yet. `seed`: any number, different for each process.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            leading: false,
            seed,
            ids: 0,
            pools: BTreeMap::new(),
            accounts: BTreeMap::new(),
            by_slot: HashMap::new(),
            under_way: HashMap::new(),
            held: BTreeSet::new(),
            objects: BTreeMap::new(),
            condemned: BTreeMap::new(),
            timers: BTreeSet::new(),
            calls: Vec::new(),
            news: Vec::new(),
        }
    }

    /// A step begins. What was known when this allocator led before proves nothing now: another one may have led since.
    pub fn begin(&mut self, now: Duration, leading: bool) {
        self.now = now;
        if leading && !self.leading {
            self.start_over();
        }
        self.leading = leading;
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            match self.timers.pop_first() {
                Some((_, Timer::Account(uid))) => self.enqueue(&uid),
                Some((_, Timer::Forget(uid))) => self.forget(&uid),
                Some((_, Timer::Pool(_))) | None => {}
            }
        }
    }

    /// The latest time for the next step; None: nothing waits for a time.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at).filter(|_| self.leading)
    }

    /// The calls to make. The step ends.
    pub fn calls(&mut self) -> Vec<Call> {
        if self.leading {
            for pool in self.pools.keys().cloned().collect::<Vec<_>>() {
                self.pump(&pool);
            }
        }
        std::mem::take(&mut self.calls)
    }

    /// What came of the calls so far.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// A pool was shown. `spec`: None while it must not be called.
    pub fn pool(&mut self, reference: &Arc<PoolRef>, spec: Option<RemoteSpec>) {
        let (now, gate) = (self.now, self.pools.entry(reference.clone()));
        gate.or_insert_with(|| Gate::new(now)).renew(spec, now);
        // What was known of entries is old: people pause a pool to change them, and an edited pool may name another system.
        let renewed = self.pools.get(reference).is_some_and(|gate| gate.spec.is_some());
        if renewed {
            self.condemned.remove(reference);
        }
        // What a claim could not have, it may have now.
        let its: Vec<Uid> =
            self.accounts.iter().filter(|(_, a)| a.pool == *reference).map(|(uid, _)| uid.clone()).collect();
        for uid in its {
            if let Some(account) = self.accounts.get_mut(&uid) {
                account.unfit = None;
                let has_some = account.known.as_ref().is_some_and(|known| !known.is_empty());
                if renewed && has_some {
                    account.known = None;
                }
            }
            self.enqueue(&uid);
        }
    }

    /// A pool is gone.
    pub fn pool_gone(&mut self, reference: &Arc<PoolRef>) {
        self.pools.remove(reference);
        self.condemned.remove(reference);
        for account in self.accounts.values_mut().filter(|account| account.pool == *reference) {
            account.queued = false;
            self.news.extend(account.waiters.iter().map(|waiter| News::For(*waiter)));
        }
    }

    /// Whether a pool may go that has no claims: nothing of it is under way or wanted, and a last look has found no entry that is to
    /// be deleted. Once the pool is gone, nobody looks for such any more.
    #[must_use]
    pub fn is_at_rest(&mut self, pool: &Arc<PoolRef>) -> bool {
        let wants = |account: &Account| account.pool == *pool && account.next().is_some();
        let wanted = self.accounts.values().any(wants);
        let Some(gate) = self.pools.get_mut(pool) else { return !wanted };
        gate.under_way == 0 && !wanted && gate.has_looked_back(self.now)
    }

    /// An `IPAddress` of an outside pool was shown, or shown changed.
    pub fn shown(&mut self, slot: u32, pool: &Arc<PoolRef>, mark: Mark, stands: bool) {
        let before = self.objects.get(&slot);
        let since = before.map_or(self.now, |(_, shown)| shown.since);
        let adopted = before.is_some_and(|(_, shown)| shown.mark != mark);
        let goes = before.is_some_and(|(_, shown)| shown.goes) && !adopted;
        self.objects.insert(slot, (pool.clone(), Shown { mark, stands, goes, since }));
        if adopted {
            // Its entry gets the new mark.
            self.look_soon(pool);
        }
    }

    /// An `IPAddress` is gone.
    pub fn gone(&mut self, slot: u32) {
        self.objects.remove(&slot);
    }

    /// Why a pool's claims get nothing; None: it works, as far as is known.
    #[must_use]
    pub fn trouble(&self, pool: &Arc<PoolRef>) -> Option<&str> {
        let gate = self.pools.get(pool)?;
        gate.trouble().or_else(|| gate.spec.is_none().then_some(UNUSABLE))
    }

    /// Whether a call has succeeded since the pool's spec is as it is.
    #[must_use]
    pub fn works(&self, pool: &Arc<PoolRef>) -> bool {
        self.pools.get(pool).is_some_and(|gate| gate.works)
    }

    /// Whether the system said lately that the pool is full.
    #[must_use]
    pub fn is_full(&self, pool: &Arc<PoolRef>) -> bool {
        self.pools.get(pool).is_some_and(|gate| gate.full_text().is_some())
    }

    /// How many addresses the pool's subnets have, and how many of them have entries, at the last look.
    #[must_use]
    pub fn size(&self, pool: &Arc<PoolRef>) -> Option<(u64, u64)> {
        self.pools.get(pool)?.audit.size
    }

    /// What people should know of a pool that works.
    #[must_use]
    pub fn remarks(&self, pool: &Arc<PoolRef>) -> Vec<String> {
        let Some(gate) = self.pools.get(pool) else { return Vec::new() };
        let warning = gate.spec.as_ref().map(|spec| spec.warning.clone()).filter(|warning| !warning.is_empty());
        let orphans = gate.audit.suspects.values().map(|(entry, _)| {
            format!(
                "{} has an entry for claim {}, which is not here: see whether it can be deleted",
                entry.address, entry.host
            )
        });
        let missing = gate.audit.missing.iter().map(|(key, address)| {
            format!("the entry of {address} is gone or changed, and claim {key} has the address: put it back")
        });
        warning.into_iter().chain(missing).chain(orphans).collect()
    }

    /// The entries that belong to nobody here, and those that are missing, at the last look.
    #[must_use]
    pub fn findings(&self, pool: &Arc<PoolRef>) -> (usize, usize) {
        self.pools.get(pool).map_or((0, 0), |gate| (gate.audit.suspects.len(), gate.audit.missing.len()))
    }

    fn start_over(&mut self) {
        self.accounts.retain(|_, account| {
            account.goal = account::Goal::Rest;
            account.known = None;
            account.queued = false;
            account.busy.is_some()
        });
        self.by_slot.clear();
        self.condemned.clear();
        let now = self.now;
        for gate in self.pools.values_mut() {
            gate.queue.clear();
            gate.starved.clear();
            gate.audit.due = now;
            // What was seen while another led may have been that one's to judge.
            gate.audit.suspects.clear();
        }
    }

    fn look_soon(&mut self, pool: &Arc<PoolRef>) {
        let soon = self.now + audit::SOON;
        if let Some(gate) = self.pools.get_mut(pool)
            && gate.audit.due > soon
        {
            gate.audit.due = soon;
            self.timers.insert((soon, Timer::Pool(pool.clone())));
        }
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        crate::book::mix(self.seed)
    }
}
