use std::net::IpAddr;

use crate::block::{Block, Family};
use crate::text::TextError;

use super::*;

fn spec(addresses: &[&str], prefix: i64) -> PoolSpec {
    PoolSpec { addresses: texts(addresses), prefix, ..PoolSpec::default() }
}

fn prefixes(of: &[&str], length: i64, excluded: &[&str]) -> PrefixSpec {
    let (prefixes, excluded_prefixes) = (texts(of), texts(excluded));
    PrefixSpec { prefixes, allocation_prefix_length: length, excluded_prefixes, ..PrefixSpec::default() }
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|&t| t.into()).collect()
}

fn usable(plan: &Plan) -> Vec<String> {
    let units = plan.usable.iter().flat_map(|(first, last)| first..=last);
    units.take(100).map(|u| plan.block(u).to_string()).collect()
}

fn errors(plan: Result<Plan, Vec<SpecError>>) -> Vec<SpecError> {
    plan.err().unwrap_or_default()
}

#[test]
fn the_tutorials_pool_has_seven() {
    let pool = PoolSpec { gateway: Some("10.10.222.1".into()), ..spec(&["10.10.222.232-10.10.222.238"], 24) };
    let plan = pool.plan().unwrap();
    assert_eq!(plan.total(), 7);
    assert_eq!((plan.prefix, plan.gateway), (24, Some("10.10.222.1".parse().unwrap())));
    assert_eq!(plan.remarks, []);
}

#[test]
fn the_subnets_own_and_broadcast_addresses_are_reserved() {
    let mut pool = spec(&["10.0.0.0/30"], 30);
    assert_eq!(usable(&pool.plan().unwrap()), ["10.0.0.1", "10.0.0.2"]);
    pool.allocate_reserved_ip_addresses = true;
    assert_eq!(pool.plan().unwrap().total(), 4);
    // IPv6 has no broadcast address.
    assert_eq!(usable(&spec(&["fd00::/126"], 126).plan().unwrap()), ["fd00::1", "fd00::2", "fd00::3"]);
    // The subnet is that of the lowest address, not of the first listed.
    assert_eq!(usable(&spec(&["10.0.0.7", "10.0.0.0"], 29).plan().unwrap()), Vec::<String>::new());
    assert!(matches!(errors(spec(&["10.0.0.9", "10.0.0.7"], 29).plan())[..], [SpecError::OtherSubnet { .. }]));
}

#[test]
fn a_single_address_with_its_own_prefix_is_reserved_and_says_so() {
    let mut pool = spec(&["10.0.0.5"], 32);
    let plan = pool.plan().unwrap();
    assert_eq!((plan.total(), &plan.remarks[..]), (0, &[Remark::NothingUsable { reserved: true }][..]));
    pool.allocate_reserved_ip_addresses = true;
    assert_eq!(usable(&pool.plan().unwrap()), ["10.0.0.5"]);
    assert_eq!(spec(&["10.0.0.4/31"], 31).plan().unwrap().total(), 0);
    assert_eq!(usable(&spec(&["fd00::/127"], 127).plan().unwrap()), ["fd00::1"]);
    assert_eq!(spec(&["fd00::5"], 128).plan().unwrap().total(), 0);
}

#[test]
fn gateway_and_exclusions_are_never_usable() {
    let pool = PoolSpec {
        gateway: Some("10.0.0.1".into()),
        excluded_addresses: texts(&["10.0.0.3-10.0.0.4", "10.0.0.8/30", "10.0.0.13"]),
        ..spec(&["10.0.0.0/28"], 28)
    };
    let plan = pool.plan().unwrap();
    assert_eq!(usable(&plan), ["10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.12", "10.0.0.14"]);
    let at = |text: &str| plan.standing(Block::host(text.parse().unwrap()));
    assert_eq!(at("10.0.0.1"), Standing::Gateway);
    assert_eq!(at("10.0.0.9"), Standing::Excluded);
    assert_eq!(at("10.0.0.0"), Standing::Reserved);
    assert_eq!(at("10.0.0.15"), Standing::Reserved);
    assert_eq!(at("10.0.0.16"), Standing::Outside);
    assert_eq!(at("10.0.0.2"), Standing::Usable);
    // Also if reserved addresses may be handed out.
    let pool = PoolSpec { allocate_reserved_ip_addresses: true, ..pool };
    assert!(!usable(&pool.plan().unwrap()).contains(&"10.0.0.1".to_owned()));
}

