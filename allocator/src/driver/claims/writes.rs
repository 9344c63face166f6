//! Translates the protocol's writes to calls.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_core::foreign_finalizers::FinalizersAt;
use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, PoolRef, Uid};
use mooring_allocator_core::protocol::{self, Attempt, Claim, New, PoolTarget, Purpose, Target, Write};
use mooring_allocator_services::words;
use mooring_api::address::{IpAddress, IpAddressSpec, NameRef};
use mooring_api::claim::{IpAddressClaim, IpAddressClaimSpec};
use mooring_api::conditions::{self, Condition};
use mooring_api::patch::{self, LockedPatch, MetaChange, NotSeen};
use mooring_api::pool::{METAL3_CLAIM, METAL3_VERSION};
use mooring_api::versions::{IpamVersion, Version as _};
use mooring_api::{GROUP, annotations, labels};
use mooring_names::metal3;
use serde_json::json;

use super::super::controller::Prepared;
use super::super::index::{Index, KnownPool};
use super::pool_status;
use crate::api::{Call, Resource, Verb};
use crate::decode::claim::{family_label, status};
use crate::decode::kinds::{finalizers, group, pool_finalizer};
use crate::decode::pool::Spec;
use crate::decode::{own_annotations, placement_hints};

fn patch_of(resource: Resource, path: String, change: Result<Option<LockedPatch>, NotSeen>) -> Prepared {
    match change {
        Ok(Some(locked)) => match serde_json::to_vec(locked.body()) {
            Ok(body) => {
                Prepared::Call(Call { verb: Verb::Patch, resource: resource.plural(), path, body: body.into() })
            }
            Err(error) => Prepared::Impossible(error.to_string()),
        },
        Ok(None) => Prepared::Already,
        Err(error) => Prepared::Impossible(error.to_string()),
    }
}

/// Metadata that carries only the identity.
fn identity(target: &Target) -> ObjectMeta {
    ObjectMeta {
        name: Some(target.key.name.to_string()),
        namespace: Some(target.key.namespace.to_string()),
        uid: Some(target.uid.to_string()),
        resource_version: Some(target.version.0.to_string()),
        ..ObjectMeta::default()
    }
}

fn is_metal3(key: &Key) -> bool {
    key.claim_kind() == ClaimKind::Metal3
}

impl Index {
    /// The call for a write, now.
    #[must_use]
    pub fn prepare(&self, write: &Write) -> Prepared {
        match write {
            Write::AddFinalizer(target, given) => {
                let given = given.map(|block| block.to_string());
                self.claim_meta(target, |ours| match &given {
                    Some(given) => MetaChange::new().finalizer(ours).annotation(annotations::ADDRESS, Some(given)),
                    None => MetaChange::new().finalizer(ours),
                })
            }
            Write::RemoveFinalizer(target) => self.claim_meta(target, |ours| MetaChange::new().without_finalizer(ours)),
            Write::Void(target, count) => {
                self.claim_meta(target, |_| MetaChange::new().annotation(annotations::VOIDED, Some(&count.to_string())))
            }
            Write::Bind(target, name, _) if is_metal3(&target.key) => self.metal3_bind(target, name),
            Write::Unbind(target, condition) | Write::Condition(target, condition) if is_metal3(&target.key) => {
                self.metal3_condition(target, condition, matches!(write, Write::Unbind(..)))
            }
            Write::Create(new) if is_metal3(&new.key) => self.metal3_create(new),
            Write::Bind(target, name, condition) => self.claim_status(target, condition, |claim, condition| {
                patch::claim_status(claim, Some(name), std::slice::from_ref(condition))
            }),
            Write::Unbind(target, condition) => self.claim_status(target, condition, patch::claim_unbound),
            Write::Condition(target, condition) => self.claim_status(target, condition, |claim, condition| {
                patch::claim_status(claim, None, std::slice::from_ref(condition))
            }),
            Write::Create(new) => self.create(new),
            Write::Adopt(target, attempt) => self.adopt(target, attempt),
            Write::RemoveAddressFinalizer(target) => self.strip(target),
            Write::DeleteAddress(target) => self.delete(target),
            Write::AddPoolFinalizer(target) => self.pool_meta(target, &self.dressed(target)),
            Write::RemovePoolFinalizer(target) => {
                let name = pool_finalizer(target.reference.kind);
                self.pool_meta(target, &MetaChange::new().without_finalizer(name))
            }
            Write::PoolStatus(target, status) => self.pool_status(target, status),
        }
    }

