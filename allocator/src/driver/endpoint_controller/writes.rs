//! Translates the endpoints' writes to calls, and the results of the calls back.

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_endpoints::machine::{Change, Done, Failure, NewClaim, Parent, Target, Write};
use mooring_allocator_endpoints::objects::{Companion, Reference};
use mooring_allocator_endpoints::reason::Condition;
use mooring_allocator_endpoints::words;
use mooring_api::claim::{IpAddressClaim, IpAddressClaimSpec};
use mooring_api::conditions;
use mooring_api::versions::{ClusterVersion, IpamVersion, Version as _};
use mooring_api::{GROUP, annotations, cluster, finalizers, labels, patch};
use serde_json::{Map, Value, json};

use super::super::controller::Prepared;
use super::super::index::Index;
use super::super::owners::owner;
use super::intake::Intake;
use super::reads::place;
use crate::api::{ApiError, Call, Resource, Verb};
use crate::decode::claim::status;
use crate::decode::frame::ErrorBody;

/// The preconditions: the write takes effect only on this object, at this version.
fn locked(target: &Target) -> Map<String, Value> {
    let both = [("uid", &*target.uid.0), ("resourceVersion", &*target.version.0)];
    both.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn call(verb: Verb, resource: &'static str, path: String, body: &Value) -> Prepared {
    Prepared::Call(Call { verb, resource, path, body: body.to_string().into() })
}

/// A merge patch of the spec.
fn spec(resource: &'static str, path: String, target: &Target, spec: &Value) -> Prepared {
    call(Verb::Patch, resource, path, &json!({"metadata": locked(target), "spec": spec}))
}

/// The call for a write, now.
pub(super) fn prepare(index: &Index, intake: &Intake, watch_filter: Option<&str>, write: &Write) -> Prepared {
    let claim = |target: &Target| Resource::Claims.object(index.served.name(), &target.key.namespace, &target.key.name);
    let claims = Resource::Claims.plural();
    match write {
        Write::CreateClaim(new) => create(index, watch_filter, new),
        Write::AdoptClaim(target, parent) => adopt(index, target, parent, claim(target)),
        Write::ReleaseClaim(target) => {
            let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
            let rest: Vec<&str> =
                known.retained.finalizers.iter().map(|one| &**one).filter(|one| *one != words::IN_USE).collect();
            let mut metadata = locked(target);
            metadata.insert("finalizers".to_owned(), json!(rest));
            call(Verb::Patch, claims, claim(target), &json!({"metadata": metadata}))
        }
        Write::DeleteClaim(target) => {
            let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": locked(target)});
            call(Verb::Delete, claims, claim(target), &body)
        }
        Write::Condition(target, condition) => claim_condition(index, target, condition, &claim(target)),
        Write::Text(target, what, text) => {
            let (resource, path) = place(what, intake);
            let mut body = of_text(what, text);
            body["metadata"] = locked(target).into();
            call(Verb::Patch, resource, path, &body)
        }
        Write::ControlPlane(target, reference, change) => {
            part(intake, reference, target, &of_change(&reference.kind, change))
        }
        Write::Host(target, reference, ip, port) => {
            let mut endpoint = json!({"host": ip.to_string()});
            if let Some(port) = port {
                endpoint["port"] = (*port).into();
            }
            part(intake, reference, target, &json!({"controlPlaneEndpoint": endpoint}))
        }
        Write::Variables(target, all) => spec(
            Resource::Clusters.plural(),
            cluster_path(intake, target),
            target,
            &json!({"topology": {"variables": all}}),
        ),
        Write::Unpause(target) | Write::Unmark(target) => {
            let mut metadata = locked(target);
            metadata.insert("annotations".to_owned(), json!({words::PAUSED_FOR_ENDPOINT: null}));
            let mut body = json!({"metadata": metadata});
            if matches!(write, Write::Unpause(_)) {
                body["spec"] = json!({"paused": false});
            }
            call(Verb::Patch, Resource::Clusters.plural(), cluster_path(intake, target), &body)
        }
    }
}

fn cluster_path(intake: &Intake, target: &Target) -> String {
    let version = intake.served(Resource::Clusters).unwrap_or_else(|| ClusterVersion::default().name());
    Resource::Clusters.object(version, &target.key.namespace, &target.key.name)
}

fn part(intake: &Intake, reference: &Reference, target: &Target, change: &Value) -> Prepared {
    let known = intake.resource(reference).and_then(|resource| Some((resource, intake.served(resource)?)));
    let Some((resource, version)) = known else { return Prepared::Stale };
    let path = resource.object(version, &reference.key.namespace, &reference.key.name);
    spec(resource.plural(), path, target, change)
}

/// The spec's part that a change of a control plane of this kind means.
fn of_change(kind: &str, change: &Change) -> Value {
    let Change { files, sans, address } = change;
    if kind == "KamajiControlPlane" {
        let mut network = Map::new();
        if let Some(ip) = address {
            network.insert("serviceAddress".to_owned(), ip.to_string().into());
        }
        if let Some(sans) = sans {
            network.insert("certSANs".to_owned(), json!(sans));
        }
        return json!({"network": network});
    }
    let mut spec = Map::new();
    if let Some(files) = files {
        spec.insert("files".to_owned(), json!(files));
    }
    if let Some(sans) = sans {
        spec.insert("clusterConfiguration".to_owned(), json!({"apiServer": {"certSANs": sans}}));
    }
    json!({"kubeadmConfigSpec": spec})
}

/// The body that sets the text of a companion.
fn of_text(what: &Companion, text: &str) -> Value {
    match what {
        // The API server puts it into `data`.
        Companion::Secret(_, field) => json!({"stringData": {&**field: text}}),
        Companion::ConfigMap(_, field) => json!({"data": {&**field: text}}),
        Companion::HelmRelease(_, path) => {
            let values = path.rsplit('.').fold(json!(text), |value, field| json!({field: value}));
            json!({"spec": {"values": values}})
        }
        Companion::Cluster(_) => json!({}),
    }
}

fn parent_owner(parent: &Parent) -> Value {
    let version = format!("{}/{}", cluster::GROUP, parent.api);
    json!({"apiVersion": version, "kind": "Cluster", "name": &*parent.name, "uid": &*parent.uid.0})
}

fn create(index: &Index, watch_filter: Option<&str>, new: &NewClaim) -> Prepared {
    let mut own_labels = Map::from_iter([(words::CLUSTER.to_owned(), (&*new.parent.name).into())]);
    if let Some(value) = watch_filter {
        own_labels.insert(labels::WATCH_FILTER.to_owned(), value.into());
    }
    let notes = new.requested.map(|ip| json!({annotations::REQUESTED_ADDRESS: ip.to_string(), words::GIVEN: "true"}));
    let body = json!({
        "apiVersion": format!("{GROUP}/{}", index.served.name()),
        "kind": IpAddressClaim::KIND,
        "metadata": {
            "name": &*new.key.name,
            "namespace": &*new.key.namespace,
            "labels": own_labels,
            "annotations": notes,
            // The first would be added anyway: adding it now saves a write.
            "finalizers": [finalizers::RELEASE_ADDRESS, words::IN_USE],
            "ownerReferences": [parent_owner(&new.parent)],
        },
        "spec": {"poolRef": {"apiGroup": GROUP, "kind": new.pool.kind.name(), "name": &*new.pool.name}},
    });
    let path = Resource::Claims.object(index.served.name(), &new.key.namespace, "");
    call(Verb::Create, Resource::Claims.plural(), path.trim_end_matches('/').to_owned(), &body)
}

fn adopt(index: &Index, target: &Target, parent: &Parent, path: String) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let others = known.retained.endpoint.iter().flat_map(|mark| &mark.owners).map(owner);
    let mut all: Vec<&str> = known.retained.finalizers.iter().map(|one| &**one).collect();
    if !all.contains(&words::IN_USE) {
        all.push(words::IN_USE);
    }
    let mut metadata = locked(target);
    metadata.insert("labels".to_owned(), json!({words::CLUSTER: &*parent.name}));
    metadata.insert("finalizers".to_owned(), json!(all));
    metadata.insert("ownerReferences".to_owned(), others.chain([parent_owner(parent)]).collect());
    call(Verb::Patch, Resource::Claims.plural(), path, &json!({"metadata": metadata}))
}

