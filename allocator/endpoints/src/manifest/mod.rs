//! Puts an address into the file of a static pod that holds a VIP: Mooring's, or kube-vip's.
//!
//! A YAML parser says where each value stands, and only this value is replaced: comments, order and quoting of everything else
//! stay. The new text is read again, and counts only if it says the same as before but for the address.

mod places;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) use self::places::is_empty;
use self::places::{Edit, Form, places};
use self::tree::{Content, Node, read};

/// What a file is, for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// Not a static pod that holds a VIP.
    NotOurs,
    /// The address stands in it.
    Carries,
    /// The text with the address in it. `empty`: no other address stood where it is now.
    Changed {
        /// The new text.
        text: String,
        /// Each place without the address held nothing.
        empty: bool,
    },
}

/// A file into which the address cannot be put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The pod has no variable or argument for the address.
    #[error(
        "container {container} has no place for the address: give it the variable vip_address (kube-vip) or MOORING_ADDRESS with an empty value"
    )]
    NoPlace {
        /// The container's name.
        container: String,
    },
    /// The value comes from elsewhere, or is written over several lines.
    #[error("{name} of container {container} cannot be written: write its value as one text on one line")]
    NotWritable {
        /// The container's name.
        container: String,
        /// The variable or argument.
        name: String,
    },
    /// The file's text is not in the object as it is.
    #[error("it is encoded, or made by a template: write it as plain text, or into a Secret")]
    Encoded,
    /// The text with the address would not say the same as before.
    #[error("the address cannot be put into it without a change of something else: write the pod in a plainer form")]
    NotPlain,
}

/// Words without which a text is no static pod that holds a VIP.
const MARKS: [&str; 4] = ["kube-vip", "mooring-agent", "MOORING_ADDRESS", "vip_address"];

/// Puts the address into a file.
///
/// # Errors
/// The file is a static pod that holds a VIP, or looks like one, and the address cannot be put into it.
pub fn put(text: &str, ip: IpAddr) -> Result<Manifest, ManifestError> {
    if !MARKS.iter().any(|mark| text.contains(mark)) {
        return Ok(Manifest::NotOurs);
    }
    let before = read(text).map_err(ManifestError::Unreadable)?;
    let mut all = Vec::new();
    for document in &before {
        all.extend(places(document)?);
    }
    if all.is_empty() {
        return Ok(Manifest::NotOurs);
    }
    let mut edits: Vec<Edit> = all.iter().filter(|place| !place.carries(ip)).map(|place| place.edit.clone()).collect();
    if edits.is_empty() {
        return Ok(Manifest::Carries);
    }
    let empty = all.iter().all(|place| place.carries(ip) || place.is_empty());
    // From the end, so that the places before it stay where they are.
    edits.sort_by_key(|edit| std::cmp::Reverse(position(text, edit)));
    let mut changed = text.to_owned();
    for edit in &edits {
        apply(&mut changed, edit, ip).ok_or(ManifestError::NotPlain)?;
    }
    let after = read(&changed).map_err(|_| ManifestError::NotPlain)?;
    let same = before.len() == after.len()
        && before.iter().zip(&after).all(|(one, other)| same_but(one, other, &edits, &one.aliased()));
    let mut carry = true;
    for document in &after {
        carry &= places(document).is_ok_and(|all| all.iter().all(|place| place.carries(ip)));
    }
    if same && carry { Ok(Manifest::Changed { text: changed, empty }) } else { Err(ManifestError::NotPlain) }
}

/// Where an edit changes the text.
fn position(text: &str, edit: &Edit) -> usize {
    match edit {
        Edit::Value(at, _) => at.start,
        Edit::AfterColon(key) => key.end,
        Edit::Entry { after, flow: true, .. } => *after,
        Edit::Entry { after, .. } => {
            text.get(*after..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| after + at)
        }
    }
}

/// Makes an edit; None: the text is not as the parser said.
fn apply(text: &mut String, edit: &Edit, ip: IpAddr) -> Option<()> {
    let quoted = format!("\"{ip}\"");
    match edit {
        Edit::Value(at, form) => {
            let new = match form {
                Form::Alone => quoted,
                Form::Argument(name) => format!("\"{name}={ip}\""),
            };
            text.get(at.clone())?;
            text.replace_range(at.clone(), &new);
        }
        Edit::AfterColon(key) => {
            let rest = text.get(key.end..)?;
            let colon = key.end + rest.find(':')?;
            if !text.get(key.end..colon)?.trim().is_empty() {
                return None;
            }
            text.insert_str(colon + 1, &format!(" {quoted}"));
        }
        Edit::Entry { after, flow: true, .. } => {
            text.get(*after..)?;
            text.insert_str(*after, &format!(", \"value\": {quoted}"));
        }
        Edit::Entry { column, .. } => {
            let end = position(text, edit);
            text.insert_str(end, &format!("\n{}value: {quoted}", " ".repeat(*column)));
        }
    }
    Some(())
}

/// Whether two texts say the same, but for what the edits put in. A part that aliases name must not change: it stands
/// elsewhere too.
fn same_but(before: &Node, after: &Node, edits: &[Edit], aliased: &BTreeSet<usize>) -> bool {
    let edits = if aliased.contains(&before.anchor) { &[] } else { edits };
    let replaced = |node: &Node| edits.iter().any(|edit| matches!(edit, Edit::Value(at, _) if *at == node.at));
    let filled = |key: &Node| edits.iter().any(|edit| matches!(edit, Edit::AfterColon(at) if *at == key.at));
    let grown = edits.iter().any(|edit| matches!(edit, Edit::Entry { map, .. } if *map == before.at.start));
    match (&before.content, &after.content) {
        (Content::Scalar { text, plain, .. }, Content::Scalar { text: other, plain: other_plain, .. }) => {
            replaced(before) || (text == other && plain == other_plain)
        }
        (Content::List(all), Content::List(others)) => {
            all.len() == others.len() && all.iter().zip(others).all(|(one, other)| same_but(one, other, edits, aliased))
        }
        (Content::Map { entries, .. }, Content::Map { entries: others, .. }) => {
            let is_new = |key: &Node| grown && key.text() == Some("value");
            let others: Vec<&(Node, Node)> = others.iter().filter(|(key, _)| !is_new(key)).collect();
            let same = |((key, value), other): (&(Node, Node), &&(Node, Node))| {
                same_but(key, &other.0, edits, aliased) && (filled(key) || same_but(value, &other.1, edits, aliased))
            };
            entries.len() == others.len() && entries.iter().zip(&others).all(same)
        }
        (Content::Alias(one), Content::Alias(other)) => one == other,
        _ => false,
    }
}
