//! The pools of a network that may hand out an address.

use std::collections::BTreeMap;

/// The pools' ranges, cut where a range begins or ends. The cost of a change depends on what lies inside the changed
/// range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Start of a segment, and the pools of the segment, up to the next cut.
    cuts: BTreeMap<u128, Vec<u32>>,
}

impl Coverage {
    /// Adds a range of a pool, from the range's first to its last address.
    pub(super) fn add(&mut self, pool: u32, first: u128, last: u128) {
        self.cut(first);
        if let Some(after) = last.checked_add(1) {
            self.cut(after);
        }
        for (_, pools) in self.cuts.range_mut(first..=last) {
            if let Err(place) = pools.binary_search(&pool) {
                pools.insert(place, pool);
            }
        }
    }

    /// Removes a range that the pool had, exactly as given here.
    pub(super) fn remove(&mut self, pool: u32, first: u128, last: u128) {
        for (_, pools) in self.cuts.range_mut(first..=last) {
            pools.retain(|&p| p != pool);
        }
        // Remove cuts that no longer separate anything.
        let mut before = self.cuts.range(..first).next_back().map(|(_, pools)| pools.clone()).unwrap_or_default();
        let mut idle = Vec::new();
        for (&at, pools) in self.cuts.range(first..=last.saturating_add(1)) {
            if *pools == before {
                idle.push(at);
            } else {
                before.clone_from(pools);
            }
        }
        for at in idle {
            self.cuts.remove(&at);
        }
    }

    fn cut(&mut self, at: u128) {
        if !self.cuts.contains_key(&at) {
            let pools = self.cuts.range(..at).next_back().map(|(_, pools)| pools.clone()).unwrap_or_default();
            self.cuts.insert(at, pools);
        }
    }

    /// The pools that have an address in this range, each once.
    pub(super) fn pools(&self, first: u128, last: u128) -> Vec<u32> {
        let start = self.cuts.range(..=first).next_back().map_or(first, |(&at, _)| at);
        let mut found: Vec<u32> = self.cuts.range(start..=last).flat_map(|(_, pools)| pools.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::Coverage;

    proptest! {
        #[test]
        fn as_a_naive_list(steps in proptest::collection::vec((0u32..5, 0u128..40, 0u128..12, 0u128..50), 1..40)) {
            let mut coverage = Coverage::default();
            let mut naive: Vec<(u32, u128, u128)> = Vec::new();
            for (pool, first, length, probe) in steps {
                // At the end of the space, too.
                let (first, last) = (u128::MAX - 51 + first, u128::MAX - 51 + first + length);
                if let Some(at) = naive.iter().position(|n| n.0 == pool) {
                    let (pool, first, last) = naive.swap_remove(at);
                    coverage.remove(pool, first, last);
                } else {
                    naive.push((pool, first, last));
                    coverage.add(pool, first, last);
                }
                for from in [u128::MAX - 51 + probe, u128::MAX] {
                    let to = from.saturating_add(3);
                    let mut found = coverage.pools(from, to);
                    found.sort_unstable();
                    let mut all: Vec<u32> = naive.iter().filter(|n| n.1 <= to && from <= n.2).map(|n| n.0).collect();
                    all.sort_unstable();
                    assert_eq!(found, all);
                }
            }
            for (pool, first, last) in naive {
                coverage.remove(pool, first, last);
            }
            assert_eq!(coverage, Coverage::default(), "nothing is left of what is gone");
        }
    }
}
