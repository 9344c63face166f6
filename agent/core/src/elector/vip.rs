//! One of the Lease's VIPs, on this node's interface or not.

use std::collections::VecDeque;
use std::time::Duration;

use crate::rules::DEFEND;
use crate::schedule::Schedule;
use crate::time::Time;

/// A VIP that was removed this often within [`REMOVED_WITHIN`] is no longer put back at once.
const REMOVED_OFTEN: usize = 5;
/// Removals count for so long.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// A VIP.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) schedule: Schedule,
    pub(super) put: Put,
    /// When it was last announced against another host's claim.
    defended: Option<Time>,
    /// When others removed it, lately.
    removed: VecDeque<Time>,
}

/// Whether a VIP is on the interface, as far as the datapath has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It is not: the datapath refused it the last time.
    Refused,
}

impl Vip {
    pub(super) fn new(announce_refresh: Duration) -> Self {
        Self { schedule: Schedule::new(announce_refresh), put: Put::No, defended: None, removed: VecDeque::new() }
    }

    pub(super) fn is_put(&self) -> bool {
        self.put == Put::Yes
    }

    /// The VIP is no longer on the interface, and not announced.
    pub(super) fn take_off(&mut self, put: Put) {
        self.put = put;
        self.schedule.stop();
    }

    /// Others removed it. False if they do that so often that it is not put back at once.
    pub(super) fn was_removed(&mut self, now: Time) -> bool {
        self.removed.retain(|at| now.since(*at) < REMOVED_WITHIN);
        let seldom = self.removed.len() < REMOVED_OFTEN;
        if seldom {
            self.removed.push_back(now);
        }
        seldom
    }

    /// Whether it is announced against another's claim: it is here, and that was not done just now.
    pub(super) fn defend(&mut self, now: Time) -> bool {
        let defends = self.is_put() && self.defended.is_none_or(|at| now.since(at) >= DEFEND);
        if defends {
            self.defended = Some(now);
            self.schedule.restart(now);
        }
        defends
    }
}
