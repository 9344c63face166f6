//! A planned hand-over: the Lease is released and names the successor. The old holder serves until it hears the successor.

use std::time::Duration;

use super::process::Process;
use super::service::ASK_AGAIN;
use super::unleased::Kind;
use super::{Elector, Role};
use crate::action::{Action, Why};
use crate::event::Failure;
use crate::planted::planted;
use crate::rules::{LEGACY_FENCE, MARGIN, OVERLAP, SHORT_FENCE, SHORT_REFRESH};
use crate::time::Time;

/// This node hands the VIPs over, and carries them until the successor is heard.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The end of the fence: of the Lease at first, then of a short one.
    pub(super) deadline: Time,
    /// When another host was first heard to have the VIP.
    pub(super) heard: Option<Time>,
    /// When a host with the VIP was heard that no Lease names yet: the watch may be slower than the segment.
    pub(super) heard_unnamed: Option<Time>,
    /// When the Lease was last read because of such a host.
    pub(super) looked_up: Option<Time>,
    pub(super) grace_ends: Time,
    pub(super) refresh: Time,
    pub(super) probe: Time,
    pub(super) released: bool,
    /// A release was not answered.
    pub(super) unanswered: bool,
    /// When the last renewal of the ending tenure was sent: this node goes back to that tenure if the release fails.
    pub(super) sent: Time,
    /// The successor that the release names; None: anybody.
    pub(super) to: Option<String>,
}

/// How often the old holder asks the segment for its successor, in case the announcement is lost.
pub(super) const LISTEN: Duration = Duration::from_millis(100);

/// A host that was heard within this time before the Lease named another holder is that holder: a watch is not slower.
const JUST_BEFORE: Duration = Duration::from_millis(500);
/// The pause after the first release that was not answered.
const RELEASE_AGAIN: Duration = Duration::from_millis(100);
/// How long a holder listens for a successor when its process is to end and two of its releases were not answered.
const LISTEN_LONGER: Duration = Duration::from_millis(1_500);

impl Elector {
    pub(super) fn advance_leaving(&mut self) {
        let now = self.step.at.now;
        self.name_the_heard();
        let Role::Leaving(leaving) = &self.role else { return };
        let (deadline, heard, refresh, probe) = (leaving.deadline, leaving.heard, leaving.refresh, leaving.probe);
        let (grace_ends, released, to) = (leaving.grace_ends, leaving.released, leaving.to.clone());
        if now + MARGIN >= deadline {
            self.let_go(Why::Late);
            return;
        }
        if !released && self.api.flight.is_none() && self.api.reading.is_none() && self.due(self.api.next_write) {
            if self.is_mine() {
                self.release(to);
            } else {
                self.released();
            }
        }
        if let Some(heard) = heard
            && !planted!(ReleaseWithoutRemove)
            && self.due(heard + OVERLAP)
        {
            self.let_go(Why::HandedOver);
            return;
        }
        if self.due(grace_ends) {
            self.nobody_came();
            return;
        }
        if self.due(probe) {
            self.probe_vips();
            self.with_leaving(|l| l.probe = now + LISTEN);
            self.due(now + LISTEN);
        }
        if self.doubt.is_sure() && self.due(refresh) {
            self.carry(now + SHORT_FENCE);
            self.with_leaving(|l| {
                l.deadline = now + SHORT_FENCE;
                l.refresh = now + SHORT_REFRESH;
            });
            self.due(now + SHORT_REFRESH);
        }
    }

    /// The Lease names another holder, and a host with the VIP was heard just before: that host is the successor.
    fn name_the_heard(&mut self) {
        let named = self.is_anothers();
        let now = self.step.at.now;
        if named {
            self.with_leaving(|l| {
                let just_before = l.heard_unnamed.filter(|at| now.since(*at) <= JUST_BEFORE);
                l.heard = l.heard.or(just_before);
            });
        }
    }

    fn with_leaving(&mut self, change: impl FnOnce(&mut Leaving)) {
        if let Role::Leaving(leaving) = &mut self.role {
            change(leaving);
        }
    }

    pub(super) fn released(&mut self) {
        let now = self.step.at.now;
        self.with_leaving(|l| {
            l.released = true;
            l.probe = now + LISTEN;
        });
    }

    /// After a conflict the Lease is read, and the release tried again. A release without an answer may have taken effect: a
    /// node that is to end tries once more and listens for its successor, any other goes on as holder.
    pub(super) fn release_failed(&mut self, failure: Failure) {
        if failure == Failure::Conflict {
            return;
        }
        self.release_unanswered();
        let Role::Leaving(leaving) = &mut self.role else { return };
        let sent = leaving.sent;
        let again = std::mem::replace(&mut leaving.unanswered, true) || planted!(GivesUpRelease);
        if self.is_anothers() {
            // The release took effect, and the Lease is another node's by now: the watch showed only that.
            self.released();
        } else if self.process.is_ending() {
            let now = self.step.at.now;
            if again {
                self.with_leaving(|l| l.grace_ends = l.grace_ends.min(now + LISTEN_LONGER));
            } else {
                // The API server may have been slow for a moment only.
                self.api.next_write = now + RELEASE_AGAIN;
            }
        } else {
            self.service.ask_again_at = self.step.at.now + ASK_AGAIN;
            self.hold(sent);
        }
    }

    /// The grace time is over. An unhealthy holder goes on rather than leave the VIP without a holder.
    fn nobody_came(&mut self) {
        let taken = self.is_anothers();
        let released = matches!(&self.role, Role::Leaving(l) if l.released);
        if taken || self.process.is_ending() && released {
            self.let_go(Why::HandedOver);
        } else if self.process.is_ending() {
            self.leave_behind();
        } else {
            self.service.was_not_taken(self.step.at.now);
            self.hold_unleased(Kind::Lapsed);
        }
    }

    /// The process ends with the VIPs on the interface. Their fence removes them within 5 s, unless a new agent adopts them.
    pub(super) fn leave_behind(&mut self) {
        if !self.process.has_left() {
            self.process = Process::Left;
            if self.doubt.is_sure() {
                self.carry(self.step.at.now + LEGACY_FENCE);
            }
            self.act(Action::Exit);
        }
    }
}
