//! What is going to happen, in the order in which it will.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use mooring_agent_core::evidence::Sender;

use crate::check::Look;
use crate::clock::Nanos;
use crate::segment::{Frame, What};
use crate::subject::{EventOf, Subject};

/// Something that will happen. Hosts, their lives and VIPs are numbers.
#[derive(Debug)]
pub enum Item<S: Subject> {
    /// A frame reaches an agent.
    Heard(Frame),
    /// A probe reaches a host's kernel.
    Asked {
        /// The host.
        to: usize,
        /// The segment that the probe came over.
        segment: usize,
        /// The address.
        what: What,
        /// The host that asks.
        by: usize,
        /// As whom.
        sender: Sender,
    },
    /// An event for an agent.
    Tell {
        /// The host.
        to: usize,
        /// Which agent of the host.
        life: u32,
        /// The input of the agent.
        event: Box<EventOf<S>>,
    },
    /// The agent's address task goes on.
    AddressTask {
        /// The host.
        host: usize,
        /// Which agent of the host.
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
        /// Which agent of the host.
        life: u32,
    },
    /// An agent's process has ended after its last words.
    Ended {
        /// The host.
        host: usize,
        /// Which agent of the host.
        life: u32,
    },
    /// A station speaks for its own address, unasked.
    Talk(usize),
    /// The client asks all VIPs.
    Ping,
    /// A fault begins.
    Begin(usize),
    /// A fault ends.
    End(usize),
    /// A check looks again.
    Look(Look),
    /// Something that only this core's world knows.
    Own(S::Item),
}

#[derive(Debug)]
struct Entry<S: Subject> {
    at: Nanos,
    number: u64,
    item: Item<S>,
}

impl<S: Subject> PartialEq for Entry<S> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<S: Subject> Eq for Entry<S> {}

impl<S: Subject> PartialOrd for Entry<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Subject> Ord for Entry<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A queue by time; entries for the same moment come out in the order in which they were added.
#[derive(Debug)]
pub struct Queue<S: Subject> {
    heap: BinaryHeap<Reverse<Entry<S>>>,
    number: u64,
}

impl<S: Subject> Default for Queue<S> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), number: 0 }
    }
}

impl<S: Subject> Queue<S> {
    /// The item will happen then.
    pub fn put(&mut self, at: Nanos, item: Item<S>) {
        self.number += 1;
        self.heap.push(Reverse(Entry { at, number: self.number, item }));
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.0.at)
    }

    /// The next thing.
    pub fn take(&mut self) -> Option<Item<S>> {
        self.heap.pop().map(|entry| entry.0.item)
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
