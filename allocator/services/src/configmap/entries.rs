//! The addresses of one key: CIDRs and ranges, both families mixed.

use mooring_allocator_core::block::{Family, number};
use mooring_allocator_core::range_set::RangeSet;
use mooring_allocator_core::text::{self, Span};

use crate::families::place;

use super::problem::Why;

/// A pool can list 2,048 ranges. At most this many blocks of 256 addresses get their first and last address left out.
const BLOCKS: u128 = 512;

/// The addresses by family, and the invalid entries.
pub(super) fn read(value: &str, skip_ends: bool) -> ([RangeSet; 2], Vec<(String, Why)>) {
    let mut sets = [RangeSet::default(), RangeSet::default()];
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
        match text::span(&text) {
            Ok(span) => {
                if add(&mut sets[place(span.family)], span, skip_ends && text.contains('/')) {
                    problems.push((entry.to_owned(), Why::TooLarge));
                }
            }
            Err(error) => problems.push((entry.to_owned(), Why::Text(error))),
        }
    }
    if !any {
        problems.push((String::new(), Why::Empty));
    }
    (sets, problems)
}

/// Adds an entry. Returns whether the entry was too large to leave out every address that should be left out.
fn add(set: &mut RangeSet, Span { family, mut first, mut last }: Span, skip_ends: bool) -> bool {
    // A single address is meant, whatever its last number; and a /31 has no ends to skip.
    if family == Family::V6 || first == last {
        set.insert(first, last);
        return false;
    }
    if skip_ends && last - first > 1 {
        first += 1;
        last -= 1;
    }
    let blocks = (last >> 8) - (first >> 8) + 1;
    if blocks > BLOCKS {
        set.insert(first, last);
        return true;
    }
    // kube-vip's cloud provider never hands out addresses that end in .0 or .255.
    let base = number(std::net::Ipv4Addr::UNSPECIFIED.into()) & !0xff;
    for block in (first >> 8)..=(last >> 8) {
        let start = (block << 8).max(base);
        set.insert(first.max(start + 1), last.min(start + 254));
    }
    false
}
