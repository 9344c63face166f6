//! Who may use a sharing key of another namespace.
//!
//! Anybody can write the name of another namespace into a key. So such a key counts only for whom a Service of that namespace
//! invites: it has the same key, and names the namespaces in [`crate::words::SHARING_NAMESPACES`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mooring_allocator_core::names::Key;

use crate::configmap::Config;
use crate::objects::Service;

/// A key that names a namespace, `NAMESPACE/KEY`. That namespace's own Services always use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The text of the [`crate::sharing::SharingKey`].
    pub text: Arc<str>,
    /// The key as it is written.
    pub name: Box<str>,
    /// NAMESPACE.
    pub home: Arc<str>,
}

impl Named {
    fn read(kind: &str, name: &str) -> Option<Self> {
        let (home, _) = name.split_once('/')?;
        Some(Self { text: format!("{kind} across {name}").into(), name: name.into(), home: home.into() })
    }

    /// That of [`crate::words::SHARING_KEY`].
    #[must_use]
    pub fn by_key(service: &Service) -> Option<Self> {
        Self::read("key", service.notes.sharing_key.as_deref()?)
    }

    /// That of [`crate::words::LEASE_NAME`].
    #[must_use]
    pub fn by_lease(service: &Service) -> Option<Self> {
        Self::read("lease", service.notes.lease_name.as_deref()?)
    }

    /// Those of a Service.
    pub fn all(service: &Service) -> impl Iterator<Item = Self> {
        [Self::by_key(service), Self::by_lease(service)].into_iter().flatten()
    }
}

/// Whether the namespace of a key lets a Service use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does.
    Yes,
    /// Services of the namespace have the key, and none of them invites the Service's namespace.
    No,
    /// No Service of the namespace has the key: nobody has said anything, or not yet.
    Nobody,
}

/// What the Services say about the keys of their namespaces.
#[derive(Debug, Default)]
pub struct Invitations {
    /// By the key's text: the Services of the key's namespace that have it, and whom each invites. No map is empty.
    hosts: HashMap<Arc<str>, BTreeMap<Key, Option<Box<str>>>>,
}

impl Invitations {
    /// A Service has changed from `before` to `now`. Returns the keys for which the answers may be others now.
    pub fn note(&mut self, before: Option<&Service>, now: Option<&Service>) -> Vec<Arc<str>> {
        let said = |service: &Service| {
            let its = Named::all(service).filter(|named| named.home == service.key.namespace);
            let whom = service.notes.sharing_namespaces.clone();
            its.map(|named| (named.text, service.key.clone(), whom.clone())).collect::<Vec<_>>()
        };
        let (before, now) = (before.map_or_else(Vec::new, said), now.map_or_else(Vec::new, said));
        if before == now {
            return Vec::new();
        }
        for (text, key, _) in &before {
            if let Some(hosts) = self.hosts.get_mut(text) {
                hosts.remove(key);
                if hosts.is_empty() {
                    self.hosts.remove(text);
                }
            }
        }
        for (text, key, whom) in &now {
            self.hosts.entry(text.clone()).or_default().insert(key.clone(), whom.clone());
        }
        before.into_iter().chain(now).map(|(text, ..)| text).collect()
    }

    /// Whether a Service may use a key that names a namespace. Where the `ConfigMap` lets the Services of both namespaces
    /// share their addresses, that is an invitation too.
    #[must_use]
    pub fn answer(&self, named: &Named, service: &Service, config: &Config) -> Answer {
        let namespace = &service.key.namespace;
        let by_config = || config.shares(namespace).is_some_and(|scope| config.shares(&named.home) == Some(scope));
        if named.home == *namespace || by_config() {
            return Answer::Yes;
        }
        let Some(hosts) = self.hosts.get(&named.text) else { return Answer::Nobody };
        let invites = |list: &str| list.split(',').map(str::trim).any(|one| one == "*" || *one == **namespace);
        if hosts.values().flatten().any(|list| invites(list)) { Answer::Yes } else { Answer::No }
    }
}
