//! Texts from outside.

use std::error::Error;
use std::io;

/// The first `most` characters: text from outside is never logged at full length.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text, cut to at most this many bytes.
#[must_use]
pub fn cut_bytes(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The error and its causes, at most this many characters.
#[must_use]
pub fn chain(error: &(dyn Error + 'static), most: usize) -> String {
    let mut text = error.to_string();
    let mut at = cause(error);
    while let Some(deeper) = at {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        at = cause(deeper);
    }
    cut(&text, most)
}

/// The error that caused this one. An [`io::Error`] hides the error that it was made of: `source` skips that error.
#[must_use]
pub fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
