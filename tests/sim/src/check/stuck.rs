//! No loop, no memory that grows, no flood of requests.

use super::Rule;
use crate::clock::SECOND;
use crate::counts::WINDOW;
use crate::subject::Subject;
use crate::world::World;

impl<S: Subject> World<'_, S> {
    /// An agent was stepped: whether it wants to be stepped again at once, how often it was within this second, and how much
    /// it wants done.
    pub fn check_awake(&mut self, host: usize, again: bool, steps: u32, outputs: usize) {
        let limits = S::limits(self);
        if again || steps > limits.steps {
            let text = format!("{} does not sleep any more: {steps} steps within a second", self.names[host]);
            self.violated(Rule::Stuck, text);
        }
        if outputs > limits.outputs {
            let text = format!("{} wants {outputs} things done in one step", self.names[host]);
            self.violated(Rule::Stuck, text);
        }
    }

    /// At the end of a run: the worst ten seconds and the worst second of any node, and what still waits.
    pub fn check_end(&mut self) {
        let (most, bound) = (self.counts.most, S::calls_allowed(self));
        if most > bound {
            let text =
                format!("a node sent {most} requests to the API within {} s; the bound is {bound}", WINDOW / SECOND);
            self.violated(Rule::Calls, text);
        }
        let (busiest, rules) = (self.counts.busiest, &self.plan.settings.rules);
        if let Some(most) = rules.most_probes().filter(|most| busiest > *most) {
            let text = format!("a node sent {busiest} probes on a segment within a second; {most} may leave");
            self.violated(Rule::Calls, text);
        }
        if self.queue.len() > S::limits(self).waiting {
            let text = format!("{} things wait to happen", self.queue.len());
            self.violated(Rule::Stuck, text);
        }
    }
}
