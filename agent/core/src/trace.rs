//! Recorded runs: what went into a keeper and what came out, a line of JSON each. `mooring-agent run --record FILE` writes
//! one; the same lines replay a fault from the field, and are the golden files of the tests.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::event::{Event, Moment};
use super::keeper::Keeper;
use super::rules::Rules;

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first: what the keeper was made with.
    Rules(Rules),
    /// A step's input.
    In {
        /// When.
        at: Moment,
        /// What.
        event: Event,
    },
    /// A step's output, one line an action.
    Out(Action),
}

/// Writes a trace as it happens.
#[derive(Debug)]
pub struct Recorder<W: Write>(W);

impl<W: Write> Recorder<W> {
    /// Begins a trace of a keeper with these rules.
    ///
    /// # Errors
    /// What writing gives.
    pub fn new(mut out: W, rules: &Rules) -> std::io::Result<Self> {
        write_line(&mut out, &Line::Rules(rules.clone()))?;
        Ok(Self(out))
    }

    /// A step.
    ///
    /// # Errors
    /// What writing gives.
    pub fn step(&mut self, at: Moment, event: &Event, actions: &[Action]) -> std::io::Result<()> {
        write_line(&mut self.0, &Line::In { at, event: event.clone() })?;
        for action in actions {
            write_line(&mut self.0, &Line::Out(action.clone()))?;
        }
        self.0.flush()
    }
}

fn write_line(out: &mut impl Write, line: &Line) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// A trace that cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[error("line {number} of the trace: {reason}")]
pub struct BadTrace {
    number: usize,
    reason: String,
}

/// Replays the inputs of a trace, and returns it as it should be: with the outputs that this core gives.
///
/// # Errors
/// A line that is none, or a trace that does not begin with the rules.
pub fn replay(trace: &str) -> Result<String, BadTrace> {
    let mut keeper: Option<Keeper> = None;
    let mut out = vec![];
    for (number, text) in trace.lines().enumerate() {
        let bad = |reason: String| BadTrace { number: number + 1, reason };
        let line: Line = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        let written = match line {
            Line::Rules(rules) if !rules.are_sane() => return Err(bad("rules beyond reason: a day at most".into())),
            Line::Rules(rules) => {
                keeper = Some(Keeper::new(rules.clone()));
                write_line(&mut out, &Line::Rules(rules))
            }
            Line::In { at, event } => {
                let keeper = keeper.as_mut().ok_or_else(|| bad("the rules come first".into()))?;
                let actions = keeper.step(at, event.clone());
                Recorder(&mut out).step(at, &event, &actions)
            }
            Line::Out(_) => Ok(()),
        };
        written.map_err(|e| bad(e.to_string()))?;
    }
    String::from_utf8(out).map_err(|e| BadTrace { number: 0, reason: e.to_string() })
}
