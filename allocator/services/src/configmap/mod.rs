//! The `ConfigMap` of kube-vip's cloud provider, `kube-system/kubevip`: read as a whole, and turned into pools.
//!
//! Source: `pkg/provider/loadBalancer.go`, `pkg/ipam` and `pkg/config` of kube-vip-cloud-provider. Mooring does not
//! copy that program's errors: a namespace's range counts even if there is a global CIDR; a namespace may have both a
//! range and a CIDR; and an unreadable entry is reported, and spoils no other entry.

mod entries;
mod pools;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use mooring_allocator_core::placement_hints::Hint;
use mooring_allocator_core::range_set::RangeSet;

use crate::objects::Scope;

pub use pools::{NewPool, kept, pools};
pub use problem::{Problem, Why};

/// The content of the `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The namespaces with their own addresses. A namespace with an entry is in this map even if no part of the entry
    /// can be read. The namespace's Services then get none of the global addresses, because these may be of another
    /// network.
    pub ranges: BTreeMap<Scope, [RangeSet; 2]>,
    /// `allow-share-`.
    share: BTreeMap<Scope, bool>,
    /// `interface-`.
    interfaces: BTreeMap<Scope, Arc<str>>,
    /// `search-order` is `desc`.
    pub from_the_end: bool,
    /// The parts that could not be read.
    pub problems: Vec<Problem>,
}

impl Config {
    /// Reads the `ConfigMap`.
    #[must_use]
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let mut config = Self::default();
        let skip_ends = match data.get("skip-end-ips-in-cidr").map(|v| v.trim()) {
            Some("true") => true,
            None | Some("false" | "") => false,
            Some(_) => config.bad("skip-end-ips-in-cidr", "", Why::NoBoolean),
        };
        for (key, value) in data {
            config.one(key, value.trim(), skip_ends);
        }
        config
    }

    fn one(&mut self, key: &str, value: &str, skip_ends: bool) {
        match key {
            "skip-end-ips-in-cidr" => return,
            "search-order" => {
                self.from_the_end =
                    value == "desc" || (!matches!(value, "asc" | "") && self.bad(key, value, Why::NoOrder));
                return;
            }
            _ => {}
        }
        let Some((what, scope)) = scoped(key) else {
            self.bad(key, "", Why::UnknownKey);
            return;
        };
        match what {
            "cidr" | "range" => {
                let sets = self.ranges.entry(scope).or_default();
                let problems = entries::read(value, skip_ends, sets);
                self.problems.extend(problems.into_iter().map(|(entry, why)| Problem {
                    key: key.to_owned(),
                    entry,
                    why,
                }));
            }
            "allow-share" => match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => drop(self.share.insert(scope, true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => drop(self.share.insert(scope, false)),
                _ => drop(self.bad(key, value, Why::NoBoolean)),
            },
            // Nothing is looked up on this machine: the node decides whether it has the interface.
            _ if Hint::Interface.check(value).is_err() => {
                self.bad(key, value, Why::NoInterface);
            }
            _ => {
                self.interfaces.insert(scope, value.into());
            }
        }
    }

    fn bad(&mut self, key: &str, entry: &str, why: Why) -> bool {
        self.problems.push(Problem { key: key.to_owned(), entry: entry.to_owned(), why });
        false
    }

    /// The scope whose addresses the Services of a namespace get. None: there are no addresses for the namespace.
    #[must_use]
    pub fn scope(&self, namespace: &Arc<str>) -> Option<Scope> {
        let own = Scope::Namespace(namespace.clone());
        if self.ranges.contains_key(&own) {
            return Some(own);
        }
        self.ranges.contains_key(&Scope::Global).then_some(Scope::Global)
    }

    /// The sharing group of a namespace's Services: all Services of the same scope.
    #[must_use]
    pub fn shares(&self, namespace: &Arc<str>) -> Option<Scope> {
        let own = Scope::Namespace(namespace.clone());
        let allowed = self.share.get(&own).or_else(|| self.share.get(&Scope::Global));
        // Services that take addresses from the same entry share them.
        if allowed == Some(&true) { self.scope(namespace) } else { None }
    }

    /// The interface for the Services of a namespace.
    #[must_use]
    pub fn interface(&self, namespace: &Arc<str>) -> Option<&Arc<str>> {
        self.interface_of(&Scope::Namespace(namespace.clone()))
    }

    /// The interface for the addresses of a scope.
    #[must_use]
    pub fn interface_of(&self, scope: &Scope) -> Option<&Arc<str>> {
        self.interfaces.get(scope).or_else(|| self.interfaces.get(&Scope::Global))
    }
}

/// Splits a key such as `cidr-team-a` into its subject and its scope. A namespace called `global` gets the addresses
/// for all, as in kube-vip's cloud provider.
fn scoped(key: &str) -> Option<(&str, Scope)> {
    let what = ["cidr", "range", "allow-share", "interface"];
    let (what, name) = what.into_iter().find_map(|w| Some((w, key.strip_prefix(w)?.strip_prefix('-')?)))?;
    match name {
        "" => None,
        "global" => Some((what, Scope::Global)),
        _ => Some((what, Scope::Namespace(name.into()))),
    }
}
