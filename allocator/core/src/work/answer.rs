//! Results of writes.

/// The object that a write left. `T`: the known state of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done<T> {
    /// The object is there.
    There(T),
    /// The object is gone or is being deleted.
    Gone,
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another write came first, or the object has another uid (409).
    Conflict,
    /// An object of this name exists (409).
    Exists,
    /// There is no such object (404).
    NotFound,
    /// The server refuses the write (403, 422); the text says why.
    Refused(String),
    /// No useful answer. The call may have taken effect, or may take effect later.
    Unknown,
}
