//! What the commands that answer at once print.

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use mooring_common::print::{complain, say};

use super::Output;
use crate::manifest::report::Row;
use crate::ops::table;
use crate::settings::spec::{self, ENV_PREFIX};
use crate::settings::{Effective, Loaded};

/// Prints the warnings about settings.
pub(super) fn warn(loaded: &Loaded) {
    loaded.warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
}

/// Says why a command cannot be done.
pub(super) fn fail(error: &dyn fmt::Display) -> ExitCode {
    complain(&format!("mooring-agent: {error}"));
    ExitCode::from(2)
}

/// Prints what was asked for.
pub(super) fn said(text: &str) -> ExitCode {
    if say(text) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The effective settings, as `mooring-agent config` prints them.
#[must_use]
pub fn config(effective: &[Effective], output: Output) -> String {
    if output == Output::Json {
        return serde_json::to_string_pretty(effective).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    }
    let rows = effective.iter().map(|e| {
        let note = spec::find(e.name).map_or("", |s| s.default_note);
        let value = if e.value.is_empty() && !note.is_empty() { format!("({note})") } else { e.value.clone() };
        vec![e.name.to_owned(), value, e.source.to_string()]
    });
    let mut text = table::render(&["SETTING", "VALUE", "FROM"], rows, usize::MAX);
    // Writing to a String cannot fail.
    let _ = write!(text, "\nEach can be given as --NAME or {ENV_PREFIX}NAME.");
    text
}

/// What becomes of each setting of a manifest, as `mooring-agent config --from` prints it.
pub(super) fn translation(rows: &[Row], output: Output) -> String {
    if output == Output::Json {
        return serde_json::to_string_pretty(rows).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    }
    let cells = rows.iter().map(|row| {
        vec![row.setting.clone(), short(&row.value), row.verdict.to_string(), row.ours.clone(), row.note.clone()]
    });
    let table = table::render(&["SETTING", "VALUE", "HERE", "AS", "NOTE"], cells, usize::MAX);
    table.trim_end().to_owned()
}

/// The longest value of a manifest in a table, in characters.
const WIDEST: usize = 60;

fn short(value: &str) -> String {
    match value.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}
