//! What is going to happen, in the order in which it will.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use mooring_core::fleet::Event;

use super::api::{Answer, Message, Of};
use super::check::Look;
use super::wire::What;
use crate::clock::Nanos;

/// Something that will happen. Hosts and their lives, VIPs, calls are numbers.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum Item {
    /// A frame reaches an agent.
    Heard { to: usize, segment: usize, what: What, from: usize },
    /// A probe reaches a kernel.
    Asked { to: usize, segment: usize, what: What, by: usize },
    /// A request reaches the API.
    Arrive { call: usize },
    /// Its answer reaches the agent.
    Answer { call: usize, answer: Box<Answer> },
    /// The agent gives it up.
    Deadline { call: usize },
    /// A watch says something.
    Watch { to: usize, of: Of, connection: u32, message: Box<Message> },
    /// It is opened again.
    Follow { host: usize, of: Of, connection: u32 },
    /// An event for an agent.
    Tell { to: usize, life: u32, event: Box<Event> },
    /// The datapath's task goes on.
    Place { host: usize, life: u32 },
    /// The kernel's timer for an address.
    Expire { host: usize, vip: usize, generation: u32 },
    /// An agent's process begins.
    Start { host: usize, life: u32 },
    /// It has ended.
    Ended { host: usize, life: u32 },
    /// The client asks all VIPs.
    Ping,
    /// A fault begins.
    Begin(usize),
    /// It ends.
    End(usize),
    /// A check looks again.
    Look(Look),
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
    pub fn take(&mut self) -> Option<Item> {
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
