//! Updates the known state from an event.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::names::{ClaimKind, Key, PoolRef, Uid};
use crate::provider::{Provider, Told};

use super::super::action::Report;
use super::super::event::Event;
use super::super::objects::{Address, Claim, Pool};
use super::super::registry::{Entry, Fate};
use super::claims::{Missing, Progress};
use super::pools::PoolSlot;
use super::{DOUBT, Machine, Who};

impl<P: Provider> Machine<P> {
    pub(super) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Leading(until) => {
                let before = self.work.leading();
                self.work.lead(until);
                self.provider.begin(self.work.now(), self.work.leading());
                if self.work.leading() && !before {
                    self.led_from = self.work.last_id();
                    for slot in self.claims.slots().collect::<Vec<_>>() {
                        if let Some(known) = self.claims.get_mut(slot).filter(|known| known.so_far().fresh) {
                            known.progress().fresh = false;
                        }
                    }
                    self.enqueue_all();
                }
            }
            Event::Claims(claims) => self.claims_listed(ClaimKind::ClusterApi, claims),
            Event::Metal3Claims(claims) => self.claims_listed(ClaimKind::Metal3, claims),
            Event::Metal3Addresses(addresses, asked) => self.addresses_listed(ClaimKind::Metal3, addresses, asked),
            Event::Metal3Listed => {
                if !std::mem::replace(&mut self.metal3_listed, true) {
                    self.enqueue_all();
                }
            }
            Event::PoolsRefused(kind, why) => {
                let before = self.refused.remove(&kind);
                let changed = before != why;
                self.refused.extend(why.map(|why| (kind, why)));
                if changed {
                    self.enqueue_all();
                }
            }
            Event::Claim(claim) => self.claim_seen(claim),
            Event::VanishedPaused(key, paused) => self.vanished_paused(&key, paused),
            Event::ClaimGone(key, uid) => self.claim_gone(&key, &uid),
            Event::Addresses(addresses, asked) => self.addresses_listed(ClaimKind::ClusterApi, addresses, asked),
            Event::Address(address) => {
                let rank = self.addresses.next_rank();
                self.address_seen(address, rank);
            }
            Event::AddressGone(uid) => {
                if let Some(slot) = self.addresses.find(&uid) {
                    self.address_gone(slot);
                }
            }
            Event::Pools(pools) => {
                let there: HashSet<_> = pools.iter().map(|p| (p.reference.clone(), p.uid.clone())).collect();
                let known: Vec<_> =
                    self.pools.values().map(|s| (s.pool.reference.clone(), s.pool.uid.clone())).collect();
                for (reference, uid) in known.into_iter().filter(|known| !there.contains(known)) {
                    self.pool_gone(&reference, &uid);
                }
                for pool in pools {
                    self.pool_seen(pool);
                }
                self.list_complete(2);
            }
            Event::Pool(pool) => self.pool_seen(*pool),
            Event::PoolGone(reference, uid) => self.pool_gone(&reference, &uid),
            Event::Answer { id, result } => self.answered(id, result),
            Event::ClaimRead { id, result } => {
                if !self.doubt_read(id, &result) {
                    self.claim_read(id, result);
                }
            }
            Event::Remote { id, result } => self.outside_answered(id, result),
        }
    }

    fn list_complete(&mut self, kind: usize) {
        if !self.listed[kind] {
            self.listed[kind] = true;
            self.enqueue_all();
        }
    }

    fn enqueue_all(&mut self) {
        if self.listed != [true; 3] {
            return;
        }
        // What bound claims have lost by force stays theirs, however long others have waited.
        for slot in self.claims.slots().collect::<Vec<_>>() {
            self.keep_what_is_missing(slot);
        }
        let mut claims: Vec<_> = self.claims.slots().filter_map(|s| Some((self.claims.get(s)?.place(), s))).collect();
        claims.sort_unstable();
        self.work.mark_all(claims.into_iter().map(|(_, s)| Who::Claim(s)));
        self.work.mark_all(self.addresses.slots().map(Who::Address));
        self.work.mark_all(self.pools.keys().cloned().map(Who::Pool));
        for kind in [ClaimKind::ClusterApi, ClaimKind::Metal3] {
            let lists = self.lists(kind);
            if lists.under_way.is_some() || !lists.listeners.is_empty() {
                self.work.mark(Who::List(kind));
            }
        }
    }

    fn claims_listed(&mut self, kind: ClaimKind, claims: Vec<Claim>) {
        let there: HashSet<Uid> = claims.iter().map(|c| c.uid.clone()).collect();
        let known = self.claims.slots().filter_map(|s| self.claims.get(s));
        let known = known.filter(|s| s.claim.key.claim_kind() == kind);
        let known: Vec<_> = known.map(|s| (s.claim.key.clone(), s.claim.uid.clone())).collect();
        for (key, uid) in known.into_iter().filter(|(_, uid)| !there.contains(uid)) {
            self.claim_gone(&key, &uid);
        }
        for claim in claims {
            self.claim_seen(claim);
        }
        if kind == ClaimKind::ClusterApi {
            self.list_complete(0);
        }
    }

    pub(super) fn claim_seen(&mut self, claim: Claim) {
        let claim = self.share_claim(claim);
        let known = self.claims.find(&claim.key);
        if let Some(slot) = known
            && let Some(before) = self.claims.get(slot).map(|known| known.claim.pool.clone())
            && before != claim.pool
        {
            // An edit of the claim: it waits for the first pool no longer, and has no place reserved there.
            self.leave(slot);
            self.give_up(slot);
            self.pass_on(&before);
        }
        let slot = match known {
            Some(slot) if self.claims.get(slot).is_some_and(|s| s.claim.uid == claim.uid) => {
                if let Some(known) = self.claims.get_mut(slot) {
                    if known.so_far().spoiled && known.claim.version != claim.version {
                        // The change that spoiled the last write is visible now.
                        known.progress().spoiled = false;
                        known.progress().retry.not_before = Duration::ZERO;
                    }
                    known.claim = Arc::new(claim);
                }
                // Its object may have vanished before this showed that the claim is bound to it.
                self.keep_what_is_missing(slot);
                slot
            }
            other => {
                // Another claim has this name: the earlier claim is gone. Before anything of the earlier claim is
                // touched, the API server is asked whether the known claim really is the earlier one: this event may be
                // an old event shown again.
                if let Some(slot) = other {
                    self.forget(slot);
                }
                let key = claim.key.clone();
                let former = self.vanished.remove(&key);
                let slot = self.claims.insert(Arc::new(claim), former.as_ref().map(|former| former.slot));
                if let Some(former) = former {
                    self.inherit(slot, &former);
                }
                for &address in self.addresses.named(&key) {
                    self.work.mark(Who::Address(address));
                }
                slot
            }
        };
        self.work.mark(Who::Claim(slot));
    }

    /// Ends a claim's slot and drops the reservations for the claim.
    fn forget(&mut self, slot: u32) {
        self.leave(slot);
        let had = self.leaves_what_is_in_use(slot);
        self.lists.listeners.remove(&slot);
        self.metal3_lists.listeners.remove(&slot);
        if let Some(gone) = self.claims.remove(slot) {
            if let Some(had) = had {
                self.keep_for_the_next(slot, gone.claim.clone(), had);
            } else {
                self.provider.release(slot);
                self.claims.reuse(slot);
            }
            self.pass_on(&gone.claim.pool);
            if gone.claim.pool.kind.is_remote() {
                // A pool that is being deleted waits for its claims.
                self.work.mark(Who::Pool(gone.claim.pool.clone()));
            }
            if let Some(id) = gone.pending {
                self.work.answered(id);
                self.records.remove(&id);
            }
            for &address in self.addresses.named(&gone.claim.key) {
                self.work.mark(Who::Address(address));
            }
        }
    }

    pub(super) fn claim_gone(&mut self, key: &Key, uid: &Uid) {
        if let Some(slot) = self.claims.find(key)
            && self.claims.get(slot).is_some_and(|s| s.claim.uid == *uid)
        {
            self.forget(slot);
        }
        // The claim usually owned nothing; anything it owned has no owner now. Before anything is released, the API
        // server is asked whether the claim is really gone: the watch may only have left it out.
        for slot in self.addresses.named(key).to_vec() {
            if let Some(entry) = self.addresses.get_mut(slot)
                && entry.is_of(uid)
                && entry.fate == Fate::Stays
            {
                entry.fate = Fate::Doubtful(self.work.now());
                self.work.mark(Who::Address(slot));
            }
        }
    }

    fn addresses_listed(&mut self, kind: ClaimKind, addresses: Vec<Address>, asked: Option<u64>) {
        let there: HashSet<Uid> = addresses.iter().map(|a| a.uid.clone()).collect();
        let is_gone = |a: &Address| a.key.claim_kind() == kind && !there.contains(&a.uid);
        let gone = self.addresses.slots().filter(|&s| self.addresses.get(s).is_some_and(|e| is_gone(&e.address)));
        for slot in gone.collect::<Vec<_>>() {
            self.address_gone(slot);
        }
        let rank = self.addresses.next_rank();
        for address in addresses {
            self.address_seen(address, rank);
        }
        if kind == ClaimKind::ClusterApi {
            self.list_complete(1);
        }
        let lists = self.lists(kind);
        if asked.is_some() && asked == lists.under_way {
            lists.under_way = None;
            lists.ended = asked;
            self.list_ended(kind, asked);
            if std::mem::take(&mut self.lists(kind).again) {
                self.ask_for_list(kind);
            }
        }
    }

    /// Informs the claims that waited for this list that their object does not exist, or that nobody else has its address.
    fn list_ended(&mut self, kind: ClaimKind, asked: Option<u64>) {
        for slot in self.lists(kind).listeners.iter().copied().collect::<Vec<_>>() {
            let Some(claim) = self.claims.get_mut(slot) else { continue };
            if claim.claim.key.claim_kind() != kind {
                // It compares its object with those of the other kind.
                if self.is_list_enough(slot, asked) {
                    self.lists(kind).listeners.remove(&slot);
                }
                self.work.mark(Who::Claim(slot));
                continue;
            }
            if claim.so_far().unseen.is_some_and(|u| u.list.is_some() && u.list <= asked) {
                claim.progress().unseen = None;
            }
            if matches!(claim.so_far().missing, Missing::Asked(id) if Some(id) <= asked) {
                claim.progress().missing = Missing::Gone(claim.claim.voided);
            }
            let Progress { unseen, missing, .. } = claim.so_far();
            if unseen.is_none_or(|u| u.list.is_none()) && !matches!(missing, Missing::Asked(_)) {
                // Otherwise the claim waits for a later list.
                self.lists(kind).listeners.remove(&slot);
            }
            self.work.mark(Who::Claim(slot));
        }
    }

    fn address_seen(&mut self, address: Address, rank: u64) {
        let address = self.share_address(address);
        let slot = if let Some(slot) = self.addresses.find(&address.uid) {
            if let Some(entry) = self.addresses.get_mut(slot) {
                // A prefix that is wider than its pool's units counts only as long as a claim owns the object.
                let owned = |a: &Address| a.pool.kind.of_prefixes() && (a.owner.is_some() || a.attempt.is_some());
                let same = |a: &Address| (a.pool.clone(), a.address, a.prefix, a.rest.is_some(), owned(a));
                let other = same(&entry.address) != same(&address);
                entry.renew(address);
                if other {
                    // Treat the object as another object.
                    entry.rank = rank;
                    self.shown_as_other(slot);
                } else {
                    self.provider.changed(slot, &entry.address);
                }
            }
            slot
        } else {
            let slot = self.addresses.insert(address, rank, self.work.now());
            if let Some(entry) = self.addresses.get_mut(slot) {
                entry.block = self.provider.shown(slot, &entry.address);
                let pool = entry.address.pool.clone();
                self.work.mark(Who::Pool(pool));
            }
            slot
        };
        self.work.mark(Who::Address(slot));
        let Some(entry) = self.addresses.get(slot) else { return };
        let claim = entry.claim();
        let owner = entry.address.owner.clone();
        // A bound claim does not look for an object that people made for others under the claim's name.
        let looked_for = |by: &Claim| {
            let named = by.bound.as_ref().is_none_or(|bound| bound == entry.address.name());
            claim == by.key && entry.address.key == by.object_key() && named
        };
        for key in [&claim, &entry.address.key] {
            let Some(claim) = self.claims.find(key) else { continue };
            self.work.mark(Who::Claim(claim));
            let Some(known) = self.claims.get_mut(claim) else { continue };
            if known.so_far().exists > 0 {
                known.progress().exists = 0;
            }
            if owner.as_ref() == Some(&known.claim.uid) {
                // The object exists: the reservation has become the object itself.
                if known.so_far() != Progress::default() {
                    if known.progress().unseen.take().is_some() {
                        known.progress().retry.not_before = Duration::ZERO;
                    }
                    if looked_for(&known.claim) {
                        let bound = known.claim.bound.is_some();
                        let progress = known.progress();
                        if let (true, Missing::Gone(count)) = (bound, progress.missing) {
                            // A list has shown that it did not exist when the claim was bound: it came out of turn.
                            progress.lost = progress.lost.max(Some(count));
                        }
                        progress.missing = Missing::No;
                    }
                }
                self.provider.release(claim);
            }
        }
    }

    /// Where the API server lets people change an object, the object may get another address.
    fn shown_as_other(&mut self, slot: u32) {
        self.rivals_may_go_on(slot);
        self.forget_duplicates(slot);
        self.provider.gone(slot);
        if let Some(entry) = self.addresses.get_mut(slot) {
            entry.block = self.provider.shown(slot, &entry.address);
            entry.compared = None;
            let pool = entry.address.pool.clone();
            self.work.mark(Who::Pool(pool));
        }
    }

    fn rivals_may_go_on(&mut self, slot: u32) {
        for rival in self.provider.rivals(slot) {
            if let Some(entry) = self.addresses.get(rival) {
                self.work.mark_all(self.claims.find(&entry.claim()).map(Who::Claim));
            }
            self.work.mark(Who::Address(rival));
        }
    }

    fn address_gone(&mut self, slot: u32) {
        self.rivals_may_go_on(slot);
        self.forget_duplicates(slot);
        self.provider.gone(slot);
        let Some(entry) = self.addresses.remove(slot) else { return };
        self.keep_again(|claim| claim.key == entry.claim());
        if let Some(id) = entry.pending {
            self.work.answered(id);
            self.reads.remove(&id);
        }
        self.reads_wait.remove(&slot);
        if let Some(claim) = self.claims.find(&entry.claim()) {
            // A claim of metal3's may have a second object, of another name, to which it is not bound.
            let may_be_its = |claim: &Claim| claim.bound.is_none() || claim.is_bound_to(entry.address.name());
            let heir = entry.heir.as_ref();
            if let Some(known) = self.claims.get_mut(claim)
                && known.claim.deleting
                && entry.is_of(&known.claim.uid)
            {
                known.progress().released = true;
            }
            if let Some(known) = self.claims.get_mut(claim)
                && heir == Some(&known.claim.uid)
                && may_be_its(&known.claim)
                && let Some(block) = entry.block.filter(|_| entry.address.conflict.is_none())
            {
                known.progress().before = Some((block, Told::ByObject));
                self.provider.reserve_again(claim, &entry.claim(), &entry.address.pool, block, Told::ByObject);
            }
            // Somebody may have removed the owner reference before the object, and the claim may just be looked for: the object was
            // the claim's all the same.
            if let Some(known) = self.claims.get_mut(claim)
                && entry.is_of(&known.claim.uid)
                && !matches!(entry.fate, Fate::Goes { .. })
                && may_be_its(&known.claim)
            {
                let number = entry.attempt(&known.claim.uid).map_or(known.claim.voided, |m| m.number);
                known.progress().before = entry.block.map(|block| (block, Told::ByObject));
                known.progress().lost = Some(number);
                // The claim's machine may still have the address: nobody else gets the address before the claim has it
                // again.
                if let Some(block) =
                    entry.block.filter(|_| known.claim.bound.is_some() && entry.address.conflict.is_none())
                {
                    self.provider.reserve_again(claim, &entry.claim(), &entry.address.pool, block, Told::ByObject);
                }
            }
            self.work.mark(Who::Claim(claim));
        }
        // Another object of the name, or a claim that waits for the name.
        if let Some(claim) = self.claims.find(&entry.address.key) {
            self.work.mark(Who::Claim(claim));
        }
        if entry.fate == (Fate::Goes { rest: true }) {
            let (address, pool) = (entry.address.own_key(), entry.address.pool.clone());
            self.report(Report::Released { address, pool, block: entry.block });
        }
        self.work.mark(Who::Pool(entry.address.pool.clone()));
    }

    fn pool_seen(&mut self, pool: Pool) {
        let reference = pool.reference.clone();
        let told = |p: &Pool| {
            let network = p.plan.as_ref().ok().map(|plan| plan.network.clone());
            (p.uid.clone(), p.generation, p.paused.clone(), p.deleting, network, p.remote.clone())
        };
        if self.pools.get(&reference).is_none_or(|known| told(&known.pool) != told(&pool)) {
            self.provider.pool(&pool);
            self.pools_changed = true;
            self.keep_again(|claim| claim.pool == reference);
            // Resume what could not go on while the pool was paused or unknown.
            let concerned = self.addresses.slots().filter(|&s| {
                let undecided = |e: &Entry| e.fate != Fate::Stays || e.is_held_by_us_alone();
                let concerns = |e: &Entry| e.address.pool == reference && (undecided(e) || pool.deleting);
                self.addresses.get(s).is_some_and(concerns)
            });
            self.work.mark_all(concerned.map(Who::Address));
        }
        let network = |pool: &Pool| pool.plan.as_ref().ok().map(|plan| plan.network.clone());
        if self.pools.get(&reference).is_some_and(|known| network(&known.pool) != network(&pool)) {
            self.network_changed(&reference);
        }
        match self.pools.get_mut(&reference) {
            Some(slot) if slot.pool.uid == pool.uid => slot.pool = pool,
            _ => {
                self.pools.insert(reference.clone(), PoolSlot::new(pool));
            }
        }
        self.work.mark(Who::Pool(reference));
    }

    fn pool_gone(&mut self, reference: &Arc<PoolRef>, uid: &Uid) {
        if self.pools.get(reference).is_some_and(|s| s.pool.uid == *uid) {
            self.pools.remove(reference);
            self.provider.pool_gone(reference);
            self.pools_changed = true;
            self.network_changed(reference);
        }
    }

    /// The objects of a pool count in another network now, or nobody knows in which: which of them share an address with
    /// others must not depend on when this allocator began.
    fn network_changed(&mut self, pool: &Arc<PoolRef>) {
        let of_it = |&slot: &u32| self.addresses.get(slot).is_some_and(|entry| entry.address.pool == *pool);
        let all: Vec<u32> = self.addresses.slots().filter(of_it).collect();
        for slot in all {
            let Some(entry) = self.addresses.get(slot) else { continue };
            self.work.mark_all(self.claims.find(&entry.claim()).map(Who::Claim));
            self.rivals_may_go_on(slot);
        }
        self.tell_duplicates_again(pool);
    }

    /// An object whose claim is unknown is doubtful until the claim was read.
    pub(super) fn doubt(&mut self, slot: u32) {
        let at = self.work.now() + DOUBT;
        if let Some(entry) = self.addresses.get_mut(slot) {
            entry.fate = Fate::Doubtful(at);
        }
        self.work.mark_at(at, Who::Address(slot));
    }
}
