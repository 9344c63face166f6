use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::pool::{Plan, Standing, Strategy};

use super::*;
use crate::objects::{Made, Source};

fn read(data: &[(&str, &str)]) -> Config {
    Config::read(&data.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect())
}

fn made(config: &Config) -> BTreeMap<String, Vec<String>> {
    let all = pools(config, &BTreeSet::new());
    all.into_iter().map(|(source, made)| (source.to_string(), made.spec.addresses)).collect()
}

fn plan(config: &Config, scope: Scope, family: Family) -> Plan {
    pools(config, &BTreeSet::new())[&Source { scope, family }].spec.plan().unwrap()
}

fn usable(plan: &Plan, ip: &str) -> bool {
    plan.standing(Block::host(ip.parse().unwrap())) == Standing::Usable
}

fn problems(config: &Config) -> String {
    config.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tutorials_single_address_is_exactly_that_one() {
    let config = read(&[("cidr-global", "10.10.222.231/32")]);
    let plan = plan(&config, Scope::Global, Family::V4);
    assert_eq!(plan.total(), 1);
    assert!(usable(&plan, "10.10.222.231"));
    assert!(config.problems.is_empty());
}

#[test]
fn the_documented_forms() {
    // Of the project's README.
    for (value, count) in [
        ("192.168.0.220/29", 8),
        ("192.168.0.200/30,192.168.0.200/29", 8),
        ("192.168.0.200-192.168.0.202", 3),
        ("192.168.0.10-192.168.0.11,192.168.0.10-192.168.0.13", 4),
        ("192.168.0.220/29, 192.168.1.7/32 ", 9),
        ("192.168.0.220/29,10.0.0.7-10.0.0.9", 11),
        ("192.168.0.1 - 192.168.0.2", 2),
    ] {
        for key in ["cidr-global", "range-global"] {
            let config = read(&[(key, value)]);
            assert_eq!(plan(&config, Scope::Global, Family::V4).total(), count, "{key}: {value}");
            assert_eq!(config.problems, [], "{key}: {value}");
        }
    }
}

#[test]
fn what_ends_in_0_or_255_is_left_out_unless_it_is_named() {
    let config = read(&[("cidr-global", "10.0.0.0/23,10.0.9.255/32")]);
    let plan = plan(&config, Scope::Global, Family::V4);
    assert_eq!(plan.total(), 2 * 254 + 1);
    assert!(!usable(&plan, "10.0.0.255") && !usable(&plan, "10.0.1.0") && usable(&plan, "10.0.9.255"));
}

#[test]
fn the_ends_of_a_cidr_are_skipped_but_not_of_a_31() {
    let skip = ("skip-end-ips-in-cidr", "true");
    let config = read(&[("cidr-global", "192.168.0.216/29,192.168.3.4/31,192.168.4.4/32"), skip]);
    let plan = plan(&config, Scope::Global, Family::V4);
    assert_eq!(plan.total(), 6 + 2 + 1);
    assert!(!usable(&plan, "192.168.0.216") && !usable(&plan, "192.168.0.223") && usable(&plan, "192.168.3.4"));
    // Ranges have no ends, IPv6 neither.
    let config = read(&[("range-global", "10.0.0.8-10.0.0.15"), ("cidr-global", "fd00::/120"), skip]);
    assert_eq!(self::plan(&config, Scope::Global, Family::V4).total(), 8);
    assert_eq!(self::plan(&config, Scope::Global, Family::V6).total(), 256);
}

#[test]
fn both_families_and_both_forms_side_by_side() {
    let config = read(&[
        ("range-team", "10.1.0.1-10.1.0.9"),
        ("cidr-team", "fd00:1::/112"),
        ("cidr-global", "10.0.0.0/24,fd00::/112"),
    ]);
    let all = made(&config);
    assert_eq!(
        all.keys().map(String::as_str).collect::<Vec<_>>(),
        ["global IPv4", "global IPv6", "namespace/team IPv4", "namespace/team IPv6"]
    );
    // A namespace's range is not shadowed by the global CIDR.
    assert_eq!(config.scope(&"team".into()), Some(Scope::Namespace("team".into())));
    assert_eq!(config.scope(&"other".into()), Some(Scope::Global));
    assert_eq!(all["namespace/team IPv4"], ["10.1.0.1-10.1.0.9"]);
}

#[test]
fn a_namespaces_pool_serves_it_alone() {
    let config = read(&[("cidr-team", "10.1.0.0/24"), ("cidr-global", "10.0.0.0/24")]);
    let team = plan(&config, Scope::Namespace("team".into()), Family::V4);
    assert_eq!(team.allowed_namespaces, Some(BTreeSet::from(["team".to_owned()])));
    assert_eq!(plan(&config, Scope::Global, Family::V4).allowed_namespaces, None);
}

#[test]
fn from_the_end() {
    let order = |value: &str| {
        plan(&read(&[("cidr-global", "10.0.0.0/24"), ("search-order", value)]), Scope::Global, Family::V4).strategy
    };
    assert_eq!((order("desc"), order("asc"), order("down")), (Strategy::Highest, Strategy::Lowest, Strategy::Lowest));
    assert!(problems(&read(&[("search-order", "down")])).contains("neither asc nor desc"));
}

#[test]
fn sharing_and_interfaces_by_scope() {
    let config = read(&[
        ("cidr-global", "10.0.0.0/24"),
        ("cidr-team", "10.1.0.0/24"),
        ("allow-share-global", "true"),
        ("allow-share-quiet", "false"),
        ("interface-global", "eth0"),
        ("interface-team", "eth1.7"),
    ]);
    let name = |text: &str| -> Arc<str> { text.into() };
    // All of the team's share with each other, and not with those of the global pool.
    assert_eq!(config.shares(&name("team")), Some(Scope::Namespace(name("team"))));
    assert_eq!(config.shares(&name("other")), Some(Scope::Global));
    assert_eq!(config.shares(&name("quiet")), None);
    assert_eq!(config.interface(&name("team")).map(|i| &**i), Some("eth1.7"));
    assert_eq!(config.interface(&name("other")).map(|i| &**i), Some("eth0"));
}

#[test]
fn a_bad_entry_is_named_and_the_rest_works() {
    let config = read(&[
        ("cidr-global", "10.0.0.0/24,ten,10.0.0.0/33,10.0.1.9-10.0.1.1,0.0.0.0/32,10.2.0.1/32"),
        ("cidr-", "10.0.0.0/24"),
        ("cird-global", "10.0.0.0/24"),
        ("range-empty", " "),
        ("allow-share-global", "yes"),
        ("interface-global", "eth0, eth1"),
        ("skip-end-ips-in-cidr", "maybe"),
    ]);
    assert_eq!(plan(&config, Scope::Global, Family::V4).total(), 254 + 1);
    let told = problems(&config);
    for word in [
        "\"ten\"",
        "10.0.0.0/33",
        "reversed",
        "DHCP",
        "cidr-: no such key",
        "cird-global: no such key",
        "range-empty: it names no",
        "\"yes\" is neither",
        "\"eth0, eth1\" is not",
        "skip-end-ips-in-cidr: \"\" is neither",
    ] {
        assert!(told.contains(word), "{word} is missing in\n{told}");
    }
    assert_eq!(config.problems.len(), 10);
    // A namespace whose entry is bad gets nothing of another network.
    assert_eq!(config.scope(&"empty".into()), Some(Scope::Namespace("empty".into())));
}

#[test]
fn what_is_too_large_is_given_out_whole() {
    let config = read(&[("cidr-global", "10.0.0.0/8"), ("range-a", "10.0.0.0-10.1.255.255")]);
    assert_eq!(plan(&config, Scope::Global, Family::V4).total(), 1 << 24);
    assert_eq!(plan(&config, Scope::Namespace("a".into()), Family::V4).total(), 512 * 254);
    assert!(problems(&config).contains("so large"));
    // Both are what a pool may list.
    let all = pools(&config, &BTreeSet::new());
    assert!(all.values().all(|made| made.spec.addresses.len() <= 2048));
}

#[test]
fn several_large_entries_make_no_more_ranges_than_a_pool_may_list() {
    let sixteens = |from: u8, to: u8| (from..to).map(|n| format!("10.{n}.0.0/17")).collect::<Vec<_>>().join(",");
    let (cidrs, ranges) = (sixteens(0, 20), "11.0.0.0-11.1.255.255,11.3.0.0-11.4.255.255,11.6.0.7");
    let config = read(&[("cidr-global", &cidrs), ("range-global", ranges)]);
    // Nodes have addresses in them: each parts a range.
    let nodes: BTreeSet<IpAddr> =
        (0..900).map(|n| format!("10.0.{}.{}", n / 200, n % 200 + 20).parse().unwrap()).collect();
    for others in [BTreeSet::new(), nodes] {
        let all = pools(&config, &others);
        let made = &all[&Source { scope: Scope::Global, family: Family::V4 }];
        assert!(made.spec.addresses.len() <= 2048, "{}", made.spec.addresses.len());
        let plan = made.spec.plan().unwrap();
        assert!(["10.0.0.1", "10.19.0.1", "11.4.0.1", "11.6.0.7"].into_iter().all(|ip| usable(&plan, ip)));
        assert!(!usable(&plan, "10.0.1.0") && usable(&plan, "11.3.1.0"), "the first entries are given out finely");
        assert!(others.iter().all(|ip| !usable(&plan, &ip.to_string())));
    }
    assert!(problems(&config).contains("range-global: 11.3.0.0-11.4.255.255 is so large"), "{}", problems(&config));
    assert!(!problems(&config).contains("10.0.0.0/17"));
}

#[test]
fn more_ranges_than_a_pool_may_list_are_told() {
    let single = |n: u32| format!("10.{}.{}.1", n / 200, n % 200);
    let of = |count: u32| read(&[("range-global", &(0..count).map(single).collect::<Vec<_>>().join(","))]);
    let total = |config: &Config| plan(config, Scope::Global, Family::V4).total();
    let (fits, more) = (of(2048), of(2100));
    assert_eq!((total(&fits), problems(&fits)), (2048, String::new()));
    assert_eq!(total(&more), 2048);
    assert!(problems(&more).contains("range-global: 10.10.48.1"), "{}", problems(&more));
    // One more entry that makes no further range is one that counts.
    let config = read(&[(
        "range-global",
        &format!("{},10.0.0.1-10.0.0.9", (0..2048).map(single).collect::<Vec<_>>().join(",")),
    )]);
    assert_eq!((total(&config), problems(&config)), (2048 + 8, String::new()));
}

#[test]
fn others_addresses_are_left_out() {
    let node: IpAddr = "10.0.0.2".parse().unwrap();
    let all = pools(&read(&[("range-global", "10.0.0.1-10.0.0.3")]), &BTreeSet::from([node]));
    let listed: Vec<_> = all.values().flat_map(|made| made.spec.addresses.clone()).collect();
    assert_eq!(listed, ["10.0.0.1", "10.0.0.3"]);
}

#[test]
fn names_of_pools_differ() {
    let config = read(&[
        ("cidr-global", "10.0.0.0/24,fd00::/112"),
        ("cidr-kept", "10.1.0.0/24"),
        ("cidr-addresses", "10.2.0.0/24"),
    ]);
    let mut all: Vec<Made> = pools(&config, &BTreeSet::new()).into_values().collect();
    all.extend(kept(["10.9.0.1".parse().unwrap()].iter(), Family::V4));
    let names: BTreeSet<_> = all.into_iter().map(|made| NewPool::new(made, None).reference.name.to_string()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.contains("kubevip-global-ipv4"));
}
