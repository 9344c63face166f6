//! The checks at the end of a run, when nothing changes any more.

use crate::block::Block;
use crate::names::{PoolRef, Uid};
use crate::pool::{Plan, Standing};
use crate::protocol::{Address, Claim, Condition, Hold, Reason};

use super::store::share;
use super::world::World;

/// Where the second entry of a pool with two begins.
const ENTRY: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 0, 0, 6);

impl World {
    /// Nothing leaked, and each claim has an address or a condition that says why not.
    pub(super) fn final_check(&self) -> Result<(), String> {
        // By now the damage done by force is repaired as well, except on claims that the allocator must leave alone.
        let spared = |c: &Claim| c.hold != Hold::None || c.deleting && self.store.forced.contains(&c.uid);
        self.store.check_but(spared)?;
        for claim in self.store.claims.values() {
            let result = if claim.deleting {
                self.check_deleting(claim)
            } else if claim.bound.is_some() {
                self.check_bound(claim)
            } else {
                self.check_unbound(claim)
            };
            result.map_err(|why| format!("{}: {why}; {:?}", claim.key, claim.condition))?;
        }
        for (key, (uid, pool, ip)) in &self.store.moved {
            let same = self.store.claims.get(key).filter(|c| c.uid == *uid && c.pool == *pool);
            let has = same.and_then(|c| self.store.own(c)).and_then(|own| own.address);
            if has.is_some_and(|has| has != *ip) {
                return Err(format!("{key} was moved with {ip}, and has {has:?}"));
            }
        }
        self.store.check_outside()?;
        for address in self.store.addresses.values() {
            // What was made here has the prefix of its entry.
            let made = address.attempt.as_ref().is_some_and(|mark| !mark.adopted) && address.pool == self.pools[1];
            let of_entry = address.address.map(|ip| if Block::host(ip) < Block::host(ENTRY.into()) { 24 } else { 25 });
            if made && of_entry.is_some_and(|prefix| address.prefix != prefix) {
                return Err(format!("{} has the prefix of another entry: {address:?}", address.key));
            }
            let resting = address.rest.as_ref().is_some_and(|r| r.until + 1 >= self.store.wall);
            let ended = |claim: &Uid| !self.store.claims.values().any(|c| c.uid == *claim);
            let released = self.store.ownerless.get(&address.uid).is_some_and(ended);
            let kept = |c: &Claim| {
                let held = c.key == address.key && c.hold != Hold::None;
                held || self.store.own(c).is_some_and(|own| own.uid == address.uid)
            };
            let held_by_us = address.deleting && address.finalizer && !self.store.claims.values().any(kept);
            let by_hand = address.rest.is_none() && address.owner.is_none() && !released && !held_by_us;
            let held = self.store.held.contains(&address.uid);
            // A claim keeps its address while its machine exists.
            let owned = self.store.claims.values().any(|c| {
                address.owner.as_ref() == Some(&c.uid)
                    && (c.bound.is_none() || self.store.own(c).is_some_and(|a| a.uid == address.uid))
            });
            // After a restore the object belongs to the claim of its name, which has a condition if it cannot have it.
            // One that is named after its address may be a second one, which must go once it is void.
            let void = |c: &Claim| {
                address.attempt.as_ref().is_some_and(|m| m.claim == c.uid && m.number < c.voided && !m.adopted)
            };
            let own = |c: &Claim| self.store.own(c).is_some_and(|own| own.uid != address.uid);
            let second =
                |c: &Claim| address.object.is_some() && !c.deleting && c.hold == Hold::None && own(c) && void(c);
            let inherited = self.store.claims.get(&address.key).is_some_and(|c| !second(c));
            if !resting && !owned && !by_hand && !held && !inherited {
                return Err(format!("{} is leaked: {address:?}", address.key));
            }
        }
        Ok(())
    }

    fn check_deleting(&self, claim: &Claim) -> Result<(), String> {
        let of = |a: &Address| a.owner.clone().or_else(|| a.attempt.clone().map(|m| m.claim));
        let bound = self.store.own(claim).map(|a| &a.uid);
        let is_its = |a: &&Address| of(a).as_ref() == Some(&claim.uid) || bound == Some(&a.uid) || a.key == claim.key;
        let mut own = self.store.addresses.values().filter(is_its);
        let held = own.any(|a| self.store.held.contains(&a.uid));
        if held && !claim.others && claim.condition.as_ref().is_none_or(|c| c.ready) {
            return Err("waits for somebody else's finalizer and does not say so".into());
        }
        if claim.others || held { Ok(()) } else { Err("is not released".into()) }
    }

