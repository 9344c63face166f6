//! `IPAddress` objects: JSON to the protocol's address.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, Uid, Version as ObjectVersion};
use mooring_allocator_core::placement_hints::Facts;
use mooring_allocator_core::protocol::{Address, Attempt, Links};
use mooring_allocator_core::retained_meta::Finalizers;
use mooring_api::GROUP;
use mooring_api::claim::IpAddressClaim;
use mooring_api::versions::{IpamVersion, PoolVersion, Version};
use serde::Deserialize;

use super::kinds::{finalizers, group};
use super::meta::{Meta, NameJson, Owner, PoolRefJson};
use super::names::Names;
use super::own_annotations;
use super::text::Text;

/// Whether an owner is of this group.
pub(super) fn is_of(owner: &Owner<'_>, wanted: &str) -> bool {
    owner.api_version.split_once('/').is_some_and(|(group, _)| group == wanted)
}

/// Whether an owner reference names an older version than the one that is spoken. The garbage collector cannot follow it once
/// that version is gone.
fn is_older<V: Version + PartialOrd>(owner: &Owner<'_>, spoken: V) -> bool {
    let named = owner.api_version.split_once('/').and_then(|(_, version)| V::newest([version]));
    named.is_some_and(|named| named < spoken)
}

/// An `IPAddress`, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AddressJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    claim_ref: NameJson<'a>,
    #[serde(borrow)]
    pool_ref: PoolRefJson<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    prefix: Option<i64>,
}

/// A claim with which an address shares texts.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The claim's uid.
    pub uid: Uid,
    /// Its namespace and name.
    pub key: Key,
}

