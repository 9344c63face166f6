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

/// At most this many bytes of the text.
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

/// What is behind the error. An [`io::Error`] hides the error it was made of: its source is that one's source.
#[must_use]
pub fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
