//! What a pool may hand out: the pool's spec, read and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::block::{Block, Family, MAPPED, MAPPED_LAST, address, host_mask, number};
use crate::protocol::flaws::{Flaw, planted};
use crate::range_set::RangeSet;
use crate::text::{self, Span};

use super::error::SpecError;
use super::remark::Remark;
use super::spec::{Network, Policy, PoolSpec, Strategy};

/// Whether a pool may hand out an address, apart from who has the address now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The pool may hand out the address.
    Usable,
    /// The pool does not list the address.
    Outside,
    /// The address is the gateway.
    Gateway,
    /// The address is the subnet's own address or its broadcast address.
    Reserved,
    /// The pool excludes the address.
    Excluded,
}

impl Standing {
    /// In words, to follow "it is".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Usable => "in the pool",
            Self::Outside => "not in the pool",
            Self::Gateway => "the pool's gateway",
            Self::Reserved => "reserved in its subnet (allocateReservedIPAddresses is off)",
            Self::Excluded => "excluded from the pool",
        }
    }
}

/// An entry of a pool whose entries have prefixes and gateways of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first address, as a number.
    pub first: u128,
    /// The last.
    pub last: u128,
    /// The `prefix` of each `IPAddress` of this entry.
    pub prefix: u8,
    /// The `gateway` of each `IPAddress` of this entry.
    pub gateway: Option<IpAddr>,
}

/// What a pool may hand out. A pool hands out *units*: single addresses, or prefixes of one length.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The length of a unit's prefix, 0 to 128; 128 for single addresses.
    pub(crate) unit: u8,
    /// The units that the pool may hand out.
    pub(crate) usable: RangeSet,
    /// Excluded and reserved addresses: used to explain a refusal.
    excluded: RangeSet,
    reserved: RangeSet,
    /// The entries, in the order in which they are used up; empty: the pool has one prefix and one gateway, and one order.
    pub(crate) entries: Vec<Entry>,
    /// The `prefix` of each `IPAddress`.
    pub prefix: u8,
    /// The `gateway` of each `IPAddress`.
    pub gateway: Option<IpAddr>,
    /// The order in which free units are handed out.
    pub strategy: Strategy,
    /// The units kept for claims, by claim name or `namespace/name`.
    pub(crate) kept: BTreeMap<String, Block>,
    /// Why a claim cannot have what `preAllocations` says, by the same names. No other claim is concerned.
    pub(crate) misplaced: BTreeMap<String, SpecError>,
    /// The units that `preAllocations` keeps for several claims: nobody gets them.
    contested: BTreeSet<Block>,
    /// The pools with which this pool shares one view of what is used.
    pub network: Network,
    /// How long a released unit rests.
    pub quarantine: Duration,
    /// How long a unit rests after another host was heard to have it. Never zero.
    pub conflict_quarantine: Duration,
    /// Only claims of these namespaces; None: all.
    pub allowed_namespaces: Option<BTreeSet<String>>,
    /// Oddities that do not keep the pool from working.
    pub remarks: Vec<Remark>,
}

