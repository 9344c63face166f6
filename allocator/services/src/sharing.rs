//! Which Services may share an address: Services with the same key.

use std::sync::Arc;

use crate::configmap::Config;
use crate::invitations::{Answer, Invitations, Named};
use crate::objects::{Scope, Service};

/// The key that makes Services share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingKey {
    /// The text that all sharing Services have in common.
    pub text: Arc<str>,
    /// Services of several namespaces may have the key: their claim is in the home namespace, and none of the Services
    /// owns it.
    pub across: bool,
    /// How strictly the key applies.
    pub join: Join,
}

/// How strictly a key applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The Service shares, or has no address.
    Must,
    /// The Service shares if there is room.
    May,
    /// The Service shares if it asks for an address that another Service has.
    IfAsked,
}

/// The key of a Service; `config`: the `ConfigMap`'s rules on sharing; `invited`: who may use a key of another namespace.
///
/// The annotation [`crate::words::SHARING_KEY`] comes first, then `allow-share-`, then kube-vip's name of the Lease (in
/// kube-vip, Services that share an address must have the same Lease name). A Lease of another namespace, which has not
/// invited the Service, counts as one of its own: the Service has not asked Mooring to share.
#[must_use]
pub fn key(service: &Service, config: &Config, invited: &Invitations) -> Option<SharingKey> {
    let namespace = &service.key.namespace;
    // A namespace has no space, and the words before the name are ours: no name makes one text of two keys.
    let own = |kind: &str, name: &str| format!("{kind} in {namespace} {name}").into();
    if let Some(name) = &service.notes.sharing_key {
        let across = Named::by_key(service);
        let (text, across) = across.map_or_else(|| (own("key", name), false), |named| (named.text, true));
        return Some(SharingKey { text, across, join: Join::Must });
    }
    if let Some(scope) = config.shares(namespace) {
        let across = matches!(scope, Scope::Global);
        return Some(SharingKey { text: format!("scope {scope}").into(), across, join: Join::May });
    }
    let name = service.notes.lease_name.as_deref()?;
    let across = Named::by_lease(service).filter(|named| invited.answer(named, service, config) == Answer::Yes);
    let (text, across) = across.map_or_else(|| (own("lease", name), false), |named| (named.text, true));
    Some(SharingKey { text, across, join: Join::IfAsked })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::machine::testing::service;

    fn key(service: &Service, config: &Config) -> Option<SharingKey> {
        super::key(service, config, &Invitations::default())
    }

    fn text(one: &Service, config: &Config) -> Option<String> {
        key(one, config).map(|key| key.text.to_string())
    }

    #[test]
    fn a_key_is_the_namespaces_own_unless_it_names_one() {
        let config = Config::default();
        let (mut one, mut other) = (service("a", "web"), service("b", "web"));
        assert_eq!(key(&one, &config), None);
        one.notes.sharing_key = Some("dns".into());
        other.notes.sharing_key = Some("dns".into());
        assert_ne!(text(&one, &config), text(&other, &config));
        one.notes.sharing_key = Some("infra/dns".into());
        other.notes.sharing_key = Some("infra/dns".into());
        assert_eq!(text(&one, &config), text(&other, &config));
        assert!(key(&one, &config).is_some_and(|key| key.across && key.join == Join::Must));
    }

    #[test]
    fn no_namespace_can_write_the_key_of_another() {
        let config = Config::default();
        let (mut own, mut forged) = (service("kube-system", "web"), service("evil", "web"));
        own.notes.sharing_key = Some("web".into());
        forged.notes.sharing_key = Some("kube-system/ web".into());
        assert_ne!(text(&own, &config), text(&forged, &config));
        for one in [&mut own, &mut forged] {
            one.notes.lease_name = one.notes.sharing_key.take();
        }
        assert_ne!(text(&own, &config), text(&forged, &config));
    }

    #[test]
    fn the_configmap_comes_before_the_lease() {
        let data = BTreeMap::from(
            [("allow-share-a", "true"), ("cidr-a", "10.0.0.0/24")].map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let config = Config::read(&data);
        let (mut one, mut other) = (service("a", "web"), service("b", "web"));
        one.notes.lease_name = Some("l".into());
        other.notes.lease_name = Some("l".into());
        assert_eq!(key(&one, &config).map(|key| (key.join, key.across)), Some((Join::May, false)));
        assert_eq!(key(&other, &config).map(|key| key.join), Some(Join::IfAsked));
        one.notes.sharing_key = Some("k".into());
        assert_eq!(key(&one, &config).map(|key| key.join), Some(Join::Must));
    }
}
