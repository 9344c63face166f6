//! The frames around objects: pages of lists, lines of watches, errors.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::Text;

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Page<'a, T> {
    /// The objects; None: an object that cannot be read.
    #[serde(default = "Vec::new")]
    pub items: Vec<Option<T>>,
    /// The list's metadata.
    #[serde(borrow, default)]
    pub metadata: PageMeta<'a>,
}

impl<'a, T: Deserialize<'a>> Page<'a, T> {
    /// Reads a page. An object that cannot be read is logged and ignored: the others count.
    ///
    /// # Errors
    /// The bytes are not a page.
    pub fn read(bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        if let Ok(page) = serde_json::from_slice(bytes) {
            return Ok(page);
        }
        let Page { items, metadata } = serde_json::from_slice::<Page<'a, &'a RawValue>>(bytes)?;
        let item = |raw: Option<&'a RawValue>| {
            let text = raw?.get();
            serde_json::from_str(text).inspect_err(|error| passed_over(text, error)).ok()
        };
        Ok(Self { items: items.into_iter().map(item).collect(), metadata })
    }
}

/// Logs which object cannot be read.
fn passed_over(text: &str, error: &serde_json::Error) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        metadata: Names,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        namespace: String,
        name: String,
    }
    let Named { metadata: Names { namespace, name } } = serde_json::from_str(text).unwrap_or_default();
    tracing::error!(%error, object = format!("{namespace}/{name}"), "object of a list cannot be read; ignored until it changes");
}

/// A list's metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta<'a> {
    /// The token that asks for the next page; empty on the last page.
    #[serde(borrow, rename = "continue")]
    pub next: Text<'a>,
    /// The version from which a watch continues.
    #[serde(borrow)]
    pub resource_version: Text<'a>,
}

/// A line of a watch.
#[derive(Debug)]
pub enum Line<T> {
    /// The object was made or changed.
    Applied(T),
    /// The object is gone.
    Deleted(T),
    /// Only a sign that the watch is alive.
    Bookmark,
    /// The watch has ended.
    Error(ErrorBody),
}

/// `Status`: the API server's description of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// `Status` for an error; objects have another kind.
    pub kind: String,
    /// The HTTP status.
    pub code: u16,
    /// The reason, in one word: `Expired`.
    pub reason: String,
    /// The message, for people.
    pub message: String,
}

impl ErrorBody {
    /// Whether this is a `Status`. The API server also answers with a `Status` when a write has removed the object.
    #[must_use]
    pub fn is_status(&self) -> bool {
        self.kind == "Status"
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Raw<'a, T> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    object: T,
}

/// Reads a line of a watch. The API server writes `type` first.
///
/// # Errors
/// The bytes are not a line of a watch.
pub fn line<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Line<T>, serde_json::Error> {
    if bytes.starts_with(br#"{"type":"BOOKMARK""#) {
        return Ok(Line::Bookmark);
    }
    if bytes.starts_with(br#"{"type":"ERROR""#) {
        return serde_json::from_slice::<Raw<'_, ErrorBody>>(bytes).map(|raw| Line::Error(raw.object));
    }
    let raw: Raw<'a, T> = serde_json::from_slice(bytes)?;
    Ok(if &*raw.kind == "DELETED" { Line::Deleted(raw.object) } else { Line::Applied(raw.object) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;

    #[test]
    fn lines_are_told_apart() {
        let read = |text: &'static str| line::<IgnoredAny>(text.as_bytes()).unwrap();
        assert!(matches!(read(r#"{"type":"ADDED","object":{}}"#), Line::Applied(_)));
        assert!(matches!(read(r#"{"type":"MODIFIED","object":{}}"#), Line::Applied(_)));
        assert!(matches!(read(r#"{"type":"DELETED","object":{}}"#), Line::Deleted(_)));
        assert!(matches!(read(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#), Line::Bookmark));
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","metadata":{},"reason":"Expired","code":410}}"#;
        assert!(matches!(read(gone), Line::Error(error) if error.code == 410 && error.reason == "Expired"));
        assert!(line::<IgnoredAny>(b"{}").is_err());
    }
}