impl PoolSpec {
    /// Reads and checks the spec.
    ///
    /// # Errors
    /// All errors in the spec, not only the first.
    pub fn plan(&self) -> Result<Plan, Vec<SpecError>> {
        let mut errors = Vec::new();
        if self.addresses.is_empty() {
            errors.push(SpecError::Empty { field: "addresses" });
        }
        let listed = spans(&self.addresses, "addresses", &mut errors);
        let excluded = spans(&self.excluded_addresses, "excludedAddresses", &mut errors);
        let gateway = self.gateway.as_deref().filter(|g| !g.is_empty());
        let gateway = gateway.and_then(|g| fault(text::address(g), "gateway", &mut errors));
        let Some(family) = listed.first().map(|(_, s)| s.family) else { return Err(errors) };
        same_family(excluded.first().map(|(_, s)| s.family), "excludedAddresses", family, &mut errors);
        same_family(gateway.map(Family::of), "gateway", family, &mut errors);
        let seconds = self.address_reuse_grace_period_seconds.max(self.policy.quarantine_seconds);
        negative("addressReuseGracePeriodSeconds", self.address_reuse_grace_period_seconds, &mut errors);
        let lowest = listed.iter().map(|(_, s)| s.first).min().unwrap_or_default();
        let length = u8::try_from(self.prefix).ok();
        let Some((length, subnet)) = length.and_then(|l| Some((l, Block::prefix(address(lowest), l)?))) else {
            errors.push(SpecError::Prefix { prefix: self.prefix, family });
            return Err(errors);
        };
        for (entry, span) in &listed {
            if span.family == family && (span.first < subnet.first() || span.last > subnet.last()) {
                errors.push(SpecError::OtherSubnet { entry: (*entry).into(), subnet: subnet.to_string() });
            }
        }
        let mut remarks = odd(&listed, "addresses");
        remarks.extend(odd(&excluded, "excludedAddresses"));
        let mut usable = RangeSet::of(listed.iter().map(|(_, s)| (s.first, s.last)));
        for (entry, span) in &excluded {
            if usable.within(span.first, span.last).next().is_none() {
                remarks.push(Remark::ExcludesNothing { entry: (*entry).into() });
            }
        }
        if let Some(gateway) = gateway {
            if !subnet.overlaps(Block::host(gateway)) && Family::of(gateway) == family {
                remarks.push(Remark::GatewayOutside { gateway: gateway.to_string(), subnet: subnet.to_string() });
            }
            usable.remove(number(gateway), number(gateway));
        }
        let excluded = RangeSet::of(excluded.iter().map(|(_, s)| (s.first, s.last)));
        usable.remove_all(&excluded);
        let mut reserved = RangeSet::default();
        if !self.allocate_reserved_ip_addresses {
            reserved.insert(subnet.first(), subnet.first());
            if family == Family::V4 {
                reserved.insert(subnet.last(), subnet.last());
            }
        }
        let unreserved = !usable.is_empty();
        usable.remove_all(&reserved);
        if family == Family::V6 {
            // IPv4-mapped addresses (::ffff:0:0/96) are IPv4 addresses, and are never handed out as IPv6.
            usable.remove(MAPPED, MAPPED_LAST);
        }
        if usable.is_empty() {
            remarks.push(Remark::NothingUsable { reserved: unreserved });
        }
        let plan = Plan {
            unit: 128,
            usable,
            excluded,
            reserved,
            entries: Vec::new(),
            prefix: length,
            gateway,
            strategy: self.policy.strategy,
            kept: BTreeMap::new(),
            misplaced: BTreeMap::new(),
            contested: BTreeSet::new(),
            network: self.policy.network.clone(),
            quarantine: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            conflict_quarantine: conflict_quarantine(&self.policy),
            allowed_namespaces: self.policy.allowed_namespaces.clone(),
            remarks,
        };
        plan.finish(&self.policy, errors)
    }
}

impl Plan {
    /// The plan of a pool whose addresses an outside system chooses: it lists nothing. A released address does not rest: the
    /// outside system gives it to whom it likes.
    #[must_use]
    pub fn of_outside(network: Network, allowed_namespaces: Option<BTreeSet<String>>) -> Self {
        Self {
            unit: 128,
            usable: RangeSet::default(),
            excluded: RangeSet::default(),
            reserved: RangeSet::default(),
            entries: Vec::new(),
            prefix: 0,
            gateway: None,
            strategy: Strategy::default(),
            kept: BTreeMap::new(),
            misplaced: BTreeMap::new(),
            contested: BTreeSet::new(),
            network,
            quarantine: Duration::ZERO,
            conflict_quarantine: Duration::ZERO,
            allowed_namespaces,
            remarks: Vec::new(),
        }
    }

    /// A plan of prefixes, before the policy is checked.
    pub(super) fn of_prefixes(
        unit: u8,
        usable: RangeSet,
        excluded: RangeSet,
        gateway: Option<IpAddr>,
        policy: &Policy,
        remarks: Vec<Remark>,
    ) -> Self {
        Self {
            unit,
            usable,
            excluded,
            reserved: RangeSet::default(),
            entries: Vec::new(),
            prefix: unit,
            gateway,
            strategy: policy.strategy,
            kept: BTreeMap::new(),
            misplaced: BTreeMap::new(),
            contested: BTreeSet::new(),
            network: policy.network.clone(),
            quarantine: Duration::from_secs(u64::try_from(policy.quarantine_seconds).unwrap_or(0)),
            conflict_quarantine: conflict_quarantine(policy),
            allowed_namespaces: policy.allowed_namespaces.clone(),
            remarks,
        }
    }

    /// A plan of entries, before the policy is checked.
    pub(super) fn of_entries(
        usable: RangeSet,
        entries: Vec<Entry>,
        gateway: Option<IpAddr>,
        policy: &Policy,
        remarks: Vec<Remark>,
    ) -> Self {
        let plan = Self::of_prefixes(128, usable, RangeSet::default(), gateway, policy, remarks);
        Self { entries, ..plan }
    }

