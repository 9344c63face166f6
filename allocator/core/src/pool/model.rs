//! Compares pools with a naive model that lists every address, for valid and invalid forms of entries.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use crate::block::{Block, Family, number};

use super::{LegacySpec, Plan, PoolSpec, PrefixSpec, Standing};

/// The start of the small range that the tests use: near the end of a subnet, so that some entries leave the subnet.
const V4: u32 = u32::from_be_bytes([10, 0, 0, 192]);
const V6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_00c0;

fn at(v6: bool, offset: u8) -> IpAddr {
    if v6 {
        IpAddr::V6(Ipv6Addr::from_bits(V6 + u128::from(offset)))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(V4 + u32::from(offset)))
    }
}

/// An entry of a field.
#[derive(Clone, Debug)]
enum Entry {
    Single(bool, u8),
    Range(bool, u8, u8),
    /// A range whose ends are of two families.
    Mixed(u8, u8),
    /// A prefix with this number of host bits; negative: the length is too long.
    Prefix(bool, u8, i8),
    Junk(&'static str),
}

impl Entry {
    fn text(&self) -> String {
        match *self {
            Self::Single(v6, a) => at(v6, a).to_string(),
            Self::Range(v6, a, b) => format!("{}-{}", at(v6, a), at(v6, b)),
            Self::Mixed(a, b) => format!("{}-{}", at(false, a), at(true, b)),
            Self::Prefix(v6, a, host) => format!("{}/{}", at(v6, a), if v6 { 128 } else { 32 } - i16::from(host)),
            Self::Junk(text) => text.into(),
        }
    }

    /// The entry's addresses and family (IPv6: true); None: the entry is invalid.
    fn addresses(&self) -> Option<(bool, BTreeSet<u128>)> {
        match *self {
            Self::Single(v6, a) => Some((v6, [number(at(v6, a))].into())),
            Self::Range(v6, a, b) => (a <= b).then(|| (v6, (number(at(v6, a))..=number(at(v6, b))).collect())),
            Self::Prefix(v6, a, host) => {
                let size = 1u128 << u8::try_from(host).ok()?;
                let first = number(at(v6, a)) / size * size;
                Some((v6, (first..first + size).collect()))
            }
            Self::Mixed(..) | Self::Junk(_) => None,
        }
    }
}

const JUNK: [&str; 16] = [
    "",
    " ",
    "-",
    "/",
    "ten",
    "10.0.0",
    "10.0.0.256",
    "010.0.0.1",
    "10.0.0.1 - 10.0.0.2",
    "10.0.0.1-10.0.0.2-10.0.0.3",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "fe80::1%eth0",
    "::ffff:10.0.0.1",
    "10.0.0.1,10.0.0.2",
    "fd00::g",
];

fn entry(v6: impl Strategy<Value = bool> + Clone + 'static) -> impl Strategy<Value = Entry> {
    prop_oneof![
        8 => (v6.clone(), any::<u8>()).prop_map(|(v, a)| Entry::Single(v, a)),
        8 => (v6.clone(), any::<u8>(), 0..20u8).prop_map(|(v, a, n)| Entry::Range(v, a, a.saturating_add(n))),
        8 => (v6.clone(), any::<u8>(), 0..7i8).prop_map(|(v, a, host)| Entry::Prefix(v, a, host)),
        1 => (v6.clone(), any::<u8>(), any::<u8>()).prop_map(|(v, a, b)| Entry::Range(v, a, b)),
        1 => (v6, any::<u8>(), -2..8i8).prop_map(|(v, a, host)| Entry::Prefix(v, a, host)),
    ]
}

/// Mostly valid entries of one family: otherwise nearly all pools would be refused for the same reason.
fn entries(most: usize) -> impl Strategy<Value = Vec<Entry>> {
    let odd = prop_oneof![
        40 => Just(None),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Some(Entry::Mixed(a, b))),
        1 => proptest::sample::select(&JUNK[..]).prop_map(|text| Some(Entry::Junk(text))),
        1 => entry(any::<bool>()).prop_map(Some),
    ];
    let of = |v6: bool| proptest::collection::vec(entry(Just(v6)), 0..most);
    let all = prop_oneof![3 => of(false), 2 => of(true)];
    (all, odd, any::<bool>()).prop_map(|(mut entries, odd, twice)| {
        entries.extend(odd);
        if twice && let Some(first) = entries.first().cloned() {
            entries.push(first);
        }
        entries
    })
}

