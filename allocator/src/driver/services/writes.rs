//! From what Services need to calls, and what comes of them.

use std::net::IpAddr;

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::protocol;
use mooring_api::versions::Version as _;
use mooring_api::{GROUP, annotations, finalizers, labels};
use mooring_services::configmap::NewPool;
use mooring_services::machine::{Done, Failure, NewClaim, Notice, PoolTarget, Status, Target, Write};
use mooring_services::objects::{Ingress, Made, Member};
use mooring_services::{members, words};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::known::Known;
use super::super::writes::Prepared;
use super::Desk;
use crate::api::{ApiError, Call, Resource, Verb};
use crate::wire::claim::family_label;
use crate::wire::frame::ErrorBody;
use crate::wire::pool::made_spec;
use crate::wire::text::Text;

/// What makes a write take effect on that object only, and on that version of it.
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

impl Desk {
    /// What is to be done for a write, now.
    #[must_use]
    pub fn prepare(&self, known: &Known, write: &Write) -> Prepared {
        match write {
            Write::CreateClaim(new) => self.create_claim(known, new),
            Write::UpdateClaim(target, members, requested) => update_claim(known, target, members, *requested),
            Write::DeleteClaim(target) => {
                let body = deletion(&target.uid, &target.version);
                call(Verb::Delete, Resource::Claims, claim_path(known, &target.key), &body)
            }
            Write::Exchange(target, why) => {
                let mut metadata = locked(&target.uid, &target.version);
                metadata.insert("annotations".to_owned(), json!({annotations::CONFLICT: why}));
                let path = Resource::Addresses.object(known.served.name(), &target.key.namespace, &target.key.name);
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
            Write::CreatePool(new) => create_pool(known, new),
            Write::UpdatePool(target, new) => update_pool(known, target, new),
            Write::DeletePool(target) => {
                let body = deletion(&target.uid, &target.version);
                let (resource, path) = pool_path(known, &target.reference, true);
                call(Verb::Delete, resource, path, &body)
            }
        }
    }

    fn create_claim(&self, known: &Known, new: &NewClaim) -> Prepared {
        let mut notes = Map::from_iter([(words::SERVICES.to_owned(), members::write(&new.members).into())]);
        if let Some(ip) = new.requested {
            notes.insert(annotations::REQUESTED_ADDRESS.to_owned(), ip.to_string().into());
        }
        let mut marks = Map::from_iter([(words::SERVICE_FAMILY.to_owned(), family_label(new.family).into())]);
        if let Some(value) = &self.watch_filter {
            marks.insert(labels::WATCH_FILTER.to_owned(), value.as_str().into());
        }
        let body = json!({
            "apiVersion": format!("{GROUP}/{}", known.served.name()),
            "kind": "IPAddressClaim",
            "metadata": {
                "name": &*new.key.name,
                "namespace": &*new.key.namespace,
                "labels": marks,
                "annotations": notes,
                // It would be put on anyway: so this is one write less.
                "finalizers": [finalizers::RELEASE_ADDRESS],
                "ownerReferences": if new.owned { owners(&new.members) } else { Vec::new() },
            },
            "spec": {"poolRef": {
                "apiGroup": GROUP, "kind": new.pool.kind.name(), "name": &*new.pool.name,
            }},
        });
        let path = Resource::Claims.object(known.served.name(), &new.key.namespace, "");
        call(Verb::Create, Resource::Claims, path.trim_end_matches('/').to_owned(), &body)
    }

    fn status(&self, target: &Target, status: &Status) -> Prepared {
        let Some(seen) = self.machine.seen(&target.key).filter(|service| service.version == target.version) else {
            return Prepared::Stale;
        };
        let mut body = Map::new();
        if let Some(ingress) = &status.ingress {
            // The list is written whole; names in it are not ours.
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
                // Otherwise it stays.
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

fn claim_path(known: &Known, key: &Key) -> String {
    Resource::Claims.object(known.served.name(), &key.namespace, &key.name)
}

/// Services as owners: when the last of them goes, the claim goes.
fn owners(members: &[Member]) -> Vec<Value> {
    let owner =
        |(key, uid): &Member| json!({"apiVersion": "v1", "kind": "Service", "name": &*key.name, "uid": &*uid.0});
    members.iter().map(owner).collect()
}

fn update_claim(known: &Known, target: &Target, members: &[Member], requested: Option<IpAddr>) -> Prepared {
    let beside = known.claim_at(&target.uid, &target.version);
    let Some(service) = beside.and_then(|beside| beside.service.as_ref()) else { return Prepared::Stale };
    let mut metadata = locked(&target.uid, &target.version);
    let notes = json!({words::SERVICES: members::write(members), annotations::REQUESTED_ADDRESS: requested.map(|ip| ip.to_string())});
    metadata.insert("annotations".to_owned(), notes);
    // One that nobody owns, because Services of several namespaces share it, stays so.
    if service.owned {
        let here = members.iter().all(|(key, _)| key.namespace == target.key.namespace);
        let mut all: Vec<Value> = service.owners.iter().map(|owner| json!(owner)).collect();
        all.extend(if here { owners(members) } else { Vec::new() });
        metadata.insert("ownerReferences".to_owned(), all.into());
    }
    call(Verb::Patch, Resource::Claims, claim_path(known, &target.key), &json!({"metadata": metadata}))
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

fn pool_path(known: &Known, reference: &PoolRef, one: bool) -> (Resource, String) {
    let resource = Resource::Pools(reference.kind);
    let version = known.pools_served.get(&reference.kind).copied().unwrap_or_default().name();
    let path = resource.object(version, &reference.namespace, if one { &reference.name } else { "" });
    (resource, path.trim_end_matches('/').to_owned())
}

/// The annotations of a pool that is made from the `ConfigMap`. `mooring.dev/interface` follows it, whatever people write.
fn made_notes(made: &Made) -> Map<String, Value> {
    let source = (words::SOURCE.to_owned(), made.source.to_string().into());
    let interface = made.interface.as_deref().map(|name| (annotations::INTERFACE.to_owned(), name.into()));
    std::iter::once(source).chain(interface).collect()
}

fn create_pool(known: &Known, new: &NewPool) -> Prepared {
    let (resource, path) = pool_path(known, &new.reference, false);
    let version = known.pools_served.get(&new.reference.kind).copied().unwrap_or_default();
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

/// The whole spec: whatever else was written into it is taken out.
fn update_pool(known: &Known, target: &PoolTarget, new: &NewPool) -> Prepared {
    let Some(pool) = known.pools.get(&target.reference) else { return Prepared::Stale };
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
    let (resource, path) = pool_path(known, &target.reference, true);
    call(Verb::Patch, resource, path, &body)
}

/// What came of a write.
///
/// # Errors
/// How it failed; [`Failure::Unknown`] if the answer makes no sense.
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
    // The last finalizer of an object that is being deleted: what is answered is what it was.
    if serde_json::from_slice::<ErrorBody>(&bytes).is_ok_and(|said| said.is_status()) {
        return Ok(Done::Gone);
    }
    let answer: Answer<'_> = serde_json::from_slice(&bytes).map_err(|_| Failure::Unknown)?;
    Ok(Done::At(Version::from(&*answer.metadata.resource_version)))
}

fn failure(error: &ApiError) -> Failure {
    match error.failure() {
        protocol::Failure::Conflict if matches!(error, ApiError::Status { code: 409, .. }) => Failure::Conflict,
        protocol::Failure::Exists => Failure::Exists,
        protocol::Failure::NotFound => Failure::NotFound,
        protocol::Failure::Refused(why) => Failure::Refused(why),
        // Not let in, or not sent: nothing new will be shown, and it is tried again after a while.
        protocol::Failure::Conflict | protocol::Failure::Unknown => Failure::Unknown,
    }
}
