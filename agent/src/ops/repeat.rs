//! Prints a state once, or again each second.

use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use mooring_common::print::{complain, say};
use serde::Serialize;

use crate::cli::Output;

/// The pause between two prints of `--watch`.
const AGAIN: Duration = Duration::from_secs(1);
/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A state for people and for programs.
pub trait State: Serialize {
    /// The state as tables.
    fn tables(&self) -> String;
}

/// Prints what `read` gives. Without `watch`, fails if it gives nothing.
pub fn print<S: State, E: Display>(read: impl Fn() -> Result<S, E>, output: Output, watch: bool) -> ExitCode {
    let clear = if watch && output == Output::Table && io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let result = read();
        let taken = match (&result, output) {
            (Ok(state), Output::Table) => say(&format!("{clear}{}", state.tables().trim_end())),
            (Ok(state), Output::Json) => say(&json(state, watch)),
            (Err(error), _) => {
                complain(&format!("{clear}mooring-agent: {error}"));
                true
            }
        };
        if !watch || !taken {
            return if taken && result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        std::thread::sleep(AGAIN);
    }
}

/// One object per line when there are several.
fn json(state: &impl Serialize, line: bool) -> String {
    let text = if line { serde_json::to_string(state) } else { serde_json::to_string_pretty(state) };
    text.unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}
