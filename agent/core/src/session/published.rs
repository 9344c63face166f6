//! Member objects: each repeats what a session's Lease said at one of its versions, so that other nodes need not watch the Lease with
//! all its renewals. They decide nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::View;
use crate::time::Time;

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
    /// And when it was first shown so.
    members: BTreeMap<String, (Member, Time)>,
    /// All of them were listed at least once.
    complete: bool,
}

impl Published {
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn get(&self, node: &str) -> Option<&Member> {
        self.members.get(node).map(|(member, _)| member)
    }

    /// When a node's member object was first shown as it is.
    pub(super) fn since(&self, node: &str) -> Option<Time> {
        self.members.get(node).map(|(_, since)| *since)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.values().map(|(member, _)| member)
    }

    /// False: a newer one is known.
    pub(super) fn see(&mut self, now: Time, member: &Member) -> bool {
        let node = &member.copy.node;
        let newer = self.get(node).is_none_or(|known| !super::is_lower(&member.version, &known.version));
        if newer && self.get(node) != Some(member) {
            self.members.insert(node.clone(), (member.clone(), now));
        }
        newer
    }

    /// Whether one of these is older than what is known: the store was set back.
    pub(super) fn is_any_older(&self, members: &[Member]) -> bool {
        let older =
            |one: &Member| self.get(&one.copy.node).is_some_and(|known| super::is_lower(&one.version, &known.version));
        members.iter().any(older)
    }

    pub(super) fn is_any_missing(&self, members: &[Member]) -> bool {
        let listed: BTreeSet<&str> = members.iter().map(|member| member.copy.node.as_str()).collect();
        self.members.keys().any(|node| !listed.contains(node.as_str()))
    }

    /// All that there are. Answers with the nodes whose member object is another one now, or is gone.
    pub(super) fn see_all(&mut self, now: Time, members: &[Member]) -> Vec<String> {
        let before = std::mem::take(&mut self.members);
        self.complete = true;
        for member in members {
            let same = before.get(&member.copy.node).filter(|(known, _)| known == member);
            self.members.insert(member.copy.node.clone(), (member.clone(), same.map_or(now, |(_, since)| *since)));
        }
        let nodes = before.keys().chain(self.members.keys().filter(|node| !before.contains_key(*node)));
        nodes.filter(|node| before.get(*node) != self.members.get(*node)).cloned().collect()
    }

    pub(super) fn gone(&mut self, node: &str) {
        self.members.remove(node);
    }
}
