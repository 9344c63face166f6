//! Names of claims. The same Service, family, pool and request give the same name, so a claim that is created twice
//! exists once. Another Service of the same name (with another uid) gives another name.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid};

/// FNV-1a, 64 bits (draft-eastlake-fnv).
#[must_use]
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The name of a Service's claim. `home`: the namespace of claims that Services of several namespaces may share.
/// `attempt`: gives another name if the first one is taken.
#[must_use]
pub fn claim(
    service: &Key,
    uid: &Uid,
    family: Family,
    pool: &PoolRef,
    requested: Option<IpAddr>,
    home: Option<&Arc<str>>,
    attempt: u32,
) -> Key {
    let requested = requested.map(|ip| ip.to_string()).unwrap_or_default();
    let sum = hash([&*uid.0, pool.kind.name(), &*pool.namespace, &*pool.name, &*requested, &*attempt.to_string()])
        & 0xff_ffff_ffff;
    let name = format!("{}{sum:010x}{}", before(service, home.is_some()), after(family));
    Key { namespace: home.unwrap_or(&service.namespace).clone(), name: name.into() }
}

/// Whether a claim for a Service may have this name; `across`: a claim that Services of several namespaces may share.
#[must_use]
pub fn is_claim_of(service: &Key, across: bool, family: Family, name: &str) -> bool {
    let sum = name.strip_prefix(&*before(service, across)).and_then(|rest| rest.strip_suffix(after(family)));
    sum.is_some_and(|sum| sum.len() == 10 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Whether a claim for any Service of its namespace may have this name. Services that share an address in one namespace have a claim
/// that is named after the first of them, also when that one is gone.
#[must_use]
pub fn is_claim(family: Family, name: &str) -> bool {
    let service = name.strip_suffix(after(family)).and_then(|rest| rest.rsplit_once('-')).map(|(service, _)| service);
    service.is_some_and(|service| !service.is_empty() && is_claim_of(&Key::new("", service), false, family, name))
}

/// What comes before the sum. A dot stands between namespace and name, as neither has one (RFC 1123 and RFC 1035 labels): with a hyphen
/// a claim of `a/b-c` could be taken for one of `a-b/c`.
fn before(service: &Key, across: bool) -> String {
    if across { format!("{}.{}-", service.namespace, service.name) } else { format!("{}-", service.name) }
}

const fn after(family: Family) -> &'static str {
    match family {
        Family::V4 => "-ipv4",
        Family::V6 => "-ipv6",
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::PoolKind;

    use super::*;

    #[test]
    fn another_wish_has_another_name() {
        let service = Key::new("shop", "web");
        let pool = |name: &str| PoolRef::new(PoolKind::GlobalInClusterIPPool, "", name);
        let uid = Uid::from("u1");
        let one = claim(&service, &uid, Family::V4, &pool("a"), None, None, 0);
        assert_eq!(one, claim(&service, &uid, Family::V4, &pool("a"), None, None, 0));
        assert!(is_claim_of(&service, false, Family::V4, &one.name), "{one}");
        assert!(is_claim(Family::V4, &one.name) && !is_claim(Family::V6, &one.name), "{one}");
        for name in ["web", "web-x-ipv4", "-0123456789-ipv4", "0123456789-ipv4", "web-0123456789", ""] {
            assert!(!is_claim(Family::V4, name), "{name}");
        }
        for (name, across, family) in
            [(&*one.name, true, Family::V4), (&*one.name, false, Family::V6), ("web-x-ipv4", false, Family::V4)]
        {
            assert!(!is_claim_of(&service, across, family, name), "{name}");
        }
        let shared = claim(&service, &uid, Family::V6, &pool("a"), None, Some(&"home".into()), 0);
        assert!(is_claim_of(&service, true, Family::V6, &shared.name), "{shared}");
        let ours = claim(&Key::new("a", "b-c"), &uid, Family::V4, &pool("a"), None, Some(&"home".into()), 0);
        assert!(!is_claim_of(&Key::new("a-b", "c"), true, Family::V4, &ours.name), "{ours}");
        let ip = "10.0.0.5".parse().ok();
        let others = [
            claim(&service, &uid, Family::V6, &pool("a"), None, None, 0),
            claim(&service, &uid, Family::V4, &pool("b"), None, None, 0),
            claim(&service, &uid, Family::V4, &pool("a"), ip, None, 0),
            claim(&service, &Uid::from("u2"), Family::V4, &pool("a"), None, None, 0),
            claim(&service, &uid, Family::V4, &pool("a"), None, Some(&"kube-system".into()), 0),
        ];
        assert!(others.iter().all(|other| *other != one), "{others:?}");
    }
}
