//! Claims: JSON to the protocol's claim, with the parts that patches need.

use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, Uid, Version};
use mooring_allocator_core::protocol::{Claim, Condition, Hold, Reason};
use mooring_allocator_core::retained_meta::{
    ClusterOwner, ForCluster, ForMachine, ForServices, MachineOwner, Owner, RetainedMeta,
};
use mooring_allocator_core::scope::Scope;
use mooring_allocator_services::members;
use mooring_api::claim::IpAddressClaimStatus;
use mooring_api::versions::{IpamVersion, Version as _};
use mooring_api::{cluster, conditions};
use mooring_common::text::cut_bytes;
use mooring_names::machines;
use serde::Deserialize;

use super::kinds::finalizers;
use super::meta::{Annotations, ConditionJson, Meta, NameJson, Owner as OwnerJson, PoolRefJson};
use super::names::Names;
use super::own_annotations;
use super::text::Text;

/// The garbage collector's finalizer on an object that is deleted in the foreground. The garbage collector waits for the
/// claim's `IPAddress`: so the address must not wait for this finalizer.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// A claim, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    cluster_name: Option<Text<'a>>,
    #[serde(borrow)]
    pool_ref: PoolRefJson<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status<'a> {
    #[serde(borrow)]
    address_ref: Option<NameJson<'a>>,
    #[serde(borrow)]
    conditions: Vec<ConditionJson<'a>>,
    #[serde(borrow, rename = "v1beta2")]
    new_style: Option<NewStyle<'a>>,
    #[serde(borrow)]
    deprecated: Option<Deprecated<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Deprecated<'a> {
    #[serde(borrow)]
    v1beta1: Option<NewStyle<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NewStyle<'a> {
    #[serde(borrow)]
    conditions: Vec<ConditionJson<'a>>,
}

/// The longest request that is kept, in bytes: tenants write it.
pub(super) const LONGEST_REQUEST: usize = 1024;

/// The complete status, without the other fields.
#[derive(Deserialize)]
struct StatusOnly {
    #[serde(default)]
    status: Option<IpAddressClaimStatus>,
}

