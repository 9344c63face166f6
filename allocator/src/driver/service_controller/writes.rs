//! Translates the Services' writes to calls, and the results of the calls back.

use std::net::IpAddr;

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_services::configmap::NewPool;
use mooring_allocator_services::machine::{Done, Failure, NewClaim, Notice, PoolTarget, Status, Target, Write};
use mooring_allocator_services::objects::{GivenClass, Ingress, Made, Member};
use mooring_allocator_services::{members, words};
use mooring_api::versions::Version as _;
use mooring_api::{GROUP, annotations, finalizers, labels};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::controller::Prepared;
use super::super::index::Index;
use super::super::owners::owner;
use super::ServiceController;
use crate::api::{ApiError, Call, Resource, Verb};
use crate::decode::claim::family_label;
use crate::decode::frame::ErrorBody;
use crate::decode::pool::made_spec;
use crate::decode::text::Text;

/// The preconditions: the write takes effect only on this object, at this version.
fn locked(uid: &Uid, version: &Version) -> Map<String, Value> {
    let both = [("uid", &*uid.0), ("resourceVersion", &*version.0)];
    both.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn call(verb: Verb, resource: Resource, path: String, body: &Value) -> Prepared {
    Prepared::Call(Call { verb, resource: resource.plural(), path, body: body.to_string().into() })
}

fn deletion(uid: &Uid, version: &Version) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": locked(uid, version)})
}

fn service_path(target: &Target) -> String {
    Resource::Services.object("v1", &target.key.namespace, &target.key.name)
}

impl ServiceController {
    /// The call for a write, now.
    #[must_use]
    pub fn prepare_write(&self, index: &Index, write: &Write) -> Prepared {
        match write {
            Write::CreateClaim(new) => self.create_claim(index, new),
            Write::UpdateClaim(target, members, classes, requested) => {
                update_claim(index, target, members, classes, *requested)
            }
            Write::DeleteClaim(target) => {
                let body = deletion(&target.uid, &target.version);
                call(Verb::Delete, Resource::Claims, claim_path(index, &target.key), &body)
            }
            Write::Exchange(target, why) => {
                let mut metadata = locked(&target.uid, &target.version);
                metadata.insert("annotations".to_owned(), json!({annotations::CONFLICT: why}));
                let path = Resource::Addresses.object(index.served.name(), &target.key.namespace, &target.key.name);
                call(Verb::Patch, Resource::Addresses, path, &json!({"metadata": metadata}))
            }
            Write::Annotate(target, notice) => annotate(target, notice),
            Write::Status(target, status) => self.status(target, status),
            Write::RemoveCleanup(target) => {
                let mut metadata = locked(&target.uid, &target.version);
                metadata.insert("$deleteFromPrimitiveList/finalizers".to_owned(), json!([words::CLEANUP]));
                let body = json!({"metadata": metadata});
                call(Verb::StrategicPatch, Resource::Services, service_path(target), &body)
            }
            Write::CreatePool(new) => create_pool(index, new),
            Write::UpdatePool(target, new) => update_pool(index, target, new),
            Write::DeletePool(target) => {
                let body = deletion(&target.uid, &target.version);
                let (resource, path) = pool_path(index, &target.reference, true);
                call(Verb::Delete, resource, path, &body)
            }
        }
    }

    fn create_claim(&self, index: &Index, new: &NewClaim) -> Prepared {
        let mut notes = Map::from_iter([(words::SERVICES.to_owned(), members::write(&new.members).into())]);
        if let Some(classes) = members::write_classes(&new.members, &new.classes) {
            notes.insert(words::GIVEN_CLASSES.to_owned(), classes.into());
        }
        if let Some(ip) = new.requested {
            notes.insert(annotations::REQUESTED_ADDRESS.to_owned(), ip.to_string().into());
        }
        let mut own_labels = Map::from_iter([(words::SERVICE_FAMILY.to_owned(), family_label(new.family).into())]);
        if let Some(value) = &self.watch_filter {
            own_labels.insert(labels::WATCH_FILTER.to_owned(), value.as_str().into());
        }
        let body = json!({
            "apiVersion": format!("{GROUP}/{}", index.served.name()),
            "kind": "IPAddressClaim",
            "metadata": {
                "name": &*new.key.name,
                "namespace": &*new.key.namespace,
                "labels": own_labels,
                "annotations": notes,
                // The label would be added anyway: adding it now saves a write.
                "finalizers": [finalizers::RELEASE_ADDRESS],
                "ownerReferences": if new.owned { owners(&new.members) } else { Vec::new() },
            },
            "spec": {"poolRef": {
                "apiGroup": GROUP, "kind": new.pool.kind.name(), "name": &*new.pool.name,
            }},
        });
        let path = Resource::Claims.object(index.served.name(), &new.key.namespace, "");
        call(Verb::Create, Resource::Claims, path.trim_end_matches('/').to_owned(), &body)
    }

