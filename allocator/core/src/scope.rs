//! Which claims belong to this allocator.

use std::collections::BTreeSet;

/// Other allocators may handle some claims. All objects are seen nevertheless: an address that another allocator gave
/// is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only claims and pools of these namespaces, and pools without one; empty: all.
    pub namespaces: BTreeSet<String>,
    /// Only claims whose label `cluster.x-k8s.io/watch-filter` has this value.
    pub watch_filter: Option<String>,
}

impl Scope {
    /// Whether a claim of this namespace, with this label, is ours.
    #[must_use]
    pub fn has(&self, namespace: &str, label: Option<&str>) -> bool {
        self.has_namespace(namespace) && self.watch_filter.as_deref().is_none_or(|value| label == Some(value))
    }

    /// Whether the pools of this namespace are ours.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn by_namespace_and_label() {
        let all = Scope::default();
        assert!(all.has("n", None) && all.has("n", Some("x")));
        let some = Scope { namespaces: ["a".to_owned()].into(), watch_filter: Some("net".to_owned()) };
        assert!(some.has("a", Some("net")));
        assert!(!some.has("a", None) && !some.has("a", Some("x")) && !some.has("b", Some("net")));
        assert!(some.has_namespace("") && !some.has_namespace("b"));
    }
}
