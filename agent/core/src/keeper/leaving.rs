//! A planned hand-over: the Lease is released and names the successor; the old holder serves until it hears it.

use std::net::IpAddr;
use std::time::Duration;

use super::holding::Holding;
use super::unleased::Kind;
use super::{Keeper, Role};
use crate::action::{Action, Report, Why};
use crate::event::Failure;
use crate::lease::Participant;
use crate::planted::planted;
use crate::rules::{LEGACY_FENCE, MARGIN, OVERLAP, SHORT_FENCE, SHORT_REFRESH};
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Leaving {
    /// The end of the short fence.
    pub(super) until: Time,
    /// When another host was first heard to have the VIP.
    pub(super) heard: Option<Time>,
    /// When a host was heard that no Lease named yet: the watch may be slower than the segment.
    pub(super) heard_unnamed: Option<Time>,
    /// When the Lease was last read for that.
    pub(super) looked_up: Option<Time>,
    grace_ends: Time,
    refresh: Time,
    probe: Time,
    released: bool,
    /// Of the tenure that ends, to go back to should the release fail.
    sent: Time,
    /// The successor; None: anybody.
    to: Option<String>,
}

/// How long the peers may take to say how they are, before a hand-over.
const ASK_WITHIN: Duration = Duration::from_millis(150);
/// A peer that was heard within this time is alive.
const HEARD_FRESH: Duration = Duration::from_secs(1);
/// When nobody was better, the peers are asked again after this.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// An outage that all shared ends for each a moment apart: who is better right after it is asked again after this.
const RECOVERS: Duration = Duration::from_secs(1);
/// How long a successor that nobody knows of is waited for: client-go's candidates look at the Lease every 2 to 2.4 s.
const STRANGER_WITHIN: Duration = Duration::from_secs(3);
/// How often the old holder asks the segment for its successor, should the announcement be lost.
const LISTEN: Duration = Duration::from_millis(100);

/// A watch shows within this time what was written.
const JUST_BEFORE: Duration = Duration::from_millis(500);
/// How long a holder that is to end listens for a successor after a release that nobody answered.
const LISTEN_LONGER: Duration = Duration::from_millis(1_500);

impl Keeper {
    /// A holder that is asked to end, or whose service is not healthy, looks for somebody better.
    pub(super) fn consider_leaving(&mut self) {
        let now = self.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let unhealthy = self.health == Some(false);
        let wanted = self.shutting_down || unhealthy;
        let begun = holding.leaving_since;
        match begun {
            None if wanted && (self.shutting_down || self.due(self.better_at)) => {
                self.ask_peers(ASK_WITHIN);
                for address in self.peers() {
                    self.act(Action::Probe { address, to: None });
                }
                self.mark_leaving(Some(now));
            }
            None => return,
            Some(_) if !wanted => self.mark_leaving(None),
            Some(_) => {}
        }
        let Role::Holding(Holding { leaving_since: Some(since), .. }) = &self.role else {
            return;
        };
        let since = *since;
        // Frames of the peers may take longer than what is known of their API servers.
        let healthy = self.asked.as_ref().and_then(|asked| asked.healthy.clone());
        let found = healthy.is_some_and(|healthy| self.successor(&healthy).is_some());
        if !found && !self.due(since + ASK_WITHIN + Duration::from_millis(50)) {
            return;
        }
        self.leave();
    }

    fn mark_leaving(&mut self, since: Option<Time>) {
        if let Role::Holding(holding) = &mut self.role {
            holding.leaving_since = since;
        }
    }

    fn leave(&mut self) {
        let now = self.at.now;
        let healthy = self.asked.as_ref().and_then(|a| a.healthy.clone()).unwrap_or_default();
        let successor = self.successor(&healthy);
        if !self.shutting_down && (successor.is_none() || healthy.is_empty()) {
            self.mark_leaving(None);
            self.better_at = now + ASK_AGAIN;
            if !std::mem::replace(&mut self.nobody_was_better, true) {
                self.report(Report::NobodyBetter);
            }
            return;
        }
        if !self.shutting_down && std::mem::take(&mut self.nobody_was_better) {
            self.mark_leaving(None);
            self.better_at = now + RECOVERS;
            return;
        }
        if successor.is_none() && self.away.is_some() {
            self.leave_behind();
            return;
        }
        // A candidate that did not say that it takes part (client-go, kube-vip, one that has only just started) polls the
        // Lease, and its announcement is heard as anybody's. Whether there is one, nobody knows: it is not waited for long.
        let longest = if successor.is_some() { Duration::MAX } else { STRANGER_WITHIN };
        let grace = self.rules.handover_grace.min(longest);
        let Role::Holding(holding) = &self.role else { return };
        let leaving = Leaving {
            until: holding.sent + self.rules.lease_duration,
            heard: None,
            heard_unnamed: None,
            looked_up: None,
            grace_ends: now + grace,
            refresh: now,
            probe: now + LISTEN,
            released: false,
            sent: holding.sent,
            to: successor.clone(),
        };
        self.next_write = now;
        self.report(Report::HandingOver { to: successor });
        self.become_role(Role::Leaving(leaving));
    }

