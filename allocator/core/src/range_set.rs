//! A set of numbers, kept as ranges in order: the cost of a set depends on its number of ranges, not on their size.

use std::collections::BTreeMap;

/// Disjoint ranges that do not touch. The key is the *last* number of a range, so that taking the lowest number of all
/// changes a value in place. Every call is O(log n) in the number of ranges, plus the ranges that the call merges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// last -> first.
    ranges: BTreeMap<u128, u128>,
    size: u128,
}

impl RangeSet {
    /// The set of all numbers in these ranges.
    #[must_use]
    pub fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut set = Self::default();
        for (first, last) in ranges {
            set.insert(first, last);
        }
        set
    }

    /// The number of elements. (The full set of 2^128 numbers exceeds the type, and counts as one less.)
    #[must_use]
    pub const fn size(&self) -> u128 {
        self.size
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The lowest number.
    #[must_use]
    pub fn first(&self) -> Option<u128> {
        self.ranges.first_key_value().map(|(_, &first)| first)
    }

    /// The lowest number that is not below `from`.
    #[must_use]
    pub fn first_from(&self, from: u128) -> Option<u128> {
        self.ranges.range(from..).next().map(|(_, &first)| first.max(from))
    }

    /// The highest number that is not above `to`.
    #[must_use]
    pub fn last_to(&self, to: u128) -> Option<u128> {
        let around = self.ranges.range(to..).next().filter(|&(_, &first)| first <= to);
        around.map(|_| to).or_else(|| self.ranges.range(..to).next_back().map(|(&last, _)| last))
    }

    /// Whether a number is in the set.
    #[must_use]
    pub fn contains(&self, number: u128) -> bool {
        self.ranges.range(number..).next().is_some_and(|(_, &first)| first <= number)
    }

    /// Whether all numbers of a range are in the set.
    #[must_use]
    pub fn contains_range(&self, first: u128, last: u128) -> bool {
        self.ranges.range(last..).next().is_some_and(|(_, &f)| f <= first)
    }

    /// The ranges in order, as first and last number.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.ranges.iter().map(|(&last, &first)| (first, last))
    }

    /// The parts of the set's ranges that lie within a range, in order.
    pub fn within(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, u128)> + '_ {
        let from = self.ranges.range(first..).map(|(&l, &f)| (f, l));
        from.take_while(move |&(f, _)| f <= last).map(move |(f, l)| (f.max(first), l.min(last)))
    }

    /// Adds a range. A reversed range is ignored.
    pub fn insert(&mut self, first: u128, last: u128) {
        if first > last {
            return;
        }
        let (mut low, mut high) = (first, last);
        // All ranges that overlap or touch become one range.
        while let Some((&l, &f)) = self.ranges.range(low.saturating_sub(1)..).next() {
            if f > high.saturating_add(1) {
                break;
            }
            self.ranges.remove(&l);
            self.size = self.size.saturating_sub(extent(f, l));
            low = low.min(f);
            high = high.max(l);
        }
        self.ranges.insert(high, low);
        self.size = self.size.saturating_add(extent(low, high));
    }

    /// Removes a range. A reversed range is ignored.
    pub fn remove(&mut self, first: u128, last: u128) {
        if first > last {
            return;
        }
        while let Some((&l, f)) = self.ranges.range_mut(first..).next() {
            if *f > last {
                return;
            }
            let low = *f;
            if l > last {
                // The upper part stays, with the same key.
                *f = last + 1;
            } else {
                self.ranges.remove(&l);
            }
            if low < first {
                self.ranges.insert(first - 1, low);
            }
            self.size = self.size.saturating_sub(extent(low.max(first), l.min(last)));
        }
    }

    /// Removes all numbers of another set.
    pub fn remove_all(&mut self, other: &Self) {
        for (first, last) in other.iter() {
            self.remove(first, last);
        }
    }
}

const fn extent(first: u128, last: u128) -> u128 {
    (last - first).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

    use super::*;

    /// Ranges at both ends of the space and in its middle.
    fn range() -> impl Strategy<Value = (u128, u128)> {
        let base = prop_oneof![Just(0u128), Just(u128::MAX - 63), Just(1u128 << 64)];
        (base, 0u128..64, 0u128..64).prop_map(|(b, x, y)| (b + x.min(y), b + x.max(y)))
    }

    proptest! {
        #[test]
        fn as_a_naive_set(steps in proptest::collection::vec((any::<bool>(), range(), range()), 1..60)) {
            let mut set = RangeSet::default();
            let mut naive = BTreeSet::new();
            for (add, (first, last), (from, to)) in steps {
                if add {
                    set.insert(first, last);
                    naive.extend(first..=last);
                } else {
                    set.remove(first, last);
                    naive.retain(|n| !(first..=last).contains(n));
                }
                assert_eq!(set.size(), naive.len() as u128);
                assert_eq!(set.first(), naive.first().copied());
                assert_eq!(set.first_from(from), naive.range(from..).next().copied());
                assert_eq!(set.last_to(from), naive.range(..=from).next_back().copied());
                assert_eq!(set.contains(from), naive.contains(&from));
                assert_eq!(set.contains_range(from, to), (from..=to).all(|n| naive.contains(&n)));
                let within: Vec<u128> = set.within(from, to).flat_map(|(f, l)| f..=l).collect();
                assert_eq!(within, naive.range(from..=to).copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.iter().collect();
                assert!(ranges.windows(2).all(|w| w[0].1 + 1 < w[1].0), "{ranges:?} touch");
            }
        }
    }

    #[test]
    fn the_whole_space() {
        let mut set = RangeSet::of([(0, u128::MAX)]);
        assert!(set.contains(u128::MAX));
        set.remove(u128::MAX, u128::MAX);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(0, u128::MAX - 1)]);
    }
}