#[test]
fn what_is_wrong_is_told_by_name() {
    let v4 = ["10.0.0.1"];
    let text = |field, source| SpecError::Text { field, source };
    assert_eq!(errors(spec(&[], 24).plan()), [SpecError::Empty { field: "addresses" }]);
    assert_eq!(
        errors(spec(&["10.0.0.9-10.0.0.1", "x"], 24).plan()),
        [
            text("addresses", TextError::Reversed("10.0.0.9-10.0.0.1".into())),
            text("addresses", TextError::Unparsable("x".into()))
        ]
    );
    assert_eq!(errors(spec(&["10.0.0.1", "fd00::1"], 24).plan()), [SpecError::MixedFamilies { field: "addresses" }]);
    for prefix in [-1, 33, 128, i64::MAX, i64::MIN] {
        assert_eq!(errors(spec(&v4, prefix).plan()), [SpecError::Prefix { prefix, family: Family::V4 }]);
    }
    let outside = SpecError::OtherSubnet { entry: "10.0.1.1".into(), subnet: "10.0.0.0/24".into() };
    assert_eq!(errors(spec(&["10.0.0.1", "10.0.1.1"], 24).plan()), [outside]);
    let mut pool = PoolSpec { gateway: Some("fd00::1".into()), ..spec(&v4, 24) };
    let other = |field| SpecError::OtherFamily { field, found: Family::V6, expected: Family::V4 };
    assert_eq!(errors(pool.plan()), [other("gateway")]);
    pool.gateway = Some("10.0.0".into());
    assert_eq!(errors(pool.plan()), [text("gateway", TextError::Unparsable("10.0.0".into()))]);
    let mut pool = PoolSpec { excluded_addresses: texts(&["fd00::/64"]), ..spec(&v4, 24) };
    assert_eq!(errors(pool.plan()), [other("excludedAddresses")]);
    pool.excluded_addresses = texts(&["10.0.0.1", "fd00::/64"]);
    assert_eq!(errors(pool.plan()), [SpecError::MixedFamilies { field: "excludedAddresses" }]);
    let pool = PoolSpec { address_reuse_grace_period_seconds: -1, ..spec(&v4, 24) };
    let negative = SpecError::Negative { field: "addressReuseGracePeriodSeconds", seconds: -1 };
    assert_eq!(errors(pool.plan()), [negative]);
}

#[test]
fn what_is_odd_works_and_is_told() {
    let pool = PoolSpec {
        gateway: Some("10.9.9.9".into()),
        excluded_addresses: texts(&["10.0.0.200"]),
        ..spec(&["10.0.0.1-10.0.0.10", "10.0.0.5", "10.0.0.20", "10.0.0.20"], 24)
    };
    let plan = pool.plan().unwrap();
    assert_eq!(plan.total(), 11);
    let field = || "addresses".to_owned();
    assert_eq!(
        plan.remarks,
        [
            Remark::Overlap { field: field(), first: "10.0.0.1-10.0.0.10".into(), second: "10.0.0.5".into() },
            Remark::Duplicate { field: field(), entry: "10.0.0.20".into() },
            Remark::ExcludesNothing { entry: "10.0.0.200".into() },
            Remark::GatewayOutside { gateway: "10.9.9.9".into(), subnet: "10.0.0.0/24".into() },
        ]
    );
}

