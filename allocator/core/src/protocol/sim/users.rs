//! The actions of people and of other programs.

use std::net::IpAddr;

use crate::names::{ClaimKind, Key, Uid, Version};
use crate::protocol::{Address, Claim, Hold, Links, Paused};
use crate::retained_meta::RetainedMeta;

use super::store::{named_after, place};
use super::world::{OUTSIDE, World, plan_of};

impl World {
    fn name(&mut self) -> Key {
        let namespace = ["ns", "ns", "ns", "ns", "t1", "t2"][self.dice.pick(6)];
        let name = format!("c{}", self.dice.roll(if namespace == "ns" { 7 } else { 2 }));
        if namespace == "ns" && self.dice.one_in(3) {
            Key::of_metal3(namespace, &name)
        } else {
            Key::new(namespace, &name)
        }
    }

    /// A pool that such a claim may name.
    fn some_pool(&mut self, key: &Key) -> usize {
        if key.claim_kind() == ClaimKind::Metal3 {
            return 1;
        }
        let namespace = &*key.namespace;
        let of_it = |pool: &&usize| matches!(&*self.pools[**pool].namespace, one if one.is_empty() || one == namespace);
        let all: Vec<usize> = (0..self.pools.len()).collect();
        let all: Vec<usize> = all.iter().filter(of_it).copied().collect();
        all[self.dice.pick(all.len())]
    }

    /// An address in a pool, or close to the pool.
    fn some_address(&mut self, pool: usize) -> std::net::IpAddr {
        let text = if (3..=4).contains(&pool) {
            format!("fd00::{:x}", self.dice.roll(4) * 4)
        } else if pool == OUTSIDE {
            format!("10.0.9.{}", 1 + self.dice.roll(6))
        } else {
            format!("10.0.0.{}", 1 + self.dice.roll(8))
        };
        text.parse().unwrap()
    }

    /// Creates, changes or deletes a claim.
    pub(super) fn claimants(&mut self) {
        let key = self.name();
        let Some(claim) = self.store.claims.get(&key).cloned() else {
            let chosen = self.some_pool(&key);
            let pool = self.pools[chosen].clone();
            let requested = self.dice.one_in(6).then(|| self.some_address(chosen).to_string().into());
            let claim = Claim {
                key,
                uid: self.store.uid(),
                version: Version("".into()),
                created: self.store.wall,
                pool,
                deleting: false,
                finalizer: self.dice.one_in(4),
                others: self.dice.one_in(3),
                bound: None,
                voided: 0,
                had: None,
                requested,
                hold: Hold::None,
                condition: None,
                retained: RetainedMeta::default(),
            };
            self.trace.push(format!("create {} of {} {:?}", claim.key, claim.pool, claim.requested));
            self.store.put_claim(claim);
            return;
        };
        let other = self.some_pool(&claim.key);
        let change = match self.dice.roll(9) {
            0 if !claim.deleting && claim.bound.is_some() => {
                // In the foreground: the garbage collector removes the claim's owner reference.
                let own = self.store.own(&claim).filter(|object| object.owner.is_some()).cloned();
                if let Some(object) = own {
                    self.store.ownerless.insert(object.uid.clone(), claim.uid.clone());
                    self.store.put_address(Address { owner: None, ..object });
                }
                Claim { deleting: true, ..claim }
            }
            0..=2 if !claim.deleting => Claim { deleting: true, ..claim },
            // What an outside pool has given is not given back by an edit that Cluster API forbids.
            8 if claim.bound.is_none()
                && !claim.deleting
                && ![&claim.pool, &self.pools[other]].iter().any(|p| p.kind.is_remote()) =>
            {
                self.store.moved.remove(&claim.key);
                Claim { pool: self.pools[other].clone(), ..claim }
            }
            3 | 4 if claim.deleting && claim.others => Claim { others: false, ..claim },
            5 if claim.hold == Hold::None => Claim { hold: Hold::Paused, ..claim },
            6 if claim.hold == Hold::None => Claim { hold: Hold::NoCluster("x".into()), ..claim },
            7 if claim.hold != Hold::None => Claim { hold: Hold::None, ..claim },
            _ => return,
        };
        self.trace.push(format!("change {}: deleting {} hold {:?}", change.key, change.deleting, change.hold));
        self.store.put_claim(change);
    }

