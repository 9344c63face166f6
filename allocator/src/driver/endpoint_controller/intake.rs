//! Translates lists and watches of Clusters, namespaces, infrastructure clusters and control planes to the machine's events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mooring_allocator_core::scope::Scope;
use mooring_allocator_endpoints::machine::Event;
use mooring_allocator_endpoints::objects::Reference;
use mooring_api::labels;
use mooring_api::versions::{ClusterVersion, Version as _};
use serde_json::Value;

use super::super::listing::{Listing, lines};
use crate::api::{PartKind, Resource};
use crate::decode::endpoint::{cluster, control_plane, default_pool, infrastructure, key, uid};
use crate::decode::frame::Line;

/// The state that lists and watches have shown.
#[derive(Debug, Default)]
pub struct Intake {
    /// The objects of unfinished lists.
    listing: Listing<Event>,
    /// The version in which each kind is served.
    served: HashMap<Resource, &'static str>,
    /// Which of [`HELM_RELEASES`] is served, as far as reads have shown.
    helm_releases: usize,
}

/// The versions in which `HelmRelease` may be served, newest first. What is read and written is the same in all.
const HELM_RELEASES: [&str; 3] = ["v2", "v2beta2", "v2beta1"];

impl Intake {
    /// The version in which a kind is served, as far as it is known.
    pub fn served(&self, resource: Resource) -> Option<&'static str> {
        self.served.get(&resource).copied()
    }

    /// The version in which `HelmRelease` is served, as far as it is known.
    pub fn helm_releases(&self) -> &'static str {
        HELM_RELEASES[self.helm_releases]
    }

    /// `HelmRelease` is not served in this version. Returns whether there is another to try; the first comes after the last.
    pub fn no_helm_releases(&mut self) -> bool {
        self.helm_releases = (self.helm_releases + 1) % HELM_RELEASES.len();
        self.helm_releases != 0
    }

    /// The kind of what a reference names.
    pub fn resource(&self, reference: &Reference) -> Option<Resource> {
        let is_it = |one: &&Resource| match one {
            Resource::Parts(kind) => *kind.group == *reference.group && *kind.kind == *reference.kind,
            _ => false,
        };
        self.served.keys().find(is_it).copied()
    }

    /// A page of a list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        scope: &Scope,
        (resource, version): (Resource, &'static str),
        bytes: &[u8],
        turn: (bool, bool),
    ) -> Result<Vec<Event>, serde_json::Error> {
        if !matches!(resource, Resource::Clusters | Resource::Namespaces | Resource::Parts(_)) {
            return Ok(Vec::new());
        }
        self.served.insert(resource, version);
        let version = self.cluster_version();
        let keep = |one: &Value| {
            Some(one).filter(|one| is_ours(scope, resource, one)).and_then(|one| now(resource, one, version))
        };
        let all = self.listing.page(resource, bytes, turn, keep)?;
        Ok(all.and_then(|all| list(resource, all)).into_iter().collect())
    }

    /// The version in which Clusters are served.
    fn cluster_version(&self) -> &'static str {
        self.served(Resource::Clusters).unwrap_or_else(|| ClusterVersion::default().name())
    }

    /// Lines of a watch. One that cannot be read is logged and ignored: the others count.
    pub fn lines(&self, scope: &Scope, resource: Resource, bytes: &[u8]) -> Vec<Event> {
        if !matches!(resource, Resource::Clusters | Resource::Namespaces | Resource::Parts(_)) {
            return Vec::new();
        }
        let read = |line| match line {
            Line::Applied(one) if is_ours(scope, resource, &one) => now(resource, &one, self.cluster_version()),
            // One that is not ours may have been until now.
            Line::Applied(one) | Line::Deleted(one) => gone(resource, &one),
            _ => None,
        };
        lines(bytes).filter_map(read).collect()
    }
}

/// An object, as it is now.
fn now(resource: Resource, one: &Value, cluster_version: &'static str) -> Option<Event> {
    Some(match resource {
        Resource::Clusters => Event::Cluster(Box::new(cluster(one, cluster_version)?)),
        Resource::Namespaces => Event::Namespace(name(one)?, default_pool(one)),
        Resource::Parts(PartKind { group, kind, of_control_planes: true, .. }) => {
            Event::ControlPlane(Box::new(control_plane(one, group, kind)?))
        }
        Resource::Parts(PartKind { group, kind, .. }) => {
            Event::Infrastructure(Box::new(infrastructure(one, group, kind)?))
        }
        _ => return None,
    })
}

/// All objects of a kind.
pub fn list(resource: Resource, all: Vec<Event>) -> Option<Event> {
    let all = all.into_iter();
    Some(match resource {
        Resource::Clusters => Event::Clusters(
            all.filter_map(|one| if let Event::Cluster(one) = one { Some(*one) } else { None }).collect(),
        ),
        Resource::Namespaces => {
            let named = |one| if let Event::Namespace(name, pool) = one { Some((name, pool?)) } else { None };
            Event::Namespaces(all.filter_map(named).collect::<BTreeMap<_, _>>())
        }
        Resource::Parts(PartKind { group, kind, of_control_planes: true, .. }) => {
            let planes = all.filter_map(|one| if let Event::ControlPlane(one) = one { Some(*one) } else { None });
            Event::ControlPlanes(group.into(), kind.into(), planes.collect())
        }
        Resource::Parts(PartKind { group, kind, .. }) => {
            let parts = all.filter_map(|one| if let Event::Infrastructure(one) = one { Some(*one) } else { None });
            Event::Infrastructures(group.into(), kind.into(), parts.collect())
        }
        _ => return None,
    })
}

