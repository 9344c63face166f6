//! The addresses of one key: CIDRs and ranges, both families mixed.

use mooring_allocator_core::block::{Family, number};
use mooring_allocator_core::range_set::RangeSet;
use mooring_allocator_core::text::{self, Span};

use crate::families::place;

use super::problem::Why;

/// The most ranges that a pool can list.
pub(super) const RANGES: usize = 2048;
/// At most this many blocks of 256 addresses of an entry get their first and last address left out.
const BLOCKS: u128 = 512;
/// And this many of a scope. Each address of a node in the pool may make one more range.
const FINE: u128 = RANGES as u128 / 2;

/// Adds the addresses to the sets of their families. Returns the invalid entries.
pub(super) fn read(value: &str, skip_ends: bool, sets: &mut [RangeSet; 2]) -> Vec<(String, Why)> {
    let mut problems = Vec::new();
    let mut any = false;
    for entry in value.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        any = true;
        if entry == "0.0.0.0/32" {
            problems.push((entry.to_owned(), Why::Dhcp));
            continue;
        }
        // Spaces around the dash are allowed.
        let text = entry.split('-').map(str::trim).collect::<Vec<_>>().join("-");
        let problem = match text::span(&text) {
            Ok(span) => add(&mut sets[place(span.family)], span, skip_ends && text.contains('/')),
            Err(error) => Some(Why::Text(error)),
        };
        problems.extend(problem.map(|why| (entry.to_owned(), why)));
    }
    if !any {
        problems.push((String::new(), Why::Empty));
    }
    problems
}

/// Adds an entry. Returns what is not as it should be: not every address is left out that should be, or all are.
fn add(set: &mut RangeSet, Span { family, mut first, mut last }: Span, skip_ends: bool) -> Option<Why> {
    // A single address is meant, whatever its last number; and a /31 has no ends to skip.
    if family == Family::V6 || first == last {
        return insert(set, first, last);
    }
    if skip_ends && last - first > 1 {
        first += 1;
        last -= 1;
    }
    let blocks = (last >> 8) - (first >> 8) + 1;
    if blocks > BLOCKS || (blocks > 1 && set.count() as u128 + blocks > FINE) {
        return insert(set, first, last).or(Some(Why::TooLarge));
    }
    // kube-vip's cloud provider never hands out addresses that end in .0 or .255.
    let base = number(std::net::Ipv4Addr::UNSPECIFIED.into()) & !0xff;
    let pieces = (first >> 8..=last >> 8).map(|block| {
        let start = (block << 8).max(base);
        (first.max(start + 1), last.min(start + 254))
    });
    let mut pieces = pieces.filter(|(first, last)| first <= last);
    pieces.find_map(|(first, last)| insert(set, first, last))
}

/// Adds a range, unless it were one more than a pool can list.
fn insert(set: &mut RangeSet, first: u128, last: u128) -> Option<Why> {
    let is_full = set.count() >= RANGES;
    if is_full && set.within(first.saturating_sub(1), last.saturating_add(1)).next().is_none() {
        return Some(Why::TooMany);
    }
    set.insert(first, last);
    None
}