#[test]
fn huge_pools_cost_nothing_and_counts_are_capped() {
    assert_eq!(spec(&["10.0.0.0/8"], 8).plan().unwrap().total(), (1 << 24) - 2);
    assert_eq!(spec(&["0.0.0.0/0"], 0).plan().unwrap().total(), (1 << 32) - 2);
    for huge in ["fd00::/64", "::/0"] {
        let plan = spec(&[huge], huge[huge.len() - 2..].trim_matches('/').parse().unwrap()).plan().unwrap();
        assert_eq!(plan.total(), i64::MAX);
        assert_eq!(plan.remarks, [Remark::Huge]);
    }
    let mut plan = prefixes(&["fd00::/16"], 128, &[]).plan().unwrap();
    assert_eq!((plan.total(), plan.remarks.pop()), (i64::MAX, Some(Remark::Huge)));
}

#[test]
fn the_old_form() {
    let old = |subnet: &str, start: &str, end: &str, prefix| LegacySpec {
        subnet: Some(subnet.into()),
        start: Some(start.into()),
        end: Some(end.into()),
        prefix,
        ..LegacySpec::default()
    };
    let addresses = |spec: LegacySpec| spec.modern().map(|s| (s.addresses.join(","), s.prefix));
    assert_eq!(addresses(old("10.0.0.0/24", "", "", 0)), Ok(("10.0.0.1-10.0.0.254".into(), 24)));
    assert_eq!(addresses(old("10.0.0.0/24", "10.0.0.10", "", 24)), Ok(("10.0.0.10-10.0.0.254".into(), 24)));
    assert_eq!(addresses(old("", "10.0.0.10", "10.0.0.12", 24)), Ok(("10.0.0.10-10.0.0.12".into(), 24)));
    assert_eq!(addresses(old("fd00::/120", "", "fd00::9", 0)), Ok(("fd00::1-fd00::9".into(), 120)));
    let with = LegacySpec { addresses: texts(&["10.0.0.1"]), prefix: 24, ..LegacySpec::default() };
    assert_eq!(addresses(with.clone()), Ok(("10.0.0.1".into(), 24)));
    let refused = |spec: LegacySpec| spec.modern().unwrap_err();
    assert!(matches!(refused(LegacySpec { start: Some("10.0.0.1".into()), ..with })[..], [SpecError::Legacy(_)]));
    assert!(matches!(refused(old("", "", "10.0.0.1", 24))[..], [SpecError::Legacy(_)]));
    assert!(matches!(refused(LegacySpec::default())[..], [SpecError::Legacy(_)]));
    let outside = refused(old("10.0.0.0/24", "10.0.1.1", "10.0.2.1", 24));
    assert!(matches!(
        outside[..],
        [SpecError::OutsideSubnet { field: "start", .. }, SpecError::OutsideSubnet { field: "end", .. }]
    ));
    assert!(matches!(refused(old("10.0.0.0/24", "", "", 25))[..], [SpecError::PrefixOfSubnet { prefix: 25, .. }]));
    assert!(matches!(refused(old("10.0.0.0/33", "x", "", 0))[..], [_, SpecError::Text { field: "subnet", .. }]));
    // A /32 has nothing between its first and its last address.
    let reversed = refused(old("10.0.0.5/32", "", "", 0));
    assert!(matches!(reversed[..], [SpecError::Text { field: "subnet", .. }]));
}

#[test]
fn prefixes_are_the_units_that_fit_whole() {
    let plan = prefixes(&["fd00::/62"], 0, &["fd00:0:0:1::5"]).plan().unwrap();
    assert_eq!(usable(&plan), ["fd00::/64", "fd00:0:0:2::/64", "fd00:0:0:3::/64"]);
    assert_eq!(plan.prefix, 64);
    // Two adjacent prefixes form one range.
    assert_eq!(prefixes(&["fd00::/64", "fd00:0:0:1::/64"], 64, &[]).plan().unwrap().total(), 2);
    assert_eq!(prefixes(&["fd00::/48"], 56, &["fd00::/49"]).plan().unwrap().total(), 128);
    let wide = prefixes(&["fd00::/56"], 60, &["fd00:0:0:8::-fd00:0:0:8::1"]).plan().unwrap();
    assert_eq!((wide.total(), usable(&wide)[0].as_str()), (15, "fd00:0:0:10::/60"));
    // The gateway is not excluded.
    let pool = PrefixSpec { gateway: Some("fd00::1".into()), ..prefixes(&["fd00::/64"], 64, &[]) };
    let plan = pool.plan().unwrap();
    assert_eq!((plan.total(), plan.gateway), (1, Some("fd00::1".parse::<IpAddr>().unwrap())));
}

