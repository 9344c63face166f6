//! One VIP, as far as this node is concerned.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::mac::Mac;
use crate::moves::Moves;
use crate::placement::{Demand, seed};
use crate::planted::planted;
use crate::schedule::Schedule;
use crate::session::{AddressView, Holder, number};
use crate::time::Time;

/// After writes that failed it is waited twice as long each time, so many times: somebody may write the object all the time,
/// or the API refuse that one.
const DOUBLED: u32 = 5;

/// See the module's text.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not one state")]
pub(super) struct Vip {
    pub(super) address: IpAddr,
    /// The hash of the address.
    pub(super) seed: u64,
    /// What it demands; None: it should not exist.
    pub(super) demand: Option<Demand>,
    /// Its `IPAddress` as last seen, once anything was.
    pub(super) view: Option<AddressView>,
    pub(super) known: bool,
    /// An answer showed that, and no watch event since: what the watch is about to tell may be older.
    pub(super) ahead: bool,
    /// When its holder was last seen to change.
    pub(super) changed: Time,
    /// The last own read or write that showed it was sent then.
    pub(super) proven: Time,
    pub(super) moves: Moves,
    /// How it is carried here, if it is.
    pub(super) hold: Option<Hold>,
    pub(super) put: bool,
    pub(super) schedule: Schedule,
    /// A write of the record that has no answer yet.
    pub(super) flight: Option<Flight>,
    /// It is asked for before it is taken.
    pub(super) look: Option<Look>,
    /// Who else answered for it last, and when.
    pub(super) answered: Option<(Time, Mac)>,
    /// Since when it is open to be taken, by the same record.
    pub(super) open_since: Option<Time>,
    /// When the API was away, and it was found free: its turn counts from then.
    pub(super) free_since: Option<Time>,
    pub(super) turns: u32,
    pub(super) challenge: Option<Challenge>,
    pub(super) last_challenge: Option<Time>,
    /// Who spoke for it when that host had just been answered: the next round is for it too.
    pub(super) pending: Option<Mac>,
    /// It was let go for another's frame: only a record read since brings it back.
    pub(super) yielded: Option<Time>,
    pub(super) hold_off: Time,
    /// Writes of the record that failed, in a row.
    pub(super) failures: u32,
    /// The interface refused it: nothing before.
    pub(super) refused_until: Time,
    pub(super) removed: VecDeque<Time>,
    pub(super) foreign_told: Option<(Mac, Time)>,
    /// Since when it should not exist any more, and its record names this node.
    pub(super) unwanted: Option<Time>,
    /// Its holder's session ended while nobody wanted it here: who knows who has the address by now.
    pub(super) forsaken: bool,
    /// Somebody asked to have it where it would be if it were placed anew.
    pub(super) rebalance: bool,
    pub(super) wake: Option<Time>,
}

/// How a view of an `IPAddress` stands to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The same object, as it was before.
    Older,
    /// The same object, as it is now.
    Newer,
    /// Another object with that address; or none, or one where there was none.
    Other,
}

/// By what it is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// The record names this node's incarnation.
    Recorded,
    /// The record is still on its way, since then.
    Beside(Time),
    /// The API cannot be asked.
    Provisional,
    /// An earlier run of this agent had it.
    LeftOver,
}

/// It is carried here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) basis: Basis,
    /// The end of the fence that was asked for last.
    pub(super) until: Time,
    /// When the kernel drops it, by the lifetime asked for last.
    pub(super) dropped: Time,
    /// On which interface.
    pub(super) index: u32,
    /// The last holder was silent, and may come back with it until then: it is asked for.
    pub(super) returns_until: Option<Time>,
    /// When the successor was first heard, in a hand-over.
    pub(super) heard: Option<Time>,
    /// When the record first named another, in a hand-over.
    pub(super) named: Option<Time>,
    /// The version of the recorded holder's session when a provisional hold began: should it change, that one is alive.
    pub(super) other: Option<u64>,
    /// This node lets others take it: it goes when the successor is heard, not when the record names one.
    pub(super) consented: bool,
}

/// A write of the record.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) sent: Time,
    pub(super) until: Time,
    pub(super) wrote: Option<Holder>,
}

/// Another host spoke for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) since: Time,
    pub(super) by_peer: bool,
    pub(super) mac: Mac,
}

/// Probes before it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) since: Time,
    pub(super) sent: u32,
    pub(super) next: Time,
}

impl Vip {
    pub(super) fn new(address: IpAddr, refresh: Duration) -> Self {
        Self {
            address,
            seed: seed(&address),
            demand: None,
            view: None,
            known: false,
            ahead: false,
            changed: Time::default(),
            proven: Time::default(),
            moves: Moves::default(),
            hold: None,
            put: false,
            schedule: Schedule::new(refresh),
            flight: None,
            look: None,
            answered: None,
            open_since: None,
            free_since: None,
            turns: 0,
            challenge: None,
            last_challenge: None,
            pending: None,
            yielded: None,
            hold_off: Time::default(),
            failures: 0,
            refused_until: Time::default(),
            removed: VecDeque::new(),
            foreign_told: None,
            unwanted: None,
            forsaken: false,
            rebalance: false,
            wake: None,
        }
    }

    /// Whether anything needs to be remembered of it.
    pub(super) fn is_needed(&self) -> bool {
        self.demand.is_some() || self.view.is_some() || self.hold.is_some() || self.flight.is_some()
    }

    /// What a view says beside what is known.
    pub(super) fn is_about(&self, view: Option<&AddressView>) -> About {
        match (view, &self.view) {
            (Some(new), Some(old)) if new.uid == old.uid => match (number(&new.version), number(&old.version)) {
                (Some(new), Some(old)) if new < old => About::Older,
                _ => About::Newer,
            },
            (None, None) => About::Newer,
            _ if !self.known => About::Newer,
            _ => About::Other,
        }
    }

    /// A write of the record has failed. How many times longer than after the first one it is waited.
    pub(super) fn failed(&mut self) -> u32 {
        self.failures = self.failures.saturating_add(1);
        if planted!(NoBackOff) { 1 } else { 1 << (self.failures - 1).min(DOUBLED) }
    }

    /// Whom the record names.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.view.as_ref().and_then(|view| view.holder.as_ref())
    }
}
