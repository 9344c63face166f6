//! What the people of a namespace are told of objects of other namespaces: that there is one, and no name of it.

use mooring_allocator_core::names::Key;

/// A text about a claim, which was written for the people of the claim's namespace, as text for those of another: that namespace's
/// objects, and the claim's name, which says for which Service it was made, are not theirs to know.
#[must_use]
pub fn about<'a>(claim: &Key, text: &'a str, namespace: &str) -> &'a str {
    let names = text.contains(&format!("{}/", claim.namespace)) || text.contains(&*claim.name);
    if *claim.namespace != *namespace && names {
        return "the owners of its namespace can read why";
    }
    text
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::{PoolKind, PoolRef};

    use super::*;

    #[test]
    fn only_those_of_the_namespace_are_told_names() {
        let own = PoolRef::new(PoolKind::InClusterIPPool, "infra", "team");
        let [told, hidden] = ["infra", "shop"].map(|namespace| own.told_in(namespace));
        assert_eq!([&*told, &*hidden], ["InClusterIPPool team", "a pool of another namespace"]);
        let global = PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "all");
        assert_eq!(global.told_in("shop"), "GlobalInClusterIPPool all");
        let claim = Key::new("mooring", "infra-dns-0123456789-ipv4");
        for text in ["10.0.0.5 is taken by claim mooring/other", "claims \"infra-dns-0123456789-ipv4\" is forbidden"] {
            assert_eq!(about(&claim, text, "mooring"), text);
            assert!(!about(&claim, text, "shop").contains("mooring"), "{text}");
        }
        let text = "GlobalInClusterIPPool all has no free address";
        assert_eq!(about(&claim, text, "shop"), text);
    }
}
