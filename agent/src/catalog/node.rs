//! This node's Node: how it ranks, its labels, and the annotations by which people ask this node for something.

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

impl Catalog {
    /// A Node that is gone is remembered as it was: the agent still runs.
    pub(super) fn take_node(&mut self, change: Change<Node>, out: &mut Vec<Input>) {
        match change {
            Change::All(all) => {
                for one in all {
                    self.put_node(one, out);
                }
                self.listed.node = true;
            }
            Change::One(one) => self.put_node(one, out),
            Change::Gone(_) => {}
        }
    }

    fn put_node(&mut self, node: Node, out: &mut Vec<Input>) {
        if node.metadata.name != self.node {
            return;
        }
        let standing = standing(&node);
        if self.standing != Some(standing) || self.labels != node.metadata.labels {
            out.push(Input::Node { standing, labels: node.metadata.labels.clone() });
        }
        self.asked(&node, out);
        (self.standing, self.labels) = (Some(standing), node.metadata.labels);
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
}