impl ClaimJson<'_> {
    /// Translates to the protocol's claim. `whole` reads the complete status, if it is needed. None: the claim is of no
    /// pool of ours.
    ///
    /// # Errors
    /// The status cannot be read completely.
    pub fn translate(
        &self,
        names: &mut Names,
        scope: &Scope,
        api: IpamVersion,
        whole: impl FnOnce() -> Result<Option<IpAddressClaimStatus>, serde_json::Error>,
    ) -> Result<Option<Claim>, serde_json::Error> {
        let meta = &self.metadata;
        let Some(pool) = names.pool_ref(&self.spec.pool_ref, &meta.namespace) else { return Ok(None) };
        let key = Key { namespace: names.text(&meta.namespace), name: Arc::from(&*meta.name) };
        let all = meta.finalizers.as_deref().unwrap_or_default();
        let ours = |one: &&Text<'_>| ***one == *finalizers(pool.kind, ClaimKind::ClusterApi).claim;
        let finalizer = all.iter().any(|one| ours(&one));
        let others = all.iter().any(|one| !ours(&one) && **one != *FOREGROUND);
        let labels = meta.labels.as_ref();
        let annotations = meta.annotations.as_ref();
        let its = self.spec.cluster_name.as_ref().or_else(|| labels?.cluster.as_ref());
        let cluster = its.filter(|name| !name.is_empty()).map(|name| names.text(name));
        let label = labels.and_then(|l| l.watch_filter.as_deref());
        let requested = annotations.and_then(|a| match pool.kind {
            PoolKind::Metal3IPPool => a.requested_of_metal3.as_ref().or(a.requested.as_ref()),
            _ => a.requested.as_ref(),
        });
        // The condition of an endpoint is written beside the others.
        let for_cluster = self.for_cluster(names, api);
        let status = if self.is_plain() && for_cluster.is_none() { None } else { whole()? };
        let retained = RetainedMeta {
            finalizers: names.finalizers(all),
            cluster,
            paused: annotations.is_some_and(|a| a.paused.is_some()),
            elsewhere: !scope.has(&key.namespace, label),
            status: status.map(|status| serde_json::to_string(&status)).transpose()?.map(Into::into),
            api: api.name(),
            service: for_services(meta).map(Box::new),
            endpoint: for_cluster.map(Box::new),
            machine: for_machine(meta).map(Box::new),
            owned: meta.owner_references.as_ref().is_some_and(|all| !all.is_empty()),
        };
        let bound = self.bound(&key);
        Ok(Some(Claim {
            uid: Uid::from(&*meta.uid),
            version: Version::from(&*meta.resource_version),
            created: meta.creation_timestamp.as_deref().and_then(own_annotations::read_moment).unwrap_or(0),
            pool,
            deleting: meta.deletion_timestamp.is_some(),
            finalizer,
            others,
            bound,
            voided: voided(annotations),
            requested: requested.map(|text| Box::from(cut_bytes(text, LONGEST_REQUEST))),
            had: had(annotations),
            hold: Hold::None,
            condition: self.ready(api),
            key,
            retained,
        }))
    }

    fn bound(&self, key: &Key) -> Option<Arc<str>> {
        let name = &self.status.as_ref()?.address_ref.as_ref()?.name;
        // Usually claim and address have the same name: store the text once.
        (!name.is_empty()).then(|| if **name == *key.name { key.name.clone() } else { Arc::from(&**name) })
    }

    /// The data of a claim that is for the endpoint, or the Services, of a Cluster: it has our label, or our finalizer.
    fn for_cluster(&self, names: &mut Names, api: IpamVersion) -> Option<ForCluster> {
        let meta = &self.metadata;
        let label = meta.labels.as_ref().and_then(|labels| labels.endpoint.as_ref()).filter(|name| !name.is_empty());
        let in_use = meta.finalizers.iter().flatten().any(|one| **one == *mooring_names::endpoints::IN_USE);
        if label.is_none() && !in_use {
            return None;
        }
        let is_cluster =
            |one: &&OwnerJson<'_>| &*one.kind == "Cluster" && one.api_version.split('/').next() == Some(cluster::GROUP);
        let (clusters, others): (Vec<_>, Vec<_>) = meta.owner_references.iter().flatten().partition(is_cluster);
        let condition = self.condition(api, mooring_names::endpoints::CONDITION);
        let stood = self.condition(api, mooring_names::endpoints::STOOD).filter(|one| &*one.status == "True");
        Some(ForCluster {
            label: label.map(|name| names.text(name)),
            owner: clusters.first().map(|one| ClusterOwner { name: names.text(&one.name), uid: Uid::from(&*one.uid) }),
            given: meta.annotations.as_ref().is_some_and(|a| a.given.is_some()),
            owners: others.into_iter().map(owner).collect(),
            condition: condition.map(|one| (Box::from(&*one.reason), Box::from(&*one.message))),
            stood: stood.and_then(|one| one.message.parse().ok()),
        })
    }

    /// The condition of this type.
    fn condition(&self, api: IpamVersion, kind: &str) -> Option<&ConditionJson<'_>> {
        let status = self.status.as_ref()?;
        let all = match (&status.new_style, api) {
            (Some(new_style), IpamVersion::V1beta1) => &new_style.conditions,
            _ => &status.conditions,
        };
        all.iter().find(|one| &*one.kind == kind)
    }

    fn ready(&self, api: IpamVersion) -> Option<Condition> {
        let ready = self.condition(api, conditions::READY)?;
        Some(Condition {
            ready: &*ready.status == "True",
            reason: reason(&ready.reason),
            message: ready.message.0.clone().into_owned(),
        })
    }

    /// Whether the status has only fields that a later write can rebuild without knowing them.
    fn is_plain(&self) -> bool {
        let Some(status) = &self.status else { return true };
        let deprecated = status.deprecated.iter().filter_map(|one| one.v1beta1.as_ref());
        let others = status.new_style.iter().chain(deprecated).flat_map(|one| &one.conditions);
        status.conditions.iter().chain(others).all(|one| &*one.kind == conditions::READY && &*one.status == "True")
    }
}

/// The complete status that was stored with a claim.
///
/// # Errors
/// The stored text cannot be read: a bug, because this program wrote the text.
pub fn status(retained: &RetainedMeta) -> Result<Option<IpAddressClaimStatus>, serde_json::Error> {
    retained.status.as_deref().map(serde_json::from_str).transpose()
}

