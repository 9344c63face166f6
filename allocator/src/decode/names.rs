//! Stores names that many objects share only once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::kinds::pool_kind;
use super::meta::PoolRefJson;
use super::text::Text;
use crate::api::POOLS;
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::retained_meta::Finalizers;

/// Limit of shared lists of finalizers: programs use few different lists, and others are not worth sharing.
const MOST_LISTS: usize = 64;

/// The pools of a namespace, by name.
type Named = HashMap<Arc<str>, Arc<PoolRef>>;

/// The shared texts. Nothing is ever removed: there are few namespaces, Clusters and pools.
#[derive(Debug, Default)]
pub struct Names {
    texts: HashSet<Arc<str>>,
    pools: HashMap<PoolKind, HashMap<Arc<str>, Named>>,
    finalizers: Vec<Finalizers>,
    /// The kinds of pools that are served beside those of the cluster itself.
    served: Vec<PoolKind>,
}

impl Names {
    /// Also serves a kind of pool. Claims of pools of other kinds are another program's.
    pub fn serve(&mut self, kind: PoolKind) {
        self.served.push(kind);
    }

    /// Whether claims of this kind of pool are served.
    #[must_use]
    pub fn serves(&self, kind: PoolKind) -> bool {
        POOLS.contains(&kind) || self.served.contains(&kind)
    }

    /// The shared copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    /// The pool that a reference in this namespace names; None: the pool is of no kind of ours.
    pub fn pool_ref(&mut self, reference: &PoolRefJson<'_>, namespace: &str) -> Option<Arc<PoolRef>> {
        let group = reference.api_group.as_deref()?;
        let kind = pool_kind(group, &reference.kind)?;
        if reference.name.is_empty() || !self.serves(kind) {
            return None;
        }
        Some(self.pool(kind, namespace, &reference.name))
    }

    /// The shared reference of a pool.
    pub fn pool(&mut self, kind: PoolKind, namespace: &str, name: &str) -> Arc<PoolRef> {
        let namespace = if kind.global() { "" } else { namespace };
        let known = self.pools.get(&kind).and_then(|all| all.get(namespace)).and_then(|all| all.get(name));
        if let Some(known) = known {
            return known.clone();
        }
        let (namespace, name) = (self.text(namespace), self.text(name));
        let new = Arc::new(PoolRef { kind, namespace: namespace.clone(), name: name.clone() });
        self.pools.entry(kind).or_default().entry(namespace).or_default().insert(name, new.clone());
        new
    }

    /// The shared copy of a list of finalizers.
    pub fn finalizers(&mut self, all: &[Text<'_>]) -> Finalizers {
        let same = |known: &&Finalizers| known.len() == all.len() && known.iter().zip(all).all(|(a, b)| **a == **b);
        if let Some(known) = self.finalizers.iter().find(same) {
            return known.clone();
        }
        let new: Finalizers = all.iter().map(|one| Box::from(&**one)).collect();
        if self.finalizers.len() < MOST_LISTS {
            self.finalizers.push(new.clone());
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_ours_by_group_and_kind_and_held_once() {
        let mut names = Names::default();
        let read = |text| serde_json::from_str::<PoolRefJson<'_>>(text).unwrap();
        let one = read(r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":"p"}"#);
        let first = names.pool_ref(&one, "n").unwrap();
        assert!(Arc::ptr_eq(&first, &names.pool_ref(&one, "n").unwrap()));
        assert_ne!(first, names.pool_ref(&one, "other").unwrap());
        let global = read(r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"GlobalInClusterIPPool","name":"p"}"#);
        assert_eq!(names.pool_ref(&global, "n"), names.pool_ref(&global, "other"));
        let phpipam = read(r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"PHPIPAMIPPool","name":"p"}"#);
        assert_eq!(names.pool_ref(&phpipam, "n"), None, "not asked for");
        names.serve(PoolKind::PHPIPAMIPPool);
        assert!(names.pool_ref(&phpipam, "n").is_some());
        for foreign in [
            r#"{"apiGroup":"ipam.metal3.io","kind":"InClusterIPPool","name":"p"}"#,
            r#"{"kind":"InClusterIPPool","name":"p"}"#,
            r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"IPPool","name":"p"}"#,
            r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":""}"#,
        ] {
            assert_eq!(names.pool_ref(&read(foreign), "n"), None, "{foreign}");
        }
        // metal3's are of its own group, and are served where that is asked for.
        let metal3 = read(r#"{"apiGroup":"ipam.metal3.io","kind":"IPPool","name":"p"}"#);
        assert_eq!(names.pool_ref(&metal3, "n"), None);
        names.serve(PoolKind::Metal3IPPool);
        assert_eq!(names.pool_ref(&metal3, "n").map(|pool| pool.kind), Some(PoolKind::Metal3IPPool));
        let foreign = read(r#"{"apiGroup":"ipam.cluster.x-k8s.io","kind":"IPPool","name":"p"}"#);
        assert_eq!(names.pool_ref(&foreign, "n"), None);
    }
}