    /// The path of a claim.
    pub(super) fn claim_path(&self, key: &Key) -> String {
        let version = if is_metal3(key) { METAL3_VERSION } else { self.served.name() };
        Resource::claims(key.claim_kind()).object(version, &key.namespace, key.object())
    }

    /// The path of the address with the target's uid. One of metal3's is found by it, and has a name of its own.
    fn address_path(&self, target: &Target) -> Option<String> {
        let Key { namespace, name } = &target.key;
        if !is_metal3(&target.key) {
            return Some(Resource::Addresses.object(self.served.name(), namespace, name));
        }
        let name = self.protocol.address(&target.uid)?.name();
        Some(Resource::Metal3Addresses.object(METAL3_VERSION, namespace, name))
    }

    fn claim_meta(&self, target: &Target, change: impl FnOnce(&'static str) -> MetaChange) -> Prepared {
        let Some(known) = self.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
        let kind = known.key.claim_kind();
        let change = change(finalizers(known.pool.kind, kind).claim);
        let list = known.retained.finalizers.iter().map(ToString::to_string).collect();
        let meta = ObjectMeta { finalizers: Some(list), ..identity(target) };
        patch_of(Resource::claims(kind), self.claim_path(&target.key), change.of(&meta))
    }

    fn claim_status(
        &self,
        target: &Target,
        condition: &protocol::Condition,
        change: impl FnOnce(&IpAddressClaim, &Condition) -> Result<Option<LockedPatch>, NotSeen>,
    ) -> Prepared {
        let Some(known) = self.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
        let status = match status(&known.retained) {
            Ok(status) => status,
            Err(error) => return Prepared::Impossible(error.to_string()),
        };
        let mut claim = IpAddressClaim::new(&target.key.name, IpAddressClaimSpec::default());
        (claim.version, claim.metadata, claim.status) =
            (IpamVersion::newest([known.retained.api]).unwrap_or_default(), identity(target), status);
        let now = Time(Timestamp::now());
        let reason = condition.reason.name();
        let condition = Condition::new(conditions::READY, condition.ready, reason, condition.message.clone(), &now);
        let path = format!("{}/status", self.claim_path(&target.key));
        patch_of(Resource::Claims, path, change(&claim, &condition))
    }

    fn create(&self, new: &New) -> Prepared {
        let spec = IpAddressSpec {
            claim_ref: NameRef { name: new.key.name.to_string() },
            pool_ref: mooring_api::claim::PoolRef {
                api_group: Some(group(new.pool.kind).to_owned()),
                kind: new.pool.kind.name().to_owned(),
                name: new.pool.name.to_string(),
            },
            address: new.address.to_string(),
            prefix: Some(i32::from(new.prefix)),
            gateway: new.gateway.map(|gateway| gateway.to_string()),
        };
        let mut address = IpAddress::new(&new.key.name, spec);
        address.version = self.served;
        let meta = &mut address.metadata;
        meta.namespace = Some(new.key.namespace.to_string());
        let mut owners = Vec::new();
        match &new.purpose {
            Purpose::Claim(attempt) => {
                let Some(claim) = self.claim(&attempt.claim) else { return Prepared::Stale };
                owners.push(self.claim_owner(claim, &attempt.claim));
                meta.finalizers = Some(vec![finalizers(new.pool.kind, ClaimKind::ClusterApi).address.to_owned()]);
                let mut notes = BTreeMap::from([(annotations::ATTEMPT.to_owned(), own_annotations::attempt(attempt))]);
                // Agents advertise this address, and follow the pool's texts.
                let service = claim.retained.service.as_ref().filter(|_| self.serves_services(&new.pool));
                if service.is_some()
                    && let Some(pool) = self.pools.get(&new.pool)
                {
                    notes.extend(placement_hints::copied(&pool.seen.hints()));
                }
                meta.annotations = Some(notes);
                let cluster =
                    claim.retained.cluster.as_ref().map(|name| (labels::CLUSTER_NAME.to_owned(), name.to_string()));
                // Agents advertise addresses with this label.
                let family =
                    service.map(|service| (words::SERVICE_FAMILY.to_owned(), family_label(service.family).to_owned()));
                let all: BTreeMap<String, String> = cluster.into_iter().chain(family).collect();
                meta.labels = (!all.is_empty()).then_some(all);
            }
            Purpose::Rest(rest) => {
                meta.annotations = Some(
                    [
                        (annotations::RESTS_FOR.to_owned(), rest.of.to_string()),
                        (annotations::QUARANTINED_UNTIL.to_owned(), own_annotations::moment(rest.until)),
                    ]
                    .into(),
                );
            }
        }
        owners.extend(self.pool_owner(&new.pool));
        meta.owner_references = Some(owners);
        match serde_json::to_vec(&address) {
            Ok(body) => Prepared::Call(Call {
                verb: Verb::Create,
                resource: Resource::Addresses.plural(),
                path: Resource::Addresses
                    .object(self.served.name(), &new.key.namespace, "")
                    .trim_end_matches('/')
                    .into(),
                body: body.into(),
            }),
            Err(error) => Prepared::Impossible(error.to_string()),
        }
    }

    /// Exactly as in the contract, character for character.
    pub(super) fn claim_owner(&self, claim: &Claim, uid: &Uid) -> OwnerReference {
        let (api_version, kind) = match claim.key.claim_kind() {
            ClaimKind::ClusterApi => (format!("{GROUP}/{}", self.served.name()), IpAddressClaim::KIND),
            ClaimKind::Metal3 => (format!("{}/{METAL3_VERSION}", metal3::GROUP), METAL3_CLAIM),
        };
        OwnerReference {
            api_version,
            kind: kind.to_owned(),
            name: claim.key.object().to_owned(),
            uid: uid.to_string(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    pub(super) fn pool_owner(&self, reference: &PoolRef) -> Option<OwnerReference> {
        let pool = self.pools.get(reference)?;
        Some(OwnerReference {
            api_version: format!("{}/{}", group(reference.kind), pool.api.name()),
            kind: reference.kind.name().to_owned(),
            name: reference.name.to_string(),
            uid: pool.seen.meta.uid.clone()?,
            controller: Some(false),
            block_owner_deletion: Some(true),
        })
    }

    /// Whether agents may advertise the pool's addresses.
    fn serves_services(&self, pool: &PoolRef) -> bool {
        self.pools.get(pool).is_none_or(|known| known.seen.network().serves_services(pool.kind))
    }

    fn adopt(&self, target: &Target, attempt: &Attempt) -> Prepared {
        let Some(claim) = self.claim(&attempt.claim) else { return Prepared::Stale };
        let mut change = MetaChange::new()
            .finalizer(finalizers(claim.pool.kind, claim.key.claim_kind()).address)
            .owner(self.claim_owner(claim, &attempt.claim))
            .annotation(annotations::ATTEMPT, Some(&own_annotations::attempt(attempt)));
        if let Some(owner) = self.pool_owner(&claim.pool) {
            change = change.owner(owner);
        }
        if let Some(cluster) = &claim.retained.cluster {
            change = change.label(labels::CLUSTER_NAME, cluster);
        }
        if let Some(service) = claim.retained.service.as_ref().filter(|_| self.serves_services(&claim.pool)) {
            change = change.label(words::SERVICE_FAMILY, family_label(service.family));
        }
        let Some(path) = self.address_path(target) else { return Prepared::Stale };
        Prepared::ReadThenPatch { path, target: target.clone(), change }
    }

    fn strip(&self, target: &Target) -> Prepared {
        let Some(address) = self.protocol.address(&target.uid) else { return Prepared::Stale };
        let ours = finalizers(address.pool.kind, address.key.claim_kind()).address;
        let change = MetaChange::new().without_finalizer(ours);
        let Some(path) = self.address_path(target) else { return Prepared::Stale };
        let foreign = match address.key.claim_kind() {
            ClaimKind::ClusterApi => &self.foreign_finalizers,
            ClaimKind::Metal3 => &self.metal3.foreign_finalizers,
        };
        let list = match foreign.at(target) {
            FinalizersAt::OursAlone => vec![ours.to_owned()],
            FinalizersAt::All(all) => all.iter().map(ToString::to_string).collect(),
            FinalizersAt::Unknown => return Prepared::ReadThenPatch { path, target: target.clone(), change },
        };
        let meta = ObjectMeta { finalizers: Some(list), ..identity(target) };
        patch_of(Resource::Addresses, path, change.of(&meta))
    }

    fn delete(&self, target: &Target) -> Prepared {
        let Some(path) = self.address_path(target) else { return Prepared::Stale };
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": &*target.uid.0, "resourceVersion": &*target.version.0},
        });
        Prepared::Call(Call {
            verb: Verb::Delete,
            resource: Resource::Addresses.plural(),
            path,
            body: body.to_string().into(),
        })
    }

    fn pool_at(&self, target: &PoolTarget) -> Option<&KnownPool> {
        self.pools.get(&target.reference).filter(|pool| {
            let meta = &pool.seen.meta;
            meta.uid.as_deref() == Some(&*target.uid.0) && meta.resource_version.as_deref() == Some(&*target.version.0)
        })
    }

    fn pool_path(pool: &KnownPool, reference: &PoolRef) -> (Resource, String) {
        let resource = Resource::Pools(reference.kind);
        (resource, resource.object(pool.api.name(), &reference.namespace, &reference.name))
    }

    fn pool_meta(&self, target: &PoolTarget, change: &MetaChange) -> Prepared {
        let Some(pool) = self.pool_at(target) else { return Prepared::Stale };
        let (resource, path) = Self::pool_path(pool, &target.reference);
        patch_of(resource, path, change.of(&pool.seen.meta))
    }

    /// A pool's finalizer, and for metal3's the labels that its controller gives.
    fn dressed(&self, target: &PoolTarget) -> MetaChange {
        let change = MetaChange::new().finalizer(pool_finalizer(target.reference.kind));
        if target.reference.kind != PoolKind::Metal3IPPool {
            return change;
        }
        let change = change.label(labels::PROVIDER, metal3::PROVIDER);
        match self.cluster_of_pool(&target.reference) {
            Some(cluster) => change.label(labels::CLUSTER_NAME, &cluster.name),
            None => change,
        }
    }

    fn metal3_pool_status(&self, target: &PoolTarget, pool: &KnownPool, shown: &BTreeMap<String, String>) -> Prepared {
        let (resource, path) = Self::pool_path(pool, &target.reference);
        let now = own_annotations::moment(u64::try_from(Timestamp::now().as_second()).unwrap_or(0));
        let change = patch::metal3_pool_status(&pool.seen.meta, shown, &self.metal3_indexes(&target.reference), &now);
        patch_of(resource, format!("{path}/status"), change)
    }

    fn pool_status(&self, target: &PoolTarget, status: &protocol::PoolStatus) -> Prepared {
        let Some(pool) = self.pool_at(target) else { return Prepared::Stale };
        let (resource, path) = Self::pool_path(pool, &target.reference);
        match &pool.seen.spec {
            Spec::Metal3(_, shown) => return self.metal3_pool_status(target, pool, shown),
            Spec::FloatingIps(_, shown) => {
                let now = Time(Timestamp::now());
                let change = self.floating_ips_status(&target.reference, pool, shown, status, &now);
                return patch_of(resource, format!("{path}/status"), change);
            }
            Spec::Addresses(_) | Spec::Prefixes(_) | Spec::PhpIpam(_) => {}
        }
        let conditions = pool_status::conditions(pool, status, &Time(Timestamp::now()));
        let counts = pool_status::counts(&status.counts);
        let change = patch::pool_status(&pool.seen.meta, pool.seen.status.as_ref(), counts, &conditions);
        patch_of(resource, format!("{path}/status"), change)
    }
}
