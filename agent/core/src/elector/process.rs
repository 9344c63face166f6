//! Whether the process goes on.

/// The phase of the process. A phase never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    /// Nobody has asked the process to end.
    Running,
    /// This node takes part no longer, and hands over first. The process goes on, and so can wait for an answer.
    Withdrawing,
    /// The process was asked to end, and hands over first.
    Ending,
    /// [`crate::action::Action::Exit`] was given: the fence ends the addresses that are still there.
    Left,
}

impl Process {
    /// Notes the request to end.
    pub(super) fn end(&mut self) {
        *self = (*self).max(Self::Ending);
    }

    /// Notes that this node is to take part no longer.
    pub(super) fn withdraw(&mut self) {
        *self = (*self).max(Self::Withdrawing);
    }

    /// Whether this node takes nothing any more.
    pub(super) fn is_ending(self) -> bool {
        self >= Self::Withdrawing
    }

    /// Whether the process goes on afterwards.
    pub(super) fn goes_on(self) -> bool {
        self <= Self::Withdrawing
    }

    pub(super) fn has_left(self) -> bool {
        self == Self::Left
    }
}
