//! A YAML text as trees whose parts know where they stand in it.

use std::collections::BTreeSet;
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StructureStyle};

/// A text with deeper nesting is not read.
const DEEPEST: usize = 64;

/// A part of a text.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where it stands, in bytes. Of lists and maps only the start counts.
    pub(super) at: Range<usize>,
    /// The column of its start, in characters.
    pub(super) column: usize,
    /// Its anchor, by which aliases name it; 0: none.
    pub(super) anchor: usize,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Anything that is written as one value.
    Scalar {
        text: String,
        /// Over several lines, after `|` or `>`; or with a tag, which another text may not fit.
        special: bool,
        /// Without quotes: it may be a number or nothing.
        plain: bool,
    },
    List(Vec<Node>),
    Map {
        entries: Vec<(Node, Node)>,
        /// In braces.
        flow: bool,
    },
    /// A reference to the part with this anchor; None: there is none.
    Alias(Option<usize>),
}

impl Node {
    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The entry of this name in a map.
    pub(super) fn entry(&self, name: &str) -> Option<&(Self, Self)> {
        let Content::Map { entries, .. } = &self.content else { return None };
        entries.iter().find(|(key, _)| key.text() == Some(name))
    }

    /// The value of this name in a map.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|(_, value)| value)
    }

    /// The anchors that aliases in this part name.
    pub(super) fn aliased(&self) -> BTreeSet<usize> {
        match &self.content {
            Content::Alias(of) => of.iter().copied().collect(),
            Content::Scalar { .. } => BTreeSet::new(),
            Content::List(items) => items.iter().flat_map(Self::aliased).collect(),
            Content::Map { entries, .. } => {
                entries.iter().flat_map(|(key, value)| [key, value]).flat_map(Self::aliased).collect()
            }
        }
    }

    /// The entries of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }
}

/// A list or a map whose end has not come.
enum Open {
    List { at: Range<usize>, column: usize, anchor: usize, items: Vec<Node> },
    Map { at: Range<usize>, column: usize, anchor: usize, flow: bool, entries: Vec<(Node, Node)>, key: Option<Node> },
}

/// Reads a text: the root of each document.
///
/// # Errors
/// The text is no YAML; the parser's words, with the line.
pub(super) fn read(text: &str) -> Result<Vec<Node>, String> {
    let mut options = Options::default();
    options.emit_comments = false;
    options.flow_nesting_limit = DEEPEST;
    options.block_nesting_limit = DEEPEST;
    let mut open: Vec<Open> = Vec::new();
    let mut roots = Vec::new();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        if open.len() > 2 * DEEPEST {
            return Err("it is nested too deeply".to_owned());
        }
        let (at, column) = place(span);
        let anchor = event.anchor_id().unwrap_or_default();
        let content = match event {
            Event::Scalar(text, style, _, tag) => {
                let special = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) || tag.is_some();
                Content::Scalar { text: text.into_owned(), special, plain: style == ScalarStyle::Plain }
            }
            Event::Alias(of) => Content::Alias(Some(of)),
            Event::UnresolvedAlias(_) => Content::Alias(None),
            Event::SequenceStart(..) => {
                open.push(Open::List { at, column, anchor, items: Vec::new() });
                continue;
            }
            Event::MappingStart(style, ..) => {
                let flow = style == StructureStyle::Flow;
                open.push(Open::Map { at, column, anchor, flow, entries: Vec::new(), key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = open.pop() else { return Err("an end without a start".to_owned()) };
                let node = match ended {
                    Open::List { at, column, anchor, items } => {
                        Node { at, column, anchor, content: Content::List(items) }
                    }
                    Open::Map { at, column, anchor, flow, entries, .. } => {
                        Node { at, column, anchor, content: Content::Map { entries, flow } }
                    }
                };
                put(&mut open, &mut roots, node);
                continue;
            }
            _ => continue,
        };
        put(&mut open, &mut roots, Node { at, column, anchor, content });
    }
    Ok(roots)
}

fn place(span: Span) -> (Range<usize>, usize) {
    (span.byte_range().unwrap_or_default(), span.start.col())
}

/// Puts a part where it belongs: into the list or map that is open, or among the roots.
fn put(open: &mut [Open], roots: &mut Vec<Node>, node: Node) {
    match open.last_mut() {
        None => roots.push(node),
        Some(Open::List { items, .. }) => items.push(node),
        Some(Open::Map { entries, key, .. }) => match key.take() {
            None => *key = Some(node),
            Some(name) => entries.push((name, node)),
        },
    }
}
