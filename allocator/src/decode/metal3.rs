//! metal3's own claims and addresses: JSON to the protocol's claim and address, and back to what their users read.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, Uid, Version};
use mooring_allocator_core::protocol::{Address, Claim, Condition, Hold, Links, Reason};
use mooring_allocator_core::retained_meta::{Finalizers, RetainedMeta};
use mooring_allocator_core::scope::Scope;
use mooring_api::pool::{METAL3_CLAIM, METAL3_POOL, METAL3_VERSION};
use mooring_common::text::cut_bytes;
use mooring_names::metal3;
use serde::Deserialize;

use super::address::is_of;
use super::claim::{self, FOREGROUND, LONGEST_REQUEST};
use super::kinds::finalizers;
use super::meta::{Meta, NameJson, Owner};
use super::names::Names;
use super::own_annotations;
use super::text::Text;

/// An `IPClaim`, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metal3ClaimJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: ClaimSpec<'a>,
    #[serde(borrow)]
    status: Option<ClaimStatus<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimSpec<'a> {
    #[serde(borrow)]
    pool: NameJson<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus<'a> {
    #[serde(borrow)]
    address: Option<NameJson<'a>>,
    #[serde(borrow)]
    error_message: Option<Text<'a>>,
}

/// An `IPAddress` of metal3's group, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metal3AddressJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: AddressSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AddressSpec<'a> {
    #[serde(borrow)]
    claim: NameJson<'a>,
    #[serde(borrow)]
    pool: NameJson<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    prefix: Option<i64>,
}

/// The name of an address, as metal3 writes it: where metal3's controller looks for it.
#[must_use]
pub fn address_name(prefix: &str, address: IpAddr) -> String {
    let text = format!("{prefix}-{address}").replace(['.', ':'], "-");
    text.trim_end_matches('-').to_owned()
}

/// The address in such a name. A prefix may look like the beginning of an IPv6 address: it is a hint, no more.
fn address_in(name: &str) -> Option<IpAddr> {
    let parts: Vec<&str> = name.split('-').collect();
    let last = |count: usize, by: &str| parts.len().checked_sub(count).map(|at| parts[at..].join(by));
    let whole = [last(8, ":"), last(4, ".")].into_iter().flatten();
    let cut = |at: usize| [parts[at..].join(":"), format!("{}::", parts[at..].join(":"))];
    whole.chain((1..parts.len()).flat_map(cut)).find_map(|text| text.parse().ok())
}

/// `status.errorMessage`: metal3's claims have no place for a reason, so the message begins with it.
#[must_use]
pub fn error_message(condition: &Condition) -> String {
    format!("{}: {}", condition.reason.name(), condition.message)
}

