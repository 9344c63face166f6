//! Writes that wait for their turn.

use std::collections::VecDeque;

use mooring_allocator_core::placement_hints;
use mooring_allocator_core::protocol::Write;
use mooring_allocator_endpoints::machine as endpoints;
use mooring_allocator_machines::machine as machines;
use mooring_allocator_services::machine as services;

/// A write, and the number under which its machine is told the result.
#[derive(Clone, Debug)]
pub struct Numbered<W> {
    /// The action's number.
    pub id: u64,
    /// The write.
    pub write: W,
}

/// A write of one of the controllers.
#[derive(Debug)]
pub enum Job {
    /// The allocation protocol's.
    Claims(Numbered<Write>),
    /// On behalf of Services.
    Services(Numbered<services::Write>),
    /// On behalf of Clusters.
    Endpoints(Numbered<endpoints::Write>),
    /// On behalf of machines.
    Machines(Numbered<machines::Write>),
    /// Placement hints, on an address.
    Hints(placement_hints::Write),
}

/// Work that is nearly finished goes first: so claims are bound one after another, and not all at the end.
#[derive(Debug, Default)]
pub struct Queue {
    lanes: [VecDeque<Job>; 4],
}

const fn lane(write: &Write) -> usize {
    match write {
        Write::Bind(..)
        | Write::Unbind(..)
        | Write::Void(..)
        | Write::RemoveFinalizer(_)
        | Write::RemoveAddressFinalizer(_)
        | Write::DeleteAddress(_)
        // Few writes, and people look at them.
        | Write::AddPoolFinalizer(_)
        | Write::RemovePoolFinalizer(_)
        | Write::PoolStatus(..) => 0,
        Write::Create(_) | Write::Adopt(..) => 1,
        Write::AddFinalizer(..) | Write::Condition(..) => 2,
    }
}

const fn service_lane(write: &services::Write) -> usize {
    use services::Write as To;
    match write {
        To::Annotate(..)
        | To::Status(..)
        | To::RemoveCleanup(_)
        | To::DeleteClaim(_)
        | To::Exchange(..)
        // Few writes, and much depends on them.
        | To::CreatePool(_)
        | To::UpdatePool(..)
        | To::DeletePool(_) => 0,
        To::UpdateClaim(..) => 1,
        To::CreateClaim(_) => 2,
    }
}

const fn endpoint_lane(write: &endpoints::Write) -> usize {
    use endpoints::Write as To;
    match write {
        To::Host(..)
        | To::Unpause(_)
        | To::Unmark(_)
        | To::ReleaseClaim(_)
        | To::DeleteClaim(_)
        | To::Condition(..) => 0,
        To::Text(..) | To::ControlPlane(..) | To::Variables(..) | To::AdoptClaim(..) => 1,
        To::CreateClaim(_) => 2,
    }
}

const fn machine_lane(write: &machines::Write) -> usize {
    use machines::Write as To;
    match write {
        To::Devices(..) | To::ReleaseClaim(_) | To::DeleteClaim(_) => 0,
        To::AdoptClaim(..) => 1,
        To::CreateClaim(_) => 2,
    }
}

impl Queue {
    /// Puts a write at the end of its lane.
    pub fn push(&mut self, job: Job) {
        let lane = match &job {
            Job::Claims(job) => lane(&job.write),
            Job::Services(job) => service_lane(&job.write),
            Job::Endpoints(job) => endpoint_lane(&job.write),
            Job::Machines(job) => machine_lane(&job.write),
            // Many writes at once when a pool is edited, and nobody waits for them.
            Job::Hints(_) => 3,
        };
        self.lanes[lane].push_back(job);
    }

    /// The next write.
    pub fn pop(&mut self) -> Option<Job> {
        self.lanes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Whether no write waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// The number of waiting writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::{Key, Uid, Version};
    use mooring_allocator_core::protocol::{Condition, Reason, Target, Write};

    use super::{Job, Numbered, Queue};

    #[test]
    fn what_is_closest_to_its_end_goes_first() {
        let target = || Target { key: Key::new("n", "c"), uid: Uid::from("u"), version: Version::from("1") };
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: String::new() };
        let mut queue = Queue::default();
        let writes = [
            Write::AddFinalizer(target(), None),
            Write::AddFinalizer(target(), None),
            Write::Bind(target(), "c".into(), condition),
        ];
        writes.into_iter().zip(1..).for_each(|(write, id)| queue.push(Job::Claims(Numbered { id, write })));
        let id = |job| match job {
            Job::Claims(Numbered { id, .. }) | Job::Services(Numbered { id, .. }) => id,
            Job::Endpoints(_) | Job::Machines(_) | Job::Hints(_) => 0,
        };
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(id).collect();
        assert_eq!(order, [3, 1, 2]);
    }
}
