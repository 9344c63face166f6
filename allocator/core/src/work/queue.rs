//! The objects to evaluate, the writes under way, and the actions to take.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::moment::Moment;
use super::order::Order;

/// The work of one machine. `Q`: the objects to evaluate, in order; `W`: the machine's writes; `A`: the machine's
/// actions.
///
/// Invariants: a number is given once, and an answer counts once ([`WorkQueue::answered`] takes the write out);
/// [`WorkQueue::wake_due`] leaves no due timer behind; no action is left between two steps.
#[derive(Debug)]
pub struct WorkQueue<Q: Order, W, A> {
    moment: Moment,
    /// This allocator leads until this time.
    leads: Option<Duration>,
    marked: Q,
    timers: BTreeSet<(Duration, Q::Who)>,
    in_flight: HashMap<u64, (Q::Who, W)>,
    actions: Vec<A>,
    ids: u64,
}

impl<Q: Order, W, A> Default for WorkQueue<Q, W, A> {
    fn default() -> Self {
        Self {
            moment: Moment::default(),
            leads: None,
            marked: Q::default(),
            timers: BTreeSet::new(),
            in_flight: HashMap::new(),
            actions: Vec::new(),
            ids: 0,
        }
    }
}

impl<Q: Order, W, A> WorkQueue<Q, W, A> {
    /// Begins a step.
    pub fn begin(&mut self, moment: Moment) {
        debug_assert!(self.actions.is_empty(), "what is to be done was handed out");
        self.moment = moment;
    }

    /// The time of this step.
    pub const fn now(&self) -> Duration {
        self.moment.now
    }

    /// The time of this step, in seconds since 1970.
    pub const fn wall(&self) -> u64 {
        self.moment.wall
    }

    /// This allocator leads, surely until this time; None: it does not lead.
    pub const fn lead(&mut self, until: Option<Duration>) {
        self.leads = until;
    }

    /// Whether this allocator leads.
    pub fn leading(&self) -> bool {
        self.leads.is_some_and(|until| self.moment.now < until)
    }

    /// The latest time for the machine's next step; None: nothing waits for a time.
    pub fn next_tick(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Marks an object for evaluation.
    pub fn mark(&mut self, who: Q::Who) {
        self.marked.push(who);
    }

    /// Marks all these objects.
    pub fn mark_all(&mut self, all: impl IntoIterator<Item = Q::Who>) {
        all.into_iter().for_each(|who| self.marked.push(who));
    }

    /// Drops an object that is gone, and need not be evaluated.
    pub fn unmark(&mut self, who: &Q::Who) {
        self.marked.forget(who);
    }

    /// Marks an object at this time.
    pub fn mark_at(&mut self, at: Duration, who: Q::Who) {
        self.timers.insert((at, who));
    }

    /// Marks the objects whose time has come.
    pub fn wake_due(&mut self) {
        while self.timers.first().is_some_and(|(at, _)| *at <= self.moment.now) {
            if let Some((_, who)) = self.timers.pop_first() {
                self.marked.push(who);
            }
        }
    }

    /// The next object to evaluate.
    pub fn next_marked(&mut self) -> Option<Q::Who> {
        self.marked.pop()
    }

    /// Gives a number for an action and its answer.
    pub const fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The number that [`WorkQueue::id`] gave last.
    pub const fn last_id(&self) -> u64 {
        self.ids
    }

    /// Starts a write on behalf of an object; `action` makes the action from the number and the write.
    pub fn write(&mut self, who: Q::Who, write: W, action: impl FnOnce(u64, W) -> A) -> u64
    where
        W: Clone,
    {
        let id = self.id();
        self.in_flight.insert(id, (who, write.clone()));
        self.act(action(id, write));
        id
    }

    /// Ends the write of this number. Returns the object it was for. None: nobody waits for the write any more.
    pub fn answered(&mut self, id: u64) -> Option<(Q::Who, W)> {
        self.in_flight.remove(&id)
    }

    /// The object that the write of this number is for.
    pub fn on_behalf_of(&self, id: u64) -> Option<&Q::Who> {
        self.in_flight.get(&id).map(|(who, _)| who)
    }

    /// Adds an action.
    pub fn act(&mut self, action: A) {
        self.actions.push(action);
    }

    /// Takes all actions: the step ends.
    pub fn end(&mut self) -> Vec<A> {
        debug_assert!(
            self.timers.first().is_none_or(|(at, _)| *at > self.moment.now || !self.leading()),
            "no timer is left behind"
        );
        debug_assert!(
            self.in_flight.len() > super::FEW || self.in_flight.keys().all(|id| *id <= self.ids),
            "each number was given"
        );
        std::mem::take(&mut self.actions)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn an_answer_counts_once_and_a_timer_marks() {
        let mut work: WorkQueue<VecDeque<&str>, &str, (u64, &str)> = WorkQueue::default();
        work.begin(Moment::default());
        work.mark("a");
        work.mark_at(Duration::from_secs(1), "b");
        assert_eq!((work.next_marked(), work.next_marked()), (Some("a"), None));
        let id = work.write("a", "write", |id, write| (id, write));
        assert_eq!(work.end(), [(id, "write")]);
        assert_eq!(work.next_tick(), Some(Duration::from_secs(1)));
        work.begin(Moment { now: Duration::from_secs(1), wall: 0 });
        work.wake_due();
        assert_eq!(work.next_marked(), Some("b"));
        assert_eq!(work.answered(id), Some(("a", "write")));
        assert_eq!(work.answered(id), None);
        assert!(work.end().is_empty());
    }

    #[test]
    fn the_order_is_the_machines_affair() {
        fn order<Q: Order<Who = u32>>() -> Vec<u32> {
            let mut work: WorkQueue<Q, (), ()> = WorkQueue::default();
            work.mark_all([3, 1, 3, 2]);
            work.unmark(&2);
            std::iter::from_fn(|| work.next_marked()).collect()
        }
        assert_eq!(order::<VecDeque<u32>>(), [3, 1, 3]);
        assert_eq!(order::<BTreeSet<u32>>(), [1, 3]);
    }
}