    /// The entry of an `IPPool` that has an address: its place in `pools`.
    #[must_use]
    pub fn entry_of(&self, address: IpAddr) -> Option<usize> {
        let at = number(address);
        self.entries.iter().position(|entry| (entry.first..=entry.last).contains(&at))
    }

    /// The `prefix` and the `gateway` of a unit's `IPAddress`.
    #[must_use]
    pub fn terms(&self, block: Block) -> (u8, Option<IpAddr>) {
        let at = block.first();
        let entry = self.entries.iter().find(|entry| (entry.first..=entry.last).contains(&at));
        let entry = entry.filter(|_| !planted(Flaw::TermsOfThePool));
        entry.map_or((self.prefix, self.gateway), |entry| (entry.prefix, entry.gateway))
    }

    /// Checks the policy, and reads the addresses kept for claims, which need the usable set.
    pub(super) fn finish(mut self, policy: &Policy, mut errors: Vec<SpecError>) -> Result<Self, Vec<SpecError>> {
        negative("quarantine.afterReleaseSeconds", policy.quarantine_seconds, &mut errors);
        negative("quarantine.afterConflictSeconds", policy.conflict_quarantine_seconds.unwrap_or(0), &mut errors);
        self.keep(&policy.pre_allocations);
        if self.total() == i64::MAX {
            self.remarks.push(Remark::Huge);
        }
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    /// Reads the addresses kept for claims. One that makes no sense is the matter of the claims that it names: a mistake in one
    /// line must not stop all other claims of the pool.
    fn keep(&mut self, pre_allocations: &BTreeMap<String, String>) {
        let mut claims: BTreeMap<Block, Vec<&String>> = BTreeMap::new();
        for (claim, text) in pre_allocations {
            let wrong = match self.unit_of(text) {
                Err(source) => SpecError::Text { field: "preAllocations", source },
                Ok(block) => match self.standing(block) {
                    Standing::Usable => {
                        claims.entry(block).or_default().push(claim);
                        continue;
                    }
                    standing => {
                        let (claim, address, why) = (claim.clone(), text.clone(), standing.words());
                        SpecError::PreAllocationOutside { claim, address, why }
                    }
                },
            };
            self.misplaced.insert(claim.clone(), wrong);
        }
        for (block, claims) in claims {
            if let [claim] = claims[..] {
                self.kept.insert(claim.clone(), block);
                continue;
            }
            self.contested.insert(block);
            for (n, &claim) in claims.iter().enumerate() {
                // Each is told of another one.
                let second = claims[usize::from(n == 0)].clone();
                let (first, second) = if n == 0 { (claim.clone(), second) } else { (claims[0].clone(), claim.clone()) };
                let wrong = SpecError::PreAllocationTwice { address: block.to_string(), first, second };
                self.misplaced.insert(claim.clone(), wrong);
            }
        }
    }

    /// All units that are kept from claims in general.
    pub(crate) fn kept_units(&self) -> impl Iterator<Item = Block> + '_ {
        self.kept.values().chain(&self.contested).copied()
    }

    /// What is wrong in `preAllocations`, each mistake once.
    pub(crate) fn misplaced_words(&self) -> BTreeSet<String> {
        self.misplaced.values().map(ToString::to_string).collect()
    }

    /// The unit that a text names: an address, or in a pool of prefixes a prefix (with or without its length).
    pub(crate) fn unit_of(&self, text: &str) -> Result<Block, text::TextError> {
        let bare = match text.split_once('/') {
            Some((bare, length)) if length.parse() == Ok(self.prefix) => bare,
            Some(_) => return Err(text::TextError::Unparsable(text.into())),
            None => text,
        };
        let at = number(text::address(bare)?);
        let block = Block::around(at, self.unit);
        // A prefix must be given by its first address: otherwise people would get another prefix than they wrote.
        if block.first() == at { Ok(block) } else { Err(text::TextError::Unparsable(text.into())) }
    }

    /// The family of the usable units; None: there are none.
    #[must_use]
    pub fn family(&self) -> Option<Family> {
        let unit = self.usable.first()?;
        Some(Family::of(self.block(unit).address()))
    }

