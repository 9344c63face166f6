//! The rules for claims and addresses that hold in every run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::Value;

use super::world::{Change, Id, State};

/// The first and the last address of an `IPAddress`, which may be a prefix.
type Block = (u128, u128);

fn block(says: &str) -> Option<Block> {
    let (address, rest) = says.split_once('/')?;
    let (prefix, pool) = rest.split_once(' ')?;
    let address: IpAddr = address.parse().ok()?;
    let first = match address {
        // IPv4 is kept apart from all IPv6 addresses that pools hand out.
        IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    if !pool.contains("PrefixPool") {
        return Some((first, first));
    }
    let host = prefix.parse::<u32>().ok().and_then(|length| u128::MAX.checked_shr(length)).unwrap_or(0);
    Some((first, first | host))
}

/// Goes through all objects in the order of the store: at no moment may two bound claims have an address in common. A claim
/// that is being deleted has no address once the address was released, although its status names the address to the end: an
/// allocator that was frozen may create the object again, and nobody uses that object. Returns the errors.
#[must_use]
pub fn twice(history: &[Change]) -> Vec<String> {
    let mut sorted: Vec<&Change> = history.iter().collect();
    sorted.sort_by_key(|change| change.version);
    // Claims and the addresses they are bound to; addresses; the claims of each address.
    let mut bound: BTreeMap<Id, String> = BTreeMap::new();
    let mut there: HashMap<(String, String), Block> = HashMap::new();
    let mut held: BTreeMap<u128, (u128, Id)> = BTreeMap::new();
    let mut has: HashMap<Id, u128> = HashMap::new();
    let (mut going, mut released) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for change in sorted {
        let (kind, namespace, name) = &change.id;
        let claim: Id = if *kind == "IPAddressClaim" {
            if change.gone {
                going.remove(&change.id);
            } else if change.going {
                going.insert(change.id.clone());
            }
            match &change.says {
                Some(to) if !change.gone && !released.contains(&change.uid) => {
                    _ = bound.insert(change.id.clone(), to.clone());
                }
                _ => _ = bound.remove(&change.id),
            }
            change.id.clone()
        } else {
            let at = (namespace.clone(), name.clone());
            match change.says.as_deref().and_then(block) {
                Some(block) if !change.gone => _ = there.insert(at, block),
                _ => _ = there.remove(&at),
            }
            // An address has the name of its claim.
            let claim = ("IPAddressClaim", namespace.clone(), name.clone());
            if change.gone
                && going.contains(&claim)
                && bound.remove(&claim).is_some()
                && let Some(owner) = &change.owner
            {
                released.insert(owner.clone());
            }
            claim
        };
        if let Some(first) = has.remove(&claim) {
            held.remove(&first);
        }
        let Some(block) = bound.get(&claim).and_then(|to| there.get(&(claim.1.clone(), to.clone()))) else {
            continue;
        };
        let before = held.range(..=block.1).next_back();
        if let Some((_, (last, other))) = before.filter(|(_, (last, _))| *last >= block.0) {
            wrong.push(format!(
                "at {}: {}/{} is bound to {} to {last:x}, which {}/{} has",
                change.version, claim.1, claim.2, block.0, other.1, other.2
            ));
            continue;
        }
        held.insert(block.0, (block.1, claim.clone()));
        has.insert(claim, block.0);
    }
    wrong
}

/// Checks a state in which nothing is under way: each claim is bound to an address of its own or reports a reason, and each
/// address has its claim. `ours`: the prefix of the namespaces to check. Returns the errors.
#[must_use]
pub fn at_rest(state: &State, ours: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = |object: &Value| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("/metadata/namespace"), text("/metadata/name"))
    };
    let mut owners: BTreeMap<Block, String> = BTreeMap::new();
    for claim in state.all("IPAddressClaim", "").filter(|one| name(one).0.starts_with(ours)) {
        let (namespace, claim_name) = name(claim);
        let ready = ready(claim);
        let bound = claim.pointer("/status/addressRef/name").and_then(Value::as_str);
        match (&ready, bound) {
            (None, _) => wrong.push(format!("{namespace}/{claim_name} has no condition")),
            (Some((true, ..)), None) => wrong.push(format!("{namespace}/{claim_name} is Ready without an address")),
            (Some((false, reason, message)), None) if reason.is_empty() || message.is_empty() => {
                wrong.push(format!("{namespace}/{claim_name} does not say why it has no address"));
            }
            _ => {}
        }
        let Some(bound) = bound else { continue };
        let Some(address) = state.get("IPAddress", &namespace, bound) else {
            wrong.push(format!("{namespace}/{claim_name} is bound to {bound}, which is not there"));
            continue;
        };
        let controller = owner(address);
        if controller.as_deref() != claim["metadata"]["uid"].as_str() {
            wrong.push(format!("{namespace}/{bound} is owned by {controller:?}, and not by the claim bound to it"));
        }
        let says = format!(
            "{}/{} {}",
            address["spec"]["address"].as_str().unwrap_or_default(),
            address["spec"]["prefix"],
            address["spec"]["poolRef"]["kind"]
        );
        let Some(block) = block(&says) else {
            wrong.push(format!("{namespace}/{bound} has no address: {says}"));
            continue;
        };
        let overlapping = owners.range(..=(block.1, u128::MAX)).next_back().filter(|((_, last), _)| *last >= block.0);
        if let Some((_, other)) = overlapping {
            wrong.push(format!("{namespace}/{claim_name} has {says}, as {other} does"));
        }
        owners.insert(block, format!("{namespace}/{claim_name}"));
    }
    for address in state.all("IPAddress", "").filter(|one| name(one).0.starts_with(ours)) {
        let (namespace, address_name) = name(address);
        if address.pointer("/metadata/annotations").is_some_and(|all| {
            all.as_object().is_some_and(|all| all.keys().any(|key| key == mooring_api::annotations::QUARANTINED_UNTIL))
        }) {
            continue;
        }
        let claim = address["spec"]["claimRef"]["name"].as_str().unwrap_or_default();
        let uid = state.get("IPAddressClaim", &namespace, claim).and_then(|claim| claim["metadata"]["uid"].as_str());
        if uid.is_none() || owner(address).as_deref() != uid {
            wrong.push(format!("{namespace}/{address_name} is leaked: its claim {claim} is gone, or is another one"));
        }
    }
    wrong
}

