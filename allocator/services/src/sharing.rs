//! Who may share an address with whom: Services of one key.

use std::sync::Arc;

use crate::configmap::Config;
use crate::objects::Service;

/// What makes Services share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingKey {
    /// The same for all that may share.
    pub text: Arc<str>,
    /// Services of several namespaces may have it: their claim is in the home namespace, where none of them owns it.
    pub across: bool,
    /// How far it goes.
    pub join: Join,
}

/// How far a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// It shares, or it has nothing.
    Must,
    /// It shares where there is room.
    May,
    /// It shares where it asks for an address that another has.
    IfAsked,
}

/// The key of a Service; `config`: what the `ConfigMap` says of sharing.
///
/// The annotation [`crate::words::SHARING_KEY`] comes first, then `allow-share-`, then kube-vip's name of the Lease (there,
/// Services that share an address must have the same).
#[must_use]
pub fn key(service: &Service, config: &Config) -> Option<SharingKey> {
    let namespace = &service.key.namespace;
    let own = |kind: &str, name: &str, join| {
        let across = name.contains('/');
        let text = if across { format!("{kind} {name}") } else { format!("{kind} {namespace}/ {name}") };
        SharingKey { text: text.into(), across, join }
    };
    if let Some(name) = &service.notes.sharing_key {
        return Some(own("key", name, Join::Must));
    }
    if let Some(scope) = config.shares(namespace) {
        let across = matches!(scope, crate::objects::Scope::Global);
        return Some(SharingKey { text: format!("scope {scope}").into(), across, join: Join::May });
    }
    service.notes.lease_name.as_deref().map(|name| own("lease", name, Join::IfAsked))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::machine::testing::service;

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
