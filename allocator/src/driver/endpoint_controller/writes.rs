//! Translates the endpoints' writes to calls, and the results of the calls back.

use std::net::IpAddr;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_endpoints::machine::{Change, Done, Failure, NewClaim, Parent, Target, Write};
use mooring_allocator_endpoints::objects::{Companion, Reference};
use mooring_allocator_endpoints::reason::{Condition, Reason};
use mooring_allocator_endpoints::words;
use mooring_api::claim::{IpAddressClaim, IpAddressClaimSpec};
use mooring_api::conditions;
use mooring_api::versions::{ClusterVersion, IpamVersion, Version as _};
use mooring_api::{annotations, cluster, patch};
use serde_json::{Map, Value, json};

use super::super::claim_writes::{self, call, locked, spec};
use super::super::controller::Prepared;
use super::super::index::Index;
use super::super::owners::owner;
use super::intake::Intake;
use super::reads::place;
use crate::api::{ApiError, Resource, Verb};
use crate::decode::claim::status;

/// The call for a write, now.
pub(super) fn prepare(index: &Index, intake: &Intake, watch_filter: Option<&str>, write: &Write) -> Prepared {
    match write {
        Write::CreateClaim(new) => create(index, watch_filter, new),
        Write::AdoptClaim(target, parent) => adopt(index, target, parent),
        Write::ReleaseClaim(target) => claim_writes::release(index, target, words::IN_USE),
        Write::DeleteClaim(target) => claim_writes::delete(index, target),
        Write::Condition(target, condition, stood) => claim_condition(index, target, condition, *stood),
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
    let given = |ip: IpAddr| json!({annotations::REQUESTED_ADDRESS: ip.to_string(), words::GIVEN: "true"});
    let claim = claim_writes::NewClaim {
        key: &new.key,
        pool: &new.pool,
        labels: Map::from_iter([(words::CLUSTER.to_owned(), (&*new.parent.name).into())]),
        annotations: new.requested.map_or(Value::Null, given),
        finalizer: words::IN_USE,
        owner: parent_owner(&new.parent),
    };
    claim_writes::create(index, watch_filter, claim)
}

fn adopt(index: &Index, target: &Target, parent: &Parent) -> Prepared {
    let Some(known) = index.claim_at(&target.uid, &target.version) else { return Prepared::Stale };
    let others = known.retained.endpoint.iter().flat_map(|mark| &mark.owners).map(owner);
    let owners = others.chain([parent_owner(parent)]).collect();
    let more = Map::from_iter([("labels".to_owned(), json!({words::CLUSTER: &*parent.name}))]);
    claim_writes::adopt(index, target, words::IN_USE, owners, more)
}

fn claim_condition(index: &Index, target: &Target, condition: &Condition, stood: Option<IpAddr>) -> Prepared {
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
    let stood =
        stood.map(|ip| conditions::Condition::new(words::STOOD, true, Reason::Written.name(), ip.to_string(), &now));
    let all: Vec<_> = [condition].into_iter().chain(stood).collect();
    match patch::claim_status(&claim, None, &all) {
        Ok(Some(locked)) => {
            let path = format!("{}/status", claim_writes::path(index, &target.key));
            call(Verb::Patch, Resource::Claims.plural(), path, locked.body())
        }
        Ok(None) => Prepared::Already,
        Err(error) => Prepared::Impossible(error.to_string()),
    }
}

/// The result of a write.
///
/// # Errors
/// The reason of the failure; [`Failure::Unknown`] if the answer is unreadable.
pub(super) fn done(write: &Write, result: Result<Bytes, ApiError>) -> Result<Done, Failure> {
    claim_writes::done(matches!(write, Write::DeleteClaim(_)), result)
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