/// The claim's condition `Ready`: whether the condition is true, its reason and its message.
#[must_use]
pub fn ready(object: &Value) -> Option<(bool, String, String)> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    let one = all.iter().find(|one| one["type"] == "Ready")?;
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Some((one["status"] == "True", text("reason"), text("message")))
}

fn owner(address: &Value) -> Option<String> {
    let owners = address["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|one| one["controller"] == true)?["uid"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Change, twice};

    fn change(version: u64, kind: &'static str, name: &str, says: Option<&str>) -> Change {
        Change {
            version,
            id: (kind, "n".to_owned(), name.to_owned()),
            uid: name.to_owned(),
            gone: says.is_none(),
            going: false,
            says: says.map(str::to_owned),
            owner: None,
        }
    }

    #[test]
    fn two_bound_claims_with_one_address_are_found() {
        let same = "10.0.0.1/24 \"InClusterIPPool\" \"p\"";
        let mut history = vec![
            change(1, "IPAddress", "a", Some(same)),
            change(2, "IPAddressClaim", "a", Some("a")),
            change(3, "IPAddress", "b", Some(same)),
        ];
        // Two objects with one address are an error only if both claims are bound.
        assert_eq!(twice(&history), [""; 0]);
        history.push(change(4, "IPAddressClaim", "b", Some("b")));
        assert_eq!(twice(&history).len(), 1);
        // No error if the first object was gone before. The order is that of the versions, not that of arrival.
        history.push(change(3, "IPAddress", "a", None));
        assert_eq!(twice(&history), [""; 0]);
        // A claim that is being deleted has no address after the release, even if an object of its name is created.
        let going = |change: Change| Change { going: true, ..change };
        let gone = Change { owner: Some("a".to_owned()), ..change(3, "IPAddress", "a", None) };
        let late = [
            change(1, "IPAddress", "a", Some(same)),
            going(change(2, "IPAddressClaim", "a", Some("a"))),
            gone,
            change(4, "IPAddress", "b", Some(same)),
            change(5, "IPAddressClaim", "b", Some("b")),
            change(6, "IPAddress", "a", Some(same)),
            going(change(7, "IPAddressClaim", "a", Some("a"))),
        ];
        assert_eq!(twice(&late), [""; 0]);
        let mut kept = late.to_vec();
        kept[1].going = false;
        assert_eq!(twice(&kept).len(), 2);
        // A prefix contains its addresses.
        let prefix = "fd00::/56 \"InClusterPrefixPool\" \"p\"";
        let inside = "fd00:0:0:ff::/64 \"InClusterPrefixPool\" \"q\"";
        let history = [
            change(1, "IPAddress", "a", Some(prefix)),
            change(2, "IPAddressClaim", "a", Some("a")),
            change(3, "IPAddress", "b", Some(inside)),
            change(4, "IPAddressClaim", "b", Some("b")),
        ];
        assert_eq!(twice(&history).len(), 1);
    }
}
