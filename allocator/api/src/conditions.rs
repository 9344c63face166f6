//! Conditions: their types, their reasons, and how one is set.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// On claims and pools: whether all is well. Source: `ReadyCondition` in Cluster API's `api/core/v1beta2`.
pub const READY: &str = "Ready";

/// Claim, `Ready` true: it has its address. The contract names no reason for success; this one others write too.
pub const ADDRESS_ALLOCATED: &str = "AddressAllocated";

/// Claim, `Ready` false: no address could be given, and the message says why and what to do.
/// Source: `AllocationFailedReason` in Cluster API's `api/ipam/v1beta2`.
pub const ALLOCATION_FAILED: &str = "AllocationFailed";

/// Claim, `Ready` false: its pool is missing, paused, being deleted or wrong.
/// Source: `PoolNotReadyReason` in Cluster API's `api/ipam/v1beta2`.
pub const POOL_NOT_READY: &str = "PoolNotReady";

/// Claim, `Ready` false: all addresses of the pool are taken. It gets one as soon as one comes free. On a pool whose
/// condition [`EXHAUSTED`] is true, too. Source: `PoolExhaustedReason` in Cluster API's `api/ipam/v1beta2`.
pub const POOL_EXHAUSTED: &str = "PoolExhausted";

/// Pool, `Ready` true: addresses are given out of it.
pub const POOL_READY: &str = "PoolReady";

/// Pool, `Ready` false: its spec makes no sense in a way that the API server could not tell. Nothing is given out of it.
pub const INVALID_SPEC: &str = "InvalidSpec";

/// Pool, `Ready` false: the outside system that gives its addresses cannot be reached, or refuses.
pub const PROVIDER_FAILED: &str = "ProviderFailed";

/// Pool, `Ready` false: it is being deleted, and waits for its last address.
pub const DELETING: &str = "Deleting";

/// Pool, `Ready` false: it, or what it belongs to, is paused.
pub const PAUSED: &str = "Paused";

/// On pools: whether all addresses are taken.
pub const EXHAUSTED: &str = "Exhausted";

/// Pool, `Exhausted` false.
pub const ADDRESSES_FREE: &str = "AddressesFree";

/// On pools: whether another pool of the same network has addresses of it. They share one view of what is used.
pub const OVERLAPPING: &str = "Overlapping";

/// Pool, `Overlapping` true; the message names the others.
pub const SHARED_WITH_OTHER_POOLS: &str = "SharedWithOtherPools";

/// Pool, `Overlapping` false.
pub const NO_OVERLAP: &str = "NoOverlap";

/// On pools: whether an address was found with two owners, which only a human can bring about; the message names them.
pub const DUPLICATES: &str = "Duplicates";

/// Pool, `Duplicates` true.
pub const DUPLICATES_FOUND: &str = "DuplicatesFound";

/// Pool, `Duplicates` false.
pub const NO_DUPLICATES: &str = "NoDuplicates";

/// On pools: whether addresses are in use that the pool no longer has.
pub const OUT_OF_RANGE: &str = "OutOfRange";

/// Pool, `OutOfRange` true; the message names some.
pub const ADDRESSES_OUT_OF_RANGE: &str = "AddressesOutOfRange";

/// Pool, `OutOfRange` false.
pub const ALL_IN_RANGE: &str = "AllInRange";

/// On pools, where it ever was so: whether `preAllocations` names an address that its claim cannot have; the message says which.
/// The claims that it names get nothing; all others are served.
pub const PRE_ALLOCATIONS_INVALID: &str = "PreAllocationsInvalid";

/// Pool, `PreAllocationsInvalid` true.
pub const PRE_ALLOCATION_REFUSED: &str = "PreAllocationRefused";

/// Pool, `PreAllocationsInvalid` false.
pub const ALL_PRE_ALLOCATIONS_VALID: &str = "AllPreAllocationsValid";

/// On pools, where it ever was so: whether an annotation of it makes no sense and is left out; the message says which.
pub const ANNOTATIONS_INVALID: &str = "AnnotationsInvalid";

/// Pool, `AnnotationsInvalid` true.
pub const ANNOTATION_IGNORED: &str = "AnnotationIgnored";

/// Pool, `AnnotationsInvalid` false.
pub const ALL_ANNOTATIONS_VALID: &str = "AllAnnotationsValid";

/// On pools of floating IPs, for those who know the provider for OpenStack: as [`READY`]. Its reasons are that provider's.
pub const FLOATING_IP_POOL_READY: &str = "OpenstackFloatingIPPoolReady";

/// Pool of floating IPs, [`FLOATING_IP_POOL_READY`] true.
pub const FLOATING_IPS_READY: &str = "Ready";

/// Pool of floating IPs, [`FLOATING_IP_POOL_READY`] false: claims have as many as there may be.
pub const MAX_IPS_REACHED: &str = "MaxIPsReached";

/// Pool of floating IPs, [`FLOATING_IP_POOL_READY`] false: OpenStack cannot be reached, or refuses.
pub const OPENSTACK_ERROR: &str = "OpenStackError";

/// On pools of floating IPs: written by the provider for OpenStack alone, whenever it has tried to log in.
pub const OPENSTACK_AUTHENTICATION: &str = "OpenStackAuthenticationSucceeded";

/// A condition, of the new style (`metav1.Condition`) or the old one of Cluster API, which has a severity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about: [`READY`].
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs. Never empty when written: the API server refuses that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
    /// When `status` last became another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The generation of the object that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Old style only, where the status is `False`: `Error`, `Warning` or `Info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// What later versions may add: kept, since a list is written back whole.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The longest message of a condition, in characters: the API server refuses a longer one, and the whole status with it.
const LONGEST: usize = 32_768;