    fn status(&self, target: &Target, status: &Status) -> Prepared {
        let Some(seen) = self.machine.seen(&target.key).filter(|service| service.version == target.version) else {
            return Prepared::Stale;
        };
        let mut body = Map::new();
        if let Some(ingress) = &status.ingress {
            // The list is written completely; host names in it are not ours.
            let names = seen.names.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
            let all: Vec<Value> = ingress.iter().map(point).chain(names).collect();
            body.insert("loadBalancer".to_owned(), json!({"ingress": (!all.is_empty()).then_some(all)}));
        }
        match &status.condition {
            Some(condition) => {
                let mut one = json!({
                    "type": words::CONDITION,
                    "status": if condition.ready { "True" } else { "False" },
                    "reason": condition.reason,
                    "message": condition.message,
                });
                // Otherwise the field stays.
                if seen.condition.as_ref().is_none_or(|before| before.ready != condition.ready) {
                    one["lastTransitionTime"] = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
                }
                body.insert("conditions".to_owned(), json!([one]));
            }
            None if seen.condition.is_some() => {
                let gone = json!([{"type": words::CONDITION, "$patch": "delete"}]);
                body.insert("conditions".to_owned(), gone);
            }
            None => {}
        }
        let mut metadata = locked(&target.uid, &target.version);
        // The API server takes annotations with a Service's status (its strategy keeps the spec only).
        if let Some(host) = &status.host {
            metadata.insert("annotations".to_owned(), json!({words::VIP_HOST: host}));
        }
        let body = json!({"metadata": metadata, "status": body});
        call(Verb::StrategicPatch, Resource::Services, format!("{}/status", service_path(target)), &body)
    }
}

fn point(one: &Ingress) -> Value {
    json!({"ip": one.ip.to_string(), "ipMode": if one.vip { "VIP" } else { "Proxy" }})
}

fn claim_path(index: &Index, key: &Key) -> String {
    Resource::Claims.object(index.served.name(), &key.namespace, &key.name)
}

/// Services as owners: when the last of them goes, the claim goes.
fn owners(members: &[Member]) -> Vec<Value> {
    let owner =
        |(key, uid): &Member| json!({"apiVersion": "v1", "kind": "Service", "name": &*key.name, "uid": &*uid.0});
    members.iter().map(owner).collect()
}

fn update_claim(
    index: &Index,
    target: &Target,
    members: &[Member],
    classes: &[GivenClass],
    requested: Option<IpAddr>,
) -> Prepared {
    let claim = index.claim_at(&target.uid, &target.version);
    let Some(service) = claim.and_then(|claim| claim.retained.service.as_ref()) else { return Prepared::Stale };
    let mut metadata = locked(&target.uid, &target.version);
    let notes = json!({
        words::SERVICES: members::write(members),
        words::GIVEN_CLASSES: members::write_classes(members, classes),
        annotations::REQUESTED_ADDRESS: requested.map(|ip| ip.to_string()),
    });
    metadata.insert("annotations".to_owned(), notes);
    // A claim without owners, because Services of several namespaces share it, stays without owners.
    if service.owned {
        let here = members.iter().all(|(key, _)| key.namespace == target.key.namespace);
        let mut all: Vec<Value> = service.owners.iter().map(owner).collect();
        all.extend(if here { owners(members) } else { Vec::new() });
        metadata.insert("ownerReferences".to_owned(), all.into());
    }
    call(Verb::Patch, Resource::Claims, claim_path(index, &target.key), &json!({"metadata": metadata}))
}

fn annotate(target: &Target, notice: &Notice) -> Prepared {
    let mut metadata = locked(&target.uid, &target.version);
    if !notice.annotations.is_empty() {
        let all = notice.annotations.iter().map(|(name, text)| ((*name).to_owned(), json!(text)));
        metadata.insert("annotations".to_owned(), all.collect::<Map<_, _>>().into());
    }
    if let Some(on) = notice.implementation {
        let value = on.then_some(words::IMPLEMENTATION_VALUE);
        metadata.insert("labels".to_owned(), json!({words::IMPLEMENTATION: value}));
    }
    let mut body = json!({"metadata": metadata});
    if notice.clear_ip {
        body["spec"] = json!({"loadBalancerIP": null});
    }
    call(Verb::StrategicPatch, Resource::Services, service_path(target), &body)
}

