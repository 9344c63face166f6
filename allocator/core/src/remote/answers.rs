//! What the answers mean.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::names::{PoolRef, Uid};
use crate::protocol::flaws::{Flaw, planted};

use super::account::{Account, Goal};
use super::audit::{Findings, Last, Shown};
use super::call::{Answer, Drift, Entry, Failure, Note, Orphans, What};
use super::{AGAIN, DOUBTS, Doubt, Job, News, Remote, SETTLES, Timer};

impl Remote {
    /// A call has ended. `claims`: the uids of all claims; asked only if need be.
    pub fn answered(&mut self, id: u64, result: Result<Answer, Failure>, claims: impl FnOnce() -> HashSet<Uid>) {
        let Some((pool, job)) = self.under_way.remove(&id) else { return };
        self.judge(&pool, &result);
        match job {
            Job::Account(uid, what) => self.account_answered(&pool, &uid, &what, result),
            Job::Orphan(entry) => {
                if let Ok(Answer::Done) = result {
                    if let Some(gate) = self.pools.get_mut(&pool) {
                        gate.audit.suspects.remove(&entry.id);
                        gate.audit.doomed.remove(&entry.id);
                        gate.has_room();
                    }
                    self.news.push(News::Pool(pool.clone()));
                    self.news.push(News::Note(pool, Note::OrphanReleased(entry)));
                }
            }
            Job::List => {
                if let Some(gate) = self.pools.get_mut(&pool).filter(|gate| gate.audit.last == Last::Due) {
                    gate.audit.last = Last::Taken;
                }
                if let Ok(Answer::Listing(entries, addresses)) = result {
                    return self.look(&pool, &entries, addresses, claims);
                }
                if let Some(gate) = self.pools.get_mut(&pool) {
                    gate.audit.asked = None;
                }
                self.look_soon(&pool);
                // One that is being deleted waits for the call to end.
                self.news.push(News::Pool(pool));
            }
        }
    }

    /// What an answer says of the system as a whole.
    fn judge(&mut self, pool: &Arc<PoolRef>, result: &Result<Answer, Failure>) {
        let random = self.random();
        let Some(gate) = self.pools.get_mut(pool) else { return };
        gate.under_way = gate.under_way.saturating_sub(1);
        let news = match result {
            Ok(_) | Err(Failure::Full(_) | Failure::Unfit(_)) => gate.succeeded(),
            Err(Failure::Refused(text) | Failure::Lost(text)) => {
                let news = gate.failed(self.now, text.clone(), random);
                self.timers.insert((gate.opens_at(), Timer::Pool(pool.clone())));
                news
            }
            Err(Failure::NotSent) => false,
        };
        if news {
            self.news.push(News::Pool(pool.clone()));
            let its = self.accounts.values().filter(|account| account.pool == *pool);
            let waiters: Vec<_> = its.flat_map(|account| &account.waiters).map(|one| News::For(*one)).collect();
            self.news.extend(waiters);
        }
    }

