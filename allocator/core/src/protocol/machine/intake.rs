//! What an event changes in what is known.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid};
use crate::provider::Provider;

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
                let before = self.leading();
                self.leads = until;
                if self.leading() && !before {
                    self.mark_all();
                }
            }
            Event::Claims(claims) => self.claims_listed(claims),
            Event::Claim(claim) => self.claim_seen(claim),
            Event::ClaimGone(key, uid) => self.claim_gone(&key, &uid),
            Event::Addresses(addresses, asked) => self.addresses_listed(addresses, asked),
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
            Event::ClaimRead { id, result } => self.claim_read(id, result),
        }
    }

    fn list_complete(&mut self, kind: usize) {
        if !self.listed[kind] {
            self.listed[kind] = true;
            self.mark_all();
        }
    }

    fn mark_all(&mut self) {
        if self.listed != [true; 3] {
            return;
        }
        // Who waits longer comes first.
        let mut claims: Vec<_> = self.claims.slots().filter_map(|s| Some((self.claims.get(s)?.turn, s))).collect();
        claims.sort_unstable();
        self.dirty.extend(claims.into_iter().map(|(_, s)| Who::Claim(s)));
        self.dirty.extend(self.addresses.slots().map(Who::Address));
        self.dirty.extend(self.pools.keys().cloned().map(Who::Pool));
        self.dirty.push_back(Who::List);
        if self.list.is_none() && self.listeners.is_empty() {
            self.dirty.pop_back();
        }
    }

    fn claims_listed(&mut self, claims: Vec<Claim>) {
        let there: HashSet<Uid> = claims.iter().map(|c| c.uid.clone()).collect();
        let known = self.claims.slots().filter_map(|s| self.claims.get(s));
        let known: Vec<_> = known.map(|s| (s.claim.key.clone(), s.claim.uid.clone())).collect();
        for (key, uid) in known.into_iter().filter(|(_, uid)| !there.contains(uid)) {
            self.claim_gone(&key, &uid);
        }
        for claim in claims {
            self.claim_seen(claim);
        }
        self.list_complete(0);
    }

    pub(super) fn claim_seen(&mut self, claim: Claim) {
        let claim = self.share_claim(claim);
        let slot = match self.claims.find(&claim.key) {
            Some(slot) if self.claims.get(slot).is_some_and(|s| s.claim.uid == claim.uid) => {
                if let Some(known) = self.claims.get_mut(slot) {
                    if known.so_far().spoiled && known.claim.version != claim.version {
                        // What spoiled the last write is seen now.
                        known.progress().spoiled = false;
                        known.progress().not_before = Duration::ZERO;
                    }
                    known.claim = claim;
                }
                slot
            }
            other => {
                // Another claim of this name: the earlier one is gone. Whether it really is the earlier one, and not an
                // old event shown again, is asked before anything of it is touched.
                if let Some(slot) = other {
                    self.forget(slot);
                }
                let key = claim.key.clone();
                let slot = self.claims.insert(claim);
                for &address in self.addresses.named(&key) {
                    self.dirty.push_back(Who::Address(address));
                }
                slot
            }
        };
        self.mark(Who::Claim(slot));
    }

    /// A claim's slot ends, with what was reserved for it.
    fn forget(&mut self, slot: u32) {
        self.leave(slot);
        self.provider.release(slot);
        self.listeners.remove(&slot);
        if let Some(gone) = self.claims.remove(slot) {
            self.pass_on(&gone.claim.pool);
            if let Some(id) = gone.pending {
                self.writes.remove(&id);
            }
            for &address in self.addresses.named(&gone.claim.key) {
                self.dirty.push_back(Who::Address(address));
            }
        }
    }

    pub(super) fn claim_gone(&mut self, key: &Key, uid: &Uid) {
        if let Some(slot) = self.claims.find(key)
            && self.claims.get(slot).is_some_and(|s| s.claim.uid == *uid)
        {
            self.forget(slot);
        }
        // What it owned, as a rule nothing, is nobody's now. Whether it is really gone, and not only left out of what is
        // told here, is asked before anything is released.
        for slot in self.addresses.named(key).to_vec() {
            if let Some(entry) = self.addresses.get_mut(slot)
                && entry.address.owner.as_ref() == Some(uid)
                && entry.fate == Fate::Stays
            {
                entry.fate = Fate::Doubtful(self.moment.now);
                self.dirty.push_back(Who::Address(slot));
            }
        }
    }

    fn addresses_listed(&mut self, addresses: Vec<Address>, asked: Option<u64>) {
        let there: HashSet<Uid> = addresses.iter().map(|a| a.uid.clone()).collect();
        let gone =
            self.addresses.slots().filter(|&s| self.addresses.get(s).is_some_and(|e| !there.contains(&e.address.uid)));
        for slot in gone.collect::<Vec<_>>() {
            self.address_gone(slot);
        }
        let rank = self.addresses.next_rank();
        for address in addresses {
            self.address_seen(address, rank);
        }
        self.list_complete(1);
        if asked.is_some() && asked == self.list {
            self.list = None;
            self.list_ended(asked);
            if std::mem::take(&mut self.list_again) {
                self.ask_for_list();
            }
        }
    }

    /// Claims that waited for this list know now that their object is not there.
    fn list_ended(&mut self, asked: Option<u64>) {
        for slot in self.listeners.iter().copied().collect::<Vec<_>>() {
            let Some(claim) = self.claims.get_mut(slot) else { continue };
            if claim.so_far().unseen.is_some_and(|u| u.list.is_some() && u.list <= asked) {
                claim.progress().unseen = None;
            }
            if matches!(claim.so_far().missing, Missing::Asked(id) if Some(id) <= asked) {
                claim.progress().missing = Missing::Gone(claim.claim.voided);
            }
            let Progress { unseen, missing, .. } = claim.so_far();
            if unseen.is_none_or(|u| u.list.is_none()) && !matches!(missing, Missing::Asked(_)) {
                // Else it waits for a later list.
                self.listeners.remove(&slot);
            }
            self.dirty.push_back(Who::Claim(slot));
        }
    }

    fn address_seen(&mut self, address: Address, rank: u64) {
        let address = self.share_address(address);
        let slot = if let Some(slot) = self.addresses.find(&address.uid) {
            if let Some(entry) = self.addresses.get_mut(slot) {
                let same = |a: &Address| (a.pool.clone(), a.address, a.prefix, a.rest.is_some());
                let other = same(&entry.address) != same(&address);
                entry.renew(address);
                if other {
                    // As good as another object.
                    entry.rank = rank;
                    self.shown_as_other(slot);
                }
            }
            slot
        } else {
            let slot = self.addresses.insert(address, rank);
            if let Some(entry) = self.addresses.get_mut(slot) {
                entry.block = self.provider.shown(slot, &entry.address);
                let pool = entry.address.pool.clone();
                self.mark(Who::Pool(pool));
            }
            slot
        };
        self.mark(Who::Address(slot));
        let Some(entry) = self.addresses.get(slot) else { return };
        let claim = entry.claim();
        let owner = entry.address.owner.clone();
        // One that people made for others, in its name, is not what a bound claim looks for.
        let looked_for =
            |by: &Claim| claim == by.key && entry.address.key.name == *by.bound.as_ref().unwrap_or(&by.key.name);
        for key in [&claim, &entry.address.key] {
            let Some(claim) = self.claims.find(key) else { continue };
            self.dirty.push_back(Who::Claim(claim));
            let Some(known) = self.claims.get_mut(claim) else { continue };
            if known.so_far().exists > 0 {
                known.progress().exists = 0;
            }
            if owner.as_ref() == Some(&known.claim.uid) {
                // It is there: whatever was reserved for it has become its own.
                if known.so_far() != Progress::default() {
                    known.progress().unseen = None;
                    if looked_for(&known.claim) {
                        known.progress().missing = Missing::No;
                    }
                }
                self.provider.release(claim);
            }
        }
    }

    /// Where the API server lets people change it, an object may come to have another address.
    fn shown_as_other(&mut self, slot: u32) {
        self.rivals_may_go_on(slot);
        self.forget_duplicates(slot);
        self.provider.gone(slot);
        if let Some(entry) = self.addresses.get_mut(slot) {
            entry.block = self.provider.shown(slot, &entry.address);
            let pool = entry.address.pool.clone();
            self.mark(Who::Pool(pool));
        }
    }

    fn rivals_may_go_on(&mut self, slot: u32) {
        for rival in self.provider.rivals(slot) {
            if let Some(entry) = self.addresses.get(rival) {
                self.dirty.extend(self.claims.find(&entry.claim()).map(Who::Claim));
            }
            self.dirty.push_back(Who::Address(rival));
        }
    }

    fn address_gone(&mut self, slot: u32) {
        self.rivals_may_go_on(slot);
        self.forget_duplicates(slot);
        self.provider.gone(slot);
        let Some(entry) = self.addresses.remove(slot) else { return };
        if let Some(id) = entry.pending {
            self.writes.remove(&id);
            self.reads.remove(&id);
        }
        if let Some(claim) = self.claims.find(&entry.claim()) {
            if let Some(known) = self.claims.get_mut(claim)
                && entry.address.owner.as_ref() == Some(&known.claim.uid)
                && entry.fate == Fate::Stays
            {
                let number = entry.attempt(&known.claim.uid).map_or(known.claim.voided, |m| m.number);
                known.progress().before = entry.block;
                known.progress().lost = Some(number);
                // Its machine may have the address still: nobody else gets it before the claim has it again.
                if let Some(block) =
                    entry.block.filter(|_| known.claim.bound.is_some() && entry.address.conflict.is_none())
                {
                    self.provider.reserve_again(claim, &entry.address.pool, block);
                }
            }
            self.mark(Who::Claim(claim));
        }
        // Another object of the name, or a claim that waits for the name.
        if let Some(claim) = self.claims.find(&entry.address.key) {
            self.mark(Who::Claim(claim));
        }
        if entry.fate == (Fate::Goes { rest: true }) {
            self.report(Report::Released { address: entry.address.key.clone(), block: entry.block });
        }
        self.mark(Who::Pool(entry.address.pool));
    }

    fn pool_seen(&mut self, pool: Pool) {
        let reference = pool.reference.clone();
        let told = |p: &Pool| (p.uid.clone(), p.generation, p.paused, p.deleting);
        if self.pools.get(&reference).is_none_or(|known| told(&known.pool) != told(&pool)) {
            self.provider.pool(&pool);
            self.pools_changed = true;
            // What could not go on while the pool was paused or unknown.
            let concerned = self.addresses.slots().filter(|&s| {
                let concerns = |e: &Entry| e.address.pool == reference && (e.fate != Fate::Stays || pool.deleting);
                self.addresses.get(s).is_some_and(concerns)
            });
            self.dirty.extend(concerned.map(Who::Address));
        }
        match self.pools.get_mut(&reference) {
            Some(slot) if slot.pool.uid == pool.uid => slot.pool = pool,
            _ => {
                self.pools.insert(reference.clone(), PoolSlot::new(pool));
            }
        }
        self.mark(Who::Pool(reference));
    }

    fn pool_gone(&mut self, reference: &Arc<PoolRef>, uid: &Uid) {
        if self.pools.get(reference).is_some_and(|s| s.pool.uid == *uid) {
            self.pools.remove(reference);
            self.provider.pool_gone(reference);
            self.pools_changed = true;
        }
    }

    /// An object whose claim is not known: doubtful, until the claim is asked for.
    pub(super) fn doubt(&mut self, slot: u32) {
        let at = self.moment.now + DOUBT;
        if let Some(entry) = self.addresses.get_mut(slot) {
            entry.fate = Fate::Doubtful(at);
        }
        self.later(at, Who::Address(slot));
    }
}
