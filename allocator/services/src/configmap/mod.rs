//! The `ConfigMap` of kube-vip's cloud provider, `kube-system/kubevip`: read whole, and made into pools.
//!
//! Source: `pkg/provider/loadBalancer.go`, `pkg/ipam` and `pkg/config` of kube-vip-cloud-provider. What it does wrong there is
//! not done here: a namespace's range counts though there is a global CIDR; a namespace may have both; and an entry that
//! cannot be read is named, and spoils nothing else.

mod entries;
mod pools;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::range_set::RangeSet;
use mooring_allocator_core::steering::Word;

use crate::families::place;
use crate::objects::Scope;

pub use pools::{NewPool, kept, pools};
pub use problem::{Problem, Why};

/// What the `ConfigMap` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Who has addresses of their own. A namespace with an entry is here even where nothing of it can be read: its Services get
    /// none of the global ones instead, for they may be of another network.
    pub ranges: BTreeMap<Scope, [RangeSet; 2]>,
    /// `allow-share-`.
    share: BTreeMap<Scope, bool>,
    /// `interface-`.
    interfaces: BTreeMap<Scope, Arc<str>>,
    /// `search-order` is `desc`.
    pub from_the_end: bool,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Config {
    /// Reads it.
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
                let (sets, problems) = entries::read(value, skip_ends);
                self.problems.extend(problems.into_iter().map(|(entry, why)| Problem {
                    key: key.to_owned(),
                    entry,
                    why,
                }));
                let ranges = self.ranges.entry(scope).or_default();
                for family in [Family::V4, Family::V6] {
                    let (own, new) = (&mut ranges[place(family)], &sets[place(family)]);
                    for (first, last) in new.iter() {
                        own.insert(first, last);
                    }
                }
            }
            "allow-share" => match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => drop(self.share.insert(scope, true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => drop(self.share.insert(scope, false)),
                _ => drop(self.bad(key, value, Why::NoBoolean)),
            },
            // Nothing is looked up on this machine: whether a node has it is the node's affair.
            _ if Word::Interface.check(value).is_err() => {
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

    /// Whose addresses the Services of a namespace get. None: there are none for it.
    #[must_use]
    pub fn scope(&self, namespace: &Arc<str>) -> Option<Scope> {
        let own = Scope::Namespace(namespace.clone());
        if self.ranges.contains_key(&own) {
            return Some(own);
        }
        self.ranges.contains_key(&Scope::Global).then_some(Scope::Global)
    }

    /// With whom the Services of a namespace share addresses: all of that scope.
    #[must_use]
    pub fn shares(&self, namespace: &Arc<str>) -> Option<Scope> {
        let own = Scope::Namespace(namespace.clone());
        let allowed = self.share.get(&own).or_else(|| self.share.get(&Scope::Global));
        // Whoever takes the same addresses shares them.
        if allowed == Some(&true) { self.scope(namespace) } else { None }
    }

    /// The interface for the Services of a namespace.
    #[must_use]
    pub fn interface(&self, namespace: &Arc<str>) -> Option<&Arc<str>> {
        self.interface_of(&Scope::Namespace(namespace.clone()))
    }

    /// The interface for those addresses.
    #[must_use]
    pub fn interface_of(&self, scope: &Scope) -> Option<&Arc<str>> {
        self.interfaces.get(scope).or_else(|| self.interfaces.get(&Scope::Global))
    }
}

/// `cidr-team-a`: what, and for whom. A namespace called `global` has what all have, as there.
fn scoped(key: &str) -> Option<(&str, Scope)> {
    let what = ["cidr", "range", "allow-share", "interface"];
    let (what, name) = what.into_iter().find_map(|w| Some((w, key.strip_prefix(w)?.strip_prefix('-')?)))?;
    match name {
        "" => None,
        "global" => Some((what, Scope::Global)),
        _ => Some((what, Scope::Namespace(name.into()))),
    }
}