fn pool_path(index: &Index, reference: &PoolRef, one: bool) -> (Resource, String) {
    let resource = Resource::Pools(reference.kind);
    let version = index.pool_version(reference.kind).name();
    let path = resource.object(version, &reference.namespace, if one { &reference.name } else { "" });
    (resource, path.trim_end_matches('/').to_owned())
}

/// The annotations of a pool that is made from the `ConfigMap`. `mooring.dev/interface` follows the `ConfigMap`,
/// whatever people write.
fn made_notes(made: &Made) -> Map<String, Value> {
    let source = (words::SOURCE.to_owned(), made.source.to_string().into());
    let interface = made.interface.as_deref().map(|name| (annotations::INTERFACE.to_owned(), name.into()));
    std::iter::once(source).chain(interface).collect()
}

fn create_pool(index: &Index, new: &NewPool) -> Prepared {
    let (resource, path) = pool_path(index, &new.reference, false);
    let version = index.pool_version(new.reference.kind);
    let body = json!({
        "apiVersion": format!("{GROUP}/{}", version.name()),
        "kind": new.reference.kind.name(),
        "metadata": {
            "name": &*new.reference.name,
            "labels": {words::MADE_FROM: words::MADE_FROM_VALUE},
            "annotations": made_notes(&new.made),
        },
        "spec": made_spec(&new.made.spec),
    });
    call(Verb::Create, resource, path, &body)
}

/// The whole spec: fields that others added are removed.
fn update_pool(index: &Index, target: &PoolTarget, new: &NewPool) -> Prepared {
    let Some(pool) = index.pools.get(&target.reference) else { return Prepared::Stale };
    let (before, now) = (pool.seen.spec_value(), serde_json::to_value(made_spec(&new.made.spec)));
    let (Ok(Value::Object(before)), Ok(Value::Object(mut now))) = (before, now) else {
        return Prepared::Impossible("a pool's spec is no object".to_owned());
    };
    for name in before.keys() {
        now.entry(name.clone()).or_insert(Value::Null);
    }
    // Not merged with the names there are: a list is written whole, and a selector is none of ours.
    if let (Some(Value::Object(allowed)), Some(Value::Object(had))) =
        (now.get_mut("allowedNamespaces"), before.get("allowedNamespaces"))
    {
        for name in had.keys() {
            allowed.entry(name.clone()).or_insert(Value::Null);
        }
    }
    let mut metadata = locked(&target.uid, &target.version);
    let mut notes = made_notes(&new.made);
    notes.entry(annotations::INTERFACE).or_insert(Value::Null);
    metadata.insert("annotations".to_owned(), notes.into());
    let body = json!({"metadata": metadata, "spec": now});
    let (resource, path) = pool_path(index, &target.reference, true);
    call(Verb::Patch, resource, path, &body)
}

/// The result of a write.
///
/// # Errors
/// The reason of the failure; [`Failure::Unknown`] if the answer is unreadable.
pub fn done(write: &Write, result: Result<Bytes, ApiError>) -> Result<Done, Failure> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        metadata: Meta<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta<'a> {
        #[serde(borrow)]
        resource_version: Text<'a>,
    }
    let bytes = result.map_err(|error| failure(&error))?;
    if matches!(write, Write::DeleteClaim(_) | Write::DeletePool(_)) {
        return Ok(Done::Gone);
    }
    // The last finalizer of an object that is being deleted: the answer shows the object's last state.
    if serde_json::from_slice::<ErrorBody>(&bytes).is_ok_and(|said| said.is_status()) {
        return Ok(Done::Gone);
    }
    let answer: Answer<'_> = serde_json::from_slice(&bytes).map_err(|_| Failure::Unknown)?;
    Ok(Done::There(Version::from(&*answer.metadata.resource_version)))
}

fn failure(error: &ApiError) -> Failure {
    match error.failure() {
        Failure::Conflict if matches!(error, ApiError::Status { code: 409, .. }) => Failure::Conflict,
        Failure::Exists => Failure::Exists,
        Failure::NotFound => Failure::NotFound,
        Failure::Refused(why) => Failure::Refused(why),
        // Not permitted, or not sent: no new event will come, and the write is tried again after a while.
        Failure::Conflict | Failure::Unknown => Failure::Unknown,
    }
}
