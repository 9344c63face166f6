//! Another machine with this node's name: a cloned machine, or copied settings. A session whose declared MAC addresses are all
//! another machine's is not adopted. While that machine renews the session, this one has none: it carries and writes nothing.
//! When it is seen to renew no more for as long as the session lasts, another incarnation begins. So a machine that was only
//! slow finds that its session has ended.

use super::own::Twin;
use super::{Report, SessionVips};
use crate::action::Why;
use crate::mac::Mac;
use crate::session::View;

impl SessionVips {
    /// The MAC addresses that the session declares, if it is live and none of them is this machine's. An agent that declares
    /// none may be an earlier one of this machine.
    fn anothers_macs(&self, view: &View) -> Option<Vec<Mac>> {
        let declared: Vec<Mac> = view.links().iter().flat_map(|link| link.macs.iter().copied()).collect();
        let known = !self.node.interfaces.is_empty();
        (known && !declared.is_empty() && !declared.iter().any(|mac| self.is_ours(*mac))).then_some(declared)
    }

    fn is_ours(&self, mac: Mac) -> bool {
        self.node.macs.contains(&mac) || self.node.had.contains(&mac)
    }

    /// The MAC addresses of another machine that has this node's name, while that counts.
    #[must_use]
    pub fn twin(&self) -> Option<&[Mac]> {
        self.own.twin.as_ref().map(|twin| twin.macs.as_slice())
    }

    /// Whether the session is another machine's.
    pub(super) fn is_anothers(&self, view: &View) -> bool {
        self.anothers_macs(view).is_some()
    }

    /// The own session was shown, or this machine's interfaces were looked at.
    pub(super) fn look_for_twin(&mut self) {
        let Some(peer) = self.sessions.get(&self.rules.node) else { return };
        let Some(macs) = self.anothers_macs(&peer.view) else {
            // An interface that was found later may show that the session is this machine's.
            let mut declared = peer.view.links().iter().flat_map(|link| &link.macs);
            if peer.view.is_live() && declared.any(|mac| self.is_ours(*mac)) {
                self.own.twin = None;
            }
            return;
        };
        let until = peer.expires(&self.rules);
        let news = self.own.twin.as_ref().is_none_or(|twin| twin.macs != macs);
        if self.own.twin_told.is_due(self.step.at.now, &macs) {
            self.report(Report::NameTaken { macs: macs.clone() });
        }
        self.own.twin = Some(Twin { macs, until });
        // What an earlier agent left on this machine, or what is carried without the API, is the other machine's as well.
        if news && self.own.tenure.is_none() {
            self.let_all_go(Why::LeaseLost, |_| true);
        }
    }

    /// Whether the other machine was not seen to renew the session for as long as that lasts.
    pub(super) fn is_twin_gone(&mut self) -> bool {
        let Some(twin) = &self.own.twin else { return true };
        let mut until = twin.until;
        if let Some(peer) = self.sessions.get(&self.rules.node)
            && self.own.tenure.is_none()
            && self.is_anothers(&peer.view)
        {
            // Blind time does not count.
            until = peer.expires(&self.rules);
            if self.due(until) && !self.sessions.is_fresh(self.step.at.now, &self.rules) {
                return false;
            }
        }
        let gone = self.due(until);
        if gone {
            self.own.twin = None;
        }
        gone
    }
}
