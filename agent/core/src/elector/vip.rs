//! One of the Lease's VIPs, on this node's interface or not.

use std::collections::VecDeque;
use std::time::Duration;

use super::foreign::Claimed;
use crate::look::Look;
use crate::mac::Mac;
use crate::rules::DEFEND;
use crate::schedule::Schedule;
use crate::time::Time;

/// After so many removals within [`REMOVED_WITHIN`], a VIP is no longer put back at once.
const REMOVED_OFTEN: usize = 5;
/// How long a removal counts.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// A VIP.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) schedule: Schedule,
    pub(super) put: Put,
    pub(super) search: Search,
    /// Another host, no participant, that answers for the VIP while this node is about to take it.
    pub(super) claimed: Option<Claimed>,
    /// When the VIP was last announced against another host's claim.
    defended: Option<Time>,
    /// Another program removed the VIP, and the kernel has not put it back yet.
    pub(super) restoring: bool,
    /// When other programs removed the VIP recently.
    removed: VecDeque<Time>,
}

/// Whether a VIP is on the interface, as far as the datapath has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The VIP is not on the interface.
    No,
    /// The VIP is on the interface.
    Yes,
    /// The VIP is not on the interface: the kernel refused the last request.
    Refused,
}

/// Whether the segment was asked for another owner of a VIP.
#[derive(Debug)]
pub(super) enum Search {
    /// Nothing is known. A node that is to carry the VIP asks first.
    Due,
    /// The segment is being asked, or another host has the VIP: it is held back.
    On(Look),
    /// A participant was heard to have the VIP; or the segment was asked, and nobody has it; or it was on this node's interface.
    Done,
}

impl Vip {
    pub(super) fn new(announce_refresh: Duration) -> Self {
        let schedule = Schedule::new(announce_refresh);
        Self {
            schedule,
            put: Put::No,
            search: Search::Due,
            claimed: None,
            defended: None,
            restoring: false,
            removed: VecDeque::new(),
        }
    }

    pub(super) fn is_held_back(&self) -> bool {
        matches!(self.search, Search::On(_))
    }

    /// When the next probe of the search is due, while nobody was heard.
    pub(super) fn searched_from(&self) -> Option<Time> {
        if let Search::On(look) = &self.search
            && look.owner().is_none()
        {
            Some(look.next())
        } else {
            None
        }
    }

    /// The other host that has the VIP, if the VIP is held back for that reason.
    pub(super) fn foreign_owner(&self) -> Option<Mac> {
        if let Search::On(look) = &self.search { look.owner() } else { None }
    }

    /// Whether it is held back because another host has it, and keeps it.
    pub(super) fn is_kept_elsewhere(&self, now: Time) -> bool {
        matches!(&self.search, Search::On(look) if look.is_kept(now))
    }

    pub(super) fn is_put(&self) -> bool {
        self.put == Put::Yes
    }

    /// Notes that the VIP is no longer on the interface; ends its announcements.
    pub(super) fn take_off(&mut self, put: Put) {
        self.put = put;
        self.restoring = false;
        self.schedule.stop();
    }

    /// Notes that another program removed the VIP. False: this happens so often that the VIP is not put back at once.
    pub(super) fn was_removed(&mut self, now: Time) -> bool {
        self.removed.retain(|at| now.since(*at) < REMOVED_WITHIN);
        let seldom = self.removed.len() < REMOVED_OFTEN;
        if seldom {
            self.removed.push_back(now);
        }
        seldom
    }

    /// Whether to announce the VIP against another host's claim: the VIP is here, and was not defended just now.
    pub(super) fn defend(&mut self, now: Time) -> bool {
        let defends = self.is_put() && self.defended.is_none_or(|at| now.since(at) >= DEFEND);
        if defends {
            self.defended = Some(now);
            self.schedule.restart(now);
        }
        defends
    }
}
