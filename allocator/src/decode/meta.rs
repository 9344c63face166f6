//! The parts that several kinds of objects share. All other fields are skipped, not decoded.

use std::collections::BTreeMap;

use mooring_allocator_services::words;
use mooring_names::{annotations, endpoints, labels, metal3, read_by_name};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::text::Text;

/// `metadata`, with the labels and annotations that a kind needs.
#[derive(Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "L: Deserialize<'de> + Default, A: Deserialize<'de> + Default")
)]
pub struct Meta<'a, L = Labels<'a>, A = Annotations<'a>> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub namespace: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    pub deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    pub finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub owner_references: Option<Vec<Owner<'a>>>,
    pub labels: Option<L>,
    pub annotations: Option<A>,
}

/// All labels or annotations, as texts of their own.
pub type Texts = BTreeMap<String, String>;

/// An owner reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner<'a> {
    #[serde(borrow)]
    pub api_version: Text<'a>,
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    pub controller: Option<bool>,
    pub block_owner_deletion: Option<bool>,
}

read_by_name! {
    /// The labels that this program reads.
    #[derive(Debug, Default)]
    pub struct Labels<'a> {
        labels::CLUSTER_NAME => cluster: Text<'a>,
        labels::WATCH_FILTER => watch_filter: Text<'a>,
        words::SERVICE_FAMILY => family: Text<'a>,
        labels::ADVERTISE => advertise: Text<'a>,
        endpoints::CLUSTER => endpoint: Text<'a>,
    }
}

read_by_name! {
    /// The annotations that this program reads.
    #[derive(Debug, Default)]
    pub struct Annotations<'a> {
        annotations::PAUSED => paused: IgnoredAny,
        annotations::REQUESTED_ADDRESS => requested: Text<'a>,
        metal3::REQUESTED_ADDRESS => requested_of_metal3: Text<'a>,
        annotations::ADDRESS => address: Text<'a>,
        annotations::VOIDED => voided: Text<'a>,
        annotations::ATTEMPT => attempt: Text<'a>,
        annotations::RESTS_FOR => rests_for: Text<'a>,
        annotations::QUARANTINED_UNTIL => quarantined_until: Text<'a>,
        annotations::CONFLICT => conflict: Text<'a>,
        words::SERVICES => services: Text<'a>,
        words::GIVEN_CLASSES => given_classes: Text<'a>,
        annotations::HOLDER => holder: Text<'a>,
        annotations::INTERFACE => interface: Text<'a>,
        annotations::NODE_SELECTOR => node_selector: Text<'a>,
        annotations::PREFERRED_NODES => preferred_nodes: Text<'a>,
        annotations::FROM_POOL => from_pool: Text<'a>,
        endpoints::PAUSED_FOR_ENDPOINT => paused_for_endpoint: Text<'a>,
        endpoints::GIVEN => given: IgnoredAny,
    }
}

/// `spec.poolRef`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolRefJson<'a> {
    #[serde(borrow)]
    pub api_group: Option<Text<'a>>,
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// A condition in a status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConditionJson<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub status: Text<'a>,
    #[serde(borrow)]
    pub reason: Text<'a>,
    #[serde(borrow)]
    pub message: Text<'a>,
}

/// A reference by name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NameJson<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
}

#[cfg(test)]
mod tests {
    use super::{Annotations, Labels, annotations, endpoints, labels, words};

    #[test]
    fn the_names_are_the_apis() {
        let text = format!(
            r#"{{"{}":"a","{}":"b","{}":"ipv4","{}":"true","other":"c"}}"#,
            labels::CLUSTER_NAME,
            labels::WATCH_FILTER,
            words::SERVICE_FAMILY,
            labels::ADVERTISE
        );
        let read: Labels<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!((&*read.cluster.unwrap(), &*read.watch_filter.unwrap(), &*read.family.unwrap()), ("a", "b", "ipv4"));
        assert_eq!(read.advertise.as_deref(), Some("true"));
        let all = [
            annotations::PAUSED,
            annotations::REQUESTED_ADDRESS,
            annotations::VOIDED,
            annotations::ATTEMPT,
            annotations::RESTS_FOR,
            annotations::QUARANTINED_UNTIL,
            annotations::CONFLICT,
            words::SERVICES,
            annotations::HOLDER,
            annotations::INTERFACE,
            annotations::NODE_SELECTOR,
            annotations::PREFERRED_NODES,
            annotations::FROM_POOL,
            endpoints::PAUSED_FOR_ENDPOINT,
            endpoints::GIVEN,
        ];
        let text: Vec<String> = all.iter().enumerate().map(|(n, name)| format!(r#""{name}":"{n}""#)).collect();
        let text = format!("{{{}}}", text.join(","));
        let read: Annotations<'_> = serde_json::from_str(&text).unwrap();
        let rest = [read.requested, read.voided, read.attempt, read.rests_for, read.quarantined_until, read.conflict];
        assert!(read.paused.is_some());
        assert_eq!(rest.map(|one| one.unwrap().0.into_owned()), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!((&*read.services.unwrap(), &*read.holder.unwrap()), ("7", "8"));
        let placement_hints = [read.interface, read.node_selector, read.preferred_nodes, read.from_pool];
        assert_eq!(placement_hints.map(|one| one.unwrap().0.into_owned()), ["9", "10", "11", "12"]);
        assert_eq!((read.paused_for_endpoint.as_deref(), read.given.is_some()), (Some("13"), true));
    }
}
