//! Whether the process goes on.

/// How far the end of the process is. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    /// Nobody has asked it to end.
    Running,
    /// It was asked to end, and hands over first.
    Ending,
    /// [`crate::action::Action::Exit`] was told: addresses that are still there end by their fence.
    Left,
}

impl Process {
    /// It is asked to end.
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
