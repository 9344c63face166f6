//! Manifests within other objects: the file of a `KubeadmControlPlane`, a key of a `Secret`, the values of a chart's release.
//!
//! Each file here knows one kind of object, and says where in it a manifest or a chart's values may stand ([`Place`]).
//! [`Way`] remembers where a manifest was found, and puts another one there: all else stays, to the letter.

mod argo;
mod coding;
mod data;
mod documents;
mod files;
mod flux;
mod k3s;
mod parameters;
mod splice;
mod template;
mod topology;
mod umbrella;

use std::ops::Range;

use serde_json::Value;

pub(super) use self::coding::Coding;
pub(super) use self::documents::{Document, documents};

/// The field of a map, or the entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(String),
    Entry(usize),
}

/// Something within an object that may be a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A text with manifests.
    Text { path: Vec<Step>, text: String, coding: Coding },
    /// A text that cannot be unpacked, in words.
    Packed(String),
    /// Values of kube-vip's chart, and where further ones stand, in words.
    Values { values: Value, elsewhere: Vec<String> },
}

/// All places of an object.
pub(super) fn places(object: &Value) -> Vec<Place> {
    let kinds =
        [files::places, data::places, topology::places, k3s::places, flux::places, argo::places, umbrella::places];
    kinds.iter().flat_map(|places| places(object)).collect()
}

/// Where a manifest was found in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// The texts around it, from the outside to the inside.
    around: Vec<Around>,
    /// The text that has it.
    text: String,
    /// The document of this text that is the manifest.
    at: Range<usize>,
}

/// A text, and where in it another one stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Around {
    text: String,
    /// The document.
    at: Range<usize>,
    /// The place in the document.
    path: Vec<Step>,
    coding: Coding,
}

/// The manifest cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the manifest cannot be put back into its object without a change of something else: take it out into a file of its own, and give that file"
)]
pub struct NotPutBack;

impl Way {
    /// Straight to a document of a text.
    pub(super) fn to(text: &str, document: &Document) -> Self {
        Self { around: Vec::new(), text: text.to_owned(), at: document.at.clone() }
    }

    /// This way, begun one text further outside: at a place of one of its documents.
    #[must_use]
    pub(super) fn from(mut self, text: &str, document: &Document, path: Vec<Step>, coding: Coding) -> Self {
        self.around.insert(0, Around { text: text.to_owned(), at: document.at.clone(), path, coding });
        self
    }

    /// Whether another object has the manifest.
    pub(super) fn is_wrapped(&self) -> bool {
        !self.around.is_empty()
    }

    /// The whole file, with another manifest in place of the one that was found.
    ///
    /// # Errors
    /// Something else would change.
    pub(super) fn put(&self, manifest: &str) -> Result<String, NotPutBack> {
        let inner = documents::replaced(&self.text, &self.at, manifest);
        self.around.iter().rev().try_fold(inner, |inner, around| {
            let document = around.text.get(around.at.clone()).ok_or(NotPutBack)?;
            let document =
                splice::replaced(document, &around.path, &around.coding.encoded(&inner)).ok_or(NotPutBack)?;
            let mut text = around.text.clone();
            text.replace_range(around.at.clone(), &document);
            Ok(text)
        })
    }
}

#[cfg(test)]
mod tests;
