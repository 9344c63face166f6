//! Recorded runs: an elector's inputs and outputs, one line of JSON each. `mooring-agent run --record FILE` writes a
//! trace. The same lines replay a fault from the field, and are the golden files of the tests.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::elector::Elector;
use super::event::{Event, Moment};
use super::rules::Rules;

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line: the rules that the elector was made with.
    Rules(Rules),
    /// A step's input.
    In {
        /// When the step happened.
        at: Moment,
        /// What happened.
        event: Event,
    },
    /// A step's output, one line an action.
    Out(Action),
}

/// Writes a trace as it happens.
#[derive(Debug)]
pub struct Recorder<W: Write>(W);

impl<W: Write> Recorder<W> {
    /// Begins the trace of an elector with these rules.
    ///
    /// # Errors
    /// When a write fails.
    pub fn new(mut out: W, rules: &Rules) -> std::io::Result<Self> {
        write_line(&mut out, &Line::Rules(rules.clone()))?;
        Ok(Self(out))
    }

    /// Writes the input of a step and its outputs.
    ///
    /// # Errors
    /// When a write fails.
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

/// Replays the inputs of a trace, and returns the trace with the outputs that this core gives.
///
/// # Errors
/// A line that cannot be read, or a trace that does not begin with the rules.
pub fn replay(trace: &str) -> Result<String, BadTrace> {
    let mut elector: Option<Elector> = None;
    let mut out = vec![];
    for (number, text) in trace.lines().enumerate() {
        let bad = |reason: String| BadTrace { number: number + 1, reason };
        let line: Line = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        let written = match line {
            Line::Rules(rules) if !rules.are_sane() => return Err(bad("rules beyond reason: a day at most".into())),
            Line::Rules(rules) => {
                elector = Some(Elector::new(rules.clone()));
                write_line(&mut out, &Line::Rules(rules))
            }
            Line::In { at, event } => {
                let elector = elector.as_mut().ok_or_else(|| bad("the rules come first".into()))?;
                let actions = elector.step(at, event.clone());
                Recorder(&mut out).step(at, &event, &actions)
            }
            Line::Out(_) => Ok(()),
        };
        written.map_err(|e| bad(e.to_string()))?;
    }
    String::from_utf8(out).map_err(|e| BadTrace { number: 0, reason: e.to_string() })
}
