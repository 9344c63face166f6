//! The book: all pools and networks together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::block::Block;
use crate::names::PoolRef;
use crate::pool::Plan;
use crate::protocol::flaws::{Flaw, planted};
use crate::range_set::RangeSet;

use super::counts::Counts;
use super::free::Free;
use super::network::{NOWHERE, Networks, Places, UNKNOWN};
use super::used::Holder;

/// A pool's place in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub(crate) u32);

/// Units of a pool that became free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The pool.
    pub pool: PoolId,
    /// The block that was given back, or the block of all addresses.
    pub block: Block,
}

/// The holders of all blocks, in all networks. The book knows no claim, no object and no clock.
#[derive(Debug, Default)]
pub struct Book {
    pools: Vec<Pool>,
    by_ref: HashMap<Arc<PoolRef>, u32>,
    networks: Networks,
    objects: Vec<Option<Held>>,
    /// Few entries at a time.
    reserved: BTreeMap<u32, Held>,
}

#[derive(Debug)]
struct Pool {
    reference: Arc<PoolRef>,
    plan: Option<Plan>,
    network: usize,
    /// The place of what counts for the pools of the pool's namespace alone; [`NOWHERE`] for a cluster-wide pool.
    local: usize,
    /// The length of a unit in the last known plan.
    unit: u8,
    free: Free,
    used: i64,
    resting: i64,
    out_of_range: i64,
}

impl Pool {
    fn count(&mut self, held: Held, by: i64) {
        if held.rests {
            self.resting += by;
        } else {
            self.used += by;
            self.out_of_range += by * i64::from(!inside(self.plan.as_ref(), held.block));
        }
    }
}

/// What a holder has.
#[derive(Clone, Copy, Debug)]
struct Held {
    pool: u32,
    /// The object is not in use; its address only rests.
    rests: bool,
    /// A claim owns the object.
    owned: bool,
    /// None: an address that cannot be read. The object is counted, and blocks nobody.
    block: Option<Block>,
    /// Where the block counts.
    places: Places,
}

/// The length of the widest prefix that counts while its pool's plan was never known: a site's (RFC 6177). Few pools hand out
/// wider ones, and a wider one that was made by hand may cover the addresses of many pools.
const WIDEST_UNKNOWN: u8 = 48;
const EVERYTHING: Block = Block::around(0, 0);

impl Pool {
    /// Where a block counts. A single address counts in its pool's network. A prefix does so only if the pool may have
    /// handed it out: a prefix that somebody wrote by hand may cover the addresses of all other pools. Any other prefix
    /// counts for the pools of its namespace alone.
    fn places(&self, networks: &Networks, held: &Held) -> Places {
        let Some(block) = held.block else { return [NOWHERE; 2] };
        if block.length() < 128 && !self.may_have_handed_out(block, held.owned) {
            return [self.local, NOWHERE];
        }
        networks.places(self.network, self.local)
    }

    fn may_have_handed_out(&self, block: Block, owned: bool) -> bool {
        if planted(Flaw::EveryPrefixCounts) {
            return true;
        }
        let inside = self.plan.as_ref().is_some_and(|plan| plan.lists_all_of(block));
        let of_a_unit = block.length() >= self.unit;
        // An edit of the pool may have changed the range or the length of a unit since. Only a claim's object is
        // believed then.
        let edited = owned && (inside || of_a_unit);
        ((inside && of_a_unit) || edited) && !block.is_wider_than_ipv4()
    }
}

impl Book {
    /// The index of a pool; a new index for a new pool.
    pub fn pool(&mut self, reference: &Arc<PoolRef>) -> PoolId {
        if let Some(&id) = self.by_ref.get(reference) {
            return PoolId(id);
        }
        let id = u32::try_from(self.pools.len()).unwrap_or(u32::MAX);
        self.by_ref.insert(reference.clone(), id);
        let local = if reference.kind.global() { NOWHERE } else { self.networks.local(&reference.namespace) };
        self.pools.push(Pool {
            reference: reference.clone(),
            plan: None,
            network: UNKNOWN,
            local,
            unit: WIDEST_UNKNOWN,
            free: Free::default(),
            used: 0,
            resting: 0,
            out_of_range: 0,
        });
        PoolId(id)
    }

    /// The index of a known pool.
    #[must_use]
    pub fn find(&self, reference: &Arc<PoolRef>) -> Option<PoolId> {
        self.by_ref.get(reference).copied().map(PoolId)
    }

    /// The reference of a pool.
    #[must_use]
    pub fn reference(&self, pool: PoolId) -> Option<&Arc<PoolRef>> {
        self.pools.get(pool.0 as usize).map(|p| &p.reference)
    }

