//! Writing so that nothing of others is lost: patches that change what is ours, and that fail with 409 (Conflict) when the
//! object is not the one that was seen.
//!
//! Each carries uid and resourceVersion of what was seen. A merge patch with a resourceVersion is never retried by the API
//! server; a stale one, and one for an object that was deleted and made again under the same name, is a conflict. Lists are
//! written whole, out of what was seen, which the resourceVersion makes safe.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::params::{DeleteParams, Patch, Preconditions};
use serde_json::{Map, Value, json};

use crate::address::NameRef;
use crate::claim::IpAddressClaim;
use crate::conditions::{self, Condition};
use crate::pool::{Counts, FloatingIpPoolStatus, PoolStatus};
use crate::versions::IpamVersion;

/// An object that did not come from an API server cannot be patched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has no {field}: it does not come from an API server, or was not read whole")]
pub struct NotSeen {
    /// The object.
    pub name: String,
    /// What it lacks.
    pub field: &'static str,
}

/// A merge patch that only fits the object that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct LockedPatch(Value);

impl LockedPatch {
    fn new(meta: &ObjectMeta, mut body: Map<String, Value>, changes: Map<String, Value>) -> Result<Self, NotSeen> {
        let (uid, version) = identity(meta)?;
        let mut metadata = changes;
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("resourceVersion".to_owned(), version.into());
        body.insert("metadata".to_owned(), metadata.into());
        Ok(Self(body.into()))
    }

    /// For `Api::patch` and `Api::patch_status`.
    #[must_use]
    pub fn patch(&self) -> Patch<&Value> {
        Patch::Merge(&self.0)
    }

    /// The patch as JSON.
    #[must_use]
    pub fn body(&self) -> &Value {
        &self.0
    }
}

/// Deletes an object only if it is the one that was seen, unchanged since.
///
/// # Errors
/// It was never seen.
pub fn delete(meta: &ObjectMeta) -> Result<DeleteParams, NotSeen> {
    let (uid, version) = identity(meta)?;
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) };
    Ok(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() })
}

