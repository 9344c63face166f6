//! Tables for people.

use std::borrow::Cow;

/// A table with a heading; columns as wide as their widest cell, two spaces apart. A cell of more than `widest`
/// characters is cut: every other row of its column is padded to its width.
pub fn render(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>, widest: usize) -> String {
    let heading = heading.iter().map(|&cell| cell.to_owned()).collect();
    let rows = rows.into_iter().map(|row| row.iter().map(|cell| cut(cell, widest)).collect());
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The cell, cut to `widest` characters and without characters that control a terminal.
fn cut(cell: &str, widest: usize) -> String {
    match cell.char_indices().nth(widest) {
        Some((end, _)) => plain(cell.get(..end).unwrap_or_default()).into_owned() + "...",
        None => plain(cell).into_owned(),
    }
}

/// The text, with characters that move the cursor, change colours or reverse a terminal's writing direction escaped:
/// names come from Leases, which others write.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_active(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A time for people: tenths of seconds while they matter.
#[must_use]
pub fn time(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms}ms"),
        1000..=59_999 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        60_000..=3_599_999 => format!("{}m{}s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{}h{}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// Control characters, line and paragraph separators, and characters that set a direction (Unicode's `Bidi_Control`).
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_does_nothing_to_a_terminal_and_is_not_endless() {
        let rows = [vec!["\u{1b}[2J\r\u{202e}cp1".to_owned(), "x".repeat(50)], vec!["a".into(), "b".into()]];
        let text = render(&["NODE", "WHY"], rows, 20);
        assert!(text.contains(r"\u{1b}[2J\r\u{202e}cp1 "), "{text}");
        assert!(!text.contains(|c| is_active(c) && c != '\n') && text.contains("\na "), "{text}");
        assert!(text.contains(&format!("{}...\n", "x".repeat(20))), "{text}");
    }
}
