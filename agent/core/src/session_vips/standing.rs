//! What Kubernetes says of a node, and its labels. A node watches its own Node alone, and its session tells others what they need to
//! know of it: so a node is not told of the heartbeats of all others' Nodes.

use std::time::Duration;

use super::SessionVips;
use crate::placement::{Demand, Labels, Selector};
use crate::session::{Peer, Standing};

impl SessionVips {
    /// The Node of this node is shown.
    pub(super) fn node_shown(&mut self, standing: Standing, labels: Labels) {
        let before = (self.node.standing.unwrap_or_default(), self.labels_asked_for());
        (self.node.standing, self.node.labels) = (Some(standing), labels);
        if before.1 != self.labels_asked_for() {
            self.tell_within(Duration::ZERO);
        } else if before.0 != standing {
            // It only ranks, and all nodes may have it to tell at one moment: when their kubelets do not reach the API server.
            self.tell_within(self.apart());
        }
        if self.vips.values().any(|vip| vip.demand.as_ref().is_some_and(|demand| demand.selector.is_some())) {
            self.all_dirty();
        }
    }

    /// A VIP asks for these labels: others need to know which of them this node has.
    pub(super) fn selector_shown(&mut self, demand: &Demand) {
        let Some(selector) = &demand.selector else { return };
        let told = self.sessions.get(&self.rules.node).map(|own| own.view.labels());
        let is_news =
            |key: &str| self.node.labels.contains_key(key) && !told.is_some_and(|told| told.contains_key(key));
        // At once: until all nodes have told, the VIP is placed by half of the labels.
        if selector.keys().any(is_news) {
            self.tell_within(Duration::ZERO);
        }
    }

    /// The next renewal tells it, or a write of its own that is due sooner.
    fn tell_within(&mut self, time: Duration) {
        self.own.redeclare = true;
        let calls = &mut self.own.calls;
        calls.next_write = (self.step.at.now + time).min(calls.next_write).max(calls.next_try);
        self.step.again = true;
    }

    /// Those of the own labels that any VIP's selector asks for. What this session has told once stays: the last VIP that asks for a label
    /// may come again, and each time all nodes would have to tell all.
    pub(super) fn labels_asked_for(&self) -> Labels {
        if self.node.labels.is_empty() {
            return Labels::new();
        }
        let selectors = self.vips.values().filter_map(|vip| vip.demand.as_ref()?.selector.as_deref());
        let own = self.sessions.get(&self.rules.node).filter(|_| self.own.tenure.is_some());
        let told = own.into_iter().flat_map(|own| own.view.labels().keys()).map(String::as_str);
        let keys = selectors.flat_map(Selector::keys).chain(told);
        keys.filter_map(|key| self.node.labels.get_key_value(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// What Kubernetes says of a node: of the own one by its Node, of another one by what that declares.
    pub(super) fn standing_of(&self, node: &str, peer: &Peer) -> Standing {
        if node == self.rules.node { self.node.standing.unwrap_or_default() } else { peer.view.standing() }
    }

    /// A node's labels: all of the own one, those that another one declares.
    pub(super) fn labels_of<'a>(&'a self, node: &str, peer: &'a Peer) -> &'a Labels {
        if node == self.rules.node { &self.node.labels } else { peer.view.labels() }
    }
}