/// All addresses of a field, and its family; None: the field is invalid; `Some(None)`: it is empty.
type Field = Option<Option<(bool, BTreeSet<u128>)>>;

fn field(entries: &[Entry]) -> Field {
    let mut all: Option<(bool, BTreeSet<u128>)> = None;
    for entry in entries {
        let (v6, addresses) = entry.addresses()?;
        let (family, set) = all.get_or_insert_with(|| (v6, BTreeSet::new()));
        if *family != v6 {
            return None;
        }
        set.extend(addresses);
    }
    Some(all)
}

/// What a pool with these fields may hand out by the in-cluster provider's rules; None: the pool is refused.
fn naive(
    addresses: &[Entry],
    excluded: &[Entry],
    gateway: Option<&Entry>,
    prefix: i64,
    reserved_too: bool,
) -> Option<BTreeSet<u128>> {
    let (v6, mut usable) = field(addresses)??;
    let excluded = field(excluded)?;
    if excluded.as_ref().is_some_and(|(family, _)| *family != v6) {
        return None;
    }
    let bits = if v6 { 128 } else { 32 };
    let host = u32::try_from(bits - prefix).ok().filter(|_| prefix >= 0)?;
    let (low, high) = (*usable.first()?, *usable.last()?);
    // IPv4's range lies inside IPv6's. IPv6's own range (prefix 0) has more addresses than the type can count.
    let (first, last) = match 1u128.checked_shl(host) {
        Some(size) => (low / size * size, low / size * size + (size - 1)),
        None => (0, u128::MAX),
    };
    if high > last {
        return None;
    }
    if let Some(gateway) = gateway {
        let (family, gateway) = match gateway {
            Entry::Single(v6, a) => (*v6, number(at(*v6, *a))),
            _ => return None,
        };
        if family != v6 {
            return None;
        }
        usable.remove(&gateway);
    }
    for address in excluded.iter().flat_map(|(_, all)| all) {
        usable.remove(address);
    }
    if !reserved_too {
        usable.remove(&first);
        if !v6 {
            usable.remove(&last);
        }
    }
    Some(usable)
}

fn listed(plan: &Plan) -> BTreeSet<u128> {
    plan.usable.iter().flat_map(|(f, l)| f..=l).map(|u| plan.block(u).first()).collect()
}

fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(Entry::text).collect()
}