#[test]
fn what_is_wrong_with_prefixes_is_told_by_name() {
    assert_eq!(errors(prefixes(&[], 64, &[]).plan()), [SpecError::Empty { field: "prefixes" }]);
    for length in [-1, 129, i64::MIN] {
        assert_eq!(errors(prefixes(&["fd00::/48"], length, &[]).plan()), [SpecError::AllocationLength(length)]);
    }
    let wrong = prefixes(&["10.0.0.0/8", "fd00::1/64", "fd00::/80", "fd00::5"], 64, &["10.0.0.1", "y"]);
    let errors = errors(PrefixSpec { gateway: Some("10.0.0.1".into()), ..wrong }.plan());
    assert!(
        matches!(
            &errors[..],
            [
                SpecError::NotV6 { field: "prefixes", .. },
                SpecError::Unaligned { .. },
                SpecError::TooSmall { length: 64, .. },
                SpecError::Text { field: "prefixes", .. },
                SpecError::Text { field: "excludedPrefixes", .. },
                SpecError::NotV6 { field: "excludedPrefixes", .. },
                SpecError::NotV6 { field: "gateway", .. },
            ]
        ),
        "{errors:?}"
    );
}

#[test]
fn addresses_kept_for_claims_must_be_the_pools_and_one_claims_only() {
    let keep = |pairs: &[(&str, &str)]| {
        let mut pool = PoolSpec { excluded_addresses: texts(&["10.0.0.9"]), ..spec(&["10.0.0.0/28"], 28) };
        pool.policy.pre_allocations = pairs.iter().map(|&(c, a)| (c.into(), a.into())).collect();
        pool.plan()
    };
    let plan = keep(&[("a", "10.0.0.5"), ("ns/b", "10.0.0.6")]).unwrap();
    assert_eq!(plan.total(), 13);
    assert_eq!(plan.kept.len(), 2);
    // A mistake is that of the claim it names: the pool works.
    for (wrong, words) in
        [("10.0.1.5", "not in the pool"), ("10.0.0.9", "excluded from the pool"), ("10.0.0", "10.0.0")]
    {
        let plan = keep(&[("a", wrong), ("b", "10.0.0.6")]).unwrap();
        assert!(plan.misplaced.len() == 1 && plan.misplaced["a"].to_string().contains(words), "{:?}", plan.misplaced);
        assert_eq!(plan.kept.keys().collect::<Vec<_>>(), ["b"]);
    }
    // Nobody gets what is kept for several; each is told of another.
    let plan = keep(&[("a", "10.0.0.5"), ("b", "10.0.0.5"), ("c", "10.0.0.5"), ("d", "10.0.0.6")]).unwrap();
    assert_eq!(plan.kept.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(plan.kept_units().map(|unit| unit.to_string()).collect::<Vec<_>>(), ["10.0.0.6", "10.0.0.5"]);
    for claim in ["a", "b", "c"] {
        let told = plan.misplaced[claim].to_string();
        assert!(told.contains("10.0.0.5") && told.contains(&format!("{claim:?}")), "{told}");
    }
    assert_eq!(plan.misplaced_words().len(), 2, "{:?}", plan.misplaced_words());
    let mut pool = prefixes(&["fd00::/48"], 64, &[]);
    pool.policy.pre_allocations = [("a".to_owned(), "fd00:0:0:7::/64".to_owned())].into();
    assert_eq!(pool.plan().unwrap().kept["a"].to_string(), "fd00:0:0:7::/64");
    pool.policy.pre_allocations = [("a".to_owned(), "fd00:0:0:7::1".to_owned())].into();
    assert!(matches!(pool.plan().unwrap().misplaced["a"], SpecError::Text { field: "preAllocations", .. }));
}