/// Reads a single claim.
///
/// # Errors
/// The bytes are not a claim.
pub fn read(
    bytes: &[u8],
    names: &mut Names,
    scope: &Scope,
    api: IpamVersion,
) -> Result<Option<Claim>, serde_json::Error> {
    let json: ClaimJson<'_> = serde_json::from_slice(bytes)?;
    json.translate(names, scope, api, || serde_json::from_slice::<StatusOnly>(bytes).map(|one| one.status))
}

/// The data that Services need. Only the label decides: a claim without the label is not a Service's.
fn for_services(meta: &Meta<'_>) -> Option<ForServices> {
    let family = match &**meta.labels.as_ref()?.family.as_ref()? {
        "ipv4" => Family::V4,
        "ipv6" => Family::V6,
        _ => return None,
    };
    let notes = meta.annotations.as_ref();
    let members = notes.and_then(|a| a.services.as_deref()).map(members::read).unwrap_or_default();
    let classes = notes.and_then(|a| a.given_classes.as_deref()).unwrap_or_default();
    let classes = members::read_classes(classes, &members);
    let (services, others): (Vec<_>, Vec<_>) =
        meta.owner_references.iter().flatten().partition(|one| &*one.api_version == "v1" && &*one.kind == "Service");
    Some(ForServices {
        family,
        members,
        classes,
        owned: !services.is_empty(),
        owners: others.into_iter().map(owner).collect(),
    })
}

/// The data of a claim that is for a machine: a machine owns it, or it has our finalizer.
fn for_machine(meta: &Meta<'_>) -> Option<ForMachine> {
    let is_machine = |one: &&OwnerJson<'_>| {
        &*one.kind == machines::KIND && one.api_version.split('/').next() == Some(machines::GROUP)
    };
    let in_use = meta.finalizers.iter().flatten().any(|one| **one == *machines::IN_USE);
    let (owning, others): (Vec<_>, Vec<_>) = meta.owner_references.iter().flatten().partition(is_machine);
    if owning.is_empty() && !in_use {
        return None;
    }
    Some(ForMachine {
        owner: owning.first().map(|one| MachineOwner { name: Arc::from(&*one.name), uid: Uid::from(&*one.uid) }),
        owners: others.into_iter().map(owner).collect(),
    })
}

fn owner(one: &OwnerJson<'_>) -> Owner {
    Owner {
        api_version: Box::from(&*one.api_version),
        kind: Box::from(&*one.kind),
        name: Box::from(&*one.name),
        uid: Box::from(&*one.uid),
        controller: one.controller,
        block_owner_deletion: one.block_owner_deletion,
    }
}