    fn account_answered(&mut self, pool: &Arc<PoolRef>, uid: &Uid, what: &What, result: Result<Answer, Failure>) {
        let (now, random) = (self.now, self.random());
        let result = self.without_those_of_others(pool, what, result);
        let Some(account) = self.accounts.get_mut(uid) else { return };
        account.busy = None;
        account.failures = match &result {
            Err(Failure::Refused(_) | Failure::Lost(_) | Failure::NotSent) => {
                account.not_before = account.not_before.max(now + AGAIN.jittered(account.failures, random));
                account.failures.saturating_add(1)
            }
            // That it can be searched for does not mean that what was found can be deleted.
            Ok(Answer::Entries(_)) => account.failures,
            _ => 0,
        };
        let name = account.mark.name.clone();
        match (what, result) {
            (What::Find(mark), Ok(Answer::Entries(entries))) => {
                // The mark may have become another while the search was under way.
                let same = *mark == account.mark;
                if !entries.is_empty() {
                    account.lost = None;
                }
                account.known = same.then_some(entries);
            }
            (What::Allocate(_, wanted), Ok(Answer::Entry(entry))) => {
                if wanted.is_some_and(|wanted| wanted != entry.address) {
                    account.unfit = Some(format!("it gave {}, which was not asked for", entry.address));
                }
                // A claim that goes meanwhile is searched for: only a search shows whose the entry is.
                if account.goal == Goal::Clear {
                    account.known = None;
                } else {
                    account.known.get_or_insert_default().push(entry);
                }
                if let Some(gate) = self.pools.get_mut(pool) {
                    gate.has_room();
                }
            }
            (What::Allocate(..), Err(Failure::Full(text))) => {
                if let Some(gate) = self.pools.get_mut(pool) {
                    let until = gate.filled(now, text, random);
                    self.timers.insert((until, Timer::Pool(pool.clone())));
                    self.news.push(News::Pool(pool.clone()));
                }
            }
            (What::Allocate(..), Err(Failure::Unfit(text))) => {
                // Its own request, of which the answer was lost, may have got the address: a search decides.
                (account.unfit, account.known) = (Some(text), None);
            }
            (What::Allocate(..), Err(Failure::Lost(_))) => {
                if !planted(Flaw::LostIsAskedAgain) {
                    account.known = None;
                }
                account.lost = Some(now);
                account.not_before = account.not_before.max(now + SETTLES);
                self.look_soon(pool);
            }
            // People may have changed the entry until it is asked again.
            (What::Release(_), Err(_)) => account.known = None,
            (What::Release(entry), Ok(Answer::Done)) => {
                if let Some(known) = &mut account.known {
                    known.retain(|one| one.id != entry.id);
                }
                if let Some(gate) = self.pools.get_mut(pool) {
                    gate.has_room();
                }
            }
            (What::PutBack(mark), result) => {
                if matches!(result, Err(Failure::Lost(_))) {
                    account.lost = Some(now);
                }
                // The claim may go meanwhile.
                if account.goal != Goal::Clear {
                    account.goal = Goal::Rest;
                }
                if let Some(address) = mark.address {
                    match result {
                        Ok(_) => {
                            if let Some(gate) = self.pools.get_mut(pool) {
                                gate.audit.missing.retain(|(_, one)| *one != address);
                            }
                            self.news.push(News::Pool(pool.clone()));
                            self.news.push(News::Note(pool.clone(), Note::PutBack(name, address)));
                        }
                        Err(Failure::Full(text) | Failure::Unfit(text) | Failure::Refused(text)) => {
                            let note = Note::NotPutBack(name, address, text);
                            self.news.push(News::Note(pool.clone(), note));
                        }
                        Err(Failure::Lost(_) | Failure::NotSent) => self.look_soon(pool),
                    }
                }
            }
            (What::Rewrite(..), _) if account.goal == Goal::Clear => account.known = None,
            (What::Rewrite(..), _) => account.goal = Goal::Rest,
            // Another failure had no effect; an answer that does not fit the question proves nothing.
            (_, Err(_)) => {}
            (_, Ok(_)) => account.known = None,
        }
        let Some(account) = self.accounts.get_mut(uid) else { return };
        if account.next().is_none() || matches!(what, What::Allocate(..)) {
            let waiters: Vec<_> = account.waiters.iter().map(|one| News::For(*one)).collect();
            if account.is_clear() && account.goal == Goal::Clear {
                account.waiters.clear();
            }
            self.news.extend(waiters);
        }
        self.enqueue(uid);
        self.drop_if_done(uid);
    }

    /// Claims that could not have the address that they ask for are asked for again once it has no entry.
    fn may_have_what_they_asked_for(&mut self, pool: &Arc<PoolRef>, entries: &[Entry]) {
        let taken: HashSet<IpAddr> = entries.iter().map(|entry| entry.address).collect();
        let mut again = Vec::new();
        for (uid, account) in self.accounts.iter_mut().filter(|(_, account)| account.pool == *pool) {
            if account.wanted.is_some_and(|wanted| !taken.contains(&wanted)) && account.unfit.take().is_some() {
                again.push(uid.clone());
            }
        }
        for uid in again {
            self.enqueue(&uid);
        }
    }

