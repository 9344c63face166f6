//! What the protocol asks for, and the calls that follow.

use std::net::IpAddr;
use std::sync::Arc;

use crate::names::{PoolRef, Uid};

use super::account::{Account, Goal, Waiter};
use super::audit::{EVERY, Last, Shown};
use super::call::{Call, Entry, Mark, Note, What};
use super::{CLEAR_LASTS, Job, LINGERS, News, Remote, Timer, Wait};

impl Remote {
    /// The entry for a claim. `fresh`: this process has put the finalizer on the claim, and has asked for nothing since, so
    /// nobody has made an entry for it.
    ///
    /// # Errors
    /// Why the claim must wait; [`News::For`] says when it may go on.
    pub fn obtain(
        &mut self,
        slot: u32,
        pool: &Arc<PoolRef>,
        mark: Mark,
        wanted: Option<IpAddr>,
        fresh: bool,
    ) -> Result<Entry, Wait> {
        let (uid, now) = (mark.claim.clone(), self.now);
        self.by_slot.insert(slot, uid.clone());
        let account = self.accounts.entry(uid.clone()).or_insert_with(|| {
            let mut new = Account::new(pool.clone(), mark.clone(), Goal::Obtain, now);
            new.known = fresh.then(Vec::new);
            new
        });
        if account.pool != *pool && account.busy.is_none() {
            // The claim was edited. What the other pool gave it is found by the look at that pool.
            *account = Account::new(pool.clone(), mark.clone(), Goal::Obtain, now);
        }
        if account.pool == *pool && !matches!(account.goal, Goal::Obtain | Goal::Clear) {
            (account.goal, account.since) = (Goal::Obtain, now);
        }
        if account.wanted != wanted {
            (account.wanted, account.unfit) = (wanted, None);
        }
        account.mark = mark;
        account.waiters.insert(Waiter::Claim(slot));
        if account.pool == *pool
            && account.goal == Goal::Obtain
            && let Some(entry) = account.chosen()
        {
            return Ok(entry.clone());
        }
        let wait = account.unfit.clone().map(Wait::Unfit);
        let searched = account.known.is_some();
        let since = account.since;
        self.enqueue(&uid);
        let Some(gate) = self.pools.get_mut(pool) else { return Err(Wait::Answer(since)) };
        let full = gate.is_full(now) && searched;
        let Some(gate) = self.pools.get(pool) else { return Err(Wait::Answer(since)) };
        Err(match (wait, self.trouble(pool)) {
            (Some(unfit), _) => unfit,
            (None, Some(text)) => Wait::Trouble(text.to_owned()),
            (None, None) if full => Wait::Full(gate.full_text().unwrap_or_default().to_owned()),
            (None, None) => Wait::Answer(since),
        })
    }

    /// A claim says that it had this address. That makes no entry its own.
    pub fn prefers(&mut self, claim: &Uid, address: Option<IpAddr>) {
        if let Some(account) = self.accounts.get_mut(claim) {
            account.prefers = address;
        }
    }

    /// Whether a claim or an `IPAddress` may be let go: the claim has no entry any more. The claim is gone, or is being deleted
    /// and has no machine.
    ///
    /// # Errors
    /// Why it must wait; [`News::For`] says when it may go on.
    pub fn clear(&mut self, waiter: Waiter, pool: &Arc<PoolRef>, mark: Mark) -> Result<(), Wait> {
        let (uid, now) = (mark.claim.clone(), self.now);
        if !self.pools.contains_key(pool) {
            self.news.push(News::Note(pool.clone(), Note::NotAsked(mark.name, mark.address)));
            return Ok(());
        }
        let account = self
            .accounts
            .entry(uid.clone())
            .or_insert_with(|| Account::new(pool.clone(), mark.clone(), Goal::Clear, now));
        if account.pool != *pool {
            // Its claim was edited, or has an object of another pool. One pool after the other.
            if account.busy.is_some() || (account.goal == Goal::Clear && !account.is_clear()) {
                account.waiters.insert(waiter);
                return Err(Wait::Answer(account.since));
            }
            *account = Account::new(pool.clone(), mark.clone(), Goal::Clear, now);
        }
        if account.goal != Goal::Clear {
            // What an answer has said of a claim that lives may be wrong for one that goes: a search decides.
            (account.goal, account.since) = (Goal::Clear, now);
            (account.known, account.unfit) = (None, None);
            if let Some(lost) = account.lost {
                account.not_before = account.not_before.max(lost + LINGERS);
            }
            // It waits for room no longer.
            if let Some(gate) = self.pools.get_mut(pool).filter(|_| std::mem::take(&mut account.queued)) {
                gate.forget(&uid);
            }
        }
        if let Waiter::Address(slot) = waiter
            && let Some((_, shown)) = self.objects.get_mut(&slot)
        {
            shown.goes = true;
        }
        if account.mark.address.is_none() && mark.address.is_some() {
            // The entry of this address is the claim's too.
            account.mark = mark;
            account.known = None;
        }
        if account.is_clear() {
            return Ok(());
        }
        account.waiters.insert(waiter);
        let since = account.since;
        self.enqueue(&uid);
        Err(match self.trouble(pool) {
            Some(text) => Wait::Trouble(text.to_owned()),
            None => Wait::Answer(since),
        })
    }

