//! Faults.

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has its effect, and the connection breaks before the answer.
    Lost,
    /// The connection breaks before anything was done.
    Away,
    /// An answer with this status, and nothing is done.
    Status(u16),
    /// Half an answer, after the effect.
    Half,
    /// No answer, for ever, and nothing is done.
    Hang,
}

/// A fault of certain requests.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The method; empty: any.
    pub method: &'static str,
    /// How the path begins.
    pub path: &'static str,
    /// How many requests it hits.
    pub times: usize,
    /// What goes wrong.
    pub fault: Fault,
}

impl Rule {
    /// Whether it hits the request; counts down.
    pub(crate) fn hits(&mut self, method: &str, path: &str) -> bool {
        let fits = (self.method.is_empty() || self.method == method) && path.starts_with(self.path);
        let hit = fits && self.times > 0;
        self.times -= usize::from(hit);
        hit
    }
}