    /// Claims that were let go are searched for again if they have an entry all the same: the request of an allocator that is gone
    /// had its effect after the search. Nobody else looks for these entries, and their pool may be the next to go.
    fn search_again(&mut self, pool: &Arc<PoolRef>, entries: &[Entry]) {
        for uid in entries.iter().filter_map(|entry| entry.claim.as_ref()) {
            let cleared =
                |account: &&mut Account| account.pool == *pool && account.goal == Goal::Clear && account.is_clear();
            if let Some(account) = self.accounts.get_mut(uid).filter(cleared) {
                account.known = None;
                // The claim may be gone, and another have its name: only what bears its uid is its own.
                account.mark.address = None;
                self.enqueue(uid);
            }
        }
    }

    /// What a search has found for a claim, without what is another claim's by now, and without what was asked to be deleted: the
    /// deletion may have its effect late.
    fn without_those_of_others(
        &self,
        pool: &Arc<PoolRef>,
        what: &What,
        result: Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        let (What::Find(mark), Ok(Answer::Entries(mut entries))) = (what, result.clone()) else { return result };
        let goes = self.accounts.get(&mark.claim).is_some_and(|account| account.goal == Goal::Clear);
        let doomed = |entry: &Entry| self.pools.get(pool).is_some_and(|gate| gate.audit.doomed.contains(&entry.id));
        let is_anothers = |entry: &Entry| {
            entry.claim.as_ref().filter(|claim| **claim != mark.claim).is_some_and(|claim| {
                let asks = self.accounts.get(claim).is_some_and(|account| account.goal == Goal::Obtain);
                let has =
                    |(_, shown): &(_, Shown)| shown.mark.claim == *claim && shown.mark.address == Some(entry.address);
                asks || self.objects.values().any(has)
            })
        };
        entries.retain(|entry| entry.is_for(mark) && !is_anothers(entry) && (goes || !doomed(entry)));
        Ok(Answer::Entries(entries))
    }

    /// Compares all entries of a pool with what is known here.
    fn look(
        &mut self,
        pool: &Arc<PoolRef>,
        entries: &[Entry],
        addresses: Option<u64>,
        claims: impl FnOnce() -> HashSet<Uid>,
    ) {
        let now = self.now;
        let objects: Vec<Shown> =
            self.objects.values().filter(|(of, _)| of == pool).map(|(_, shown)| shown.clone()).collect();
        let mut claims = claims();
        self.search_again(pool, entries);
        // What is being let go, put back or asked for is decided there.
        claims.extend(self.accounts.keys().cloned());
        let Some(gate) = self.pools.get_mut(pool) else { return };
        let policy = gate.spec.as_ref().map_or((Orphans::Report, Drift::Report), |spec| (spec.orphans, spec.drift));
        let held = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        gate.audit.size = addresses.map(|all| (all, held));
        gate.audit.doomed.retain(|id| entries.iter().any(|entry| entry.id == *id));
        let found = gate.audit.look(now, entries, &objects, &claims);
        let wait = !gate.audit.suspects.is_empty() && (policy.0 == Orphans::Release || found.surplus_waits);
        let Findings { new, doubtful, surplus, missing, rewrite, .. } = found;
        self.may_have_what_they_asked_for(pool, entries);
        self.news.push(News::Pool(pool.clone()));
        let notes = new.into_iter().map(|entry| News::Note(pool.clone(), Note::Orphan(entry)));
        self.news.extend(notes);
        // A claim that lives keeps one entry; that of its address stays.
        for entry in surplus {
            if !entry.claim.as_ref().is_some_and(|claim| self.accounts.contains_key(claim)) {
                self.claim_is_gone(pool, entry);
            }
        }
        if policy.0 == Orphans::Release {
            for entry in doubtful.into_iter().take(DOUBTS) {
                // Whose name people have changed stays.
                if let (Some(key), Some(claim)) = (entry.names(), entry.claim.clone()) {
                    self.news.push(News::Doubt(Doubt { pool: pool.clone(), entry, key, claim }));
                }
            }
        }
        for mark in missing {
            if let Some(address) = mark.address {
                let note = Note::Missing(mark.name.clone(), address, policy.1);
                self.news.push(News::Note(pool.clone(), note));
            }
            if policy.1 == Drift::PutBack {
                self.repair(pool, mark, Goal::PutBack);
            }
        }
        for (entry, mark) in rewrite {
            if policy.1 == Drift::PutBack {
                self.repair(pool, mark, Goal::Rewrite(entry));
            }
        }
        if wait {
            self.look_soon(pool);
        }
    }
}