    /// The pool's plan, if it has one.
    #[must_use]
    pub fn plan(&self, pool: PoolId) -> Option<&Plan> {
        self.pools.get(pool.0 as usize)?.plan.as_ref()
    }

    /// Sets or removes a pool's plan. Without a plan, the pool hands out nothing, and its addresses count in every
    /// network that the pool may be of. The cost depends on the pool's blocks in use and on all pools' ranges.
    pub fn set_plan(&mut self, pool: PoolId, plan: Option<Plan>) -> Vec<Freed> {
        let id = pool.0;
        if self.pools.len() <= id as usize {
            return Vec::new();
        }
        let new = plan.as_ref().map_or(UNKNOWN, |p| self.networks.of(&p.network));
        let entry = &self.pools[id as usize];
        let old = entry.network;
        let mut freed = Vec::new();
        let kept: Vec<Block> = entry.plan.iter().flat_map(Plan::kept_units).collect();
        for block in kept {
            freed.extend(self.take_out(self.networks.own(old), block, Holder::Kept(id)));
        }
        let held = self.held_from(id);
        for (holder, held) in &held {
            let Some(block) = held.block else { continue };
            freed.extend(self.take_out(held.places, block, *holder));
        }
        let entry = &mut self.pools[id as usize];
        for (first, last) in ranges_of(entry.plan.as_ref()) {
            self.networks.uncover(old, id, first, last);
        }
        entry.unit = plan.as_ref().map_or(entry.unit, |plan| plan.unit);
        entry.plan = plan;
        entry.network = new;
        for (first, last) in ranges_of(entry.plan.as_ref()) {
            self.networks.cover(new, id, first, last);
        }
        for (holder, mut held) in held {
            held.places = self.pools[id as usize].places(&self.networks, &held);
            if let Some(known) = self.held_mut(holder) {
                *known = held;
            }
            if let Some(block) = held.block {
                self.put_in(held.places, block, holder);
            }
        }
        let kept: Vec<Block> = self.pools[id as usize].plan.iter().flat_map(Plan::kept_units).collect();
        for block in kept {
            self.put_in(self.networks.own(new), block, Holder::Kept(id));
        }
        self.recount(id);
        if self.pools[id as usize].free.size() > 0 {
            freed.push(Freed { pool, block: EVERYTHING });
        }
        freed
    }

    /// All holders that refer to a pool.
    fn held_from(&self, pool: u32) -> Vec<(Holder, Held)> {
        let objects = self.objects.iter().zip(0u32..).map(|(h, i)| (h, Holder::Object(i)));
        let objects = objects.filter_map(|(held, holder)| Some((holder, *held.as_ref()?)));
        let reserved = self.reserved.iter().map(|(&i, held)| (Holder::Reserved(i), *held));
        objects.chain(reserved).filter(|(_, held)| held.pool == pool).collect()
    }

    fn put_in(&mut self, places: Places, block: Block, holder: Holder) {
        self.networks.insert(places, block, holder);
        self.withhold(places, block);
    }

    fn take_out(&mut self, places: Places, block: Block, holder: Holder) -> Vec<Freed> {
        self.networks.remove(places, block, holder);
        self.offer_again(places, block)
    }

    /// Counts a pool's free units and its objects out of range again.
    fn recount(&mut self, id: u32) {
        let entry = &self.pools[id as usize];
        let objects = self.objects.iter().flatten().filter(|h| h.pool == id && !h.rests);
        let out = objects.filter(|h| !inside(entry.plan.as_ref(), h.block)).count();
        let mut free = RangeSet::default();
        let mut strategy = crate::pool::Strategy::default();
        if let Some(plan) = &entry.plan {
            free = plan.usable.clone();
            strategy = plan.strategy;
            for (first, last) in plan.address_ranges() {
                for block in self.networks.seen_from(entry.network).flat_map(|used| used.in_range(first, last)) {
                    free.remove(plan.unit_number(block.first()), plan.unit_number(block.last()));
                }
            }
        }
        let renewed = entry.free.renewed(free, strategy);
        let entry = &mut self.pools[id as usize];
        entry.free = renewed;
        entry.out_of_range = i64::try_from(out).unwrap_or(i64::MAX);
    }

    /// Notes that a claim's holder has a block of a pool (or, for an address that cannot be read, no block).
    pub fn occupy(&mut self, holder: Holder, pool: PoolId, block: Option<Block>) {
        self.note(holder, Held { pool: pool.0, rests: false, owned: true, block, places: [NOWHERE; 2] });
    }

