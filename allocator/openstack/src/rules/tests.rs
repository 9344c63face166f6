use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

fn pool(given: &[u8], most: Option<usize>, reclaim: ReclaimPolicy) -> Pool {
    let given = given.iter().copied().map(address).collect();
    Pool { uid: "pool".into(), given, most, reclaim, tag: tag("fips") }
}

fn holder(uid: &str) -> Holder {
    Holder { uid: uid.into(), name: format!("{uid}.shop") }
}

fn floating(last: u8, description: &str) -> FloatingIp {
    FloatingIp {
        id: format!("f-{last}"),
        address: address(last),
        network: "n".into(),
        port: None,
        description: description.into(),
        tags: Vec::new(),
        revision: Some(1),
    }
}

fn text(pool: &Pool, claim: Option<&str>) -> String {
    Mark { claim: claim.map(holder), ..pool.mark(holder("x")) }.description().unwrap()
}

fn taken(choice: Choice) -> Option<IpAddr> {
    match choice {
        Choice::Take(one, _) => Some(one.address),
        _ => None,
    }
}

#[test]
fn the_list_comes_first_in_its_order() {
    let pool = pool(&[9, 7], None, ReclaimPolicy::Retain);
    let there = [floating(2, &text(&pool, None)), floating(7, "Ingress"), floating(9, "")];
    assert_eq!(taken(pool.choose(&there, &holder("a"), None)), Some(address(9)));
    let there = [there[0].clone(), there[1].clone(), floating(9, &text(&pool, Some("b")))];
    let Choice::Take(one, description) = pool.choose(&there, &holder("a"), None) else { panic!("none") };
    assert_eq!((one.address, &*description), (address(7), "Ingress | mooring claim=a pool=pool for=a.shop"));
    assert_eq!(taken(pool.choose(&there[..1], &holder("a"), None)), Some(address(2)));
    assert_eq!(pool.choose(&[], &holder("a"), None), Choice::Make);
}

#[test]
fn what_others_have_is_not_free() {
    let pool = pool(&[9], Some(1), ReclaimPolicy::Delete);
    let others = Mark { pool: "other".into(), ..pool.mark(holder("b")) }.description().unwrap();
    let kept_by_others = Mark { pool: "other".into(), claim: None, ..pool.mark(holder("b")) }.description().unwrap();
    let mut on_a_port = floating(9, "");
    on_a_port.port = Some("port".into());
    for there in [floating(9, &others), on_a_port, floating(8, &kept_by_others)] {
        assert!(matches!(pool.choose(&[there], &holder("a"), None), Choice::Full(_)));
    }
}

#[test]
fn nothing_is_made_outside_a_list_as_long_as_max_ips() {
    let limited = pool(&[9, 7], Some(2), ReclaimPolicy::Delete);
    let there = [floating(9, &text(&limited, Some("b")))];
    let Choice::Full(why) = limited.choose(&there, &holder("a"), None) else { panic!("not full") };
    assert!(why.contains("203.0.113.7"), "{why}");
    let unlimited = pool(&[9, 7], None, ReclaimPolicy::Delete);
    assert_eq!(unlimited.choose(&there, &holder("a"), None), Choice::Make);
    let one_more = pool(&[9, 7], Some(3), ReclaimPolicy::Delete);
    assert_eq!(one_more.choose(&there, &holder("a"), None), Choice::Make);
}

#[test]
fn max_ips_counts_what_claims_have() {
    let limited = pool(&[9, 7], Some(1), ReclaimPolicy::Delete);
    let there = [floating(9, &text(&limited, Some("b"))), floating(7, "")];
    assert!(matches!(limited.choose(&there, &holder("a"), None), Choice::Full(_)));
    let limited = pool(&[], Some(2), ReclaimPolicy::Retain);
    let there = [floating(9, &text(&limited, Some("b"))), floating(7, &text(&limited, None))];
    assert_eq!(taken(limited.choose(&there, &holder("a"), None)), Some(address(7)));
    let there = [there[0].clone(), floating(7, &text(&limited, Some("c")))];
    assert!(matches!(limited.choose(&there, &holder("a"), None), Choice::Full(_)));
}

#[test]
fn a_wish_is_kept_or_refused() {
    let pool = pool(&[9, 7], None, ReclaimPolicy::Delete);
    let there = [floating(9, ""), floating(7, "")];
    assert_eq!(taken(pool.choose(&there, &holder("a"), Some(address(7)))), Some(address(7)));
    assert!(matches!(pool.choose(&there[..1], &holder("a"), Some(address(7))), Choice::Unfit(_)));
    assert_eq!(pool.choose(&there, &holder("a"), Some(address(5))), Choice::Make);
}

#[test]
fn only_what_was_made_is_deleted() {
    let of = |reclaim| pool(&[9], None, reclaim);
    let mine = |last| floating(last, &text(&of(ReclaimPolicy::Delete), Some("a")));
    assert_eq!(of(ReclaimPolicy::Delete).release(&mine(5), Some("a"), false), Release::Delete);
    let free = Release::Describe("mooring made pool=pool".into());
    assert_eq!(of(ReclaimPolicy::Retain).release(&mine(5), Some("a"), false), free);
    assert_eq!(of(ReclaimPolicy::Delete).release(&mine(9), Some("a"), false), Release::Describe(String::new()));
    // It was in the list when the claim got it.
    let given = floating(5, "Ingress | mooring claim=a pool=pool for=a.shop");
    assert_eq!(of(ReclaimPolicy::Delete).release(&given, Some("a"), false), Release::Describe("Ingress".into()));
}

#[test]
fn nothing_of_others_is_let_go() {
    let pool = pool(&[], None, ReclaimPolicy::Delete);
    let others = Mark { pool: "other".into(), ..pool.mark(holder("a")) }.description().unwrap();
    for there in [text(&pool, Some("b")), text(&pool, None), others, "Ingress".into()] {
        assert_eq!(pool.release(&floating(5, &there), Some("a"), false), Release::Nothing, "{there}");
    }
    // Unless the pool was moved, with its claims.
    let others = floating(5, "mooring made claim=a pool=other for=a.shop");
    assert_eq!(pool.release(&others, Some("a"), true), Release::Delete);
    let mut former = floating(5, "Created by cluster-api-provider-openstack");
    assert_eq!(pool.release(&former, None, false), Release::Nothing);
    former.tags.push(tag("fips"));
    assert_eq!(pool.release(&former, None, false), Release::Delete);
}

#[test]
fn what_the_former_controller_made_may_be_deleted_later() {
    let pool = pool(&[9], None, ReclaimPolicy::Delete);
    let mark = |one: &FloatingIp| Mark::read(&pool.taken(one, holder("a")).unwrap()).unwrap();
    let former = |last| FloatingIp { tags: vec![tag("fips")], ..floating(last, "Created by CAPO") };
    assert_eq!((mark(&former(5)).made, mark(&former(5)).kept), (true, String::new()));
    assert_eq!((mark(&former(9)).made, mark(&former(9)).kept), (false, "Created by CAPO".into()));
    assert!(!mark(&floating(5, "")).made);
}