/// What is to change in an object's metadata.
#[derive(Clone, Debug, Default)]
pub struct MetaChange {
    add_finalizers: Vec<String>,
    remove_finalizers: Vec<String>,
    owners: Vec<OwnerReference>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl MetaChange {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finalizer. (The API server refuses that on an object that is being deleted.)
    #[must_use]
    pub fn finalizer(mut self, name: &str) -> Self {
        self.add_finalizers.push(name.to_owned());
        self
    }

    /// Removes a finalizer.
    #[must_use]
    pub fn without_finalizer(mut self, name: &str) -> Self {
        self.remove_finalizers.push(name.to_owned());
        self
    }

    /// Adds an owner, in place of one with the same uid, or of the same group, kind and name (then it was made again).
    #[must_use]
    pub fn owner(mut self, owner: OwnerReference) -> Self {
        self.owners.push(owner);
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Sets an annotation, or removes it.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: Option<&str>) -> Self {
        self.annotations.insert(key.to_owned(), value.map_or(Value::Null, Value::from));
        self
    }

    /// The patch for the object with this metadata; `None` when it is so already.
    ///
    /// # Errors
    /// The object was never seen.
    pub fn of(&self, meta: &ObjectMeta) -> Result<Option<LockedPatch>, NotSeen> {
        let mut changes = Map::new();

        let old = meta.finalizers.clone().unwrap_or_default();
        let mut finalizers = old.clone();
        finalizers.retain(|one| !self.remove_finalizers.contains(one));
        for one in &self.add_finalizers {
            if !finalizers.contains(one) {
                finalizers.push(one.clone());
            }
        }
        if finalizers != old {
            changes.insert("finalizers".to_owned(), json!(finalizers));
        }

        let old = meta.owner_references.clone().unwrap_or_default();
        let mut owners = old.clone();
        for owner in &self.owners {
            match owners.iter_mut().find(|one| same_owner(one, owner)) {
                Some(one) => *one = owner.clone(),
                None => owners.push(owner.clone()),
            }
        }
        if owners != old {
            changes.insert("ownerReferences".to_owned(), json!(owners));
        }

        for (field, wanted, old) in
            [("labels", &self.labels, &meta.labels), ("annotations", &self.annotations, &meta.annotations)]
        {
            let old = |key: &String| old.as_ref().and_then(|old| old.get(key)).map(String::as_str);
            let new = wanted.iter().filter(|(key, value)| old(key) != value.as_str());
            let new: Map<String, Value> = new.map(|(key, value)| (key.clone(), value.clone())).collect();
            if !new.is_empty() {
                changes.insert(field.to_owned(), new.into());
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        LockedPatch::new(meta, Map::new(), changes).map(Some)
    }
}

/// Whether both mean one object, as far as a list of owners goes.
fn same_owner(a: &OwnerReference, b: &OwnerReference) -> bool {
    let group = |one: &OwnerReference| one.api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
    a.uid == b.uid || (group(a) == group(b) && a.kind == b.kind && a.name == b.name)
}

/// The patch for a claim's status (`Api::patch_status`): bound to that `IPAddress` (`None`: the reference stays as it is), and
/// those conditions. In the version in which the claim was read: `v1beta1` has two lists of conditions. `None` when it is so
/// already.
///
/// # Errors
/// The claim was never seen.
pub fn claim_status(
    claim: &IpAddressClaim,
    address: Option<&str>,
    conditions: &[Condition],
) -> Result<Option<LockedPatch>, NotSeen> {
    let mut changes = Map::new();
    if let Some(name) = address.filter(|name| claim.bound_to() != Some(name)) {
        changes.insert("addressRef".to_owned(), json!(NameRef { name: name.to_owned() }));
    }
    status_with(claim, changes, conditions)
}

/// The patch for a claim's status (`Api::patch_status`): bound to nothing any more, and that condition.
///
/// # Errors
/// The claim was never seen.
pub fn claim_unbound(claim: &IpAddressClaim, condition: &Condition) -> Result<Option<LockedPatch>, NotSeen> {
    let unbound = Map::from_iter([("addressRef".to_owned(), Value::Null)]);
    status_with(claim, unbound, std::slice::from_ref(condition))
}

fn status_with(
    claim: &IpAddressClaim,
    mut changes: Map<String, Value>,
    new: &[Condition],
) -> Result<Option<LockedPatch>, NotSeen> {
    let status = claim.status.clone().unwrap_or_default();
    let with = |before: &[Condition], new: &[Condition]| {
        let all = conditions::all_with(before, new);
        (all != before).then(|| json!(all))
    };
    let old_style: Vec<Condition> = new.iter().cloned().map(Condition::old_style).collect();
    match claim.version {
        IpamVersion::V1beta2 => {
            if let Some(all) = with(&status.conditions, new) {
                changes.insert("conditions".to_owned(), all);
                // For who reads the claim in `v1beta1`. Never a write of its own: where the kind lacks the field, it does not stay.
                let ready: Vec<Condition> =
                    old_style.into_iter().filter(|one| one.type_ == conditions::READY).collect();
                let before = status.deprecated.unwrap_or_default().v1beta1.unwrap_or_default().conditions;
                if let Some(all) = with(&before, &ready) {
                    changes.insert("deprecated".to_owned(), json!({"v1beta1": {"conditions": all}}));
                }
            }
        }
        IpamVersion::V1beta1 | IpamVersion::V1alpha1 => {
            if let Some(all) = with(&status.conditions, &old_style) {
                changes.insert("conditions".to_owned(), all);
            }
            let new_style = status.new_style.unwrap_or_default().conditions;
            if claim.version == IpamVersion::V1beta1
                && let Some(all) = with(&new_style, new)
            {
                changes.insert("v1beta2".to_owned(), json!({"conditions": all}));
            }
        }
    }
    locked_status(&claim.metadata, changes)
}

/// The patch for a pool's status (`Api::patch_status`): these counts and these conditions, others stay. `None` when it is so
/// already.
///
/// # Errors
/// The pool was never seen.
pub fn pool_status(
    meta: &ObjectMeta,
    old: Option<&PoolStatus>,
    counts: Counts,
    conditions: &[Condition],
) -> Result<Option<LockedPatch>, NotSeen> {
    let mut changes = Map::new();
    let before = old.and_then(|status| status.ip_addresses);
    if before != Some(counts) {
        let mut counted = json!(counts);
        // Absent would mean "as before" in a merge patch.
        if counts.quarantined.is_none() && before.is_some_and(|counts| counts.quarantined.is_some()) {
            counted["quarantined"] = Value::Null;
        }
        changes.insert("ipAddresses".to_owned(), counted);
    }
    let before = old.map_or(&[][..], |status| &status.conditions);
    let all = conditions::all_with(before, conditions);
    if all != before {
        changes.insert("conditions".to_owned(), json!(all));
    }
    locked_status(meta, changes)
}

/// The patch for the status of a pool of metal3's: these addresses by claim, written at this moment. `None` when it is so already.
///
/// # Errors
/// The pool was never seen.
pub fn metal3_pool_status(
    meta: &ObjectMeta,
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    moment: &str,
) -> Result<Option<LockedPatch>, NotSeen> {
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let given = new.iter().filter(|(key, ip)| old.get(*key) != Some(*ip));
    let indexes: Map<String, Value> = gone.chain(given.map(|(key, ip)| (key.clone(), json!(ip)))).collect();
    if indexes.is_empty() {
        return Ok(None);
    }
    let all = Map::from_iter([("indexes".to_owned(), indexes.into()), ("lastUpdated".to_owned(), json!(moment))]);
    locked_status(meta, all)
}

/// The patch for the status of a pool of floating IPs: this one, with conditions of other programs kept. `None` when it is so
/// already.
///
/// # Errors
/// The pool was never seen.
pub fn floating_ip_pool_status(
    meta: &ObjectMeta,
    old: &FloatingIpPoolStatus,
    new: &FloatingIpPoolStatus,
) -> Result<Option<LockedPatch>, NotSeen> {
    let mut changes = Map::new();
    for (name, before, now) in [
        ("claimedIPs", &old.claimed, &new.claimed),
        ("availableIPs", &old.available, &new.available),
        ("failedIPs", &old.failed, &new.failed),
    ] {
        if before != now {
            changes.insert(name.to_owned(), json!(now));
        }
    }
    if let Some(network) = new.network.as_ref().filter(|network| old.network.as_ref() != Some(network)) {
        changes.insert("floatingIPNetwork".to_owned(), json!(network));
    }
    let all = conditions::all_with(&old.conditions, &new.conditions);
    if all != old.conditions {
        changes.insert("conditions".to_owned(), json!(all));
    }
    locked_status(meta, changes)
}

fn locked_status(meta: &ObjectMeta, changes: Map<String, Value>) -> Result<Option<LockedPatch>, NotSeen> {
    if changes.is_empty() {
        return Ok(None);
    }
    let body = Map::from_iter([("status".to_owned(), changes.into())]);
    LockedPatch::new(meta, body, Map::new()).map(Some)
}

/// Uid and resourceVersion.
fn identity(meta: &ObjectMeta) -> Result<(&str, &str), NotSeen> {
    let missing = |field| {
        let name = meta.name.as_deref().unwrap_or("an object without a name");
        let name = meta.namespace.as_deref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        NotSeen { name, field }
    };
    let uid = meta.uid.as_deref().ok_or_else(|| missing("uid"))?;
    Ok((uid, meta.resource_version.as_deref().ok_or_else(|| missing("resourceVersion"))?))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::claim::{Deprecated, IpAddressClaimSpec, IpAddressClaimStatus, NewStyle};
    use crate::conditions::{ADDRESS_ALLOCATED, ALLOCATION_FAILED, POOL_EXHAUSTED, READY};

    fn claim(status: IpAddressClaimStatus) -> IpAddressClaim {
        let mut claim = IpAddressClaim::new("c", IpAddressClaimSpec::default());
        (claim.metadata.uid, claim.metadata.resource_version) = (Some("u".into()), Some("7".into()));
        claim.status = Some(status);
        claim
    }

    fn condition(type_: &str, status: bool, reason: &str) -> Condition {
        Condition::new(type_, status, reason, "why", &Time(Timestamp::from_second(1).expect("a second")))
    }

    /// Cluster API's providers up to its 1.10 read claims in `v1beta1`, whose conditions are kept there.
    #[test]
    fn who_reads_old_conditions_reads_why_with_the_same_write() {
        let theirs = condition("Theirs", true, "X").old_style();
        let deprecated = Deprecated { v1beta1: Some(NewStyle { conditions: vec![theirs.clone()] }) };
        let status = IpAddressClaimStatus { deprecated: Some(deprecated), ..IpAddressClaimStatus::default() };
        for (ready, reason, severity) in [
            (false, POOL_EXHAUSTED, json!("Warning")),
            (false, ALLOCATION_FAILED, json!("Error")),
            (true, ADDRESS_ALLOCATED, Value::Null),
        ] {
            let patch = claim_status(&claim(status.clone()), None, &[condition(READY, ready, reason)]);
            let body = patch.expect("seen").expect("new").body().clone();
            assert_eq!(body["status"]["conditions"][0]["severity"], Value::Null);
            let old = &body["status"]["deprecated"]["v1beta1"]["conditions"];
            assert_eq!((&old[0], old.as_array().map(Vec::len)), (&json!(theirs), Some(2)), "others stay");
            let said = (&old[1]["type"], &old[1]["reason"], &old[1]["message"], &old[1]["severity"]);
            assert_eq!(said, (&json!(READY), &json!(reason), &json!("why"), &severity));
        }
        // Where the kind lacks the field there is no write for its sake alone; nor is there for a condition of another type.
        let known = IpAddressClaimStatus {
            conditions: vec![condition(READY, true, ADDRESS_ALLOCATED)],
            ..IpAddressClaimStatus::default()
        };
        assert_eq!(claim_status(&claim(known.clone()), None, &known.conditions), Ok(None));
        let other = claim_status(&claim(known), None, &[condition("Other", true, "X")]).expect("seen").expect("new");
        assert_eq!(other.body()["status"]["deprecated"], Value::Null);
    }
}
