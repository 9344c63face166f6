//! Whether the process goes on.

/// The phase of the process. A phase never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    /// Nobody has asked the process to end.
    Running,
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

    pub(super) fn is_ending(self) -> bool {
        self >= Self::Ending
    }

    pub(super) fn has_left(self) -> bool {
        self == Self::Left
    }
}