impl AddressJson<'_> {
    /// The node that recorded itself as the holder. An unreadable record counts as none.
    #[must_use]
    pub fn holder(&self) -> Option<Arc<str>> {
        #[derive(Deserialize)]
        struct Holder<'a> {
            #[serde(borrow)]
            node: Text<'a>,
        }
        let text = self.metadata.annotations.as_ref()?.holder.as_ref()?;
        let holder: Holder<'_> = serde_json::from_str(text).ok()?;
        (!holder.node.is_empty()).then(|| Arc::from(&*holder.node))
    }

    /// Translates to the protocol's address. `claim` finds a claim by its uid; `claims` and `pools` are the versions in which the API
    /// server is spoken to. The finalizers are returned if there are others besides ours. None: the address is of no pool of
    /// ours.
    pub fn translate(
        &self,
        names: &mut Names,
        claim: impl Fn(&str) -> Option<Shared>,
        claims: IpamVersion,
        pools: impl Fn(PoolKind) -> PoolVersion,
    ) -> Option<(Address, Option<Finalizers>)> {
        let meta = &self.metadata;
        let pool = names.pool_ref(&self.spec.pool_ref, &meta.namespace)?;
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|one| one.controller == Some(true));
        let owner = owners.find(|one| is_of(one, GROUP) && &*one.kind == IpAddressClaim::KIND);
        let shared = owner.and_then(|one| claim(&one.uid));
        let name = |text: &str| match &shared {
            Some(Shared { key, .. }) if *key.name == *text => key.name.clone(),
            _ => Arc::from(text),
        };
        let uid = |text: &str| match &shared {
            Some(Shared { uid, .. }) if *uid.0 == *text => uid.clone(),
            _ => Uid::from(text),
        };
        let key_name = name(&meta.name);
        let claim_name =
            if *self.spec.claim_ref.name == *key_name { key_name.clone() } else { name(&self.spec.claim_ref.name) };
        let mut owners = meta.owner_references.iter().flatten();
        let is_pool = |one: &&Owner<'_>| &*one.kind == pool.kind.name() && *one.name == *pool.name;
        let of_pool = owners.find(|one| is_pool(one) && is_of(one, group(pool.kind)));
        let of_cluster_api = matches!(pool.kind, PoolKind::InClusterIPPool | PoolKind::GlobalInClusterIPPool);
        let outdated = owner.is_some_and(|one| is_older(one, claims))
            || of_pool.is_some_and(|one| of_cluster_api && is_older(one, pools(pool.kind)));
        let links = Links { pool: of_pool.map(|one| Uid(names.text(&one.uid))), outdated };
        let all = meta.finalizers.as_deref().unwrap_or_default();
        let finalizer = all.iter().any(|one| &**one == finalizers(pool.kind, ClaimKind::ClusterApi).address);
        let annotations = meta.annotations.as_ref();
        let attempt: Option<Attempt> =
            annotations.and_then(|a| a.attempt.as_deref()).and_then(|text| own_annotations::read_attempt(text, uid));
        let rest = annotations.and_then(|a| {
            let of = a.rests_for.as_deref()?;
            Some(own_annotations::read_rest(of, a.quarantined_until.as_deref()))
        });
        let address = Address {
            key: Key { namespace: names.text(&meta.namespace), name: key_name },
            object: None,
            uid: Uid::from(&*meta.uid),
            version: ObjectVersion::from(&*meta.resource_version),
            pool,
            // An IPv4-mapped IPv6 address is the same address as the IPv4 address.
            address: self.spec.address.parse().ok().map(|one: IpAddr| one.to_canonical()),
            prefix: self.spec.prefix.and_then(|one| u8::try_from(one).ok()).unwrap_or(u8::MAX),
            claim: claim_name,
            owner: owner.map(|one| uid(&one.uid)),
            deleting: meta.deletion_timestamp.is_some(),
            finalizer,
            attempt,
            // An address that a claim owns is not a tombstone, whatever its annotations say.
            rest: rest.filter(|_| owner.is_none()),
            conflict: annotations.and_then(|a| Some(Box::from(&**a.conflict.as_ref()?))),
            holder: self.holder(),
            hints: Some(self.facts()).filter(Facts::matters).map(Box::new),
            links,
        };
        let others = all.len() > usize::from(finalizer);
        Some((address, others.then(|| names.finalizers(all))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: &str = r#"{"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddress","metadata":{
        "annotations":{"mooring.dev/attempt":"u-claim 2"},"creationTimestamp":"2026-11-20T10:00:00Z",
        "finalizers":["ipam.cluster.x-k8s.io/ProtectAddress"],"managedFields":[{"manager":"x","fieldsV1":{"f:spec":{}}}],
        "name":"c","namespace":"n","ownerReferences":[
          {"apiVersion":"ipam.cluster.x-k8s.io/v1alpha2","kind":"InClusterIPPool","name":"p","uid":"u-pool","controller":false},
          {"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddressClaim","name":"c","uid":"u-claim","controller":true}],
        "resourceVersion":"9","uid":"u-address"},
        "spec":{"address":"10.0.0.7","claimRef":{"name":"c"},"gateway":"10.0.0.1","prefix":24,
          "poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":"p"}}}"#;

    fn read_as(text: &str, served: IpamVersion) -> Option<(Address, Option<Finalizers>)> {
        let json: AddressJson<'_> = serde_json::from_str(text).unwrap();
        let claim = |uid: &str| {
            Some(Shared { uid: Uid::from(uid), key: Key::new("n", "c") }).filter(|one| &*one.uid.0 == "u-claim")
        };
        json.translate(&mut Names::default(), claim, served, |_| PoolVersion::default())
    }

    fn read(text: &str) -> Option<(Address, Option<Finalizers>)> {
        read_as(text, IpamVersion::default())
    }

    #[test]
    fn what_the_allocator_makes_is_read() {
        let (address, others) = read(BOUND).unwrap();
        assert_eq!(others, None);
        assert_eq!(address.address, Some("10.0.0.7".parse().unwrap()));
        assert_eq!((address.prefix, &*address.claim, address.finalizer), (24, "c", true));
        assert_eq!(address.owner, Some(Uid::from("u-claim")));
        assert_eq!(address.attempt, Some(Attempt { claim: Uid::from("u-claim"), number: 2, adopted: false }));
        assert!(Arc::ptr_eq(&address.owner.unwrap().0, &address.attempt.unwrap().claim.0), "one text, held once");
        assert_eq!(address.links, Links { pool: Some(Uid::from("u-pool")), outdated: false });
        // References to versions that are no longer spoken are renewed: the garbage collector cannot follow them for ever.
        for (named, spoken, outdated) in [
            ("v1alpha1", IpamVersion::V1beta2, true),
            ("v1beta1", IpamVersion::V1beta2, true),
            ("v1beta1", IpamVersion::V1beta1, false),
            ("v1beta2", IpamVersion::V1beta1, false),
            ("v1beta3", IpamVersion::V1beta2, false),
        ] {
            let owner = |version: &str| format!("/{version}\",\"kind\":\"IPAddressClaim\"");
            let (old, _) = read_as(&BOUND.replace(&owner("v1beta2"), &owner(named)), spoken).unwrap();
            assert!(old.owner.is_some() && old.links.outdated == outdated, "{named} {spoken}");
        }
        let (other, _) = read(&BOUND.replace("\"name\":\"p\",\"uid\"", "\"name\":\"q\",\"uid\"")).unwrap();
        assert_eq!(other.links, Links::default(), "another pool's");
    }

    #[test]
    fn what_others_make_is_read() {
        let by_hand = BOUND.replace("ipam.cluster.x-k8s.io/ProtectAddress", "example.org/mine");
        let by_hand =
            by_hand.replace("\"controller\":true", "\"controller\":false").replace("10.0.0.7", "::ffff:10.0.0.7");
        let (address, others) = read(&by_hand).unwrap();
        assert_eq!(others.unwrap().iter().map(|one| &**one).collect::<Vec<_>>(), ["example.org/mine"]);
        assert_eq!((address.owner, address.finalizer), (None, false));
        assert_eq!(address.address, Some("10.0.0.7".parse().unwrap()), "the same address");
        let absurd = BOUND.replace("10.0.0.7", "nowhere").replace("\"prefix\":24", "\"prefix\":4711");
        let (address, _) = read(&absurd).unwrap();
        assert_eq!((address.address, address.prefix), (None, u8::MAX));
        assert!(read(&BOUND.replace("\"InClusterIPPool\",\"name\":\"p\"}}", "\"IPPool\",\"name\":\"p\"}}")).is_none());
    }

    #[test]
    fn the_holder_is_read() {
        let held = |value: &str| {
            let text = format!(r#"{{"metadata":{{"annotations":{{"mooring.dev/holder":{value}}}}}}}"#);
            serde_json::from_str::<AddressJson<'_>>(&text).unwrap().holder()
        };
        let value = r#""{\"node\":\"n1\",\"session\":{\"uid\":\"u\",\"transitions\":3}}""#;
        assert_eq!(held(value).as_deref(), Some("n1"));
        for nobody in [r#""""#, r#""n1""#, r#""{\"node\":\"\"}""#, "null"] {
            assert_eq!(held(nobody), None, "{nobody}");
        }
    }

    #[test]
    fn a_tombstone_has_no_claim() {
        let rest = r#"{"metadata":{"name":"rest-u","namespace":"n","uid":"r","resourceVersion":"1",
            "annotations":{"mooring.dev/rests-for":"u","mooring.dev/quarantined-until":"2026-11-20T10:00:00Z"}},
            "spec":{"address":"10.0.0.7","prefix":24,"claimRef":{"name":"rest-u"},
              "poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":"p"}}}"#;
        let rest = read(rest).unwrap().0.rest.unwrap();
        assert_eq!((rest.of, rest.until), (Uid::from("u"), 1_795_168_800));
        let lie = BOUND.replace("\"mooring.dev/attempt\":\"u-claim 2\"", "\"mooring.dev/rests-for\":\"x\"");
        assert_eq!(read(&lie).unwrap().0.rest, None);
    }
}
