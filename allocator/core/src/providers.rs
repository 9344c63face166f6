//! All pools behind one [`Provider`]: those whose addresses are listed in the cluster, and those of outside systems. Both count
//! in one book, so that an address of the one is never handed out by the other.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::few::few;
use crate::in_cluster::InCluster;
use crate::names::{Key, PoolRef, Uid};
use crate::protocol::{Address, Pool, PoolStatus, Reason};
use crate::provider::{Ask, Description, Leaving, Offer, Provider, Refusal, Told, Until, Woken};
use crate::remote::{Answer, Call, Doubt, Failure, Mark, News, Note, Remote, Wait, Waiter};

/// The pools of all kinds.
#[derive(Debug)]
pub struct Providers {
    in_cluster: InCluster,
    remote: Remote,
    woken: Vec<Woken>,
    notes: Vec<(Arc<PoolRef>, Note)>,
    doubts: Vec<Doubt>,
}

impl Providers {
    /// Knows nothing yet. `seed`: any number, different for each process.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            in_cluster: InCluster::default(),
            remote: Remote::new(seed),
            woken: Vec::new(),
            notes: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// The pools of outside systems, read-only.
    #[must_use]
    pub const fn remote(&self) -> &Remote {
        &self.remote
    }

    fn obtain(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal> {
        self.in_cluster.admits(ask)?;
        let wanted = match ask.requested.filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse::<IpAddr>().map_err(|error| Refusal {
                reason: Reason::AllocationFailed,
                message: format!("the requested address {text:?} cannot be read: {error}; make the claim again"),
                until: Until::PoolChanges,
                held_by: None,
            })?),
        };
        // An object proves that the claim had an address. What the claim itself says proves nothing: whoever may write it could name
        // the address of an entry that is a person's, and bears the claim's name and no mark.
        let proven = ask.before.filter(|before| before.told == Told::ByObject);
        let address = proven.map(|before| before.block.address());
        self.remote.prefers(ask.uid, ask.before.map(|before| before.block.address()));
        let mark = Mark { claim: ask.uid.clone(), name: ask.claim.clone(), address };
        let mut obtain = || self.remote.obtain(ask.slot, ask.pool, mark.clone(), wanted, ask.fresh);
        let entry = obtain().map_err(|wait| refusal(ask.pool, wait))?;
        if let Err(refused) = self.in_cluster.reserve_given(ask, Block::host(entry.address)) {
            self.remote.hold(ask.uid);
            return Err(refused);
        }
        if self.remote.no_longer_held(ask.uid) {
            let again = self.remote.obtain(ask.slot, ask.pool, mark, wanted, false);
            again.map_err(|wait| refusal(ask.pool, wait))?;
        }
        Ok(Offer { address: entry.address, prefix: entry.prefix, gateway: entry.gateway })
    }

    fn take_news(&mut self) {
        for news in self.remote.news() {
            match news {
                News::For(Waiter::Claim(slot)) => self.woken.push(Woken::Claim(slot)),
                News::For(Waiter::Address(slot)) => self.woken.push(Woken::Address(slot)),
                News::Pool(pool) => self.woken.push(Woken::Status(pool)),
                News::Note(pool, note) => self.notes.push((pool, note)),
                News::Doubt(doubt) => self.doubts.push(doubt),
            }
        }
    }
}

/// A wait in the words of a claim's condition.
fn refusal(pool: &PoolRef, wait: Wait) -> Refusal {
    let (reason, message, until) = match wait {
        Wait::Answer(since) => (
            Reason::PoolNotReady,
            format!("{pool} was asked, and has not answered yet: it is asked again"),
            Until::Answered(since),
        ),
        Wait::Full(text) => (
            Reason::PoolExhausted,
            format!("{pool} has no free address ({text}): add addresses there, or delete claims"),
            Until::PoolChanges,
        ),
        Wait::Trouble(text) => {
            (Reason::PoolNotReady, format!("{pool} cannot be used now: {text}; it is asked again"), Until::PoolChanges)
        }
        Wait::Unfit(text) => (
            Reason::AllocationFailed,
            format!("{pool} does not give this claim an address: {text}; make the claim again, or change the pool"),
            Until::PoolChanges,
        ),
    };
    Refusal { reason, message, until, held_by: None }
}

/// For whom the entry of an object is. An object that was never a claim's has its own uid as the key, which no entry bears.
fn mark_of(address: &Address) -> Mark {
    let owner = address.owner.as_ref().or_else(|| address.attempt.as_ref().map(|mark| &mark.claim));
    let name = address.claim_key();
    Mark { claim: owner.unwrap_or(&address.uid).clone(), name, address: address.address }
}

