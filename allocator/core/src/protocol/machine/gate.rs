//! The gate: the checks that an object must pass before a claim is bound to it. `pass` ends in the write that binds.

use crate::names::Uid;
use crate::provider::{Provider, Until};

use super::super::action::{Report, Write};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Address, Attempt, Claim, Condition, Hold, Reason};
use super::super::registry::Entry;
use super::{Machine, Who};
use crate::work::Target;

impl Entry {
    pub(super) fn target(&self) -> Target {
        let address = &self.address;
        Target { key: address.key.clone(), uid: address.uid.clone(), version: address.version.clone() }
    }

    /// The attempt of this claim that made the object; None: the object was not made (or adopted) for this claim.
    pub(super) fn attempt(&self, claim: &Uid) -> Option<&Attempt> {
        self.address.attempt.as_ref().filter(|m| m.claim == *claim && self.is_of(claim))
    }

    /// Whether the object is this claim's: the object names the claim, or did so until somebody removed its owner.
    pub(super) fn is_of(&self, claim: &Uid) -> bool {
        self.claim_uid() == Some(claim)
    }

    /// Whether a claim may take over the object of an earlier claim of its name, and with it the address that its machine
    /// may be using.
    pub(super) fn inherits(&self, claim: &Claim) -> bool {
        let Address { key, pool, claim: of, conflict, rest, .. } = &*self.address;
        let same = *key == claim.key && *of == claim.key.name && *pool == claim.pool;
        same && conflict.is_none() && rest.is_none() && !planted(Flaw::RestoredIsReleased)
    }

    /// Whether the object has no owner, or has this claim as its owner or heir.
    pub(super) fn is_free_for(&self, claim: &Uid) -> bool {
        self.address.owner.as_ref().is_none_or(|owner| owner == claim || self.heir.as_ref() == Some(claim))
    }

    /// Whether the object is released with the claim. The garbage collector removes the owner reference of a claim that is
    /// deleted in the foreground, or whose dependents are orphaned: then only the claim's status names the object.
    pub(super) fn goes_with(&self, claim: &Claim) -> bool {
        let Address { owner, rest, claim: of, .. } = &*self.address;
        let bound = claim.is_bound_to(self.address.name()) && *of == claim.key.name;
        self.is_of(&claim.uid)
            || self.heir.as_ref() == Some(&claim.uid)
            || (bound && owner.is_none() && rest.is_none() && !planted(Flaw::OwnerlessStays))
    }

    /// Whether an object without owner names another claim than this one, which is bound to an object of its name. Either the
    /// object was moved with the claim, and has the earlier uid; or the watch has not shown yet that the claim is gone, and the
    /// object is the next claim's.
    pub(super) fn names_another(&self, claim: &Claim) -> bool {
        !self.is_of(&claim.uid) && self.heir.as_ref() != Some(&claim.uid) && self.claim_uid().is_some()
    }

    /// Whether a bind to the object may be under way, as far as the claim shows: the object was made or adopted for the claim
    /// as it is. A claim that is being deleted has another version than the one that such a bind needs.
    pub(super) fn may_be_bound(&self, claim: &Claim) -> bool {
        let of_it = |m: &Attempt| m.claim == claim.uid && m.number >= claim.voided;
        !claim.deleting && self.address.attempt.as_ref().is_some_and(of_it) && !planted(Flaw::OwnerlessGoesAtOnce)
    }

    /// Whether the object was declared void: nobody can bind a void object any more.
    pub(super) fn is_void(&self, claim: &Claim) -> bool {
        self.attempt(&claim.uid).is_some_and(|m| !m.adopted && m.number < claim.voided) && !planted(Flaw::VoidIsBound)
    }
}