impl Metal3ClaimJson<'_> {
    /// Translates to the protocol's claim. None: it names no pool.
    #[must_use]
    pub fn translate(&self, names: &mut Names, scope: &Scope) -> Option<Claim> {
        let meta = &self.metadata;
        // metal3 knows a pool by its name alone, in the namespace of the claim.
        let pool = &*self.spec.pool.name;
        let pool = (!pool.is_empty()).then(|| names.pool(PoolKind::Metal3IPPool, &meta.namespace, pool))?;
        let key = Key { namespace: names.text(&meta.namespace), ..Key::of_metal3("", &meta.name) };
        let ours = finalizers(pool.kind, ClaimKind::Metal3).claim;
        let all = meta.finalizers.as_deref().unwrap_or_default();
        let labels = meta.labels.as_ref();
        let annotations = meta.annotations.as_ref();
        let cluster = labels.and_then(|labels| labels.cluster.as_ref()).filter(|name| !name.is_empty());
        let label = labels.and_then(|labels| labels.watch_filter.as_deref());
        let requested = annotations.and_then(|a| a.requested_of_metal3.as_ref().or(a.requested.as_ref()));
        let retained = RetainedMeta {
            finalizers: names.finalizers(all),
            cluster: cluster.map(|name| names.text(name)),
            paused: annotations.is_some_and(|a| a.paused.is_some()),
            elsewhere: !scope.has(&key.namespace, label),
            api: METAL3_VERSION,
            owned: meta.owner_references.as_ref().is_some_and(|all| !all.is_empty()),
            ..RetainedMeta::default()
        };
        Some(Claim {
            uid: Uid::from(&*meta.uid),
            version: Version::from(&*meta.resource_version),
            created: meta.creation_timestamp.as_deref().and_then(own_annotations::read_moment).unwrap_or(0),
            pool,
            deleting: meta.deletion_timestamp.is_some(),
            finalizer: all.iter().any(|one| **one == *ours),
            others: all.iter().any(|one| **one != *ours && **one != *FOREGROUND),
            bound: self.bound().map(Arc::from),
            voided: claim::voided(annotations),
            requested: requested.map(|text| Box::from(cut_bytes(text, LONGEST_REQUEST))),
            had: claim::had(annotations),
            hold: Hold::None,
            condition: self.condition(),
            key,
            retained,
        })
    }

    fn bound(&self) -> Option<&str> {
        let name = &*self.status.as_ref()?.address.as_ref()?.name;
        (!name.is_empty()).then_some(name)
    }

    fn condition(&self) -> Option<Condition> {
        let error = self.status.as_ref().and_then(|status| status.error_message.as_deref());
        if let Some(error) = error.filter(|error| !error.is_empty()) {
            let known = error.split_once(": ").map(|(first, rest)| (claim::reason(first), rest));
            let (reason, message) =
                known.filter(|(reason, _)| *reason != Reason::Other).unwrap_or((Reason::Other, error));
            return Some(Condition { ready: false, reason, message: message.to_owned() });
        }
        // The protocol finds here which address a claim had that lost its object by force.
        let message = address_in(self.bound()?).map_or_else(String::new, |ip| ip.to_string());
        Some(Condition { ready: true, reason: Reason::AddressAllocated, message })
    }
}

