//! Reads the clocks, and notices when they disagree about how much time has passed.

use std::time::Duration;

use crate::core::clocks::Clocks as Reading;
use crate::core::event::Moment;
use crate::datapath::clock;

/// The clocks as they were read last.
#[derive(Debug)]
pub struct Clocks {
    last: Reading,
}

impl Clocks {
    /// Begins with the clocks as they are now.
    #[must_use]
    pub fn new() -> Self {
        Self { last: read() }
    }

    /// The time now, and by how much the clocks disagree about the time since the last call, if by more than a second.
    pub fn read(&mut self) -> (Moment, Option<Duration>) {
        let now = read();
        let jump = now.jump_since(&self.last);
        self.last = now;
        (Moment { now: now.boot, wall: now.wall }, jump)
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

fn read() -> Reading {
    Reading { boot: clock::boottime(), monotonic: clock::monotonic(), wall: clock::realtime() }
}
