//! The annotations of a Cluster, as people write them, and what they ask for.

use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolKind, PoolRef, is_object_name};

use crate::objects::Companion;
use crate::words;

/// The longest text that is kept, in bytes: tenants write it.
const LONGEST: usize = 1024;

/// The most addresses that the Services of a Cluster get.
pub const MOST_ADDRESSES: u32 = 64;

/// Annotations, as they are written. Empty ones are absent, long ones are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// [`words::POOL`]
    pub pool: Option<Box<str>>,
    /// [`words::PAUSED_FOR_ENDPOINT`] is there, and does not say `false`.
    pub paused_for_endpoint: bool,
    /// [`words::VARIABLES`]
    pub variables: Option<Box<str>>,
    /// [`words::SERVICE_POOL`]
    pub service_pool: Option<Box<str>>,
    /// [`words::SERVICE_COUNT`]
    pub service_count: Option<Box<str>>,
    /// [`words::SERVICE_TARGET`]
    pub service_target: Option<Box<str>>,
}

/// Keeps a text that somebody wrote.
#[must_use]
pub fn kept(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    let cut = &text[..text.floor_char_boundary(LONGEST)];
    (!cut.is_empty()).then(|| Box::from(cut))
}

/// Whether the value of an annotation that marks something does so: any but `false`, which a template may write.
#[must_use]
pub fn is_marked(value: &str) -> bool {
    value.trim() != "false"
}

impl Notes {
    /// Reads the annotations; `get` finds an annotation by its name.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |key: &str| kept(get(key)?);
        Self {
            pool: text(words::POOL),
            paused_for_endpoint: get(words::PAUSED_FOR_ENDPOINT).is_some_and(is_marked),
            variables: text(words::VARIABLES),
            service_pool: text(words::SERVICE_POOL),
            service_count: text(words::SERVICE_COUNT),
            service_target: text(words::SERVICE_TARGET),
        }
    }

    /// The names in [`words::VARIABLES`].
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|name| !name.is_empty())
    }
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No kind and name.
    #[error("{0:?} names no pool: write InClusterIPPool/NAME or GlobalInClusterIPPool/NAME")]
    Pool(String),
    /// No number.
    #[error("{0:?} is no number of addresses: write 1 to {MOST_ADDRESSES}")]
    Count(String),
    /// No place.
    #[error("{0:?} names no place: write ConfigMap/NAME/KEY or HelmRelease/NAME/FIELD.FIELD")]
    Target(String),
}

/// The pool that a text names in a namespace; `Ok(None)`: none is wanted.
///
/// # Errors
/// The text names no pool.
pub fn pool(text: &str, namespace: &str) -> Result<Option<Arc<PoolRef>>, RequestError> {
    if text == words::NONE {
        return Ok(None);
    }
    let kinds = [PoolKind::InClusterIPPool, PoolKind::GlobalInClusterIPPool];
    let named = text.split_once('/').and_then(|(kind, name)| {
        let kind = kinds.into_iter().find(|one| one.name() == kind)?;
        is_object_name(name).then(|| Arc::new(PoolRef::new(kind, namespace, name)))
    });
    named.map(Some).ok_or_else(|| RequestError::Pool(text.to_owned()))
}

/// The addresses that a Cluster's Services get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWish {
    /// The pool.
    pub pool: Arc<PoolRef>,
    /// How many.
    pub count: u32,
    /// Where they are written; None: nowhere.
    pub target: Option<Companion>,
}

