//! A provisional hold that has ended: who carries the VIP by its record announces it again.
//!
//! A provisional holder announces the VIP, and clients believe it. The node that carries it rightfully may not have heard that
//! (frames are lost one way only), and has no reason to announce. So the node that lets go says so on its own session, and a node
//! that carries one of these VIPs announces it when it sees that. The control plane's VIPs have the same on their Lease
//! (`elector/recalling.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::SessionVips;
use super::hold::{Basis, Hold};
use crate::session::LetGo;
use crate::time::{Time, WallTime};

/// So long after it was written, a note is part of the session: watches that broke are back by then.
const STANDS: Duration = Duration::from_mins(1);
/// The most VIPs that one note names: it is sent to every node. Clients of further ones wait until the VIP is announced anyway.
const MOST: usize = 64;

/// What is known of provisional holds that have ended.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// This node's own note, which its session names.
    own: Option<LetGo>,
    /// Since when the session names it.
    said: Option<Time>,
    /// The last note of each other node, by its time.
    others: BTreeMap<String, Option<WallTime>>,
}

impl Recall {
    /// What this node's session is to name.
    pub(super) fn own(&self, now: Time) -> Option<LetGo> {
        self.own.clone().filter(|_| !self.is_over(now))
    }

    fn is_over(&self, now: Time) -> bool {
        self.said.is_some_and(|at| now.since(at) > STANDS)
    }
}

impl SessionVips {
    /// This node lets go of a VIP. If it carried it without a record, or an earlier run of the agent may have, clients may believe it.
    pub(super) fn note_let_go(&mut self, address: IpAddr, hold: &Hold) {
        let by_nobody = matches!(hold.basis, Basis::Provisional | Basis::LeftOver);
        if !by_nobody || !hold.put {
            return;
        }
        // Nodes whose watch is back later see the last note alone: it names the VIPs of those just before it, too.
        let now = self.step.at.now;
        let mut vips = self.recall.own(now).map(|note| note.vips).unwrap_or_default();
        if vips.len() < MOST && !vips.contains(&address) {
            vips.push(address);
        }
        self.recall.own = Some(LetGo { at: self.step.at.wall, vips });
        self.recall.said = None;
        self.own.redeclare = true;
        self.own.calls.next_write = self.own.calls.next_write.min(self.step.at.now.max(self.own.calls.next_try));
    }

    /// This node's session was shown or written.
    pub(super) fn own_note_was_shown(&mut self) {
        let shown = self.sessions.get(&self.rules.node).and_then(|own| own.view.declared());
        if self.recall.said.is_none()
            && self.recall.own.is_some()
            && shown.is_some_and(|shown| shown.let_go == self.recall.own)
        {
            self.recall.said = Some(self.step.at.now);
        }
    }

    /// Another node's session was shown. A note that is new to this node concerns VIPs that it carries by their records.
    pub(super) fn note_was_shown(&mut self, node: &str) {
        let said = self.sessions.get(node).and_then(|peer| peer.view.declared()).and_then(|said| said.let_go.clone());
        let at = said.as_ref().map(|said| said.at);
        // An agent that has just started carries nothing by a record yet: what it finds concerns no VIP of its own.
        if self.recall.others.insert(node.to_owned(), at) == Some(at) {
            return;
        }
        for address in said.into_iter().flat_map(|said| said.vips).take(MOST) {
            let Some(vip) = self.vips.get_mut(&address) else { continue };
            let rightful = |hold: &Hold| hold.put && matches!(hold.basis, Basis::Recorded | Basis::Beside(_));
            if vip.hold.as_ref().is_some_and(rightful) {
                vip.schedule.restart(self.step.at.now);
                self.index.dirty.insert(address);
                self.step.again = true;
            }
        }
    }

    /// All sessions were listed: what stands there now is known, and nodes that are gone are forgotten.
    pub(super) fn notes_were_listed(&mut self) {
        self.recall.others.retain(|node, _| self.sessions.get(node).is_some());
        let others = self.sessions.live().filter(|(node, _)| *node != self.rules.node);
        let others: Vec<String> = others.map(|(node, _)| node.to_owned()).collect();
        for node in others {
            self.note_was_shown(&node);
        }
    }
}
