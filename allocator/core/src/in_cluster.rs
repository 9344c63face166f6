//! Pools whose addresses are listed in the cluster: this provider asks no outside system.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::book::{Book, Freed, Holder, PoolId};
use crate::few::{NAMED, few};
use crate::names::{Key, PoolRef};
use crate::pool::{Plan, SpecError, Standing};
use crate::protocol::flaws::{Flaw, planted};
use crate::protocol::{Address, Pool, PoolStatus, Reason};
use crate::provider::{Ask, Before, Description, HeldBy, Offer, Provider, Refusal, Told, Until, Woken};

/// The book, and the fields of the pools' objects that are not in their plans.
#[derive(Debug, Default)]
pub struct InCluster {
    book: Book,
    facts: HashMap<PoolId, Facts>,
    woken: Vec<Woken>,
    /// How often an object was shown with another address, of the pools whose status lists them.
    holders: HashMap<PoolId, u64>,
}

#[derive(Debug)]
struct Facts {
    paused: bool,
    deleting: bool,
    errors: Vec<SpecError>,
    /// Rest times after a release and after a conflict; while the spec cannot be read, the previous times apply.
    quarantines: (Duration, Duration),
}

impl InCluster {
    /// The book, read-only.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.book
    }

    fn wake(&mut self, freed: Vec<Freed>) {
        for Freed { pool, block } in freed {
            if let Some(reference) = self.book.reference(pool) {
                self.woken.push(Woken::Freed(reference.clone(), block));
            }
        }
    }

    /// The pools that have addresses in common with a pool, and what follows; empty: none.
    fn overlapping(&self, pool: PoolId) -> String {
        let (shared, apart) = self.book.overlapping_pools(pool);
        let mut lines = Vec::new();
        if !shared.is_empty() {
            lines.push(format!(
                "it has addresses in common with {}: what one uses, the others do not hand out; if they are isolated from each other, give each a network of its own",
                self.names(self.namespace(pool), shared)
            ));
        }
        if !apart.is_empty() {
            lines.push(format!(
                "{} of it; each may hand them out, so one address may be in use twice; if they are not isolated from each other, give them one network, or start the allocator with --one-network=on",
                match apart.len() {
                    1 => "1 pool of another namespace has addresses".to_owned(),
                    more => format!("{more} pools of other namespaces have addresses"),
                }
            ));
        }
        lines.join(". ")
    }

    /// The namespace of a pool; empty: none.
    fn namespace(&self, pool: PoolId) -> &str {
        self.book.reference(pool).map_or("", |pool| &*pool.namespace)
    }

    /// The names of pools, the first few of many: a message must not grow with the cluster. `namespace`: that of the object which
    /// tells them; it names no pool of another namespace.
    fn names(&self, namespace: &str, pools: Vec<PoolId>) -> String {
        let mut all: Vec<_> = pools.into_iter().filter_map(|pool| self.book.reference(pool)).collect();
        // Every allocator uses this order: otherwise two allocators would overwrite each other for ever.
        all.sort_unstable();
        let before = all.len();
        all.retain(|one| namespace.is_empty() || one.namespace.is_empty() || *one.namespace == *namespace);
        let elsewhere = match before - all.len() {
            0 => None,
            1 => Some("1 pool of another namespace".to_owned()),
            more => Some(format!("{more} pools of other namespaces")),
        };
        let more = if all.len() > NAMED { " and others" } else { "" };
        let name = |one: &&Arc<PoolRef>| match &*one.namespace {
            "" => format!("{} {}", one.kind.name(), one.name),
            namespace => format!("{} {namespace}/{}", one.kind.name(), one.name),
        };
        let names: Vec<String> = all.iter().take(NAMED).map(name).collect();
        let names = Some(names.join(", ") + more).filter(|names| !names.is_empty());
        names.into_iter().chain(elsewhere).collect::<Vec<_>>().join(", and ")
    }

    /// Whether a particular required unit is available.
    fn particular(&self, pool: PoolId, plan: &Plan, block: Block, what: &str, own: bool) -> Result<Block, Refusal> {
        let standing = plan.standing(block);
        if standing != Standing::Usable {
            let message = format!("{what} {block} is {}: ask for another, or change the pool", standing.words());
            return Err(failed(message, Until::PoolChanges));
        }
        let holders = self.book.holders(pool, block).into_iter().map(|(_, h)| h);
        let held_by = match holders.filter(|h| !(own && *h == Holder::Kept(pool.0))).min() {
            None => return Ok(block),
            Some(Holder::Kept(_)) => {
                let message = format!("{what} {block} is kept for another claim (preAllocations): ask for another");
                return Err(failed(message, Until::PoolChanges));
            }
            Some(Holder::Object(slot)) => HeldBy::Object(slot),
            Some(Holder::Reserved(slot)) => HeldBy::Claim(slot),
        };
        let message = format!("{what} {block}");
        Err(Refusal { held_by: Some(held_by), ..failed(message, Until::Free(block)) })
    }

    /// Why a claim waits for the block that it had: its pool does not have the block now, and nobody else does. After a restore
    /// the pool may get it later, and with any other address the claim would lose it for good.
    fn not_yet_there(&self, pool: PoolId, plan: &Plan, before: Before, ask: &Ask<'_>) -> Option<Refusal> {
        let Before { block, recorded, .. } = before;
        let standing = plan.standing(block);
        if !recorded || standing == Standing::Usable || !self.book.holders(pool, block).is_empty() {
            return None;
        }
        let message = format!(
            "the claim had {block}, which is {}: change {}, and the claim gets it again; or take the annotation mooring.dev/address off the claim, and it gets any other",
            standing.words(),
            ask.pool
        );
        Some(Refusal { reason: Reason::PoolNotReady, message, until: Until::Free(block), held_by: None })
    }

    /// The unit that a plan keeps for a claim.
    fn kept(plan: &Plan, claim: &Key) -> Option<Block> {
        for_claim(&plan.kept, claim).copied()
    }

    /// Whether a pool serves a claim at all.
    pub(crate) fn admits(&mut self, ask: &Ask<'_>) -> Result<PoolId, Refusal> {
        let pool = self.book.pool(ask.pool);
        let Some(facts) = self.facts.get(&pool) else {
            return Err(not_ready(format!("{} does not exist: create it", ask.pool)));
        };
        if facts.deleting {
            return Err(not_ready(format!("{} is being deleted: claim from another pool", ask.pool)));
        }
        let Some(plan) = self.book.plan(pool) else {
            return Err(not_ready(format!("{} cannot be used: {}", ask.pool, few(&facts.errors))));
        };
        if plan.allowed_namespaces.as_ref().is_some_and(|allowed| !allowed.contains(&*ask.claim.namespace)) {
            let message = format!(
                "{} does not serve namespace {}: add it to allowedNamespaces, or claim from another pool",
                ask.pool, ask.claim.namespace
            );
            return Err(failed(message, Until::PoolChanges));
        }
        Ok(pool)
    }

    /// Reserves for a claim the block that an outside system has given it.
    pub(crate) fn reserve_given(&mut self, ask: &Ask<'_>, block: Block) -> Result<(), Refusal> {
        let pool = self.book.pool(ask.pool);
        let mine = Holder::Reserved(ask.slot);
        let others = self.book.holders(pool, block).into_iter().map(|(_, holder)| holder);
        let message = format!("{} gave {block}, which", ask.pool);
        let held_by = match others.filter(|holder| *holder != mine && !planted(Flaw::LiesAreBelieved)).min() {
            None => {
                if self.book.block(mine) != Some(block) {
                    let freed = self.book.vacate(mine);
                    self.wake(freed);
                    self.book.occupy(mine, pool, Some(block));
                }
                return Ok(());
            }
            Some(Holder::Kept(_)) => {
                let message = format!(
                    "{message} a pool of this cluster keeps for a claim (preAllocations): take it out of one of them"
                );
                return Err(failed(message, Until::PoolChanges));
            }
            Some(Holder::Object(slot)) => HeldBy::Object(slot),
            Some(Holder::Reserved(slot)) => HeldBy::Claim(slot),
        };
        Err(Refusal { held_by: Some(held_by), ..failed(message, Until::Free(block)) })
    }

    /// Whether nobody but this claim has a block, as a pool sees it.
    pub(crate) fn is_free(&self, slot: u32, pool: &Arc<PoolRef>, block: Block) -> bool {
        let holders = self.book.find(pool).map(|pool| self.book.holders(pool, block)).unwrap_or_default();
        holders.into_iter().all(|(_, holder)| holder == Holder::Reserved(slot))
    }

    /// Chooses a unit and reserves it.
    fn reserve(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal> {
        let pool = self.admits(ask)?;
        let Some(plan) = self.book.plan(pool) else { return Err(not_ready(format!("{} cannot be used", ask.pool))) };
        let mine = Holder::Reserved(ask.slot);
        if let Some(block) = self.book.block(mine) {
            // Not if the claim now asks for another unit, or if another claim was quicker.
            let asked = ask.requested.filter(|r| !r.is_empty()).map(|text| plan.unit_of(text).ok());
            let wanted = asked.or_else(|| Self::kept(plan, ask.claim).map(Some));
            let taken = self.book.holders(pool, block).iter().any(|(_, h)| matches!(h, Holder::Object(_)));
            let misplaced = for_claim(&plan.misplaced, ask.claim).is_some();
            if plan.covers(block) && !taken && !misplaced && wanted.is_none_or(|w| w == Some(block)) {
                return Ok(offer(plan, block));
            }
            let freed = self.book.vacate(mine);
            self.wake(freed);
        }
        let Some(plan) = self.book.plan(pool) else { return Err(not_ready(format!("{} cannot be used", ask.pool))) };
        let block = self.choose(pool, plan, ask)?;
        let offer = offer(plan, block);
        self.book.occupy(mine, pool, Some(block));
        Ok(offer)
    }

    /// The pools whose claims may have what a pool lacks, for the people of a claim's namespace; empty: none.
    fn whose(&self, pool: PoolId, ask: &Ask<'_>) -> String {
        let (shared, _) = self.book.overlapping_pools(pool);
        if shared.is_empty() {
            return String::new();
        }
        format!(
            ". It has addresses in common with {}, and claims of the one leave none for the other (condition Overlapping of {})",
            self.names(&ask.claim.namespace, shared),
            ask.pool
        )
    }

    fn choose(&self, pool: PoolId, plan: &Plan, ask: &Ask<'_>) -> Result<Block, Refusal> {
        if let Some(wrong) = for_claim(&plan.misplaced, ask.claim) {
            return Err(failed(format!("{wrong} ({})", ask.pool), Until::PoolChanges));
        }
        let kept = Self::kept(plan, ask.claim);
        let requested = ask.requested.filter(|r| !r.is_empty());
        if let Some(text) = requested {
            let block = plan.unit_of(text).map_err(|error| {
                failed(
                    format!("the requested address cannot be read: {error}; make the claim again"),
                    Until::PoolChanges,
                )
            })?;
            if let Some(kept) = kept.filter(|&kept| kept != block) {
                let message = format!(
                    "the requested address is {block}, but {} keeps {kept} for this claim (preAllocations): ask for that one, or change the pool",
                    ask.pool
                );
                return Err(failed(message, Until::PoolChanges));
            }
            return self.particular(pool, plan, block, "the requested address", kept.is_some());
        }
        if let Some(block) = kept {
            return self.particular(pool, plan, block, "the address kept for this claim (preAllocations)", true);
        }
        if let Some(before) = ask.before {
            if self.particular(pool, plan, before.block, "", false).is_ok() {
                return Ok(before.block);
            }
            if let Some(refusal) = self.not_yet_there(pool, plan, before, ask) {
                return Err(refusal);
            }
        }
        self.book.next_free(pool, ask.seed).ok_or_else(|| {
            let counts = self.book.counts(pool);
            // Those that are in no object of this pool: promised a moment ago, kept (preAllocations), or an overlapping pool's.
            let others = counts.total.saturating_sub(counts.used - counts.out_of_range).saturating_sub(counts.resting);
            let (others, whose) = if others > 0 {
                (format!(", {others} for other claims"), self.whose(pool, ask))
            } else {
                Default::default()
            };
            let message = format!(
                "{} has no free address ({} in all, {} used, {} resting{others}): add addresses to it, or delete claims{whose}",
                ask.pool, counts.total, counts.used, counts.resting
            );
            Refusal { reason: Reason::PoolExhausted, message, until: Until::AnyFree, held_by: None }
        })
    }
}

