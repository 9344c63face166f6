//! What is going to happen, in the order in which it will.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use mooring_core::event::Event;

use crate::api::{Answer, Message};
use crate::clock::Nanos;
use crate::segment::What;

/// Something that will happen.
#[derive(Debug)]
pub enum Item {
    /// A frame of `from` that speaks for `what` reaches the agent of `to`.
    Heard {
        /// The host.
        to: usize,
        /// The address.
        what: What,
        /// Who speaks.
        from: usize,
    },
    /// A probe reaches a host's kernel.
    Asked {
        /// The host.
        to: usize,
        /// The address.
        what: What,
        /// Who asks.
        by: usize,
    },
    /// A request reaches an API server.
    Arrive {
        /// The call.
        call: u32,
        /// The server.
        server: usize,
    },
    /// An answer reaches the agent.
    Answer {
        /// The call.
        call: u32,
        /// The server.
        server: usize,
        /// What it says.
        answer: Box<Answer>,
    },
    /// The agent asks the next API server beside.
    Patience {
        /// The call.
        call: u32,
        /// How many attempts there were.
        tries: usize,
    },
    /// The agent gives the call up.
    Deadline {
        /// The call.
        call: u32,
    },
    /// A watch says something.
    Watch {
        /// The host.
        to: usize,
        /// Which connection of it.
        connection: u32,
        /// What.
        message: Box<Message>,
    },
    /// A watch is opened again.
    WatchAgain {
        /// The host.
        host: usize,
        /// Which connection has ended.
        connection: u32,
    },
    /// An event for an agent.
    Tell {
        /// The host.
        to: usize,
        /// Which agent of it.
        life: u32,
        /// What.
        event: Box<Event>,
    },
    /// The datapath's task goes on.
    Place {
        /// The host.
        host: usize,
        /// Which agent of it.
        life: u32,
    },
    /// The agent asks its API server how it is.
    Health {
        /// The host.
        host: usize,
        /// Which agent of it.
        life: u32,
    },
    /// The kernel's timer for an address.
    Expire {
        /// The host.
        host: usize,
        /// The VIP.
        vip: usize,
        /// Which lifetime.
        generation: u32,
    },
    /// An agent's process begins.
    Start {
        /// The host.
        host: usize,
        /// Which agent of it.
        life: u32,
    },
    /// An agent's process has ended after its last words.
    Ended {
        /// The host.
        host: usize,
        /// Which agent of it.
        life: u32,
    },
    /// The other elector's turn.
    Rival {
        /// The host.
        host: usize,
        /// Which life of it.
        life: u32,
    },
    /// The client asks the VIPs.
    Ping,
    /// A fault begins.
    Begin(usize),
    /// A fault ends.
    End(usize),
    /// A check looks again.
    Look(crate::check::Look),
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    number: u64,
    item: Item,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A queue by time; what is put for the same moment comes in the order in which it was put.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    number: u64,
}

impl Queue {
    /// That will happen then.
    pub fn put(&mut self, at: Nanos, item: Item) {
        self.number += 1;
        self.heap.push(Reverse(Entry { at, number: self.number, item }));
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.0.at)
    }

    /// The next thing.
    pub fn take(&mut self) -> Option<(Nanos, Item)> {
        self.heap.pop().map(|entry| (entry.0.at, entry.0.item))
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