impl<P: Provider> Machine<P> {
    /// Checks an object that is the claim's, or would become the claim's.
    pub(super) fn pass(&mut self, slot: u32, claim: &Claim, address: u32) {
        let Some(entry) = self.addresses.get(address) else { return };
        let name = entry.address.name().clone();
        let attempt = entry.attempt(&claim.uid).cloned();
        if entry.is_void(claim) {
            let (conflict, held) =
                (entry.address.conflict.is_some(), entry.address.deleting && !entry.address.finalizer);
            self.dispose(address, conflict);
            if held {
                // Nothing is left to do about the object, and the claim says what it waits for.
                self.work.mark(Who::Claim(slot));
            }
            return;
        }
        if attempt.as_ref().is_some_and(|m| !m.adopted && m.number > claim.voided) {
            // Somebody has taken the count off the claim, and an object of an earlier attempt may come late: none of them counts.
            // Or the claim's own event is under way: then this write finds another version, and has no effect.
            return self.void(slot, claim);
        }
        if entry.is_held_by_us_alone() && entry.may_be_bound(claim) {
            // It goes. A bind that is still under way must not meet it.
            return self.void(slot, claim);
        }
        if entry.address.pool != claim.pool {
            let message = format!(
                "IPAddress {name} exists, but is of {}: delete it, or make a claim of that pool",
                entry.address.pool
            );
            return self.stuck(slot, claim, message);
        }
        if entry.address.claim != claim.key.name || entry.address.rest.is_some() {
            let message = format!(
                "IPAddress {name} exists, but is not for this claim (claimRef {}): delete it, or make a claim of another name",
                entry.address.claim
            );
            return self.stuck(slot, claim, message);
        }
        let Some(block) = entry.block else {
            let message = format!("IPAddress {name} exists, but its address cannot be read: delete it");
            return self.stuck(slot, claim, message);
        };
        if self.provider.is_implausible(address) {
            let pool = &entry.address.pool;
            let message = format!(
                "IPAddress {name} has {block}, which {pool} cannot have handed out: delete it, or correct the pool"
            );
            return self.stuck(slot, claim, message);
        }
        let earlier = self.earlier(address);
        if let Some(&rival) = earlier.first() {
            if attempt.is_some_and(|m| !m.adopted) {
                return self.withdraw(slot, claim, address, &earlier);
            }
            // Somebody else made the object and may be using it: this allocator must not withdraw it.
            let message = self.of_two(address, rival, &claim.key.namespace);
            return self.stuck(slot, claim, message);
        }
        if let Some(heard) = entry.address.conflict.clone() {
            return self.conflict(slot, claim, address, block, &heard);
        }
        if self.claims.get(slot).is_some_and(|s| s.so_far().lost.is_some_and(|n| claim.voided <= n)) {
            return self.void(slot, claim);
        }
        let target = entry.target();
        let number = |m: &Attempt| m.number == claim.voided || planted(Flaw::VoidIsBound);
        let current = attempt.as_ref().is_some_and(number) && entry.address.finalizer && entry.address.owner.is_some();
        if !claim.finalizer {
            return self.add_finalizer(slot, Some(block));
        }
        if !current && !entry.address.deleting {
            let adopted = attempt.is_none_or(|m| m.adopted);
            let mark = Attempt { claim: claim.uid.clone(), number: claim.voided, adopted };
            return self.claim_write(slot, Write::Adopt(target, mark));
        }
        if !current {
            // Our finalizer may be all that holds it.
            self.work.mark(Who::Address(address));
            let message = format!("IPAddress {name} is being deleted: wait until it is gone, or see what holds it");
            return self.stuck(slot, claim, message);
        }
        if !self.is_compared(slot, address) {
            return;
        }
        if self.leave(slot) {
            // It may have been woken for another address.
            self.pass_on(&claim.pool);
        }
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: block.to_string() };
        self.tell_if_another(slot, claim, Some(block));
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Bind(target, name, condition));
        }
    }

    /// A claim cannot go on until people fix an object: the claim gives up its place in the line meanwhile.
    fn stuck(&mut self, slot: u32, claim: &Claim, message: String) {
        if self.leave(slot) {
            self.pass_on(&claim.pool);
        }
        self.give_up(slot);
        self.wait(slot, Until::PoolChanges);
        self.set_condition(slot, claim, Reason::AllocationFailed, message);
    }

    /// What to do about two objects that share an address, for the people of a namespace; empty: those of the whole cluster.
    pub(super) fn of_two(&self, address: u32, other: u32, namespace: &str) -> String {
        let (Some(mine), Some(other)) = (self.addresses.get(address), self.addresses.get(other)) else {
            return String::new();
        };
        let block = mine.block.map_or_else(String::new, |b| b.to_string());
        let ours = |place: &str| namespace.is_empty() || place.is_empty() || *place == *namespace;
        let told = |entry: &Entry, name: &str| match entry.address.own_key() {
            key if ours(&key.namespace) => format!("IPAddress {name}"),
            key => key.told_in(namespace, "IPAddress"),
        };
        let (pool, others) = (&mine.address.pool, &other.address.pool);
        let apart = match (pool == others, ours(&pool.namespace) && ours(&others.namespace)) {
            (true, _) => String::new(),
            (_, true) => {
                format!("; if {pool} and {others} are isolated from each other, give each a network of its own")
            }
            (_, false) => "; if their pools are isolated from each other, give each a network of its own".to_owned(),
        };
        format!(
            "{} has {block}, which {} has too: delete one of them{apart}",
            told(mine, mine.address.name()),
            told(other, &other.address.words())
        )
    }

    /// The objects that share an address and count as earlier: they were shown before this object or in the same list,
    /// or they are bound already.
    pub(super) fn earlier(&self, address: u32) -> Vec<u32> {
        let Some(entry) = self.addresses.get(address) else { return Vec::new() };
        let mut rivals = self.provider.rivals(address);
        rivals.retain(|&r| {
            self.addresses.get(r).is_some_and(|rival| {
                let resting_of_it = rival.address.rest.as_ref().is_some_and(|rest| rest.of == entry.address.uid);
                // Two kinds of objects have no common order: each counts as earlier than the other.
                let apart = rival.address.key.claim_kind() != entry.address.key.claim_kind();
                let earlier = rival.rank < entry.rank
                    || (rival.rank == entry.rank && !planted(Flaw::ListCountsAsLater))
                    || (apart && !planted(Flaw::KindsInOrder));
                let bound = self.is_bound(rival);
                let counts = !planted(Flaw::UnboundDoNotCount) || bound;
                (earlier || bound) && !resting_of_it && counts
            })
        });
        rivals
    }

    /// An earlier object has the address: this object goes. Of two objects from one list, removing one is enough.
    fn withdraw(&mut self, slot: u32, claim: &Claim, address: u32, earlier: &[u32]) {
        let Some(entry) = self.addresses.get(address) else { return };
        if earlier.iter().all(|&rival| self.will_withdraw(rival, entry)) {
            return self.look_again(slot);
        }
        self.report(Report::Withdrawn { claim: claim.key.clone(), block: entry.block });
        if planted(Flaw::NoVoid) {
            return self.dispose(address, false);
        }
        self.void(slot, claim);
    }

    /// Whether an object's claim is bound to the object, as far as the watch has shown.
    pub(super) fn is_bound(&self, entry: &Entry) -> bool {
        let claim = self.claims.find(&entry.claim()).and_then(|s| self.claims.get(s));
        claim.is_some_and(|s| s.claim.is_bound_to(entry.address.name()) && entry.is_free_for(&s.claim.uid))
    }

    /// Whether the same rule is about to withdraw a rival: then this object may wait.
    fn will_withdraw(&self, rival: u32, than: &Entry) -> bool {
        let Some(entry) = self.addresses.get(rival) else { return true };
        let claim = self.claims.find(&entry.claim()).and_then(|s| self.claims.get(s));
        entry.rank == than.rank
            && entry.address.uid > than.address.uid
            && claim.is_some_and(|known| {
                let c = &known.claim;
                let held = c.hold != Hold::None || self.provider.describe(&c.pool).is_none_or(|d| d.paused);
                let failing = known.so_far().retry.failures > 2;
                let mark = entry.attempt(&c.uid);
                let attempt = mark.is_some_and(|m| !m.adopted && m.number == c.voided);
                // Otherwise its claim is stuck before its rivals are looked at.
                let fits = entry.address.key == c.key && entry.address.pool == c.pool;
                fits && c.bound.is_none() && !c.deleting && !held && !failing && attempt
            })
    }
}
