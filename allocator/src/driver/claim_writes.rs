//! Writes of claims on behalf of other objects, and what they have in common with writes of these objects.

use bytes::Bytes;
use mooring_allocator_core::names::{Key, PoolRef, Version};
use mooring_allocator_core::work::{Done, Failure, Target};
use mooring_api::claim::IpAddressClaim;
use mooring_api::versions::Version as _;
use mooring_api::{GROUP, finalizers, labels};
use serde_json::{Map, Value, json};

use super::controller::Prepared;
use super::index::Index;
use crate::api::{ApiError, Call, Resource, Verb};
use crate::decode::frame::ErrorBody;

/// The preconditions: the write takes effect only on this object, at this version.
pub fn locked(target: &Target) -> Map<String, Value> {
    let both = [("uid", &*target.uid.0), ("resourceVersion", &*target.version.0)];
    both.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// A call with a body.
pub fn call(verb: Verb, resource: &'static str, path: String, body: &Value) -> Prepared {
    Prepared::Call(Call { verb, resource, path, body: body.to_string().into() })
}

/// A merge patch of the spec.
pub fn spec(resource: &'static str, path: String, target: &Target, spec: &Value) -> Prepared {
    call(Verb::Patch, resource, path, &json!({"metadata": locked(target), "spec": spec}))
}

/// The path of a claim.
pub fn path(index: &Index, key: &Key) -> String {
    Resource::Claims.object(index.served.name(), &key.namespace, &key.name)
}

/// A claim to create for an object.
#[derive(Debug)]
pub struct NewClaim<'a> {
    /// Its namespace and name.
    pub key: &'a Key,
    /// `spec.poolRef`.
    pub pool: &'a PoolRef,
    /// Its labels, without that of `--watch-filter`.
    pub labels: Map<String, Value>,
    /// Its annotations; null: none.
    pub annotations: Value,
    /// The finalizer that keeps it as long as the object is there.
    pub finalizer: &'static str,
    /// The object, as the owner.
    pub owner: Value,
}

/// Creates a claim.
pub fn create(index: &Index, watch_filter: Option<&str>, new: NewClaim<'_>) -> Prepared {
    let NewClaim { key, pool, labels: mut own_labels, annotations, finalizer, owner } = new;
    if let Some(value) = watch_filter {
        own_labels.insert(labels::WATCH_FILTER.to_owned(), value.into());
    }
    let body = json!({
        "apiVersion": format!("{GROUP}/{}", index.served.name()),
        "kind": IpAddressClaim::KIND,
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": own_labels,
            "annotations": annotations,
            // The first would be added anyway: adding it now saves a write.
            "finalizers": [finalizers::RELEASE_ADDRESS, finalizer],
            "ownerReferences": [owner],
        },
        "spec": {"poolRef": {"apiGroup": GROUP, "kind": pool.kind.name(), "name": &*pool.name}},
    });
    let path = Resource::Claims.object(index.served.name(), &key.namespace, "");
    call(Verb::Create, Resource::Claims.plural(), path.trim_end_matches('/').to_owned(), &body)
}

/// Puts finalizer and owners on a claim that exists; `more`: further metadata.
pub fn adopt(
    index: &Index,
    target: &Target,
    finalizer: &'static str,
    owners: Vec<Value>,
    more: Map<String, Value>,
) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let mut all: Vec<&str> = known.retained.finalizers.iter().map(|one| &**one).collect();
    if !all.contains(&finalizer) {
        all.push(finalizer);
    }
    let mut metadata = locked(target);
    metadata.extend(more);
    metadata.insert("finalizers".to_owned(), json!(all));
    metadata.insert("ownerReferences".to_owned(), owners.into());
    call(Verb::Patch, Resource::Claims.plural(), path(index, &target.key), &json!({"metadata": metadata}))
}

/// Takes a finalizer off a claim.
pub fn release(index: &Index, target: &Target, finalizer: &'static str) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let rest: Vec<&str> = known.retained.finalizers.iter().map(|one| &**one).filter(|one| *one != finalizer).collect();
    let mut metadata = locked(target);
    metadata.insert("finalizers".to_owned(), json!(rest));
    call(Verb::Patch, Resource::Claims.plural(), path(index, &target.key), &json!({"metadata": metadata}))
}

/// Deletes a claim.
pub fn delete(index: &Index, target: &Target) -> Prepared {
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": locked(target)});
    call(Verb::Delete, Resource::Claims.plural(), path(index, &target.key), &body)
}

/// The result of a write. `deletes`: it is a deletion.
///
/// # Errors
/// The reason of the failure; [`Failure::Unknown`] if the answer is unreadable.
pub fn done(deletes: bool, result: Result<Bytes, ApiError>) -> Result<Done<Version>, Failure> {
    let bytes = result.map_err(|error| match error.failure() {
        Failure::Conflict if !matches!(error, ApiError::Status { code: 409, .. }) => Failure::Unknown,
        failure => failure,
    })?;
    // The last finalizer of an object that is being deleted: the answer shows the object's last state.
    let is_status = || serde_json::from_slice::<ErrorBody>(&bytes).is_ok_and(|said| said.is_status());
    if deletes || is_status() {
        return Ok(Done::Gone);
    }
    let answer: Value = serde_json::from_slice(&bytes).map_err(|_| Failure::Unknown)?;
    let version = crate::decode::endpoint::version(&answer).ok_or(Failure::Unknown)?;
    Ok(Done::There(version))
}