    /// Notes the block of an object that no claim owns (yet).
    pub fn occupy_unowned(&mut self, object: u32, pool: PoolId, block: Option<Block>) {
        let held = Held { pool: pool.0, rests: false, owned: false, block, places: [NOWHERE; 2] };
        self.note(Holder::Object(object), held);
    }

    /// Notes that an object keeps a block from being handed out, although nobody uses the block.
    pub fn lay_to_rest(&mut self, object: u32, pool: PoolId, block: Option<Block>) {
        let held = Held { pool: pool.0, rests: true, owned: false, block, places: [NOWHERE; 2] };
        self.note(Holder::Object(object), held);
    }

    fn note(&mut self, holder: Holder, mut held: Held) {
        let Some(entry) = self.pools.get_mut(held.pool as usize) else { return };
        held.places = entry.places(&self.networks, &held);
        match holder {
            Holder::Object(slot) => {
                entry.count(held, 1);
                put(&mut self.objects, slot, held);
            }
            Holder::Reserved(slot) => {
                self.reserved.insert(slot, held);
            }
            // Only plans keep blocks.
            Holder::Kept(_) => return,
        }
        if let Some(block) = held.block {
            self.put_in(held.places, block, holder);
        }
    }

    /// Notes that a holder has nothing any more. Returns the units that became free.
    pub fn vacate(&mut self, holder: Holder) -> Vec<Freed> {
        let held = match holder {
            Holder::Object(slot) => self.objects.get_mut(slot as usize).and_then(Option::take),
            Holder::Reserved(slot) => self.reserved.remove(&slot),
            Holder::Kept(_) => None,
        };
        let Some(held) = held else { return Vec::new() };
        let Some(entry) = self.pools.get_mut(held.pool as usize) else { return Vec::new() };
        if matches!(holder, Holder::Object(_)) {
            entry.count(held, -1);
        }
        let Some(block) = held.block else { return Vec::new() };
        self.take_out(held.places, block, holder)
    }

    /// Whether an object's block counts for the pools of its namespace at most: a prefix that its pool cannot have handed
    /// out.
    #[must_use]
    pub fn is_implausible(&self, object: u32) -> bool {
        let Some(held @ Held { block: Some(block), owned, pool, .. }) = self.held(Holder::Object(object)) else {
            return false;
        };
        let pool = self.pools.get(*pool as usize);
        block.length() < 128 && !held.rests && pool.is_some_and(|pool| !pool.may_have_handed_out(*block, *owned))
    }

    /// The block of a holder.
    #[must_use]
    pub fn block(&self, holder: Holder) -> Option<Block> {
        self.held(holder)?.block
    }

    fn held(&self, holder: Holder) -> Option<&Held> {
        match holder {
            Holder::Object(slot) => self.objects.get(slot as usize)?.as_ref(),
            Holder::Reserved(slot) => self.reserved.get(&slot),
            Holder::Kept(_) => None,
        }
    }

    fn held_mut(&mut self, holder: Holder) -> Option<&mut Held> {
        match holder {
            Holder::Object(slot) => self.objects.get_mut(slot as usize)?.as_mut(),
            Holder::Reserved(slot) => self.reserved.get_mut(&slot),
            Holder::Kept(_) => None,
        }
    }

    /// Marks a block as in use: no pool that sees these places hands out units that overlap with the block.
    fn withhold(&mut self, places: Places, block: Block) {
        for pool in self.networks.pools_that_count(places, block) {
            let entry = &mut self.pools[pool as usize];
            if let Some(plan) = &entry.plan {
                entry.free.take(plan.unit_number(block.first()), plan.unit_number(block.last()));
            }
        }
    }

    /// Removes a holder's block: the parts of the block that nobody else has are free again.
    fn offer_again(&mut self, places: Places, block: Block) -> Vec<Freed> {
        if self.networks.are_strays(places) {
            // The block may have been in any pool's way, although no pool had counted it as used.
            let pools = self.networks.all_pools(block).into_iter();
            return pools.map(|pool| Freed { pool: PoolId(pool), block }).collect();
        }
        let mut freed = Vec::new();
        for pool in self.networks.pools_that_count(places, block) {
            let entry = &mut self.pools[pool as usize];
            let Some(plan) = &entry.plan else { continue };
            let (first, last) = (plan.unit_number(block.first()), plan.unit_number(block.last()));
            // The blocks that others have of these units, or around them.
            let whole = plan.block(first).first()..=plan.block(last).last();
            let mut free = RangeSet::of(plan.usable.within(first, last));
            let seen = self.networks.seen_from(entry.network);
            for other in seen.flat_map(|used| used.in_range(*whole.start(), *whole.end())) {
                free.remove(plan.unit_number(other.first()), plan.unit_number(other.last()));
            }
            for (first, last) in free.iter() {
                entry.free.put_back(first, last);
            }
            if !free.is_empty() {
                freed.push(Freed { pool: PoolId(pool), block });
            }
        }
        freed
    }

