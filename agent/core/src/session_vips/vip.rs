//! One VIP, as far as this node is concerned.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::hold::Hold;
use super::record::Record;
use super::refusal::Refusal;
use crate::evidence::{Form, Sender};
use crate::mac::Mac;
use crate::moves::Moves;
use crate::placement::{Demand, seed};
use crate::planted::planted;
use crate::schedule::Schedule;
use crate::session::Holder;
use crate::time::Time;
use crate::witness::Looks;

/// After each failed write the wait is twice as long, so many times: another program may write the object all the time, or the
/// API may refuse this object.
const DOUBLED: u32 = 5;

/// A VIP: what is wanted, what its record says, whether it is carried here, and what is under way for it.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) address: IpAddr,
    /// The hash of the address.
    pub(super) seed: u64,
    /// What it demands of its holder. None: the VIP should not exist.
    pub(super) demand: Option<Demand>,
    pub(super) record: Record,
    /// How often it has moved lately.
    pub(super) moves: Moves,
    /// How it is carried here, if it is.
    pub(super) hold: Option<Hold>,
    pub(super) schedule: Schedule,
    /// How it is taken, while it is not carried here.
    pub(super) taking: Taking,
    /// A write of the record that has no answer yet.
    pub(super) flight: Option<Flight>,
    /// Writes of the record that failed, in a row.
    failures: u32,
    /// No try for it before: after a failed write, a lost race, or an answer of another host.
    pub(super) hold_off: Time,
    /// The other host that spoke for it last, when, and how.
    pub(super) answered: Option<(Time, Mac, Form)>,
    /// When another host's claim was last taken to the API, and whether a node made it.
    pub(super) last_challenge: Option<(Time, bool)>,
    /// When it was let go because of another host's frame. Only a record that was read after that brings it back.
    pub(super) yielded: Option<Time>,
    /// The interface refused it.
    pub(super) refusal: Refusal,
    /// It was let go, and the kernel has not confirmed yet that it is gone from the interface. Until it is gone the record lets no
    /// other node take it.
    pub(super) removing: Option<Removing>,
    /// When others removed it, lately.
    pub(super) removed: VecDeque<Time>,
    /// Since when it should not exist any more, and its record names this node.
    pub(super) unwanted: Option<Time>,
    /// Its holder's session ended while the VIP was not wanted here: any host may have the address by now.
    pub(super) ended_unwanted: bool,
    /// When it is to be considered again.
    pub(super) wake: Option<Time>,
}

/// A removal that the kernel has not confirmed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removing {
    /// The fence ends the VIP by then.
    pub(super) ends: Time,
    /// The VIP was let go because the interface refused it.
    pub(super) refused: bool,
}

/// What this node has in mind for a VIP that it does not carry.
#[derive(Debug, Default)]
pub(super) struct Taking {
    /// It is asked for before it is taken.
    pub(super) look: Option<Look>,
    /// While the API does not answer, a look that heard nobody at all is not repeated before.
    pub(super) look_again: Time,
    /// Which node hands it over to others, by the hash of its name.
    pub(super) giver: Option<u64>,
    /// Since when it is open to be taken, by the same record.
    pub(super) open_since: Option<Time>,
    /// When the API was away, and it was found free: its turn counts from then.
    pub(super) free_since: Option<Time>,
    /// How often it was carried without the API, or let go again: each time this node's turn is another one.
    pub(super) turns: u32,
    /// Since when it is left to others, of when it is open: nobody answers this node.
    pub(super) left: Option<(Time, Time)>,
    /// When this node took it, if it believed that others hear it.
    pub(super) heard_before: Option<Time>,
    /// The foreign owner that was heard last, and when it was reported.
    pub(super) foreign_reported: Option<(Mac, Time)>,
    /// Since when the address has been a node's own, or the control plane's.
    pub(super) owned_since: Option<Time>,
    /// When it was last reported that the address is a node's own, or the control plane's.
    pub(super) owned_reported: Option<Time>,
}

/// A write of the record.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
    pub(super) wrote: Option<Holder>,
}

/// Probes before it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) since: Time,
    pub(super) sent: u32,
    pub(super) next: Time,
    /// When the last probe left.
    pub(super) last: Option<Time>,
    /// What was heard from then on counts: when the first probe left that the others have followed without a long pause.
    pub(super) counts: Option<Time>,
    /// The sender of its probes, and whether the other one had its turn.
    pub(super) sender: Sender,
    pub(super) both: bool,
    pub(super) looks: Looks,
    /// A third party was asked alone.
    pub(super) alone: bool,
    /// The host that an answer named.
    pub(super) named: Option<Named>,
}

/// A host that an answer to a broadcast named as the VIP's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is asked alone since then, and was so often.
    Asked(Mac, Time, u32),
    /// It did not answer alone: it is gone, and the network answers for it.
    Gone(Mac),
}

impl Look {
    pub(super) fn new(now: Time, looks: Looks) -> Self {
        let sender = looks.first;
        Self {
            since: now,
            sent: 0,
            next: now,
            last: None,
            counts: None,
            sender,
            both: false,
            looks,
            alone: false,
            named: None,
        }
    }
}

impl Vip {
    pub(super) fn new(address: IpAddr, refresh: Duration) -> Self {
        Self {
            address,
            seed: seed(&address),
            demand: None,
            record: Record::default(),
            moves: Moves::default(),
            hold: None,
            schedule: Schedule::new(refresh),
            taking: Taking::default(),
            flight: None,
            failures: 0,
            hold_off: Time::default(),
            answered: None,
            last_challenge: None,
            yielded: None,
            refusal: Refusal::default(),
            removing: None,
            removed: VecDeque::new(),
            unwanted: None,
            ended_unwanted: false,
            wake: None,
        }
    }

    /// Whether anything needs to be remembered of it.
    pub(super) fn is_needed(&self) -> bool {
        self.demand.is_some() || self.record.view().is_some() || self.hold.is_some() || self.flight.is_some()
    }

    /// Whether it is carried, and on its interface.
    pub(super) fn is_put(&self) -> bool {
        self.hold.is_some_and(|hold| hold.put)
    }

    /// A write of the record has failed. Answers with how many times longer than after the first failure to wait.
    pub(super) fn failed(&mut self) -> u32 {
        self.failures = self.failures.saturating_add(1);
        if planted!(NoBackOff) { 1 } else { 1 << (self.failures - 1).min(DOUBLED) }
    }

    /// The holder that the record names has changed: writes and turns begin anew.
    pub(super) fn holder_changed(&mut self, now: Time) {
        self.record.changed = now;
        self.taking.open_since = None;
        self.ended_unwanted = false;
        self.failures = 0;
    }

    /// Whom the record names.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.record.holder()
    }
}