/// What a Cluster asks for its Services; `Ok(None)`: nothing.
///
/// # Errors
/// An annotation cannot be read.
pub fn service_wish(notes: &Notes, namespace: &Arc<str>) -> Result<Option<ServiceWish>, RequestError> {
    let Some(text) = &notes.service_pool else { return Ok(None) };
    let Some(pool) = pool(text, namespace)? else { return Ok(None) };
    let text = notes.service_count.as_deref().unwrap_or("1");
    let count = text.parse().ok().filter(|count| (1..=MOST_ADDRESSES).contains(count));
    let count = count.ok_or_else(|| RequestError::Count(text.to_owned()))?;
    let target = notes
        .service_target
        .as_deref()
        .map(|text| target(text, namespace).ok_or_else(|| RequestError::Target(text.to_owned())));
    Ok(Some(ServiceWish { pool, count, target: target.transpose()? }))
}

fn target(text: &str, namespace: &Arc<str>) -> Option<Companion> {
    let mut parts = text.splitn(3, '/');
    let (kind, name, field) = (parts.next()?, parts.next()?, parts.next()?);
    let key = Key { namespace: namespace.clone(), name: name.into() };
    let fields = || field.split('.').all(|part| !part.is_empty());
    match kind {
        _ if !is_object_name(name) || field.is_empty() => None,
        "ConfigMap" => Some(Companion::ConfigMap(key, field.into())),
        "HelmRelease" => fields().then(|| Companion::HelmRelease(key, field.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_named_by_kind_and_name() {
        let read = |text| pool(text, "n").map(|pool| pool.map(|pool| (pool.to_string(), pool.namespace.to_string())));
        assert_eq!(read("InClusterIPPool/p"), Ok(Some(("InClusterIPPool p".into(), "n".into()))));
        assert_eq!(read("GlobalInClusterIPPool/p"), Ok(Some(("GlobalInClusterIPPool p".into(), String::new()))));
        assert_eq!(read("none"), Ok(None));
        for text in ["p", "InClusterPrefixPool/p", "InClusterIPPool/", "InClusterIPPool/a/b", "IPPool/p", "/"] {
            assert_eq!(read(text), Err(RequestError::Pool(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn addresses_for_services_have_a_pool_a_number_and_a_place() {
        let namespace: Arc<str> = "n".into();
        let wish = |pool: &str, count: &str, target: &str| {
            let (service_pool, service_count, service_target) = (kept(pool), kept(count), kept(target));
            service_wish(&Notes { service_pool, service_count, service_target, ..Notes::default() }, &namespace)
        };
        assert_eq!(wish("", "3", ""), Ok(None));
        let one = wish("GlobalInClusterIPPool/lb", "", "").unwrap().unwrap();
        assert_eq!((one.count, one.target), (1, None));
        let three = wish("GlobalInClusterIPPool/lb", "3", "ConfigMap/kubevip/cidr-global").unwrap().unwrap();
        assert_eq!(three.target, Some(Companion::ConfigMap(Key::new("n", "kubevip"), "cidr-global".into())));
        for count in ["0", "65", "x", "-1"] {
            assert!(matches!(wish("GlobalInClusterIPPool/lb", count, ""), Err(RequestError::Count(_))), "{count}");
        }
        for target in ["kubevip", "ConfigMap/a", "ConfigMap//k", "Secret/a/b", "HelmRelease/a/b..c", "ConfigMap/A/k"] {
            assert!(matches!(wish("GlobalInClusterIPPool/lb", "1", target), Err(RequestError::Target(_))), "{target}");
        }
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_empty_is_absent() {
        let long = "ä".repeat(100_000);
        assert!(Notes::read(|_| Some(long.as_str())).pool.is_some_and(|text| text.len() <= LONGEST));
        assert_eq!(Notes::read(|_| Some(" ")).pool, None);
        for (value, marked) in [("true", true), ("", true), ("false", false)] {
            let notes = Notes::read(|name| (name == words::PAUSED_FOR_ENDPOINT).then_some(value));
            assert_eq!(notes.paused_for_endpoint, marked, "{value:?}");
        }
        let notes = Notes { variables: Some("a, b.c ,,".into()), ..Notes::default() };
        assert_eq!(notes.variable_names().collect::<Vec<_>>(), ["a", "b.c"]);
    }
}