    fn check_bound(&self, claim: &Claim) -> Result<(), String> {
        if claim.hold != Hold::None {
            return Ok(());
        }
        let Some(object) = self.store.own(claim) else { return Err("is bound, and its object is gone".into()) };
        let Some(condition) = &claim.condition else { return Err("is bound and has no condition".into()) };
        let outside = claim.pool.kind.is_remote();
        let asked = outside || claim.requested.is_some() || object.attempt.as_ref().is_none_or(|m| m.adopted);
        if object.conflict.is_some() && !asked {
            return Err("keeps an address that somebody else has on the wire".into());
        }
        if condition.ready != object.conflict.is_none() {
            return Err("its condition does not say how it stands".into());
        }
        if condition.ready && !outside && claim.had.as_deref() != self.store.block(object).as_ref() {
            return Err("its metadata does not say what it has".into());
        }
        Ok(())
    }

    fn check_unbound(&self, claim: &Claim) -> Result<(), String> {
        let Some(condition) = &claim.condition else { return Err("has no condition".into()) };
        if condition.ready {
            return Err("is ready without an address".into());
        }
        if condition.message.is_empty() {
            return Err("does not say what to do".into());
        }
        self.is_true(claim, condition)
    }

    /// Whether a condition is true.
    fn is_true(&self, claim: &Claim, condition: &Condition) -> Result<(), String> {
        let pool = self.store.pools.get(&*claim.pool);
        let usable = pool.filter(|p| !p.deleting).and_then(|p| p.plan.as_ref().ok());
        let outside = claim.pool.kind.is_remote();
        let so = match condition.reason {
            Reason::PoolExhausted if outside => self.store.refuses_rightly(claim, true),
            Reason::AllocationFailed if outside && self.store.refuses_rightly(claim, false) => true,
            Reason::PoolNotReady => usable.is_none_or(|plan| {
                // It waits for the address that it had.
                claim.had.as_deref().is_some_and(|had| plan.standing(*had) != Standing::Usable)
            }),
            Reason::PoolExhausted => usable.is_some_and(|plan| !self.anything_free(&claim.pool, plan)),
            Reason::AllocationFailed => {
                let in_the_way =
                    self.store.named(&claim.key).next().is_some() || self.store.foreign.contains(&claim.key);
                in_the_way || claim.hold != Hold::None || usable.is_some_and(|plan| self.asks_in_vain(claim, plan))
            }
            Reason::AddressAllocated | Reason::Other => false,
        };
        if so { Ok(()) } else { Err("its condition is not true".into()) }
    }

    /// Whether somebody has a block, as a pool sees it.
    fn has(&self, pool: &PoolRef, plan: &Plan, block: Block) -> bool {
        let has = |a: &Address| {
            let its = self.store.pools.get(&*a.pool).and_then(|p| p.plan.as_ref().ok());
            let same = its.is_none_or(|p| share(&p.network, &plan.network));
            // A prefix that no pool can have handed out holds up the pools of its namespace, and nobody else's.
            let counts = if a.prefix == 0 { *a.key.namespace == *pool.namespace } else { same };
            counts && self.store.block(a).is_some_and(|b| b.overlaps(block))
        };
        // An address that a claim lost by force stays reserved until the claim can get it again, for example while it is paused.
        let kept = |c: &Claim| {
            let had = c.condition.as_ref().filter(|one| one.ready).and_then(|one| Block::read(&one.message));
            let lost = self.store.lost.get(&c.uid).copied();
            let kept = had.into_iter().chain(lost).any(|b| b.overlaps(block));
            c.bound.is_some() && self.store.own(c).is_none() && kept
        };
        // A claim of metal3's can have two objects. While somebody's finalizer holds one, the claim can have no other; the address of
        // one that went stays reserved meanwhile, because the machine of the claim, or of the earlier one whose name it has, may
        // be using it. That somebody else would get it is worse than that others wait: the claim says what it waits for.
        let waits = |c: &Claim| {
            let held = |a: &Address| a.deleting && !a.finalizer && self.store.held.contains(&a.uid);
            let went = self.store.went.get(&c.uid).is_some_and(|all| all.iter().any(|b| b.overlaps(block)));
            c.bound.is_none() && !c.deleting && went && self.store.named(&c.key).any(held)
        };
        self.store.addresses.values().any(has) || self.store.claims.values().any(|c| kept(c) || waits(c))
    }

    fn anything_free(&self, pool: &PoolRef, plan: &Plan) -> bool {
        plan.usable.iter().flat_map(|(f, l)| f..=l).any(|unit| !self.has(pool, plan, plan.block(unit)))
    }

    fn asks_in_vain(&self, claim: &Claim, plan: &Plan) -> bool {
        let Some(block) = claim.requested.as_deref().and_then(|text| plan.unit_of(text).ok()) else {
            return claim.requested.is_some();
        };
        plan.standing(block) != Standing::Usable || self.has(&claim.pool, plan, block)
    }
}