fn name(one: &Value) -> Option<Arc<str>> {
    one.pointer("/metadata/name")?.as_str().map(Arc::from)
}

/// Whether an object is of a namespace of ours; a Cluster also needs the label of `--watch-filter`.
fn is_ours(scope: &Scope, resource: Resource, one: &Value) -> bool {
    let label = || one.pointer("/metadata/labels")?.get(labels::WATCH_FILTER)?.as_str();
    match resource {
        Resource::Namespaces => true,
        Resource::Clusters => key(one).is_some_and(|key| scope.has(&key.namespace, label())),
        _ => key(one).is_some_and(|key| scope.has_namespace(&key.namespace)),
    }
}

fn gone(resource: Resource, one: &Value) -> Option<Event> {
    Some(match resource {
        Resource::Clusters => Event::ClusterGone(key(one)?, uid(one)?),
        Resource::Namespaces => Event::Namespace(name(one)?, None),
        Resource::Parts(kind) => {
            let reference = Reference { group: kind.group.into(), kind: kind.kind.into(), key: key(one)? };
            Event::Gone(reference, uid(one)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn each_version_of_helm_releases_is_tried_again_and_again() {
        let mut intake = Intake::default();
        assert_eq!(intake.helm_releases(), "v2");
        assert!(intake.no_helm_releases() && intake.no_helm_releases());
        assert_eq!(intake.helm_releases(), "v2beta1");
        assert!(!intake.no_helm_releases(), "none is served");
        assert_eq!(intake.helm_releases(), "v2", "it may be installed later");
    }

    use super::super::super::listing::turned;
    use super::*;
    use crate::api::{CONTROL_PLANES, Turned};

    #[test]
    fn a_cluster_without_the_label_is_another_allocators() {
        let line = |labels: Value| {
            let meta = json!({"namespace": "a", "name": "c", "uid": "u", "resourceVersion": "1", "labels": labels});
            format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", json!({"metadata": meta, "spec": {}}))
        };
        let scope = Scope { watch_filter: Some("mine".into()), ..Scope::default() };
        let intake = Intake::default();
        let told = |labels| intake.lines(&scope, Resource::Clusters, line(labels).as_bytes());
        assert!(matches!(&told(json!({"cluster.x-k8s.io/watch-filter": "mine"}))[..], [Event::Cluster(_)]));
        for labels in [json!({}), json!({"cluster.x-k8s.io/watch-filter": "theirs"})] {
            assert!(matches!(&told(labels)[..], [Event::ClusterGone(..)]), "it may have been ours");
        }
    }

    #[test]
    fn half_a_list_does_not_count_and_versions_are_remembered() {
        let object = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"}, "spec": {}});
        let page = |items: &[Value], next: &str| {
            json!({"items": items, "metadata": {"continue": next, "resourceVersion": "9"}}).to_string()
        };
        let scope = Scope { namespaces: ["a".to_owned()].into(), watch_filter: None };
        let mut intake = Intake::default();
        let clusters = (Resource::Clusters, "v1beta1");
        let first = page(&[object("a", "c"), object("b", "d")], "more");
        assert!(intake.page(&scope, clusters, first.as_bytes(), (true, false)).unwrap().is_empty());
        let events = intake.page(&scope, clusters, page(&[object("a", "e")], "").as_bytes(), (false, true)).unwrap();
        assert!(matches!(&events[..], [Event::Clusters(all)] if all.len() == 2 && all[0].api == "v1beta1"));
        assert_eq!(turned(first.as_bytes()).unwrap(), Turned { next: "more".into(), version: "9".into() });
        let planes = Resource::Parts(CONTROL_PLANES[0]);
        let events =
            intake.page(&scope, (planes, "v1beta2"), page(&[object("a", "c")], "").as_bytes(), (true, true)).unwrap();
        assert!(matches!(&events[..], [Event::ControlPlanes(_, _, all)] if all.len() == 1));
        let line = |kind: &str, object: &Value| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        let both = line("MODIFIED", &object("a", "c")) + &line("DELETED", &object("a", "e")) + "nonsense\n";
        let events = intake.lines(&scope, Resource::Clusters, both.as_bytes());
        assert!(matches!(&events[..], [Event::Cluster(_), Event::ClusterGone(..)]), "{events:?}");
        let reference = Reference {
            group: CONTROL_PLANES[0].group.into(),
            kind: "KubeadmControlPlane".into(),
            key: mooring_allocator_core::names::Key::new("a", "c"),
        };
        assert_eq!(intake.resource(&reference), Some(planes));
    }
}