    /// A claim wants no entry now: it has its object, or must be left alone, or is gone.
    pub fn release(&mut self, slot: u32) {
        let Some(uid) = self.by_slot.remove(&slot) else { return };
        if let Some(account) = self.accounts.get_mut(&uid)
            && account.goal == Goal::Obtain
        {
            account.goal = Goal::Rest;
            self.drop_if_done(&uid);
        }
    }

    /// Somebody else here has the address that a claim's entry has: the claim waits until that one is gone.
    pub fn hold(&mut self, uid: &Uid) {
        if let Some(account) = self.accounts.get_mut(uid) {
            account.held = true;
            self.held.insert(uid.clone());
        }
    }

    /// Claims that wait for an address that somebody else here has: the next one may have it as soon as `is_free`, asked with the
    /// claim's slot.
    pub fn wake_held(&mut self, is_free: impl Fn(u32, &Arc<PoolRef>, IpAddr) -> bool) {
        let (accounts, news) = (&self.accounts, &mut self.news);
        self.held.retain(|uid| {
            let Some(account) = accounts.get(uid).filter(|account| account.held) else { return false };
            let Some(entry) = account.chosen() else { return false };
            let slots = account.waiters.iter().filter(|one| match one {
                Waiter::Claim(slot) => is_free(*slot, &account.pool, entry.address),
                Waiter::Address(_) => false,
            });
            let free: Vec<News> = slots.map(|one| News::For(*one)).collect();
            let waits = free.is_empty();
            news.extend(free);
            waits
        });
    }

    /// The address is nobody's any more. Returns whether the claim has waited for that: then what is known of its entries is
    /// old, and they are searched for before one is used.
    pub fn no_longer_held(&mut self, uid: &Uid) -> bool {
        let now = self.now;
        let Some(account) = self.accounts.get_mut(uid).filter(|account| account.held) else { return false };
        (account.held, account.known, account.since) = (false, None, now);
        true
    }

    /// The claim that an entry names is gone: the API server has said so.
    pub fn claim_is_gone(&mut self, pool: &Arc<PoolRef>, entry: Entry) {
        let known = |one: &&Entry| one.id == entry.id;
        if self.condemned.get(pool).is_some_and(|all| all.iter().any(|one| known(&one))) {
            return;
        }
        self.condemned.entry(pool.clone()).or_default().push(entry);
    }

    /// Something other than an entry for a claim that has none is wanted: an entry is put back, or gets another mark.
    pub(super) fn repair(&mut self, pool: &Arc<PoolRef>, mark: Mark, goal: Goal) {
        let (uid, now) = (mark.claim.clone(), self.now);
        // Whatever else is under way for the claim decides what becomes of its entry.
        if !self.accounts.contains_key(&uid) {
            self.accounts.insert(uid.clone(), Account::new(pool.clone(), mark, goal, now));
            self.enqueue(&uid);
        }
    }