/// The message, cut if it is longer than the API server allows.
#[must_use]
pub fn fitting(message: String) -> String {
    match message.char_indices().nth(LONGEST) {
        None => message,
        Some(_) => message.chars().take(LONGEST - 3).chain("...".chars()).collect(),
    }
}

impl Condition {
    /// One of the new style.
    #[must_use]
    pub fn new(type_: &str, status: bool, reason: &str, message: impl Into<String>, now: &Time) -> Self {
        Self {
            type_: type_.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: fitting(message.into()),
            last_transition_time: Some(now.clone()),
            ..Self::default()
        }
    }

    /// With the generation that was judged.
    #[must_use]
    pub fn of_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }

    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// In the old style of Cluster API: with a severity where it is `False`, without a generation, and with the reason in place
    /// of an empty message, which would be refused.
    #[must_use]
    pub fn old_style(mut self) -> Self {
        self.observed_generation = None;
        self.severity = (self.status == "False").then(|| severity(&self.reason).to_owned());
        if self.message.is_empty() {
            self.message.clone_from(&self.reason);
        }
        self
    }
}

/// How bad it is, by the words of Cluster API's old conditions: `Info` while something goes on by itself, `Warning` where it
/// goes on as soon as something else is as it should be, and `Error` where somebody has to act on the object itself.
/// Source: `ConditionSeverity` in Cluster API's `api/core/v1beta1`.
fn severity(reason: &str) -> &'static str {
    match reason {
        "Allocating"
        | "WaitingForInfrastructure"
        | "WaitingForControlPlane"
        | "WaitingForSecret"
        | "Writing"
        | "Settling"
        | PAUSED
        | DELETING => "Info",
        POOL_EXHAUSTED | POOL_NOT_READY | "Drifted" | "EndpointIsAName" => "Warning",
        _ => "Error",
    }
}

/// The condition of that type.
#[must_use]
pub fn find<'a>(all: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    all.iter().find(|one| one.type_ == type_)
}

/// The list with these conditions in it; others stay.
#[must_use]
pub fn all_with(all: &[Condition], conditions: &[Condition]) -> Vec<Condition> {
    let mut list = all.to_vec();
    for condition in conditions {
        if let Some(changed) = with(&list, condition.clone()) {
            list = changed;
        }
    }
    list
}

/// The list with `condition` in it; `None` when it says nothing new. The transition time stays where the status does, and what
/// is not ours stays as it is.
/// Source: `meta.SetStatusCondition` of k8s.io/apimachinery.
#[must_use]
pub fn with(all: &[Condition], mut condition: Condition) -> Option<Vec<Condition>> {
    let mut changed = all.to_vec();
    if let Some(old) = changed.iter_mut().find(|one| one.type_ == condition.type_) {
        if old.status == condition.status && old.last_transition_time.is_some() {
            condition.last_transition_time.clone_from(&old.last_transition_time);
        }
        if condition.other.is_empty() {
            condition.other.clone_from(&old.other);
        }
        if *old == condition {
            return None;
        }
        *old = condition;
    } else {
        changed.push(condition);
    }
    Some(changed)
}

/// The schema of `status.conditions`: that of `metav1.Condition`, in which `v1beta1`'s old style fits too, since without a
/// conversion webhook all versions share what is stored.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Conditions: Ready says whether all is well, and what to do when it is not.",
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "lastTransitionTime": {"description": "When status last became another.", "type": "string", "format": "date-time"},
                "message": {"description": "A sentence for people.", "type": "string", "maxLength": 32768},
                "observedGeneration": {
                    "description": "The generation that was judged.", "type": "integer", "format": "int64", "minimum": 0
                },
                "reason": {
                    "description": "One word for programs.", "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "severity": {"description": "Old style only: Error, Warning or Info.", "type": "string", "maxLength": 32},
                "status": {"description": "True, False or Unknown.", "type": "string", "enum": ["True", "False", "Unknown"]},
                "type": {
                    "description": "What it is about.", "type": "string", "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::{Condition, READY, Time, with};

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).expect("a second"))
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let first = Condition::new(READY, false, "PoolExhausted", "full", &at(1));
        let list = with(&[], first.clone()).expect("new");
        assert_eq!(with(&list, Condition::new(READY, false, "PoolExhausted", "full", &at(2))), None);
        let list = with(&list, Condition::new(READY, false, "PoolNotReady", "gone", &at(3))).expect("another reason");
        assert_eq!(list[0].last_transition_time, Some(at(1)));
        let list = with(&list, Condition::new(READY, true, "AddressAllocated", "", &at(4))).expect("another status");
        assert_eq!((list.len(), &list[0].last_transition_time), (1, &Some(at(4))));
    }

    #[test]
    fn a_message_is_as_long_as_the_api_server_allows() {
        let condition = |message: &str| Condition::new(READY, true, "AddressAllocated", message, &at(1)).message;
        assert_eq!(condition("short"), "short");
        assert_eq!(condition(&"ä".repeat(32_768)).chars().count(), 32_768);
        let cut = condition(&"ä".repeat(32_769));
        assert!(cut.chars().count() <= 32_768 && cut.ends_with("..."), "{}", cut.chars().count());
    }

    #[test]
    fn what_is_not_ours_stays() {
        let foreign = r#"[{"type":"Theirs","status":"True","reason":"X","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","new":1}]"#;
        let list: Vec<Condition> = serde_json::from_str(foreign).expect("conditions");
        let list = with(&list, Condition::new(READY, true, "AddressAllocated", "", &at(4))).expect("new");
        let text = serde_json::to_value(&list[..1]).expect("JSON");
        assert_eq!(text, serde_json::from_str::<serde_json::Value>(foreign).expect("JSON"));
    }
}
