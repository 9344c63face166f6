//! Where the next page of a list is, found without reading the objects: so the API server makes the next page while the reader is
//! busy with this one.

use serde::Deserialize;

/// A list's metadata is a few hundred bytes; a continue token, of a kind with long names, is the longest of it.
const LONGEST: usize = 4_096;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(rename = "continue")]
    next: String,
    #[serde(rename = "resourceVersion")]
    _version: String,
}

/// The token of the next page. None: this is the last page, or the page has to be read to know. The API server writes the metadata
/// of a list of custom objects behind them (`unstructured.UnstructuredList`, whose keys are sorted), that of its own kinds before.
#[must_use]
pub fn next_page(page: &[u8]) -> Option<String> {
    const METADATA: &[u8] = br#","metadata":"#;
    let tail = page.trim_ascii_end().strip_suffix(b"}")?;
    let tail = &tail[tail.len().saturating_sub(LONGEST)..];
    let at = tail.windows(METADATA.len()).rposition(|window| window == METADATA)?;
    // An object's metadata is not followed by the end of the page: a `]` stands between them.
    let meta: Meta = serde_json::from_slice(&tail[at + METADATA.len()..]).ok()?;
    (!meta.next.is_empty()).then_some(meta.next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_objects() {
        let text = r#"{"apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"kind":"L","metadata":{"continue":"ab+/=","remainingItemCount":7,"resourceVersion":"9"}}"#;
        assert_eq!(next_page(text.as_bytes()).as_deref(), Some("ab+/="));
        assert_eq!(next_page(format!("{text}\n").as_bytes()).as_deref(), Some("ab+/="));
        let last = text.replace("ab+/=", "");
        assert_eq!(next_page(last.as_bytes()), None);
    }

    #[test]
    fn what_is_not_the_lists_metadata_is_no_token() {
        let of_an_object = r#""metadata":{"continue":"no","resourceVersion":"9"}"#;
        for text in [
            format!(
                r#"{{"metadata":{{"continue":"x","resourceVersion":"1"}},"items":[{{"kind":"K",{of_an_object}}}]}}"#
            ),
            format!(r#"{{"items":[{{"kind":"K",{of_an_object}}}]}}"#),
            format!(r#"{{"items":[{{"kind":"K",{of_an_object}}}],"kind":"L","metadata":{{"resourceVersion":"1"}}}}"#),
            format!(
                r#"{{"items":[],"kind":"{}"}}"#,
                r#",\"metadata\":{\"continue\":\"no\",\"resourceVersion\":\"9\"}"#
            ),
            String::new(),
            "}".into(),
            "{}".into(),
        ] {
            assert_eq!(next_page(text.as_bytes()), None, "{text}");
        }
        // Cut in the middle.
        let text = r#"{"items":[],"kind":"L","metadata":{"continue":"ab","resourceVersion":"9"}}"#;
        assert!((0..text.len()).all(|end| next_page(&text.as_bytes()[..end]).is_none()));
    }
}
