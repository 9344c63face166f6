//! The documents of a YAML text.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::template::{original_value, readable};

/// A document, and where it stands.
#[derive(Clone, Debug)]
pub(in crate::manifest) struct Document {
    /// In bytes, without the line with the dashes.
    pub(in crate::manifest) at: Range<usize>,
    /// What it says, or why it is no YAML.
    pub(in crate::manifest) value: Result<Value, String>,
}

/// The documents that say something. Each is read alone: a template's placeholders may leave some that are no YAML.
pub(in crate::manifest) fn documents(text: &str) -> Vec<Document> {
    let read = |at: Range<usize>| {
        let text = text.get(at.clone())?;
        let value = match readable(text) {
            Cow::Borrowed(text) => serde_saphyr::from_str(text),
            Cow::Owned(text) => serde_saphyr::from_str(&text).map(original_value),
        };
        let value = value.map_err(|error| error.to_string());
        (value != Ok(Value::Null)).then_some(Document { at, value })
    };
    ranges(text).into_iter().filter_map(read).collect()
}

/// The parts of a text between the lines with `---`.
fn ranges(text: &str) -> Vec<Range<usize>> {
    let (mut all, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            all.push(start..at);
            start = at + "---".len();
        }
        at += line.len();
    }
    all.push(start..at);
    all
}

/// The text with another document in the place of this one.
pub(super) fn replaced(text: &str, at: &Range<usize>, document: &str) -> String {
    let before = text.get(..at.start).unwrap_or_default();
    let after = text.get(at.end..).unwrap_or_default();
    // What follows the dashes begins on a line of its own.
    let between = if before.is_empty() { "" } else { "\n" };
    format!("{before}{between}{}\n{after}", document.trim_end())
}
