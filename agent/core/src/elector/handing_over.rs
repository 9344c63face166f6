//! Whether a holder hands over, and to which successor.

use std::net::IpAddr;
use std::time::Duration;

use super::holding::Holding;
use super::leaving::{LISTEN, Leaving};
use super::service::{ASK_AGAIN, Found};
use super::{Elector, Role};
use crate::action::{Action, HandsOver, Report};
use crate::lease::Participant;
use crate::planted::planted;
use crate::time::Time;

/// How long the peers may take for their answer about their health, before a hand-over.
const ASK_WITHIN: Duration = Duration::from_millis(150);
/// A peer that was heard within this time is alive.
const HEARD_FRESH: Duration = Duration::from_secs(1);
/// A peer that is found better is asked again after this.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// The same, if nobody was better before: then the outage was one of all nodes, and just ends.
const RECOVERS: Duration = Duration::from_secs(1);
/// After so many looks that found healthy API servers of no participant, anybody may take the Lease.
const UNNAMED: u32 = 5;
/// How long the holder waits for an unknown successor: client-go's candidates look at the Lease every 2 to 2.4 s.
pub(super) const STRANGER_WITHIN: Duration = Duration::from_secs(3);

impl Elector {
    /// A holder that is asked to end, or whose service is not healthy, looks for a successor.
    pub(super) fn consider_leaving(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        let wanted = self.process.is_ending() || self.is_unhealthy();
        let begun = holding.leaving_since;
        match begun {
            None if wanted && (self.process.is_ending() || self.due(self.service.ask_again_at)) => {
                self.look_for_successor();
            }
            None => return,
            Some(_) if !wanted => {
                self.service.found = Found::Nothing;
                self.mark_leaving(None);
            }
            Some(_) => {}
        }
        let Role::Holding(Holding { leaving_since: Some(since), .. }) = &self.role else {
            return;
        };
        let since = *since;
        // The peers' frames may take longer than the answers about their health.
        let found = self.service.healthy_peers().is_some_and(|healthy| self.successor(healthy).is_some());
        if !found && !self.due(since + ASK_WITHIN + Duration::from_millis(50)) {
            return;
        }
        self.leave();
    }

    fn look_for_successor(&mut self) {
        self.ask_peers(ASK_WITHIN);
        let mut peers: Vec<IpAddr> = self.peers().filter(|address| self.is_of_vips(*address)).collect();
        self.service.looked_for.retain(|address, _| peers.contains(address));
        // Under a limit of frames a few of them at a time, by turns: whoever is ready over TCP and takes part is enough in the end.
        peers.sort_by_key(|address| self.service.looked_for.get(address).copied());
        for address in peers.into_iter().take(self.most_looked_for()) {
            let (to, sender) = (self.mac_of(address), self.own_sender());
            self.service.looked_for.insert(address, self.step.at.now);
            self.act(Action::Probe { address, to, sender });
        }
        self.mark_leaving(Some(self.step.at.now));
    }

    fn mark_leaving(&mut self, since: Option<Time>) {
        if let Role::Holding(holding) = &mut self.role {
            holding.leaving_since = since;
        }
    }

    fn leave(&mut self) {
        let healthy = self.service.healthy_peers().unwrap_or_default();
        let successor = self.successor(healthy);
        let better = successor.is_some() && !healthy.is_empty();
        let unnamed = successor.is_none() && !healthy.is_empty() && self.api.away.is_none();
        if !self.process.is_ending() && !self.lets_anybody_take(unnamed) && !self.is_better_twice(better) {
            return;
        }
        if successor.is_none() && self.api.away.is_some() {
            self.leave_behind();
            return;
        }
        // Some candidates do not declare that they take part: client-go, kube-vip, an agent that has only just started. They
        // poll the Lease, and their announcement is heard like any other. Nobody knows whether there is one: the wait is short.
        let successor = successor.filter(|name| !self.shares_address(name));
        let longest = if successor.is_some() { Duration::MAX } else { STRANGER_WITHIN };
        let grace = self.rules.handover_grace.min(longest);
        let cause = if self.process.is_ending() { HandsOver::Ending } else { HandsOver::Unhealthy };
        self.begin_leaving(successor, grace, cause);
    }