    /// Edits, pauses, deletes or re-creates a pool.
    pub(super) fn pool_owners(&mut self) {
        let i = self.dice.pick(self.pools.len());
        let Some(mut pool) = self.store.pools.get(&*self.pools[i]).cloned() else {
            self.trace.push(format!("make pool p{i}"));
            return self.make_pool(i);
        };
        pool.generation += 1;
        if self.dice.one_in(8) {
            pool.deleting = true;
            // Somebody may remove the finalizer.
            pool.finalizer &= !self.dice.one_in(4);
        } else {
            pool.plan = plan_of(i, self.dice.roll(4));
            pool.paused = self.dice.one_in(8).then_some(Paused::Annotation);
        }
        let plan = pool.plan.as_ref().ok().map(|p| (&p.usable, p.quarantine));
        self.trace.push(format!("pool p{i}: {plan:?} paused {} deleting {}", pool.paused.is_some(), pool.deleting));
        self.store.put_pool(pool);
    }

    /// Changes an object in a way that people should not, or as a node that hears another host.
    pub(super) fn meddlers(&mut self) {
        let kind = self.dice.roll(10);
        if kind == 0 {
            return self.make_by_hand();
        }
        if kind == 1 {
            // An object of another provider takes the name, or frees it again.
            let key = self.name();
            if key.claim_kind() == ClaimKind::ClusterApi
                && !self.store.foreign.remove(&key)
                && !self.store.addresses.contains_key(&key)
            {
                self.trace.push(format!("foreign {key}"));
                self.store.foreign.insert(key);
            }
            return;
        }
        let objects = self.store.addresses.len();
        if objects == 0 {
            return;
        }
        let chosen = self.dice.pick(objects);
        let Some(object) = self.store.addresses.values().nth(chosen).cloned() else { return };
        self.trace.push(format!("meddle {kind} with {} {}", object.key, object.uid));
        self.store.moved.remove(&object.key);
        match kind {
            2 | 3 => {
                self.store.put_address(Address { deleting: true, ..object });
            }
            4 if object.rest.is_none() => {
                // By force.
                self.store.forced.insert(object.uid.clone());
                let claim = self.store.claims.get(&object.key).cloned();
                if let Some(claim) = &claim
                    && self.store.own(claim).is_some_and(|own| own.uid == object.uid)
                    && let Some(block) = self.store.block(&object)
                {
                    self.store.lost.insert(claim.uid.clone(), block);
                }
                self.store.forced.extend(claim.map(|c| c.uid));
                self.store.held.remove(&object.uid);
                self.store.put_address(Address { deleting: true, finalizer: false, ..object });
            }
            5 if object.rest.is_none() => {
                self.store.held.insert(object.uid);
            }
            6 => self.let_go(&object.uid),
            7 => {
                self.store.put_address(Address { owner: None, ..object });
            }
            _ if object.owner.is_some() && object.conflict.is_none() => {
                self.store.put_address(Address { conflict: Some("node n1".into()), ..object });
            }
            _ if object.conflict.is_some() => {
                self.store.put_address(Address { conflict: None, ..object });
            }
            _ => {}
        }
    }

    /// Removes somebody else's finalizer from an object.
    fn let_go(&mut self, uid: &Uid) {
        if self.store.held.remove(uid)
            && let Some(object) = self.store.addresses.values().find(|a| a.uid == *uid).cloned()
        {
            self.store.put_address(object);
        }
    }

    /// Creates an object by hand: for an existing, a future or no claim; of the claim's pool or another; with a free, a taken
    /// or an invalid address.
    fn make_by_hand(&mut self) {
        let named = self.dice.roll(4) > 0;
        let other = self.dice.one_in(8);
        let key = if named { self.name() } else { Key::new("ns", &format!("hand{}", self.dice.roll(3))) };
        let claim = self.store.claims.get(&key);
        let of_metal3 = key.claim_kind() == ClaimKind::Metal3;
        let taken = self.store.named(&key).next().is_some() || self.store.foreign.contains(&key);
        // A bound claim gets no object by hand: that would bind the claim to the object without the allocator.
        if taken || claim.is_some_and(|c| c.bound.is_some()) {
            return;
        }
        let wanted = claim.map(|c| c.pool.clone());
        let chosen = match wanted {
            Some(pool) if self.dice.roll(4) > 0 => self.pools.iter().position(|p| *p == pool).unwrap(),
            _ => self.some_pool(&key),
        };
        let absurd = self.dice.one_in(6);
        let of_prefixes = self.pools[chosen].kind.of_prefixes();
        // Some cover everything.
        let prefix = if of_prefixes && self.dice.one_in(4) { 0 } else { 24 };
        let prefix = if of_prefixes && prefix > 0 { 126 } else { prefix };
        let address = (!absurd || of_metal3).then(|| self.some_address(chosen));
        let object = Address {
            claim: if other && !of_metal3 { "c9".into() } else { key.name.clone() },
            object: address.filter(|_| of_metal3).map(named_after),
            key,
            uid: self.store.uid(),
            version: Version("".into()),
            pool: self.pools[chosen].clone(),
            address,
            prefix,
            owner: None,
            deleting: false,
            finalizer: false,
            attempt: None,
            rest: None,
            conflict: None,
            holder: None,
            hints: None,
            links: Links::default(),
        };
        if self.store.addresses.contains_key(&place(&object)) {
            return;
        }
        self.trace.push(format!("by hand {object:?}"));
        self.store.put_address(object);
    }