    /// Whether the pool may hand out a unit, apart from who has the unit now.
    #[must_use]
    pub fn standing(&self, block: Block) -> Standing {
        if self.covers(block) {
            return Standing::Usable;
        }
        let (first, last) = (block.first(), block.last());
        let gateways = self.gateway.into_iter().chain(self.entries.iter().filter_map(|entry| entry.gateway));
        if gateways.into_iter().any(|g| Block::host(g) == block) {
            Standing::Gateway
        } else if self.excluded.within(first, last).next().is_some() {
            Standing::Excluded
        } else if self.reserved.contains(first) {
            Standing::Reserved
        } else {
            Standing::Outside
        }
    }

    /// Whether the block is a usable unit.
    pub(crate) fn covers(&self, block: Block) -> bool {
        block.length() == self.unit && self.usable.contains(self.unit_number(block.first()))
    }

    /// Whether the pool lists all units of a block.
    pub(crate) fn lists_all_of(&self, block: Block) -> bool {
        let (first, last) = (self.unit_number(block.first()), self.unit_number(block.last()));
        self.usable.within(first, last).next() == Some((first, last))
    }

    /// The number of usable units; at most `i64::MAX`, the limit of the in-cluster provider's counters.
    #[must_use]
    pub fn total(&self) -> i64 {
        i64::try_from(self.usable.size()).unwrap_or(i64::MAX)
    }

    /// The number of the unit that an address is in.
    pub(crate) const fn unit_number(&self, address: u128) -> u128 {
        if self.unit == 0 { 0 } else { address >> (128 - self.unit as u32) }
    }

    /// The block of a unit.
    pub(crate) const fn block(&self, unit: u128) -> Block {
        Block::around(unit << (128 - self.unit as u32), self.unit)
    }

    /// The usable ranges as addresses, first and last.
    pub fn address_ranges(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        let shift = 128 - u32::from(self.unit);
        self.usable.iter().map(move |(f, l)| (f << shift, l << shift | host_mask(self.unit)))
    }
}

/// Reads the entries of a field. Unreadable entries are errors, and so are entries of two families.
pub(super) fn spans<'a>(
    entries: &'a [String],
    field: &'static str,
    errors: &mut Vec<SpecError>,
) -> Vec<(&'a str, Span)> {
    let mut spans = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some(span) = fault(text::span(entry), field, errors) {
            spans.push((entry.as_str(), span));
        }
    }
    if spans.windows(2).any(|w| w[0].1.family != w[1].1.family) {
        errors.push(SpecError::MixedFamilies { field });
    }
    spans
}

/// The value; None: the error was added to `errors`.
pub(super) fn fault<T>(
    read: Result<T, text::TextError>,
    field: &'static str,
    errors: &mut Vec<SpecError>,
) -> Option<T> {
    read.map_err(|source| errors.push(SpecError::Text { field, source })).ok()
}

fn same_family(found: Option<Family>, field: &'static str, expected: Family, errors: &mut Vec<SpecError>) {
    if let Some(found) = found.filter(|&f| f != expected) {
        errors.push(SpecError::OtherFamily { field, found, expected });
    }
}

fn negative(field: &'static str, seconds: i64, errors: &mut Vec<SpecError>) {
    if seconds < 0 {
        errors.push(SpecError::Negative { field, seconds });
    }
}

/// How long an address rests after another host was heard to have it, if the pool gives no time.
const CONFLICT_RESTS: Duration = Duration::from_mins(10);

/// How long such an address rests at least, whatever the pool says. Without a rest, the claim that has lost the address would
/// be given the same one again, and lose it again, without end.
const CONFLICT_RESTS_AT_LEAST: Duration = Duration::from_secs(4);

fn conflict_quarantine(policy: &Policy) -> Duration {
    let given = |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).max(CONFLICT_RESTS_AT_LEAST);
    policy.conflict_quarantine_seconds.map_or(CONFLICT_RESTS, given)
}

/// Remarks about entries that are equal or overlap.
pub(super) fn odd(entries: &[(&str, Span)], field: &str) -> Vec<Remark> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(_, s)| (s.first, s.last));
    let mut remarks = Vec::new();
    let mut reach: Option<&(&str, Span)> = None;
    for entry in sorted {
        if let Some(before) = reach.filter(|b| b.1.last >= entry.1.first) {
            remarks.push(if before.1 == entry.1 {
                Remark::Duplicate { field: field.into(), entry: entry.0.into() }
            } else {
                Remark::Overlap { field: field.into(), first: before.0.into(), second: entry.0.into() }
            });
        }
        if reach.is_none_or(|b| b.1.last < entry.1.last) {
            reach = Some(entry);
        }
    }
    remarks
}
