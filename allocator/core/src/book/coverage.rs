//! Which pools of a network may hand out an address.

/// The pools' ranges, cut where one begins or ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// In order: from this address on, these pools, until the next cut.
    cuts: Vec<(u128, Vec<u32>)>,
}

impl Coverage {
    /// From each pool's ranges, as first and last address.
    pub(super) fn new(ranges: impl IntoIterator<Item = (u32, u128, u128)>) -> Self {
        let mut edges: Vec<(u128, bool, u32)> = Vec::new();
        for (pool, first, last) in ranges {
            edges.push((first, true, pool));
            if let Some(after) = last.checked_add(1) {
                edges.push((after, false, pool));
            }
        }
        edges.sort_unstable();
        let mut cuts: Vec<(u128, Vec<u32>)> = Vec::new();
        let mut inside: Vec<u32> = Vec::new();
        for (at, begins, pool) in edges {
            if begins {
                inside.push(pool);
            } else if let Some(i) = inside.iter().position(|&p| p == pool) {
                inside.swap_remove(i);
            }
            match cuts.last_mut() {
                Some((last, pools)) if *last == at => pools.clone_from(&inside),
                _ => cuts.push((at, inside.clone())),
            }
        }
        Self { cuts }
    }

    /// The pools that have an address in this range; each once.
    pub(super) fn pools(&self, first: u128, last: u128) -> Vec<u32> {
        let after = self.cuts.partition_point(|&(at, _)| at <= first);
        let mut found = Vec::new();
        for (_, pools) in self.cuts[after.saturating_sub(1)..].iter().take_while(|&&(at, _)| at <= last) {
            for &pool in pools {
                if !found.contains(&pool) {
                    found.push(pool);
                }
            }
        }
        found
    }

    /// The pairs of pools that have addresses in common; each once.
    pub(super) fn overlaps(&self) -> Vec<(u32, u32)> {
        let mut pairs = std::collections::BTreeSet::new();
        for (_, pools) in &self.cuts {
            for (i, &a) in pools.iter().enumerate() {
                pairs.extend(pools[i + 1..].iter().map(|&b| (a.min(b), a.max(b))));
            }
        }
        pairs.into_iter().collect()
    }
}