    /// `clusterctl move`: new uids, no status, corrected owners, no writes under way.
    pub(super) fn move_all(&mut self) {
        let restored = self.dice.one_in(3);
        self.trace.push(format!("move, restored {restored}"));
        for writer in &mut self.writers {
            writer.begin_anew();
        }
        let claims: Vec<Claim> = self.store.claims.values().cloned().collect();
        let objects: Vec<Address> = self.store.addresses.values().cloned().collect();
        let pools: Vec<_> = self.store.pools.values().cloned().collect();
        self.store.claims.clear();
        self.store.addresses.clear();
        self.store.pools.clear();
        self.store.held.clear();
        self.store.moved.clear();
        self.store.logs = Default::default();
        for pool in pools {
            let uid = self.store.uid();
            self.store.put_pool(crate::protocol::Pool { uid, deleting: false, ..pool });
        }
        for claim in claims.into_iter().filter(|c| !c.deleting) {
            let uid = self.store.uid();
            let own = objects.iter().filter(|a| a.owner.as_ref() == Some(&claim.uid));
            // Of two that are named after their addresses, a claim without status does not say which it had.
            let bound = claim.bound.as_ref().filter(|_| {
                claim.key.claim_kind() == ClaimKind::ClusterApi
                    || objects.iter().filter(|a| a.key == claim.key).count() == 1
            });
            // One of another pool came late, after the claim was edited.
            let fits = |a: &&Address| a.key == claim.key && a.pool == claim.pool && a.conflict.is_none();
            let has = bound.and_then(|_| own.clone().find(fits));
            let rivals = |ip: IpAddr| objects.iter().filter(|a| a.address == Some(ip)).count();
            if let Some(ip) = has.and_then(|a| a.address).filter(|ip| rivals(*ip) == 1) {
                self.store.moved.insert(claim.key.clone(), (uid.clone(), claim.pool.clone(), ip));
            }
            for object in own.cloned().collect::<Vec<_>>() {
                let address = self.store.uid();
                if self.store.old_duplicates.contains(&object.uid) {
                    self.store.old_duplicates.insert(address.clone());
                }
                // A restore from a backup leaves the references as they were.
                let owner = Some(if restored { claim.uid.clone() } else { uid.clone() });
                self.store.put_address(Address { uid: address, owner, deleting: false, ..object });
            }
            // Not every tool brings annotations back.
            let had = claim.had.filter(|_| uid.0.as_bytes()[0].is_multiple_of(2));
            self.store.put_claim(Claim { uid, bound: None, condition: None, had, ..claim });
        }
        for object in objects.into_iter().filter(|a| a.owner.is_none()) {
            let uid = self.store.uid();
            self.store.put_address(Address { uid, deleting: false, ..object });
        }
    }

    /// At the end people repair what only they can repair.
    pub(super) fn make_good(&mut self) {
        for i in 0..self.pools.len() {
            match self.store.pools.get(&*self.pools[i]).cloned() {
                None => self.make_pool(i),
                // Without its spec, an outside system cannot be asked.
                Some(mut pool) if i == OUTSIDE && pool.plan.is_err() => {
                    pool.plan = plan_of(i, 0);
                    pool.paused = None;
                    pool.generation += 1;
                    self.store.put_pool(pool);
                }
                Some(mut pool) if pool.paused.is_some() => {
                    pool.paused = None;
                    pool.generation += 1;
                    self.store.put_pool(pool);
                }
                Some(_) => {}
            }
        }
        let claims: Vec<_> = self.store.claims.values().cloned().collect();
        for claim in claims.into_iter().filter(|c| c.hold == Hold::Paused) {
            self.store.put_claim(Claim { hold: Hold::None, ..claim });
        }
        for uid in self.store.held.clone() {
            if self.dice.one_in(2) {
                self.let_go(&uid);
            }
        }
        if self.dice.one_in(2) {
            self.store.foreign.clear();
        }
    }
}
