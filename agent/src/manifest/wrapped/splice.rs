//! Puts a text into the place of another one in a document. Nothing else of the document changes: comments, order and quotes stay.

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, StructureStyle};
use serde_json::Value;

use super::Step;
use super::template::{original, readable};

/// A document that is nested deeper is left alone.
const DEEPEST: usize = 64;

/// The document with a new text at a place; None: there is no text, or something else would change.
pub(super) fn replaced(document: &str, path: &[Step], new: &str) -> Option<String> {
    let readable = readable(document);
    let scalar = locate(&readable, path)?;
    let mut wanted: Value = serde_saphyr::from_str(&readable).ok()?;
    *at_path(&mut wanted, path)? = Value::from(new);
    let literal = (!scalar.flow && new.contains('\n')).then(|| literal(new, scalar.column + 2));
    // What JSON puts in quotes, YAML reads as the same text.
    let quoted = Value::from(new).to_string();
    let forms = literal.into_iter().chain([quoted]);
    let with = |form: String| {
        let mut all = readable.to_string();
        all.replace_range(scalar.at.clone(), &form);
        all
    };
    let new = forms.map(with).find(|all| serde_saphyr::from_str::<Value>(all).is_ok_and(|said| said == wanted))?;
    Some(if matches!(readable, Cow::Owned(_)) { original(&new) } else { new })
}

/// The text after a `|`, each line after so many spaces.
fn literal(text: &str, indent: usize) -> String {
    let mark = if text.ends_with('\n') { "|" } else { "|-" };
    text.lines().fold(mark.to_owned(), |all, line| {
        if line.is_empty() { all + "\n" } else { format!("{all}\n{:indent$}{line}", "") }
    })
}

fn at_path<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Entry(at) => value.get_mut(*at),
    })
}

/// Where a scalar stands.
struct Scalar {
    at: Range<usize>,
    /// The column of its field's name.
    column: usize,
    /// Within braces.
    flow: bool,
}

/// A field's name.
#[derive(Default)]
struct Key {
    name: String,
    column: usize,
    /// Where it ends, in bytes.
    end: usize,
}

/// A map or a list whose end has not come.
enum Open {
    /// `key`: that whose value comes next.
    Map {
        key: Option<Key>,
        flow: bool,
    },
    List {
        at: usize,
        flow: bool,
    },
}

impl Open {
    const fn is_flow(&self) -> bool {
        match self {
            Self::Map { flow, .. } | Self::List { flow, .. } => *flow,
        }
    }

    fn is_at(&self, step: &Step) -> bool {
        match (self, step) {
            (Self::Map { key: Some(key), .. }, Step::Field(wanted)) => key.name == *wanted,
            (Self::List { at, .. }, Step::Entry(wanted)) => at == wanted,
            _ => false,
        }
    }

    /// A value has ended.
    fn next(&mut self) {
        match self {
            Self::Map { key, .. } => *key = None,
            Self::List { at, .. } => *at += 1,
        }
    }
}

fn locate(document: &str, path: &[Step]) -> Option<Scalar> {
    let mut options = Options::default();
    options.emit_comments = false;
    options.flow_nesting_limit = DEEPEST;
    options.block_nesting_limit = DEEPEST;
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str_with_options(document, options) {
        let (event, span) = event.ok()?;
        match event {
            Event::Scalar(text, style, ..) => {
                let at = span.byte_range()?;
                if let Some(Open::Map { key: key @ None, .. }) = open.last_mut() {
                    *key = Some(Key { name: text.into_owned(), column: span.start.col(), end: at.end });
                } else if open.len() == path.len() && open.iter().zip(path).all(|(open, step)| open.is_at(step)) {
                    let Some(Open::Map { key: Some(key), .. }) = open.last() else { return None };
                    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                    let start = if is_block { block_start(document, key)? } else { at.start };
                    let end = start + document.get(start..at.end)?.trim_end().len();
                    return Some(Scalar { at: start..end, column: key.column, flow: open.iter().any(Open::is_flow) });
                } else {
                    ended(&mut open);
                }
            }
            Event::MappingStart(style, ..) => open.push(Open::Map { key: None, flow: style == StructureStyle::Flow }),
            Event::SequenceStart(style, ..) => open.push(Open::List { at: 0, flow: style == StructureStyle::Flow }),
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                ended(&mut open);
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => ended(&mut open),
            _ => {}
        }
    }
    None
}

/// A value has ended; in the place of a key it names nothing that a path could.
fn ended(open: &mut [Open]) {
    match open.last_mut() {
        Some(Open::Map { key: key @ None, .. }) => *key = Some(Key::default()),
        Some(last) => last.next(),
        None => {}
    }
}

/// Where the mark of a text over several lines stands: the parser names the place of its first line only.
fn block_start(document: &str, key: &Key) -> Option<usize> {
    document.get(key.end..)?.find(['|', '>']).map(|after| key.end + after)
}