/// The value of the label for a family.
#[must_use]
pub const fn family_label(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// How many objects of a claim were declared void.
pub(super) fn voided(annotations: Option<&Annotations<'_>>) -> u32 {
    let count = annotations.and_then(|a| a.voided.as_ref()?.parse().ok());
    count.filter(|&count| count < u32::MAX).unwrap_or(0)
}

/// What a claim was given, as its metadata says.
pub(super) fn had(annotations: Option<&Annotations<'_>>) -> Option<Box<Block>> {
    Block::read(annotations?.address.as_ref()?).map(Box::new)
}

pub(super) fn reason(text: &str) -> Reason {
    let all = [Reason::AddressAllocated, Reason::AllocationFailed, Reason::PoolNotReady, Reason::PoolExhausted];
    all.into_iter().find(|one| one.name() == text).unwrap_or(Reason::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = r#"{"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddressClaim","metadata":{
        "creationTimestamp":"2026-11-20T10:00:00Z","generation":1,"labels":{"cluster.x-k8s.io/cluster-name":"old"},
        "managedFields":[{"manager":"x","fieldsV1":{"f:spec":{}}}],"name":"c","namespace":"n","resourceVersion":"5","uid":"u"},
        "spec":{"poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":"p"}}}"#;

    fn one(text: &str, api: IpamVersion) -> Claim {
        read(text.as_bytes(), &mut Names::default(), &Scope::default(), api).unwrap().unwrap()
    }

    #[test]
    fn a_new_claim_is_read() {
        let claim = one(NEW, IpamVersion::V1beta2);
        assert_eq!((claim.key.to_string().as_str(), &*claim.uid.0, &*claim.version.0), ("n/c", "u", "5"));
        assert_eq!(
            (claim.created, claim.deleting, claim.finalizer, claim.others),
            (1_795_168_800, false, false, false)
        );
        assert_eq!((claim.bound, claim.voided, claim.requested, claim.condition), (None, 0, None, None));
        assert_eq!(claim.retained.cluster.as_deref(), Some("old"), "the deprecated label");
        assert!(claim.retained.status.is_none() && !claim.retained.paused);
        let named = NEW.replace(r#""spec":{"#, r#""spec":{"clusterName":"new","#);
        assert_eq!(one(&named, IpamVersion::V1beta2).retained.cluster.as_deref(), Some("new"), "the spec comes first");
    }

    #[test]
    fn finalizers_and_annotations_are_read() {
        let text = NEW.replace(
            r#""name":"c""#,
            r#""name":"c","deletionTimestamp":"2026-11-20T11:00:00Z","annotations":{"mooring.dev/voided":"3",
            "mooring.dev/requested-address":"10.0.0.\u0037","cluster.x-k8s.io/paused":""},
            "finalizers":["theirs","ipam.cluster.x-k8s.io/ReleaseAddress"]"#,
        );
        let claim = one(&text, IpamVersion::V1beta2);
        assert_eq!((claim.deleting, claim.finalizer, claim.others, claim.voided), (true, true, true, 3));
        assert_eq!(claim.requested.as_deref(), Some("10.0.0.7"), "escapes too");
        assert!(claim.retained.paused);
        assert_eq!(claim.retained.finalizers.len(), 2);
    }

    #[test]
    fn a_long_request_is_cut() {
        let long = "ä".repeat(100_000);
        let annotations = format!(r#""name":"c","annotations":{{"mooring.dev/requested-address":"{long}"}}"#);
        let claim = one(&NEW.replace(r#""name":"c""#, &annotations), IpamVersion::V1beta2);
        assert!(claim.requested.is_some_and(|text| text.len() <= 1024 && long.starts_with(&*text)));
    }

    #[test]
    fn only_a_status_that_patches_could_lose_is_kept() {
        let with = |status: &str| NEW.replace(r#""spec":{"#, &format!(r#""status":{status},"spec":{{"#));
        let ready = r#"{"type":"Ready","status":"True","reason":"AddressAllocated","message":"m"}"#;
        let claim =
            one(&with(&format!(r#"{{"addressRef":{{"name":"c"}},"conditions":[{ready}]}}"#)), IpamVersion::V1beta2);
        assert_eq!(claim.bound.as_deref(), Some("c"));
        assert!(Arc::ptr_eq(&claim.bound.unwrap(), &claim.key.name), "one text, held once");
        assert_eq!(claim.condition.unwrap().reason, Reason::AddressAllocated);
        assert!(claim.retained.status.is_none());
        let theirs = r#"{"type":"Theirs","status":"True","reason":"X","message":"","new":1}"#;
        let claim = one(&with(&format!(r#"{{"conditions":[{theirs},{ready}]}}"#)), IpamVersion::V1beta2);
        assert!(claim.condition.unwrap().ready);
        assert_eq!(status(&claim.retained).unwrap().unwrap().conditions[0].other["new"], 1);
        let old = format!(r#"{{"conditions":[{ready}],"deprecated":{{"v1beta1":{{"conditions":[{theirs}]}}}}}}"#);
        let claim = one(&with(&old), IpamVersion::V1beta2);
        assert!(claim.retained.status.is_some_and(|status| status.contains("Theirs")), "others' old conditions stay");
        let waits = r#"{"type":"Ready","status":"False","reason":"PoolExhausted","message":"m"}"#;
        let claim = one(&with(&format!(r#"{{"conditions":[{waits}]}}"#)), IpamVersion::V1beta2);
        assert_eq!(claim.condition.unwrap().reason, Reason::PoolExhausted);
        assert!(claim.retained.status.is_some(), "the moment of its last change must stay");
    }

    #[test]
    fn v1beta1_has_its_new_conditions_elsewhere() {
        let status = r#""status":{"conditions":[{"type":"Ready","status":"False","severity":"Error","reason":"Old"}],
            "v1beta2":{"conditions":[{"type":"Ready","status":"False","reason":"PoolNotReady","message":"new"}]}},"spec":{"#;
        let text = NEW.replace(r#""spec":{"#, status);
        let ready = |api| one(&text, api).condition.unwrap();
        assert_eq!(ready(IpamVersion::V1beta1).reason, Reason::PoolNotReady);
        assert_eq!(ready(IpamVersion::V1alpha1).reason, Reason::Other);
    }

    #[test]
    fn what_services_have_is_read() {
        let text = NEW.replace(
            r#""labels":{"#,
            r#""annotations":{"mooring.dev/services":"n/web=u1","mooring.dev/given-for-classes":"n/web=x/y"},"ownerReferences":[
            {"apiVersion":"v1","kind":"Service","name":"web","uid":"u1"},
            {"apiVersion":"x/v1","kind":"Y","name":"y","uid":"u2","controller":true}],"labels":{"mooring.dev/service-family":"ipv6","#,
        );
        let service = one(&text, IpamVersion::V1beta2).retained.service.unwrap();
        assert_eq!((service.family, service.owned), (Family::V6, true));
        assert_eq!(service.members, [(Key::new("n", "web"), Uid::from("u1"))]);
        assert_eq!(service.classes, [Some("x/y".into())]);
        assert_eq!(
            service.owners.iter().map(|one| (&*one.name, one.controller)).collect::<Vec<_>>(),
            [("y", Some(true))]
        );
        assert!(one(NEW, IpamVersion::V1beta2).retained.service.is_none());
        let other = text.replace("\"ipv6\"", "\"ipx\"");
        assert!(one(&other, IpamVersion::V1beta2).retained.service.is_none());
    }

    #[test]
    fn what_a_cluster_has_is_read_also_without_its_label() {
        let cluster = r#""ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"prod","uid":"u1"},
            {"apiVersion":"x/v1","kind":"Cluster","name":"y","uid":"u2"}],"annotations":{"mooring.dev/endpoint-given":""},"#;
        let whole =
            NEW.replace(r#""labels":{"#, &format!(r#"{cluster}"labels":{{"mooring.dev/endpoint-cluster":"foo","#));
        let read = one(&whole, IpamVersion::V1beta2).retained.endpoint.unwrap();
        let owner = ClusterOwner { name: "prod".into(), uid: Uid::from("u1") };
        assert_eq!((read.label.as_deref(), &read.owner, read.given), (Some("foo"), &Some(owner), true));
        assert_eq!((read.cluster().map(|name| &**name), read.owners.len()), (Some("prod"), 1));
        let no_label = NEW.replace(r#""labels":{"#, &format!(r#"{cluster}"labels":{{"#));
        assert!(one(&no_label, IpamVersion::V1beta2).retained.endpoint.is_none(), "nobody's of ours");
        let finalizer = r#""finalizers":["mooring.dev/endpoint-in-use"],"labels":{"#;
        let ours = no_label.replace(r#""labels":{"#, finalizer);
        let read = one(&ours, IpamVersion::V1beta2).retained.endpoint.unwrap();
        assert_eq!((read.label.as_deref(), read.cluster().map(|name| &**name)), (None, Some("prod")));
    }

    #[test]
    fn what_a_machine_has_is_read_also_without_its_owner() {
        let owners = r#""ownerReferences":[{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"VSphereMachine","name":"m","uid":"u1"},
            {"apiVersion":"x/v1","kind":"VSphereMachine","name":"y","uid":"u2"}],"labels":{"#;
        let read = one(&NEW.replace(r#""labels":{"#, owners), IpamVersion::V1beta2).retained.machine.unwrap();
        assert_eq!(read.owner, Some(MachineOwner { name: "m".into(), uid: Uid::from("u1") }));
        assert_eq!(read.owners.len(), 1, "a machine of another group is any owner");
        let finalizer = r#""finalizers":["mooring.dev/machine-in-use"],"labels":{"#;
        let read = one(&NEW.replace(r#""labels":{"#, finalizer), IpamVersion::V1beta2).retained.machine.unwrap();
        assert_eq!(read.owner, None);
        assert!(one(NEW, IpamVersion::V1beta2).retained.machine.is_none(), "nobody's of ours");
    }

    #[test]
    fn another_providers_claim_is_none() {
        let text = NEW.replace("InClusterIPPool", "PHPIPAMIPPool");
        assert!(
            read(text.as_bytes(), &mut Names::default(), &Scope::default(), IpamVersion::V1beta2).unwrap().is_none()
        );
        assert!(read(b"{\"metadata\":7}", &mut Names::default(), &Scope::default(), IpamVersion::V1beta2).is_err());
    }
}
