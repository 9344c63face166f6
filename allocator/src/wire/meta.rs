//! The parts of objects that are read: everything else in them is passed over, not decoded.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::text::Text;

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
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
    #[serde(borrow)]
    pub labels: Option<Labels<'a>>,
    #[serde(borrow)]
    pub annotations: Option<Annotations<'a>>,
}

/// An owner.
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

/// The labels that say something to us. Their names are those of `mooring_api::labels`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels<'a> {
    #[serde(borrow, rename = "cluster.x-k8s.io/cluster-name")]
    pub cluster: Option<Text<'a>>,
    #[serde(borrow, rename = "cluster.x-k8s.io/watch-filter")]
    pub watch_filter: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/service-family")]
    pub family: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/advertise")]
    pub advertise: Option<Text<'a>>,
}

/// The annotations that say something to us. Their names are those of `mooring_api::annotations`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Annotations<'a> {
    #[serde(rename = "cluster.x-k8s.io/paused")]
    pub paused: Option<IgnoredAny>,
    #[serde(borrow, rename = "mooring.dev/requested-address")]
    pub requested: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/voided")]
    pub voided: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/attempt")]
    pub attempt: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/rests-for")]
    pub rests_for: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/quarantined-until")]
    pub quarantined_until: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/conflict")]
    pub conflict: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/services")]
    pub services: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/holder")]
    pub holder: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/interface")]
    pub interface: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/node-selector")]
    pub node_selector: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/preferred-nodes")]
    pub preferred_nodes: Option<Text<'a>>,
    #[serde(borrow, rename = "mooring.dev/from-pool")]
    pub from_pool: Option<Text<'a>>,
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

/// A reference by name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NameJson<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
}

#[cfg(test)]
mod tests {
    use super::{Annotations, Labels};

    #[test]
    fn the_names_are_the_apis() {
        use mooring_api::{annotations, labels};
        use mooring_services::words;
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
        ];
        let text: Vec<String> = all.iter().enumerate().map(|(n, name)| format!(r#""{name}":"{n}""#)).collect();
        let text = format!("{{{}}}", text.join(","));
        let read: Annotations<'_> = serde_json::from_str(&text).unwrap();
        let rest = [read.requested, read.voided, read.attempt, read.rests_for, read.quarantined_until, read.conflict];
        assert!(read.paused.is_some());
        assert_eq!(rest.map(|one| one.unwrap().0.into_owned()), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!((&*read.services.unwrap(), &*read.holder.unwrap()), ("7", "8"));
        let steering = [read.interface, read.node_selector, read.preferred_nodes, read.from_pool];
        assert_eq!(steering.map(|one| one.unwrap().0.into_owned()), ["9", "10", "11", "12"]);
    }
}
