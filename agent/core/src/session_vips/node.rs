//! What is known of this node: its interfaces and their links, and what Kubernetes says of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Interface;
use crate::mac::Mac;
use crate::placement::Labels;
use crate::session::Standing;
use crate::time::Time;

/// This node, as the kernel and Kubernetes show it.
#[derive(Debug, Default)]
pub(super) struct OwnNode {
    /// The interfaces that VIPs may be on; the default one first.
    pub(super) interfaces: Vec<Interface>,
    /// The MAC addresses of all interfaces: an answer from one of them is not another owner.
    pub(super) macs: Vec<Mac>,
    /// All MAC addresses that this agent may have declared since it runs: those of a bond change.
    pub(super) had: BTreeSet<Mac>,
    /// Since when the link of an interface is down: of those interfaces, and of no other.
    pub(super) down: BTreeMap<u32, Time>,
    /// When the link of an interface last came up: of those that were down, or gone, since the agent runs.
    pub(super) came_up: BTreeMap<u32, Time>,
    /// What Kubernetes says of it, once it has said anything.
    pub(super) standing: Option<Standing>,
    /// All labels of the Node.
    pub(super) labels: Labels,
}

impl OwnNode {
    /// The interfaces were looked at. True if any of them is another than before.
    pub(super) fn looked_at(&mut self, now: Time, interfaces: Vec<Interface>, macs: Vec<Mac>) -> bool {
        // What the first look shows has been up before.
        let first = self.had.is_empty();
        let known = std::mem::replace(&mut self.interfaces, interfaces);
        self.macs = macs;
        self.had.extend(self.interfaces.iter().flat_map(|i| i.link.macs.iter().copied()));
        self.down.retain(|index, _| self.interfaces.iter().any(|i| i.index == *index));
        self.came_up.retain(|index, _| self.interfaces.iter().any(|i| i.index == *index));
        for interface in &self.interfaces {
            if interface.link.up {
                self.down.remove(&interface.index);
                if !first && !known.iter().any(|i| i.index == interface.index && i.link.up) {
                    self.came_up.insert(interface.index, now);
                }
            } else {
                self.down.entry(interface.index).or_insert(now);
            }
        }
        known != self.interfaces
    }

    /// The link of an interface is up or down. True if that is news.
    pub(super) fn link_is(&mut self, now: Time, index: u32, up: bool) -> bool {
        let Some(interface) = self.interfaces.iter_mut().find(|i| i.index == index && i.link.up != up) else {
            return false;
        };
        interface.link.up = up;
        if up {
            self.down.remove(&index);
            self.came_up.insert(index, now);
        } else {
            self.down.entry(index).or_insert(now);
        }
        true
    }
}