    /// The Lease is released to that successor (None: to anybody), and the VIPs stay until the successor is heard.
    pub(super) fn begin_leaving(&mut self, successor: Option<String>, grace: Duration, cause: HandsOver) {
        let now = self.step.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let leaving = Leaving {
            deadline: holding.sent + self.rules.lease_duration,
            heard: None,
            heard_unnamed: None,
            looked_up: None,
            grace_ends: now + grace,
            refresh: now,
            probe: now + LISTEN,
            released: false,
            unanswered: false,
            sent: holding.sent,
            to: successor.clone(),
        };
        self.api.next_write = now;
        self.report(Report::HandingOver { to: successor, cause });
        self.become_role(Role::Leaving(leaving));
    }

    /// Whether so many looks in a row have found healthy API servers that belong to no participant: those nodes may have candidates that
    /// do not declare that they take part (kube-vip). A VIP that leads to a dead API server is worse than a short search.
    fn lets_anybody_take(&mut self, unnamed: bool) -> bool {
        self.service.unnamed = if unnamed { self.service.unnamed.saturating_add(1) } else { 0 };
        if self.service.unnamed < UNNAMED || planted!(OnlyWhoIsHeard) {
            return false;
        }
        self.service.unnamed = 0;
        true
    }

    /// Whether two looks in a row have found a peer better. If not, says when to look again. A shared outage ends for each API server at a
    /// slightly different moment: a question that was asked during the outage, or right after it, may find a peer's server well and not
    /// this node's.
    fn is_better_twice(&mut self, better: bool) -> bool {
        let now = self.step.at.now;
        let found = if better { Found::Better } else { Found::NobodyBetter };
        match (std::mem::replace(&mut self.service.found, found), found) {
            (Found::Better, Found::Better) => return true,
            (Found::Nothing, Found::Better) if planted!(LooksOnce) => return true,
            (Found::Nothing, Found::Better) => self.service.ask_again_at = now + SECOND_LOOK,
            (Found::NobodyBetter, Found::Better) => self.service.ask_again_at = now + RECOVERS,
            (before, _) => {
                self.service.ask_again_at = now + ASK_AGAIN;
                if before != Found::NobodyBetter {
                    self.report(Report::NobodyBetter);
                }
            }
        }
        self.mark_leaving(None);
        // Nothing else may happen until then.
        self.due(self.service.ask_again_at);
        false
    }

    /// A participant that lives: it was heard just now, or its API server has answered. One with a healthy service, if there is one;
    /// rather one that was heard, and rather one whose addresses are its own. The address of an API server says which participant it
    /// belongs to. Nodes that do not hear each other (isolated ports, filters) still hand over.
    fn successor(&self, healthy: &[IpAddr]) -> Option<String> {
        let now = self.step.at.now;
        let heard = |a: &IpAddr| self.segment.third_heard.get(a).is_some_and(|(at, _)| now.since(*at) <= HEARD_FRESH);
        let heard = |p: &Participant| p.addresses.iter().any(heard);
        // Of those that are not heard now, rather one that was not asked yet than one that did not answer.
        let is_silent = |address: &IpAddr| {
            let unheard_since = |asked| self.segment.third_heard.get(address).is_none_or(|(at, _)| at < asked);
            self.service.looked_for.get(address).is_some_and(unheard_since)
        };
        let silent = |p: &Participant| p.addresses.iter().any(is_silent);
        let by_interface = |p: &Participant| p.addresses.iter().any(|address| healthy.contains(address));
        let well = |p: &Participant| if planted!(MatchesByInterface) { by_interface(p) } else { p.serves_at(healthy) };
        let all = self.lease.view()?.notes.participants.iter().filter(|(name, _)| **name != self.rules.node);
        let alive = |p: &Participant| heard(p) || well(p) && !planted!(OnlyWhoIsHeard);
        let mut live: Vec<_> = all.filter(|(_, p)| alive(p)).collect();
        live.sort_by_key(|(name, p)| (!well(p), !heard(p), silent(p), self.shares_address(name)));
        let (name, participant) = live.first()?;
        (self.process.is_ending() || well(participant)).then(|| (*name).clone())
    }

    /// Whether the Lease names the same host twice: by the name of a node that is gone, and by the one it has now. Nobody knows which of
    /// them lives, so the hand-over names neither.
    fn shares_address(&self, name: &str) -> bool {
        let Some(view) = self.lease.view() else { return false };
        let all = &view.notes.participants;
        let Some(participant) = all.get(name) else { return false };
        let mut others = all.iter().filter(|(other, _)| *other != name).flat_map(|(_, other)| &other.addresses);
        others.any(|address| participant.addresses.contains(address))
    }
}
