//! Member objects: each repeats what a session's Lease said at one of its versions, so that other nodes need not watch the Lease with
//! all its renewals. They decide nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::View;

/// A node's member object, as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `metadata.resourceVersion`: what a compare-and-swap compares.
    pub version: String,
    /// What the Lease said.
    pub copy: View,
}

impl Member {
    /// Whether what it says could be read. If not, the copy only names the node.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.copy.uid.is_empty()
    }
}

/// The last member object of each node.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    members: BTreeMap<String, Member>,
    /// All of them were listed at least once.
    complete: bool,
}

impl Published {
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn get(&self, node: &str) -> Option<&Member> {
        self.members.get(node)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// False: a newer one is known.
    pub(super) fn see(&mut self, member: &Member) -> bool {
        let node = &member.copy.node;
        let newer = self.members.get(node).is_none_or(|known| !super::is_lower(&member.version, &known.version));
        if newer {
            self.members.insert(node.clone(), member.clone());
        }
        newer
    }

    /// All that there are. Answers with the nodes whose member object is another one now, or is gone.
    pub(super) fn see_all(&mut self, members: &[Member]) -> Vec<String> {
        let now: BTreeMap<String, Member> = members.iter().map(|one| (one.copy.node.clone(), one.clone())).collect();
        let before = std::mem::replace(&mut self.members, now);
        self.complete = true;
        let nodes = before.keys().chain(self.members.keys().filter(|node| !before.contains_key(*node)));
        nodes.filter(|node| before.get(*node) != self.members.get(*node)).cloned().collect()
    }

    pub(super) fn gone(&mut self, node: &str) {
        self.members.remove(node);
    }
}