/// What a pool has for a claim in particular, by the claim's name.
fn for_claim<'a, T>(all: &'a BTreeMap<String, T>, claim: &Key) -> Option<&'a T> {
    let name = claim.object();
    all.get(&format!("{}/{name}", claim.namespace)).or_else(|| all.get(name))
}

/// What the `IPAddress` of a unit says.
fn offer(plan: &Plan, block: Block) -> Offer {
    let (prefix, gateway) = plan.terms(block);
    Offer { address: block.address(), prefix, gateway }
}

const fn failed(message: String, until: Until) -> Refusal {
    Refusal { reason: Reason::AllocationFailed, message, until, held_by: None }
}

fn not_ready(message: String) -> Refusal {
    Refusal { reason: Reason::PoolNotReady, message, until: Until::PoolChanges, held_by: None }
}

/// The block that an object of this pool has.
fn block(address: &Address) -> Option<Block> {
    let at = address.address?;
    if address.pool.kind.of_prefixes() { Block::prefix(at, address.prefix) } else { Some(Block::host(at)) }
}

/// Whether a claim owns an object, or did so until somebody removed the owner.
fn is_claims(address: &Address) -> bool {
    address.owner.is_some() || address.attempt.is_some()
}

impl Provider for InCluster {
    fn ensure(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal> {
        let offer = self.reserve(ask);
        if offer.is_err() {
            self.release(ask.slot);
        }
        offer
    }

    fn reserve_again(&mut self, slot: u32, claim: &Key, pool: &Arc<PoolRef>, block: Block, told: Told) {
        let mine = Holder::Reserved(slot);
        let Some(pool) = self.book.find(pool).filter(|_| self.book.block(mine).is_none()) else { return };
        let serves = |plan: &Plan| plan.allowed_namespaces.as_ref().is_none_or(|all| all.contains(&*claim.namespace));
        let may_have = |plan: &Plan| plan.standing(block) == Standing::Usable && serves(plan);
        if told != Told::ByObject && !self.book.plan(pool).is_some_and(may_have) {
            return;
        }
        let others = |holder: &Holder| !matches!(holder, Holder::Kept(_));
        if !self.book.holders(pool, block).iter().any(|(_, holder)| others(holder)) {
            self.book.occupy(mine, pool, Some(block));
        }
    }

    fn release(&mut self, slot: u32) {
        let freed = self.book.vacate(Holder::Reserved(slot));
        self.wake(freed);
    }

    fn describe(&self, pool: &Arc<PoolRef>) -> Option<Description> {
        let pool = self.book.find(pool)?;
        let facts = self.facts.get(&pool)?;
        let (quarantine, conflict_quarantine) = facts.quarantines;
        let available = self.book.available(pool);
        Some(Description { paused: facts.paused, deleting: facts.deleting, quarantine, conflict_quarantine, available })
    }

    fn keeps(&self, pool: &Arc<PoolRef>, claim: &Key, block: Block) -> bool {
        let plan = self.book.find(pool).and_then(|id| self.book.plan(id));
        plan.is_some_and(|plan| Self::kept(plan, claim) == Some(block))
    }

    fn status(&self, pool: &Arc<PoolRef>) -> Option<PoolStatus> {
        let pool = self.book.find(pool)?;
        let facts = self.facts.get(&pool)?;
        let remarks = self.book.plan(pool).into_iter().flat_map(|p| &p.remarks);
        let ready = facts.errors.is_empty();
        let message = if ready { few(remarks) } else { few(&facts.errors) };
        let overlapping = self.overlapping(pool);
        let counts = self.book.counts(pool);
        let holders = self.holders.get(&pool).copied().unwrap_or(0);
        let misplaced = self.book.plan(pool).map_or_else(String::new, |plan| few(plan.misplaced_words()));
        Some(PoolStatus { counts, ready, message, misplaced, overlapping, duplicates: String::new(), holders })
    }

    fn pool(&mut self, pool: &Pool) {
        let id = self.book.pool(&pool.reference);
        let errors = pool.plan.as_ref().err().cloned().unwrap_or_default();
        let before = self.facts.get(&id).map(|f| f.quarantines);
        let told = pool.plan.as_ref().ok().map(|p| (p.quarantine, p.conflict_quarantine));
        let quarantines = told.or(before).unwrap_or_default();
        self.facts.insert(id, Facts { paused: pool.paused.is_some(), deleting: pool.deleting, errors, quarantines });
        let freed = self.book.set_plan(id, pool.plan.as_ref().ok().cloned());
        self.woken.push(Woken::Pool(pool.reference.clone()));
        self.wake(freed);
    }

    fn pool_gone(&mut self, pool: &Arc<PoolRef>) {
        let id = self.book.pool(pool);
        self.facts.remove(&id);
        let freed = self.book.set_plan(id, None);
        self.wake(freed);
        self.woken.push(Woken::Pool(pool.clone()));
    }

    fn shown(&mut self, slot: u32, address: &Address) -> Option<Block> {
        let pool = self.book.pool(&address.pool);
        let block = block(address);
        if address.pool.kind.lists_holders() {
            *self.holders.entry(pool).or_default() += 1;
        }
        if address.rest.is_some() {
            self.book.lay_to_rest(slot, pool, block);
        } else {
            let holder = Holder::Object(slot);
            if is_claims(address) {
                self.book.occupy(holder, pool, block);
            } else {
                self.book.occupy_unowned(slot, pool, block);
            }
        }
        block
    }

    fn gone(&mut self, slot: u32) {
        let freed = self.book.vacate(Holder::Object(slot));
        self.wake(freed);
    }

    fn rivals(&self, slot: u32) -> Vec<u32> {
        self.book.rivals(slot)
    }

    fn is_implausible(&self, slot: u32) -> bool {
        self.book.is_implausible(slot)
    }

    fn woken(&mut self) -> Vec<Woken> {
        std::mem::take(&mut self.woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{PoolKind, Uid, Version};
    use crate::pool::PoolSpec;

    #[test]
    fn a_status_does_not_grow_with_the_spec() {
        let reference = Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "p"));
        let status = |addresses: Vec<String>| {
            let mut provider = InCluster::default();
            provider.pool(&Pool {
                reference: reference.clone(),
                uid: Uid::from("u"),
                version: Version::from("1"),
                generation: 1,
                plan: PoolSpec { addresses, prefix: 8, ..PoolSpec::default() }.plan(),
                remote: None,
                paused: None,
                deleting: false,
                finalizer: true,
                status: None,
            });
            provider.status(&reference).unwrap()
        };
        let twice = (0..2000).map(|n| format!("10.0.{}.{}", n / 2 / 200, n / 2 % 200 + 1));
        let remarks = status(twice.collect());
        let wrong = status((0..2000).map(|n| format!("10.0.0.{}", n + 300)).collect());
        assert_eq!((remarks.ready, wrong.ready), (true, false));
        for message in [remarks.message, wrong.message] {
            assert!(message.len() < 4096 && message.contains("more"), "{} {}", message.len(), &message[..99]);
        }
    }
}