impl Provider for Providers {
    fn ensure(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal> {
        if !ask.pool.kind.is_remote() {
            return self.in_cluster.ensure(ask);
        }
        let offer = self.obtain(ask);
        if offer.is_err() {
            self.in_cluster.release(ask.slot);
        }
        offer
    }

    fn reserve_again(&mut self, slot: u32, claim: &Key, pool: &Arc<PoolRef>, block: Block, told: Told) {
        self.in_cluster.reserve_again(slot, claim, pool, block, told);
    }

    fn release(&mut self, slot: u32) {
        self.in_cluster.release(slot);
        self.remote.release(slot);
    }

    fn describe(&self, pool: &Arc<PoolRef>) -> Option<Description> {
        self.in_cluster.describe(pool)
    }

    fn keeps(&self, pool: &Arc<PoolRef>, claim: &Key, block: Block) -> bool {
        // The outside system says who has an address: a conflict there is for people to settle.
        pool.kind.is_remote() || self.in_cluster.keeps(pool, claim, block)
    }

    fn status(&self, pool: &Arc<PoolRef>) -> Option<PoolStatus> {
        let mut status = self.in_cluster.status(pool)?;
        if !pool.kind.is_remote() || !status.ready {
            return Some(status);
        }
        let remarks = self.remote.remarks(pool);
        (status.ready, status.message) = match self.remote.trouble(pool) {
            Some(text) => (false, format!("it cannot be used now: {text}; it is asked again")),
            None if !self.remote.works(pool) => (false, "it was not asked yet".to_owned()),
            None => (true, few(&remarks)),
        };
        let counts = &mut status.counts;
        counts.out_of_range = 0;
        let (total, held) = self.remote.size(pool).unwrap_or_default();
        counts.total = i64::try_from(total).unwrap_or(i64::MAX);
        counts.free = i64::try_from(total.saturating_sub(held)).unwrap_or(i64::MAX);
        counts.available = if self.remote.is_full(pool) { 0 } else { counts.free };
        Some(status)
    }

    fn pool(&mut self, pool: &Pool) {
        self.in_cluster.pool(pool);
        if pool.reference.kind.is_remote() {
            let usable = pool.plan.is_ok() && pool.paused.is_none();
            self.remote.pool(&pool.reference, pool.remote.clone().filter(|_| usable));
        }
    }

    fn pool_gone(&mut self, pool: &Arc<PoolRef>) {
        self.in_cluster.pool_gone(pool);
        self.remote.pool_gone(pool);
    }

    fn shown(&mut self, slot: u32, address: &Address) -> Option<Block> {
        self.changed(slot, address);
        self.in_cluster.shown(slot, address)
    }

    fn changed(&mut self, slot: u32, address: &Address) {
        if address.pool.kind.is_remote() {
            let stands = !address.deleting && (address.owner.is_some() || address.attempt.is_some());
            self.remote.shown(slot, &address.pool, mark_of(address), stands);
        }
    }

    fn gone(&mut self, slot: u32) {
        self.remote.gone(slot);
        self.in_cluster.gone(slot);
    }

    fn rivals(&self, slot: u32) -> Vec<u32> {
        self.in_cluster.rivals(slot)
    }

    fn is_implausible(&self, slot: u32) -> bool {
        self.in_cluster.is_implausible(slot)
    }

    fn woken(&mut self) -> Vec<Woken> {
        let in_cluster = &self.in_cluster;
        self.remote.wake_held(|slot, pool, address| in_cluster.is_free(slot, pool, Block::host(address)));
        self.take_news();
        let mut woken = self.in_cluster.woken();
        woken.append(&mut self.woken);
        woken
    }

    fn begin(&mut self, now: Duration, leading: bool) {
        self.remote.begin(now, leading);
    }

    fn next_tick(&self) -> Option<Duration> {
        self.remote.next_tick()
    }

    fn let_go(&mut self, leaving: &Leaving<'_>) -> Result<(), Refusal> {
        if !leaving.pool.kind.is_remote() {
            return Ok(());
        }
        let Leaving { waiter, pool, claim, name, address } = *leaving;
        let mark = Mark { claim: claim.clone(), name: name.clone(), address };
        self.remote.clear(waiter, pool, mark).map_err(|wait| refusal(pool, wait))
    }

    fn pool_may_go(&mut self, pool: &Arc<PoolRef>) -> bool {
        !pool.kind.is_remote() || self.remote.is_at_rest(pool)
    }

    fn calls(&mut self) -> Vec<Call> {
        self.remote.calls()
    }

    fn answered(&mut self, id: u64, result: Result<Answer, Failure>, claims: &dyn Fn() -> HashSet<Uid>) {
        self.remote.answered(id, result, claims);
    }

    fn notes(&mut self) -> Vec<(Arc<PoolRef>, Note)> {
        self.take_news();
        std::mem::take(&mut self.notes)
    }

    fn doubts(&mut self) -> Vec<Doubt> {
        self.take_news();
        std::mem::take(&mut self.doubts)
    }

    fn claim_is_gone(&mut self, doubt: Doubt) {
        self.remote.claim_is_gone(&doubt.pool, doubt.entry);
    }
}