    /// The next free unit of a pool by its strategy. `seed`: any number, for pools in random order.
    #[must_use]
    pub fn next_free(&self, pool: PoolId, seed: u64) -> Option<Block> {
        let entry = self.pools.get(pool.0 as usize)?;
        let plan = entry.plan.as_ref()?;
        let in_the_way = |unit| {
            let mut strays = self.networks.strays_seen_from(entry.network, entry.local);
            let (first, last) = strays.find_map(|used| used.in_the_way(plan.block(unit)))?;
            Some((plan.unit_number(first), plan.unit_number(last)))
        };
        let unit = entry.free.next(&plan.usable, &plan.entries, seed, in_the_way)?;
        Some(plan.block(unit))
    }

    /// The holders of addresses in common with a block, as a pool sees them; with their blocks.
    #[must_use]
    pub fn holders(&self, pool: PoolId, block: Block) -> Vec<(Block, Holder)> {
        let Some(entry) = self.pools.get(pool.0 as usize) else { return Vec::new() };
        let seen = self.networks.all_seen_from(entry.network, entry.local, &entry.reference.namespace);
        let mut all: Vec<_> = seen.into_iter().flat_map(|used| used.overlapping(block)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The objects that have an address in common with this object's block; without this object.
    #[must_use]
    pub fn rivals(&self, object: u32) -> Vec<u32> {
        let me = Holder::Object(object);
        let Some(Held { pool, block: Some(block), .. }) = self.held(me) else { return Vec::new() };
        let all = self.holders(PoolId(*pool), *block).into_iter();
        let objects = all.filter_map(|(_, h)| if let Holder::Object(slot) = h { Some(slot) } else { None });
        objects.filter(|&slot| slot != object).collect()
    }

    /// The pools that have addresses in common with this pool: those that share one view with it, and those of other
    /// namespaces, which do not.
    #[must_use]
    pub fn overlapping_pools(&self, pool: PoolId) -> (Vec<PoolId>, Vec<PoolId>) {
        let Some(entry) = self.pools.get(pool.0 as usize) else { return Default::default() };
        let ranges = ranges_of(entry.plan.as_ref());
        let shared = self.networks.pools_seen_from(entry.network, &ranges);
        let apart = self.networks.pools_of_namespaces(entry.network, &ranges);
        let others =
            |all: &mut dyn Iterator<Item = &u32>| all.filter(|&&other| other != pool.0).map(|&id| PoolId(id)).collect();
        (others(&mut shared.iter()), others(&mut apart.difference(&shared)))
    }

    /// The counts of a pool.
    #[must_use]
    pub fn counts(&self, pool: PoolId) -> Counts {
        let Some(entry) = self.pools.get(pool.0 as usize) else { return Counts::default() };
        let total = entry.plan.as_ref().map_or(0, Plan::total);
        let Pool { used, resting, out_of_range, .. } = *entry;
        let available = i64::try_from(entry.free.size()).unwrap_or(i64::MAX);
        // Others may have more of the pool's units than its own objects tell.
        let left = total.saturating_sub(used).saturating_sub(resting);
        let free = if entry.reference.kind.of_prefixes() {
            left.saturating_add(out_of_range).max(0).min(available)
        } else {
            left.min(available.saturating_sub(out_of_range))
        };
        Counts { total, used, resting, free, out_of_range, available }
    }

    /// The number of units of a pool that nobody has.
    #[must_use]
    pub fn available(&self, pool: PoolId) -> u128 {
        self.pools.get(pool.0 as usize).map_or(0, |p| p.free.size())
    }
}

fn ranges_of(plan: Option<&Plan>) -> Vec<(u128, u128)> {
    plan.into_iter().flat_map(Plan::address_ranges).collect()
}

fn inside(plan: Option<&Plan>, block: Option<Block>) -> bool {
    plan.zip(block).is_some_and(|(plan, block)| plan.covers(block))
}

fn put(slots: &mut Vec<Option<Held>>, slot: u32, held: Held) {
    let slot = slot as usize;
    if slots.len() <= slot {
        slots.resize(slot + 1, None);
    }
    slots[slot] = Some(held);
}
