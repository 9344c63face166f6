//! The book: all pools and networks together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::block::Block;
use crate::names::PoolRef;
use crate::pool::{Network, Plan};
use crate::range_set::RangeSet;

use super::counts::Counts;
use super::coverage::Coverage;
use super::free::Free;
use super::used::{Holder, Used};

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
#[derive(Debug)]
pub struct Book {
    pools: Vec<Pool>,
    by_ref: HashMap<Arc<PoolRef>, u32>,
    /// The first network is of pools that are not known (yet): the blocks of these pools count in every network.
    networks: Vec<NetworkBook>,
    by_network: BTreeMap<Network, usize>,
    objects: Vec<Option<Held>>,
    /// Few entries at a time.
    reserved: BTreeMap<u32, Held>,
}

#[derive(Debug)]
struct Pool {
    reference: Arc<PoolRef>,
    plan: Option<Plan>,
    network: usize,
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

#[derive(Debug, Default)]
struct NetworkBook {
    used: Used,
    coverage: Coverage,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    pool: u32,
    /// The object is not in use; its address only rests.
    rests: bool,
    /// None: an address that cannot be read. The object is counted, and blocks nobody.
    block: Option<Block>,
}

const UNKNOWN: usize = 0;
const EVERYTHING: Block = Block::around(0, 0);

impl Default for Book {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            by_ref: HashMap::new(),
            networks: vec![NetworkBook::default()],
            by_network: BTreeMap::new(),
            objects: Vec::new(),
            reserved: BTreeMap::new(),
        }
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
        self.pools.push(Pool {
            reference: reference.clone(),
            plan: None,
            network: UNKNOWN,
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

    /// Sets or removes a pool's plan. Without a plan, the pool hands out nothing, and its blocks count in every
    /// network. The cost depends on the pool's blocks in use and on all pools' ranges.
    pub fn set_plan(&mut self, pool: PoolId, plan: Option<Plan>) -> Vec<Freed> {
        let id = pool.0;
        if self.pools.len() <= id as usize {
            return Vec::new();
        }
        let new = plan.as_ref().map_or(UNKNOWN, |p| self.network(&p.network));
        let entry = &self.pools[id as usize];
        let old = entry.network;
        let mut freed = Vec::new();
        let kept: Vec<Block> = entry.plan.iter().flat_map(|p| p.kept.values().copied()).collect();
        for block in kept {
            self.networks[old].used.remove(block, Holder::Kept(id));
            freed.extend(self.offer_again(old, block));
        }
        let moving = if old == new { Vec::new() } else { self.held_from(id) };
        for &(holder, block) in &moving {
            self.networks[old].used.remove(block, holder);
            freed.extend(self.offer_again(old, block));
        }
        for (first, last) in ranges_of(self.pools[id as usize].plan.as_ref()) {
            self.networks[old].coverage.remove(id, first, last);
        }
        self.pools[id as usize].plan = plan;
        self.pools[id as usize].network = new;
        for (first, last) in ranges_of(self.pools[id as usize].plan.as_ref()) {
            self.networks[new].coverage.add(id, first, last);
        }
        for &(holder, block) in &moving {
            self.networks[new].used.insert(block, holder);
            self.withhold(new, block);
        }
        let kept: Vec<Block> = self.pools[id as usize].plan.iter().flat_map(|p| p.kept.values().copied()).collect();
        for block in kept {
            self.networks[new].used.insert(block, Holder::Kept(id));
            self.withhold(new, block);
        }
        self.recount(id);
        if self.pools[id as usize].free.size() > 0 {
            freed.push(Freed { pool, block: EVERYTHING });
        }
        freed
    }

    fn network(&mut self, network: &Network) -> usize {
        let next = self.networks.len();
        let id = *self.by_network.entry(network.clone()).or_insert(next);
        if id == next {
            self.networks.push(NetworkBook::default());
        }
        id
    }

    /// All holders that refer to a pool and have a block.
    fn held_from(&self, pool: u32) -> Vec<(Holder, Block)> {
        let objects = self.objects.iter().zip(0u32..).map(|(h, i)| (h, Holder::Object(i)));
        let objects = objects.filter_map(|(held, holder)| Some((holder, held.as_ref()?)));
        let reserved = self.reserved.iter().map(|(&i, held)| (Holder::Reserved(i), held));
        let all = objects.chain(reserved);
        all.filter(|(_, held)| held.pool == pool).filter_map(|(holder, held)| Some((holder, held.block?))).collect()
    }

    /// Counts a pool's free units and its objects out of range again.
    fn recount(&mut self, id: u32) {
        let entry = &self.pools[id as usize];
        let used = &self.networks[entry.network].used;
        let objects = self.objects.iter().flatten().filter(|h| h.pool == id && !h.rests);
        let out = objects.filter(|h| !inside(entry.plan.as_ref(), h.block)).count();
        let mut free = RangeSet::default();
        let mut strategy = crate::pool::Strategy::default();
        if let Some(plan) = &entry.plan {
            free = plan.usable.clone();
            strategy = plan.strategy;
            for (first, last) in plan.address_ranges() {
                for block in used.in_range(first, last) {
                    free.remove(plan.unit_number(block.first()), plan.unit_number(block.last()));
                }
            }
        }
        let renewed = entry.free.renewed(free, strategy);
        let entry = &mut self.pools[id as usize];
        entry.free = renewed;
        entry.out_of_range = i64::try_from(out).unwrap_or(i64::MAX);
    }

    /// Notes that a holder has a block of a pool (or, for an address that cannot be read, no block).
    pub fn occupy(&mut self, holder: Holder, pool: PoolId, block: Option<Block>) {
        self.note(holder, Held { pool: pool.0, rests: false, block });
    }

    /// Notes that an object keeps a block from being handed out, although nobody uses the block.
    pub fn lay_to_rest(&mut self, object: u32, pool: PoolId, block: Option<Block>) {
        self.note(Holder::Object(object), Held { pool: pool.0, rests: true, block });
    }

    fn note(&mut self, holder: Holder, held: Held) {
        let Held { pool, block, .. } = held;
        let Some(entry) = self.pools.get_mut(pool as usize) else { return };
        let network = entry.network;
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
        if let Some(block) = block {
            self.networks[network].used.insert(block, holder);
            self.withhold(network, block);
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
        let network = entry.network;
        let Some(block) = held.block else { return Vec::new() };
        self.networks[network].used.remove(block, holder);
        self.offer_again(network, block)
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

    /// Marks a block as in use: no pool of the network hands out units that overlap with the block.
    fn withhold(&mut self, network: usize, block: Block) {
        for pool in self.networks[network].coverage.pools(block.first(), block.last()) {
            let entry = &mut self.pools[pool as usize];
            if let Some(plan) = &entry.plan {
                entry.free.take(plan.unit_number(block.first()), plan.unit_number(block.last()));
            }
        }
    }

    /// Removes a holder's block: the parts of the block that nobody else has are free again.
    fn offer_again(&mut self, network: usize, block: Block) -> Vec<Freed> {
        if network == UNKNOWN {
            // The block was in every pool's way, although no pool had counted it as used.
            let pools = self.networks.iter().flat_map(|n| n.coverage.pools(block.first(), block.last()));
            return pools.map(|pool| Freed { pool: PoolId(pool), block }).collect();
        }
        let network = &self.networks[network];
        let mut freed = Vec::new();
        for pool in network.coverage.pools(block.first(), block.last()) {
            let entry = &mut self.pools[pool as usize];
            let Some(plan) = &entry.plan else { continue };
            let (first, last) = (plan.unit_number(block.first()), plan.unit_number(block.last()));
            // The blocks that others have of these units, or around them.
            let whole = plan.block(first).first()..=plan.block(last).last();
            let mut free = RangeSet::of(plan.usable.within(first, last));
            for other in network.used.in_range(*whole.start(), *whole.end()) {
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
        let unknown = &self.networks[UNKNOWN].used;
        let in_the_way = |unit| {
            let (first, last) = unknown.in_the_way(plan.block(unit))?;
            Some((plan.unit_number(first), plan.unit_number(last)))
        };
        let unit = entry.free.next(&plan.usable, seed, in_the_way)?;
        Some(plan.block(unit))
    }

    /// The holders of addresses in common with a block, as a pool's network sees them; with their blocks.
    #[must_use]
    pub fn holders(&self, pool: PoolId, block: Block) -> Vec<(Block, Holder)> {
        let network = self.pools.get(pool.0 as usize).map_or(UNKNOWN, |p| p.network);
        let mut all: Vec<_> = self.networks[network].used.overlapping(block).collect();
        if network == UNKNOWN {
            // An unknown pool may be of any network.
            let others = self.networks.iter().skip(1);
            all.extend(others.flat_map(|n| n.used.overlapping(block)));
        } else {
            all.extend(self.networks[UNKNOWN].used.overlapping(block));
        }
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

    /// The pools that have addresses in common with this pool.
    #[must_use]
    pub fn overlapping_pools(&self, pool: PoolId) -> Vec<PoolId> {
        let Some(entry) = self.pools.get(pool.0 as usize) else { return Vec::new() };
        let coverage = &self.networks[entry.network].coverage;
        let ranges = ranges_of(entry.plan.as_ref()).into_iter();
        let others: BTreeSet<u32> = ranges.flat_map(|(first, last)| coverage.pools(first, last)).collect();
        others.into_iter().filter(|&other| other != pool.0).map(PoolId).collect()
    }

    /// The counts of a pool.
    #[must_use]
    pub fn counts(&self, pool: PoolId) -> Counts {
        let Some(entry) = self.pools.get(pool.0 as usize) else { return Counts::default() };
        let total = entry.plan.as_ref().map_or(0, Plan::total);
        let Pool { used, resting, out_of_range, .. } = *entry;
        let left = total.saturating_sub(used).saturating_sub(resting);
        let free = if entry.reference.kind.of_prefixes() { left.saturating_add(out_of_range).max(0) } else { left };
        let available = i64::try_from(entry.free.size()).unwrap_or(i64::MAX);
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
