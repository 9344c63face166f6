//! The free units of one pool, kept in the order in which they are handed out.

use std::collections::BTreeMap;

use crate::pool::{Entry, Strategy};
use crate::range_set::RangeSet;

/// The release order is remembered for at most this many units; any further released unit counts as fresh.
const REMEMBERED: usize = 65_536;

/// The free units of a pool.
#[derive(Clone, Debug, Default)]
pub struct Free {
    all: RangeSet,
    order: Order,
}

#[derive(Clone, Debug, Default)]
enum Order {
    #[default]
    Lowest,
    Highest,
    Random,
    Released(Released),
}

/// The order in which units were released.
#[derive(Clone, Debug, Default)]
struct Released {
    /// Units that are free and were not released since the start.
    fresh: RangeSet,
    /// Free units, by release.
    queue: BTreeMap<u64, u128>,
    place: BTreeMap<u128, u64>,
    next: u64,
}

impl Free {
    /// A set of free units, to be handed out in this order.
    #[must_use]
    pub fn new(all: RangeSet, strategy: Strategy) -> Self {
        let order = match strategy {
            Strategy::Lowest => Order::Lowest,
            Strategy::Highest => Order::Highest,
            Strategy::Random => Order::Random,
            Strategy::LeastRecentlyUsed => Order::Released(Released { fresh: all.clone(), ..Released::default() }),
        };
        Self { all, order }
    }

    /// Replaces the free units and keeps the order: the remembered releases stay.
    #[must_use]
    pub fn renewed(&self, all: RangeSet, strategy: Strategy) -> Self {
        let mut new = Self::new(all, strategy);
        if let (Order::Released(old), Order::Released(order)) = (&self.order, &mut new.order) {
            for &unit in old.queue.values().filter(|&&u| new.all.contains(u)) {
                order.release(unit);
            }
        }
        new
    }

    /// The number of free units.
    #[must_use]
    pub const fn size(&self) -> u128 {
        self.all.size()
    }

    /// Whether a unit is free.
    #[must_use]
    pub fn contains(&self, unit: u128) -> bool {
        self.all.contains(unit)
    }

    /// The unit to hand out next, among the units with nothing `in_the_way`. `in_the_way` returns the first and last
    /// unit of the obstacle, so that the search passes over any large obstacle at once. `seed`: any number, for random
    /// order. `entries`: use these up one after the other; empty: there is one order for all.
    pub fn next(
        &self,
        usable: &RangeSet,
        entries: &[Entry],
        seed: u64,
        mut in_the_way: impl FnMut(u128) -> Option<(u128, u128)>,
    ) -> Option<u128> {
        let mut from = |set: &RangeSet, start: u128, end: Option<u128>| {
            let mut at = set.first_from(start)?;
            loop {
                if end.is_some_and(|end| at >= end) {
                    return None;
                }
                let Some((_, last)) = in_the_way(at) else { return Some(at) };
                at = set.first_from(last.max(at).checked_add(1)?)?;
            }
        };
        match &self.order {
            Order::Random if !entries.is_empty() => entries.iter().find_map(|&Entry { first, last, .. }| {
                let start = first + u128::from(seed) % (last - first).saturating_add(1);
                from(&self.all, start, last.checked_add(1)).or_else(|| from(&self.all, first, Some(start)))
            }),
            _ if !entries.is_empty() => {
                entries.iter().find_map(|entry| from(&self.all, entry.first, entry.last.checked_add(1)))
            }
            Order::Lowest => from(&self.all, 0, None),
            Order::Highest => {
                let mut at = self.all.last_to(u128::MAX)?;
                while let Some((first, _)) = in_the_way(at) {
                    at = self.all.last_to(first.min(at).checked_sub(1)?)?;
                }
                Some(at)
            }
            Order::Random => {
                let start = nth(usable, seed)?;
                from(&self.all, start, None).or_else(|| from(&self.all, 0, Some(start)))
            }
            Order::Released(order) => {
                from(&order.fresh, 0, None).or_else(|| order.queue.values().copied().find(|&u| in_the_way(u).is_none()))
            }
        }
    }

    /// Takes units out of the set.
    pub fn take(&mut self, first: u128, last: u128) {
        self.all.remove(first, last);
        if let Order::Released(order) = &mut self.order {
            order.fresh.remove(first, last);
            let gone: Vec<(u128, u64)> = order.place.range(first..=last).map(|(&u, &p)| (u, p)).collect();
            for (unit, place) in gone {
                order.place.remove(&unit);
                order.queue.remove(&place);
            }
        }
    }

    /// Puts units back. A single unit is remembered as released now; several units at once were hardly handed out one
    /// by one.
    pub fn put_back(&mut self, first: u128, last: u128) {
        self.all.insert(first, last);
        if let Order::Released(order) = &mut self.order {
            if first == last {
                order.release(first);
            } else {
                order.fresh.insert(first, last);
            }
        }
    }
}

impl Released {
    fn release(&mut self, unit: u128) {
        self.fresh.remove(unit, unit);
        if let Some(place) = self.place.insert(unit, self.next) {
            self.queue.remove(&place);
        }
        self.queue.insert(self.next, unit);
        self.next += 1;
        if self.queue.len() > REMEMBERED
            && let Some((_, oldest)) = self.queue.pop_first()
        {
            self.place.remove(&oldest);
            self.fresh.insert(oldest, oldest);
        }
    }
}

/// A unit of the set, chosen by a number: uniform numbers give uniform units.
fn nth(set: &RangeSet, seed: u64) -> Option<u128> {
    // Spread over the whole size, also for sets larger than 2^64.
    let seed = u128::from(mix(seed)) << 64 | u128::from(mix(seed ^ 0x5bd1_e995_5bd1_e995));
    let mut left = seed.checked_rem(set.size())?;
    for (first, last) in set.iter() {
        let extent = last - first;
        if left <= extent {
            return Some(first + left);
        }
        left -= extent + 1;
    }
    set.first()
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): neighbouring numbers give distant results.
pub(crate) const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
