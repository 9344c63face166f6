//! The order in which marked objects are evaluated.

use std::collections::{BTreeSet, VecDeque};

/// Objects to be evaluated, in an order.
pub trait Order: Default {
    /// The kind of object.
    type Who: Clone + Ord;

    /// Marks an object.
    fn push(&mut self, who: Self::Who);

    /// The next object to evaluate.
    fn pop(&mut self) -> Option<Self::Who>;

    /// An object is gone, and need not be evaluated.
    fn forget(&mut self, who: &Self::Who);
}

/// First come, first served: for objects that compete. An object that is marked twice is evaluated twice.
impl<W: Clone + Ord> Order for VecDeque<W> {
    type Who = W;

    fn push(&mut self, who: W) {
        self.push_back(who);
    }

    fn pop(&mut self) -> Option<W> {
        self.pop_front()
    }

    fn forget(&mut self, who: &W) {
        self.retain(|one| one != who);
    }
}

/// The lowest first, each once: so a previous leader has evaluated them in the same order.
impl<W: Clone + Ord> Order for BTreeSet<W> {
    type Who = W;

    fn push(&mut self, who: W) {
        self.insert(who);
    }

    fn pop(&mut self) -> Option<W> {
        self.pop_first()
    }

    fn forget(&mut self, who: &W) {
        self.remove(who);
    }
}