impl Metal3AddressJson<'_> {
    /// Translates to the protocol's address. The finalizers are returned if there are others besides ours. None: it names no pool.
    #[must_use]
    pub fn translate(&self, names: &mut Names) -> Option<(Address, Option<Finalizers>)> {
        let meta = &self.metadata;
        let pool = &*self.spec.pool.name;
        let pool = (!pool.is_empty()).then(|| names.pool(PoolKind::Metal3IPPool, &meta.namespace, pool))?;
        let key = Key { namespace: names.text(&meta.namespace), ..Key::of_metal3("", &self.spec.claim.name) };
        // metal3's controller sets no flags in the references.
        let of = |one: &&Owner<'_>, kind: &str| is_of(one, metal3::GROUP) && &*one.kind == kind;
        let owners = || meta.owner_references.iter().flatten();
        let owner = owners().find(|one| of(one, METAL3_CLAIM)).map(|one| Uid::from(&*one.uid));
        let of_pool = owners().find(|one| of(one, METAL3_POOL) && *one.name == *pool.name);
        let links = Links { pool: of_pool.map(|one| Uid(names.text(&one.uid))), outdated: false };
        let all = meta.finalizers.as_deref().unwrap_or_default();
        let ours = finalizers(pool.kind, ClaimKind::Metal3).address;
        let finalizer = all.iter().any(|one| **one == *ours);
        let annotations = meta.annotations.as_ref();
        let uid = |text: &str| match &owner {
            Some(owner) if *owner.0 == *text => owner.clone(),
            _ => Uid::from(text),
        };
        let attempt = annotations.and_then(|a| own_annotations::read_attempt(a.attempt.as_deref()?, uid));
        let address = Address {
            claim: key.name.clone(),
            key,
            object: Some(Arc::from(&*meta.name)),
            uid: Uid::from(&*meta.uid),
            version: Version::from(&*meta.resource_version),
            pool,
            address: self.spec.address.parse().ok().map(|one: IpAddr| one.to_canonical()),
            prefix: u8::try_from(self.spec.prefix.unwrap_or(0)).unwrap_or(u8::MAX),
            owner,
            deleting: meta.deletion_timestamp.is_some(),
            finalizer,
            attempt,
            rest: None,
            conflict: annotations.and_then(|a| Some(Box::from(&**a.conflict.as_ref()?))),
            holder: None,
            hints: None,
            links,
        };
        let others = all.len() > usize::from(finalizer);
        Some((address, others.then(|| names.finalizers(all))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(status: &str) -> Claim {
        let text = format!(
            r#"{{"metadata":{{"name":"c","namespace":"n","uid":"u","resourceVersion":"5","annotations":{{"ipAddress":"10.0.0.7"}},
            "labels":{{"cluster.x-k8s.io/cluster-name":"k"}},"finalizers":["theirs","ipclaim.ipam.metal3.io"]}},
            "spec":{{"pool":{{"name":"p","namespace":"n"}}}},"status":{status}}}"#
        );
        let json: Metal3ClaimJson<'_> = serde_json::from_str(&text).unwrap();
        json.translate(&mut Names::default(), &Scope::default()).unwrap()
    }

    #[test]
    fn a_claim_is_another_than_cluster_apis_of_the_same_name() {
        let claim = claim("{}");
        assert_eq!((claim.key.clone(), claim.key.object()), (Key::of_metal3("n", "c"), "c"));
        assert_ne!(claim.key, Key::new("n", "c"));
        assert_eq!((claim.finalizer, claim.others, claim.pool.kind), (true, true, PoolKind::Metal3IPPool));
        assert_eq!((claim.requested.as_deref(), claim.retained.cluster.as_deref()), (Some("10.0.0.7"), Some("k")));
        assert_eq!((claim.bound, claim.condition), (None, None));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let told = Condition { ready: false, reason: Reason::PoolExhausted, message: "none: free".into() };
        let text = format!(r#"{{"errorMessage":"{}"}}"#, error_message(&told));
        assert_eq!(claim(&text).condition, Some(told));
        let metal3s = claim(r#"{"errorMessage":"Exhausted IP Pools"}"#).condition.unwrap();
        assert_eq!((metal3s.reason, &*metal3s.message), (Reason::Other, "Exhausted IP Pools"));
        for address in ["10.0.0.7", "fd00::1", "fd00::", "2001:db8:1:2:3:4:5:6", "2001:db8::7:0"] {
            let address: IpAddr = address.parse().unwrap();
            let name = address_name("net-1", address);
            let bound = claim(&format!(r#"{{"address":{{"name":"{name}","namespace":"n"}}}}"#));
            assert_eq!(bound.bound.as_deref(), Some(&*name));
            let condition = bound.condition.unwrap();
            assert!(condition.ready, "{name}");
            assert_eq!(address_in(&address_name("net", address)), Some(address));
        }
        assert_eq!(address_name("net", "fd00::".parse().unwrap()), "net-fd00");
    }

    #[test]
    fn an_address_that_metal3_made_is_read_whatever_its_form() {
        let text = r#"{"metadata":{"name":"p-fd00--1","namespace":"n","uid":"u","resourceVersion":"7",
            "finalizers":["ipaddress.ipam.metal3.io"],"ownerReferences":[
              {"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPPool","name":"p","uid":"u-p"},
              {"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPClaim","name":"c","uid":"u-c"}]},
            "spec":{"address":"FD00::0001","claim":{"name":"c","namespace":"n"},"pool":{"name":"p","namespace":"n"},"prefix":64}}"#;
        let json: Metal3AddressJson<'_> = serde_json::from_str(text).unwrap();
        let (address, others) = json.translate(&mut Names::default()).unwrap();
        assert_eq!((address.key.clone(), &**address.name()), (Key::of_metal3("n", "c"), "p-fd00--1"));
        assert_eq!(address.address, Some("fd00::1".parse().unwrap()));
        assert_eq!((address.owner, address.finalizer, others), (Some(Uid::from("u-c")), true, None));
        assert_eq!(address.links, Links { pool: Some(Uid::from("u-p")), outdated: false });
    }
}
