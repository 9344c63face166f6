//! Requests to the API stay bounded.

use super::Rule;
use crate::clock::SECOND;
use crate::counts::WINDOW;
use crate::world::World;

impl World<'_> {
    /// At the end of a run: the worst ten seconds of any node.
    pub fn check_calls(&mut self) {
        let (most, bound) = (self.counts.most, self.checks.bounds.calls);
        if most > bound {
            let text =
                format!("a node sent {most} requests to the API within {} s; the bound is {bound}", WINDOW / SECOND);
            self.violated(Rule::Calls, text);
        }
        if self.queue.len() > 4_000 * (1 + self.hosts.len()) {
            let text = format!("{} things wait to happen", self.queue.len());
            self.violated(Rule::Stuck, text);
        }
    }
}