    /// A participant that was heard just now; one with a healthy service if there is any. Peers that are known by their
    /// API server's address alone are matched by it.
    fn successor(&self, healthy: &[IpAddr]) -> Option<String> {
        let now = self.at.now;
        let heard = |a: &IpAddr| self.third_heard.get(a).is_some_and(|at| now.since(*at) <= HEARD_FRESH);
        let alive = |p: &Participant| p.addresses.iter().any(heard);
        let well = |p: &Participant| p.addresses.iter().any(|a| healthy.contains(a));
        let all = self.seen.view()?.notes.participants.iter().filter(|(name, _)| **name != self.rules.node);
        let mut live: Vec<_> = all.filter(|(_, p)| alive(p)).collect();
        live.sort_by_key(|(_, p)| !well(p));
        let (name, participant) = live.first()?;
        (self.shutting_down || well(participant)).then(|| (*name).clone())
    }

    pub(super) fn advance_leaving(&mut self) {
        let now = self.at.now;
        self.name_the_heard();
        let Role::Leaving(leaving) = &self.role else { return };
        let (until, heard, refresh, probe) = (leaving.until, leaving.heard, leaving.refresh, leaving.probe);
        let (grace_ends, released, to) = (leaving.grace_ends, leaving.released, leaving.to.clone());
        if now + MARGIN >= until {
            self.let_go(Why::Late);
            return;
        }
        if !released && self.flight.is_none() && self.reading.is_none() && self.due(self.next_write) {
            if self.seen.holder() == self.rules.node {
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
        if self.unsure.is_none() && self.due(refresh) {
            self.carry(now + SHORT_FENCE);
            self.with_leaving(|l| {
                l.until = now + SHORT_FENCE;
                l.refresh = now + SHORT_REFRESH;
            });
            self.due(now + SHORT_REFRESH);
        }
    }

    /// The Lease names another holder, and somebody was heard to have the VIP just before: that was it.
    fn name_the_heard(&mut self) {
        let named = !self.seen.holder().is_empty() && self.seen.holder() != self.rules.node;
        let now = self.at.now;
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
        let now = self.at.now;
        self.with_leaving(|l| {
            l.released = true;
            l.probe = now + LISTEN;
        });
    }

    /// A conflict is read and tried again. Without an answer it may have taken effect: who is to end listens for its
    /// successor a little longer; who is not goes on.
    pub(super) fn release_failed(&mut self, failure: Failure) {
        let Role::Leaving(leaving) = &self.role else { return };
        if failure == Failure::Conflict {
            return;
        }
        let sent = leaving.sent;
        if self.shutting_down {
            let soon = self.at.now + LISTEN_LONGER;
            self.with_leaving(|l| l.grace_ends = l.grace_ends.min(soon));
        } else {
            self.better_at = self.at.now + ASK_AGAIN;
            self.hold(sent);
        }
    }

    /// The grace time is over. An unhealthy holder goes on rather than leave the VIP to nobody.
    fn nobody_came(&mut self) {
        let taken = !self.seen.holder().is_empty() && self.seen.holder() != self.rules.node;
        let released = matches!(&self.role, Role::Leaving(l) if l.released);
        if taken || self.shutting_down && released {
            self.let_go(Why::HandedOver);
        } else if self.shutting_down {
            self.leave_behind();
        } else {
            self.better_at = self.at.now + ASK_AGAIN;
            self.hold_unleased(Kind::Lapsed);
        }
    }

    /// Ends with the VIPs on the interface: their fence takes them off within 5 s, if nobody adopts them before.
    pub(super) fn leave_behind(&mut self) {
        if !self.left {
            self.left = true;
            if self.unsure.is_none() {
                self.carry(self.at.now + LEGACY_FENCE);
            }
            self.act(Action::Exit);
        }
    }
}