proptest! {
    #[test]
    fn addresses_as_a_list_of_all(
        addresses in entries(5), excluded in entries(3),
        gateway in prop_oneof![3 => Just(None), 4 => entry(any::<bool>()).prop_map(Some)],
        prefix in prop_oneof![20 => 20..=26i64, 20 => 112..=122i64, 4 => -2..131i64, 1 => any::<i64>()],
        reserved_too in any::<bool>(),
    ) {
        let spec = PoolSpec {
            addresses: texts(&addresses),
            excluded_addresses: texts(&excluded),
            prefix,
            gateway: gateway.as_ref().map(Entry::text),
            allocate_reserved_ip_addresses: reserved_too,
            ..PoolSpec::default()
        };
        let naive = naive(&addresses, &excluded, gateway.as_ref(), prefix, reserved_too);
        match (spec.plan(), naive) {
            (Ok(plan), Some(naive)) => {
                assert_eq!(listed(&plan), naive);
                assert_eq!(plan.total(), i64::try_from(naive.len()).unwrap());
                for v6 in [false, true] {
                    for offset in 0..=255 {
                        let block = Block::host(at(v6, offset));
                        let usable = naive.contains(&block.first());
                        assert_eq!(plan.standing(block) == Standing::Usable, usable);
                        assert_eq!(plan.unit_of(&at(v6, offset).to_string()), Ok(block));
                    }
                }
            }
            (Err(errors), None) => assert!(!errors.is_empty() && errors.iter().all(|e| e.to_string().len() > 10)),
            (plan, naive) => panic!("{plan:?} is not {naive:?}"),
        }
    }

    #[test]
    fn prefixes_as_a_list_of_all(
        prefixes in proptest::collection::vec((any::<u8>(), -1..8i8, any::<bool>()), 0..4), excluded in entries(3),
        length in prop_oneof![20 => 121..=128i64, 1 => any::<i64>()],
    ) {
        // Mostly aligned prefixes.
        let entries: Vec<Entry> = prefixes.iter().map(|&(a, host, exact)| {
            let mask = if exact { 0xffu8.checked_shl(u32::try_from(host.max(0)).unwrap()).unwrap_or(0) } else { 0xff };
            Entry::Prefix(true, a & mask, host)
        }).collect();
        let spec = PrefixSpec {
            prefixes: texts(&entries),
            excluded_prefixes: texts(&excluded),
            allocation_prefix_length: length,
            ..PrefixSpec::default()
        };
        let host = u32::try_from(128 - length).ok().filter(|_| (1..=128).contains(&length));
        let aligned = entries.iter().all(|e| {
            let Entry::Prefix(_, a, bits) = *e else { return false };
            let bits = u32::try_from(bits).ok();
            bits.is_some_and(|b| number(at(true, a)).is_multiple_of(1 << b) && host.is_some_and(|h| b >= h))
        });
        let excluded = field(&excluded).filter(|f| f.as_ref().is_none_or(|(v6, _)| *v6));
        let naive = match (field(&entries).flatten(), excluded, host) {
            (Some((_, all)), Some(excluded), Some(host)) if aligned => {
                let out = excluded.map(|(_, set)| set).unwrap_or_default();
                let size = 1u128 << host;
                let firsts: BTreeSet<u128> = all.iter().map(|a| a / size * size).collect();
                let whole = |f: &u128| (*f..f + size).all(|a| all.contains(&a) && !out.contains(&a));
                Some(firsts.into_iter().filter(whole).collect::<BTreeSet<u128>>())
            }
            _ => None,
        };
        match (spec.plan(), naive) {
            (Ok(plan), Some(naive)) => {
                assert_eq!(listed(&plan), naive);
                assert_eq!(i64::from(plan.prefix), length);
            }
            (Err(errors), None) => assert!(!errors.is_empty()),
            (plan, naive) => panic!("{plan:?} is not {naive:?}"),
        }
    }

    #[test]
    fn the_old_form_as_a_list_of_all(
        v6 in any::<bool>(), subnet in prop_oneof![4 => (any::<u8>(), 0..7i8).prop_map(Some), 1 => Just(None)],
        start in prop_oneof![1 => any::<u8>().prop_map(Some), 1 => Just(None)],
        end in prop_oneof![1 => any::<u8>().prop_map(Some), 1 => Just(None)],
    ) {
        let entry = subnet.map(|(a, host)| Entry::Prefix(v6, a, host));
        let spec = LegacySpec {
            subnet: entry.as_ref().map(Entry::text),
            start: start.map(|a| at(v6, a).to_string()),
            end: end.map(|a| at(v6, a).to_string()),
            prefix: if subnet.is_none() { if v6 { 120 } else { 24 } } else { 0 },
            ..LegacySpec::default()
        };
        let all = entry.as_ref().and_then(Entry::addresses).map(|(_, all)| all);
        let (start, end) = (start.map(|a| number(at(v6, a))), end.map(|a| number(at(v6, a))));
        let naive = match &all {
            None => start.zip(end).filter(|(s, e)| s <= e),
            Some(all) => {
                let first = start.unwrap_or_else(|| all.first().unwrap() + 1);
                let last = end.unwrap_or_else(|| all.last().unwrap() - 1);
                let inside = [start, end].into_iter().flatten().all(|a| all.contains(&a));
                (inside && first <= last).then_some((first, last))
            }
        };
        // A reversed range is found only when the v1alpha2 form is read.
        let found = spec.modern().ok().and_then(|s| field_of(&s.addresses)).filter(|(first, last)| first <= last);
        assert_eq!(found, naive);
    }

    #[test]
    fn no_text_is_too_odd(
        texts in proptest::collection::vec("[0-9a-fA-F:./%, -]{0,45}|\\PC{0,20}", 0..6), number in any::<i64>(),
        excluded in proptest::collection::vec("[0-9a-f:./-]{0,45}", 0..3), gateway in "[0-9a-f:.]{0,20}",
        seconds in any::<i64>(), reserved in any::<bool>(),
    ) {
        let mut spec = PoolSpec {
            addresses: texts.clone(), excluded_addresses: excluded.clone(), prefix: number, gateway: Some(gateway.clone()),
            allocate_reserved_ip_addresses: reserved, address_reuse_grace_period_seconds: seconds, ..PoolSpec::default()
        };
        spec.policy.pre_allocations = texts.iter().cloned().zip(excluded.iter().cloned()).collect();
        for prefix in [number, 24, 64, 0, 128] {
            spec.prefix = prefix;
            shown(spec.plan());
        }
        for length in [number, 0, 1, 64, 128] {
            let prefixes = texts.clone();
            let spec = PrefixSpec { prefixes, allocation_prefix_length: length, excluded_prefixes: excluded.clone(), ..PrefixSpec::default() };
            shown(spec.plan());
        }
        let texts = |i: usize| texts.get(i).cloned();
        let legacy = LegacySpec { subnet: texts(0), start: texts(1), end: texts(2), prefix: number, ..LegacySpec::default() };
        if let Ok(spec) = legacy.modern() {
            shown(spec.plan());
        }
        let _ = Block::read(&gateway);
    }

    #[test]
    fn no_prefix_is_too_large(
        a in any::<u128>(), b in any::<u128>(), long in 0..=128u8, prefix in 0..=128i64, length in 1..=128i64, v4 in any::<bool>()
    ) {
        let of = |n: u128, long: u8| if v4 {
            format!("{}/{}", Ipv4Addr::from_bits(u32::try_from(n >> 96).unwrap()), long.min(32))
        } else {
            format!("{}/{long}", Ipv6Addr::from_bits(n))
        };
        let spec = PoolSpec { addresses: vec![of(a, long)], excluded_addresses: vec![of(b, long)], prefix, ..PoolSpec::default() };
        shown(spec.plan());
        let net = Block::prefix(Ipv6Addr::from_bits(a).into(), long).unwrap();
        let spec = PrefixSpec {
            prefixes: vec![format!("{}/{long}", Ipv6Addr::from_bits(net.first()))], excluded_prefixes: vec![of(b, long)],
            allocation_prefix_length: length, ..PrefixSpec::default()
        };
        shown(spec.plan());
    }
}

/// The first and last address of a field with one range.
fn field_of(addresses: &[String]) -> Option<(u128, u128)> {
    let (first, last) = addresses.first()?.split_once('-')?;
    Some((number(first.parse().ok()?), number(last.parse().ok()?)))
}

/// Calls everything that a plan, or its errors, offer.
fn shown(plan: Result<Plan, Vec<super::SpecError>>) {
    match plan {
        Ok(plan) => {
            assert!(plan.total() >= 0);
            for (first, last) in plan.usable.iter() {
                assert!(first <= last);
                for unit in [first, last] {
                    let block = plan.block(unit);
                    assert_eq!(plan.standing(block), Standing::Usable);
                    assert_eq!(plan.unit_number(block.first()), unit);
                    assert!(plan.prefix <= 32 || Family::of(block.address()) == Family::V6, "IPv4's place in IPv6");
                }
            }
            assert!(plan.address_ranges().all(|(f, l)| f <= l));
        }
        Err(errors) => assert!(!errors.is_empty() && errors.iter().all(|e| !e.to_string().is_empty())),
    }
}
