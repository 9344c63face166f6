//! Writes that wait for their turn.

use std::collections::VecDeque;

use mooring_allocator_core::protocol::Write;

/// What is closest to its end goes first: so claims are bound one after another, and not all of them last.
#[derive(Debug, Default)]
pub struct Queue {
    lanes: [VecDeque<(u64, Write)>; 3],
}

const fn lane(write: &Write) -> usize {
    match write {
        Write::Bind(..)
        | Write::Unbind(..)
        | Write::Void(..)
        | Write::RemoveFinalizer(_)
        | Write::RemoveAddressFinalizer(_)
        | Write::DeleteAddress(_)
        // Few, and people look at them.
        | Write::AddPoolFinalizer(_)
        | Write::RemovePoolFinalizer(_)
        | Write::PoolStatus(..) => 0,
        Write::Create(_) | Write::Adopt(..) => 1,
        Write::AddFinalizer(_) | Write::Condition(..) => 2,
    }
}

impl Queue {
    /// Puts a write at the end of its lane.
    pub fn push(&mut self, id: u64, write: Write) {
        self.lanes[lane(&write)].push_back((id, write));
    }

    /// The next.
    pub fn pop(&mut self) -> Option<(u64, Write)> {
        self.lanes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::{Key, Uid, Version};
    use mooring_allocator_core::protocol::{Condition, Reason, Target, Write};

    use super::Queue;

    #[test]
    fn what_is_closest_to_its_end_goes_first() {
        let target = || Target { key: Key::new("n", "c"), uid: Uid::from("u"), version: Version::from("1") };
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: String::new() };
        let mut queue = Queue::default();
        queue.push(1, Write::AddFinalizer(target()));
        queue.push(2, Write::AddFinalizer(target()));
        queue.push(3, Write::Bind(target(), "c".into(), condition));
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(id, _)| id).collect();
        assert_eq!(order, [3, 1, 2]);
    }
}