fn claim_condition(index: &Index, target: &Target, condition: &Condition, path: &str) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let status = match status(&known.retained) {
        Ok(status) => status,
        Err(error) => return Prepared::Impossible(error.to_string()),
    };
    let mut claim = IpAddressClaim::new(&target.key.name, IpAddressClaimSpec::default());
    claim.version = IpamVersion::newest([known.retained.api]).unwrap_or_default();
    claim.metadata = ObjectMeta {
        name: Some(target.key.name.to_string()),
        namespace: Some(target.key.namespace.to_string()),
        uid: Some(target.uid.to_string()),
        resource_version: Some(target.version.0.to_string()),
        ..ObjectMeta::default()
    };
    claim.status = status;
    let now = Time(Timestamp::now());
    let (reason, message) = (condition.reason.name(), condition.message.clone());
    let condition = conditions::Condition::new(words::CONDITION, condition.ready(), reason, message, &now);
    match patch::claim_status(&claim, None, &condition) {
        Ok(Some(locked)) => call(Verb::Patch, Resource::Claims.plural(), format!("{path}/status"), locked.body()),
        Ok(None) => Prepared::Already,
        Err(error) => Prepared::Impossible(error.to_string()),
    }
}

/// The result of a write.
///
/// # Errors
/// The reason of the failure; [`Failure::Unknown`] if the answer is unreadable.
pub(super) fn done(write: &Write, result: Result<Bytes, ApiError>) -> Result<Done, Failure> {
    let bytes = result.map_err(|error| match error.failure() {
        Failure::Conflict if !matches!(error, ApiError::Status { code: 409, .. }) => Failure::Unknown,
        failure => failure,
    })?;
    // The last finalizer of an object that is being deleted: the answer shows the object's last state.
    let is_status = || serde_json::from_slice::<ErrorBody>(&bytes).is_ok_and(|said| said.is_status());
    if matches!(write, Write::DeleteClaim(_)) || is_status() {
        return Ok(Done::Gone);
    }
    let answer: Value = serde_json::from_slice(&bytes).map_err(|_| Failure::Unknown)?;
    let version = crate::decode::endpoint::version(&answer).ok_or(Failure::Unknown)?;
    Ok(Done::There(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_goes_to_the_fields_of_its_kind() {
        let sans = || Some(vec!["localhost".into(), "10.0.0.1".into()]);
        let names = json!(["localhost", "10.0.0.1"]);
        for (kind, change, spec) in [
            (
                "KamajiControlPlane",
                Change { address: Some([10, 0, 0, 1].into()), sans: sans(), files: None },
                json!({"network": {"serviceAddress": "10.0.0.1", "certSANs": names}}),
            ),
            // Somebody else has written the address already.
            (
                "KamajiControlPlane",
                Change { address: None, sans: sans(), files: None },
                json!({"network": {"certSANs": names}}),
            ),
            (
                "KubeadmControlPlane",
                Change { address: None, sans: sans(), files: Some(vec![json!({"path": "/a"})]) },
                json!({"kubeadmConfigSpec": {"files": [{"path": "/a"}],
                    "clusterConfiguration": {"apiServer": {"certSANs": names}}}}),
            ),
        ] {
            assert_eq!(of_change(kind, &change), spec, "{kind}");
        }
    }
}