    /// Puts an account into its pool's queue if it wants a call.
    pub(super) fn enqueue(&mut self, uid: &Uid) {
        let Some(account) = self.accounts.get_mut(uid) else { return };
        if account.queued || account.next().is_none() {
            return;
        }
        let Some(gate) = self.pools.get_mut(&account.pool) else { return };
        account.queued = true;
        // What is let go makes room. What has failed lets others go first.
        if account.goal == Goal::Clear && account.failures == 0 {
            gate.queue.push_front(uid.clone());
        } else {
            gate.queue.push_back(uid.clone());
        }
    }

    /// Makes the calls that may be made now.
    pub(super) fn pump(&mut self, pool: &Arc<PoolRef>) {
        let now = self.now;
        let random = self.random();
        let Some(gate) = self.pools.get_mut(pool) else { return };
        let full = gate.is_full(now);
        while gate.is_open(now) {
            if let Some(entry) = self.condemned.get_mut(pool).and_then(Vec::pop) {
                // An object may have been made of it since, or may be made of it now.
                let used = |(_, shown): &(_, Shown)| shown.mark.address == Some(entry.address);
                let lives = |uid| self.accounts.get(uid).is_some_and(|account: &Account| account.goal == Goal::Obtain);
                if !self.objects.values().any(used) && !entry.claim.as_ref().is_some_and(lives) {
                    gate.audit.doomed.insert(entry.id.clone());
                    gate.under_way += 1;
                    self.ids += 1;
                    self.under_way.insert(self.ids, (pool.clone(), Job::Orphan(entry.clone())));
                    self.calls.push(Call { id: self.ids, pool: pool.clone(), what: What::Release(entry) });
                }
                continue;
            }
            if gate.audit.due <= now && gate.audit.asked.is_none() {
                gate.audit.asked = Some(now);
                gate.audit.due = now + EVERY + EVERY / 4 * u32::try_from(random % 4).unwrap_or(0) / 4;
                self.timers.insert((gate.audit.due, Timer::Pool(pool.clone())));
                gate.under_way += 1;
                self.ids += 1;
                self.under_way.insert(self.ids, (pool.clone(), Job::List));
                self.calls.push(Call { id: self.ids, pool: pool.clone(), what: What::List });
                continue;
            }
            let Some(uid) = gate.queue.pop_front() else { return };
            let Some(account) = self.accounts.get_mut(&uid) else { continue };
            account.queued = false;
            let Some(what) = account.next().filter(|_| account.pool == *pool) else { continue };
            if account.not_before > now {
                self.timers.insert((account.not_before, Timer::Account(uid)));
                continue;
            }
            if full && matches!(what, What::Allocate(..)) {
                account.queued = true;
                gate.starved.push_back(uid);
                continue;
            }
            gate.under_way += 1;
            self.ids += 1;
            account.busy = Some(self.ids);
            gate.audit.last = Last::No;
            self.under_way.insert(self.ids, (pool.clone(), Job::Account(uid, what.clone())));
            self.calls.push(Call { id: self.ids, pool: pool.clone(), what });
        }
        if gate.opens_at() > now {
            self.timers.insert((gate.opens_at(), Timer::Pool(pool.clone())));
        }
    }

    /// Drops an account that nobody wants anything of. That a claim has no entry is remembered for a while.
    pub(super) fn drop_if_done(&mut self, uid: &Uid) {
        let Some(account) = self.accounts.get(uid) else { return };
        if account.busy.is_some() {
            return;
        }
        match account.goal {
            // What was asked for may come yet: that is not forgotten before.
            Goal::Rest if account.lost.is_some_and(|lost| lost + LINGERS > self.now) => {
                self.timers.insert((self.now + LINGERS, Timer::Forget(uid.clone())));
            }
            Goal::Rest => {
                self.accounts.remove(uid);
            }
            Goal::Clear if account.is_clear() => {
                self.timers.insert((self.now + CLEAR_LASTS, Timer::Forget(uid.clone())));
            }
            _ => {}
        }
    }

    pub(super) fn forget(&mut self, uid: &Uid) {
        let over = |account: &Account| account.busy.is_none() && account.goal == Goal::Rest;
        if self
            .accounts
            .get(uid)
            .is_some_and(|account| over(account) || account.goal == Goal::Clear && account.is_clear())
        {
            self.accounts.remove(uid);
        }
    }
}
