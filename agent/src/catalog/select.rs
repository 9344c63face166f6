//! Nodes by label: which nodes may hold a VIP, and how nodes rank. Also the annotation by which people ask this node
//! for something.

use std::collections::{BTreeMap, BTreeSet};

use mooring_names::labels::EXCLUDE_NODE;

use super::{Catalog, Change};
use crate::api::objects::Node;
use crate::core::session::Standing;
use crate::core::session_vips::Input;

/// What Kubernetes says about a node, as far as it ranks candidates.
#[must_use]
pub fn standing(node: &Node) -> Standing {
    Standing {
        ready: node.is_ready(),
        schedulable: !node.is_cordoned(),
        excluded: node.metadata.labels.contains_key(EXCLUDE_NODE),
    }
}

/// Whether labels fulfil all parts of a selector: `key=value`, `key!=value`, `key`, `!key`.
pub(super) fn matches(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    selector.split(',').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        if let Some(key) = part.strip_prefix('!') {
            !labels.contains_key(key.trim())
        } else if let Some((key, value)) = part.split_once("!=") {
            labels.get(key.trim()).map(String::as_str) != Some(value.trim())
        } else if let Some((key, value)) = part.split_once('=') {
            labels.get(key.trim()).map(String::as_str) == Some(value.trim_start_matches('=').trim())
        } else {
            labels.contains_key(part)
        }
    })
}

impl Catalog {
    pub(super) fn take_nodes(&mut self, change: Change<Node>, out: &mut Vec<Input>) {
        match change {
            Change::All(all) => {
                let there: BTreeSet<&str> = all.iter().map(|one| one.metadata.name.as_str()).collect();
                let gone: Vec<String> =
                    self.nodes.keys().filter(|name| !there.contains(name.as_str())).cloned().collect();
                for name in gone {
                    self.forget_node(&name, out);
                }
                for one in all {
                    self.put_node(one, out);
                }
                self.listed.nodes = true;
            }
            Change::One(one) => self.put_node(one, out),
            Change::Gone(one) => self.forget_node(&one.metadata.name, out),
        }
        self.select_anew();
    }

    fn put_node(&mut self, node: Node, out: &mut Vec<Input>) {
        let name = node.metadata.name.clone();
        let standing = standing(&node);
        if self.standing.insert(name.clone(), standing) != Some(standing) {
            out.push(Input::Standing { node: name.clone(), standing: Some(standing) });
        }
        if name == self.node {
            self.asked(&node, out);
        }
        self.nodes.insert(name, node);
    }

    fn forget_node(&mut self, name: &str, out: &mut Vec<Input>) {
        self.nodes.remove(name);
        if self.standing.remove(name).is_some() {
            out.push(Input::Standing { node: name.to_owned(), standing: None });
        }
    }

    /// Reads the request in this node's annotation.
    fn asked(&mut self, node: &Node, out: &mut Vec<Input>) {
        let notes = &node.metadata.annotations;
        let drain = notes.drain.as_deref() == Some("true");
        if drain != self.drain {
            self.drain = drain;
            out.push(Input::Drain(drain));
        }
        let before = std::mem::replace(&mut self.rebalance.said, notes.rebalance.clone());
        let known = std::mem::replace(&mut self.rebalance.known, true);
        if known && notes.rebalance.is_some() && before != notes.rebalance {
            out.push(Input::Rebalance);
        }
    }

    /// Works out anew which nodes each selector allows. VIPs are concerned when their set has changed.
    fn select_anew(&mut self) {
        let mut used: BTreeMap<String, Vec<std::net::IpAddr>> = BTreeMap::new();
        for address in self.addresses.values() {
            if let (Some(selector), Some(ip)) =
                (&address.object.metadata.annotations.node_selector, address.object.address())
            {
                used.entry(selector.clone()).or_default().push(ip);
            }
        }
        let mut selected = BTreeMap::new();
        for (selector, addresses) in used {
            let nodes = self.select(&selector);
            if self.selected.get(&selector) != Some(&nodes) {
                self.dirty.extend(addresses);
            }
            selected.insert(selector, nodes);
        }
        self.selected = selected;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_selector_count() {
        let labels: BTreeMap<String, String> =
            [("zone".to_owned(), "a".to_owned()), ("edge".to_owned(), String::new())].into();
        for (selector, expected) in [
            ("", true),
            ("zone=a", true),
            ("zone==a, edge", true),
            ("zone=b", false),
            ("zone!=b,!worker", true),
            ("!edge", false),
            ("worker", false),
        ] {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }
}
