//! Texts from outside.

/// The first `most` characters: what comes from outside is not logged at any length.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
