//! What a person sees of a demo: a line for each event with the time since the beginning, and a table at the end.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use mooring_agent::core::time::Time;

use crate::observe::now;

/// The look of a line, where the output is a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Title,
    /// Something that happens.
    Plain,
    /// Background, preparation.
    Quiet,
    /// As it should be.
    Good,
    /// A fault that was made on purpose.
    Fault,
    /// Not as it should be.
    Bad,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Title => "\x1b[1m",
            Self::Plain => "",
            Self::Quiet => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Fault => "\x1b[33m",
            Self::Bad => "\x1b[1;31m",
        }
    }
}

/// Prints events as they come.
#[derive(Debug)]
pub struct Report<W> {
    begin: Time,
    colour: bool,
    out: W,
}

impl Report<std::io::Stdout> {
    /// To standard output; coloured if that is a terminal and `NO_COLOR` is not set.
    #[must_use]
    pub fn to_stdout() -> Self {
        let out = std::io::stdout();
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self::new(out, colour)
    }
}

impl<W: Write> Report<W> {
    /// The time counts from now.
    #[must_use]
    pub fn new(out: W, colour: bool) -> Self {
        Self { begin: now(), colour, out }
    }

    /// An event of this moment.
    pub fn event(&mut self, tone: Tone, text: &str) {
        self.event_at(now(), tone, text);
    }

    /// An event that was seen at `at`, which may be a while ago.
    pub fn event_at(&mut self, at: Time, tone: Tone, text: &str) {
        let seconds = at.since(self.begin).as_secs_f64();
        self.line(&format!("{seconds:>9.3} s  "), tone, text);
    }

    /// A heading with an empty line before it.
    pub fn title(&mut self, text: &str) {
        self.line("\n", Tone::Title, text);
    }

    /// Text under an event, indented as the events' text is.
    pub fn detail(&mut self, text: &str) {
        for line in text.lines() {
            self.line("             ", Tone::Quiet, line);
        }
    }

    /// A table: the first row is its head. Columns that hold numbers only are set to the right.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        for (number, line) in table(rows).lines().enumerate() {
            self.line("", if number == 0 { Tone::Title } else { Tone::Plain }, line);
        }
    }

    fn line(&mut self, before: &str, tone: Tone, text: &str) {
        let (on, off) = if self.colour && !tone.code().is_empty() { (tone.code(), "\x1b[0m") } else { ("", "") };
        // Nobody reads on: no reason to end the lab in the middle.
        let _ = writeln!(self.out, "{before}{on}{text}{off}").and_then(|()| self.out.flush());
    }
}

/// The rows in columns; the first row is the head.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or_default())
        .collect();
    let numeric: Vec<bool> = (0..columns)
        .map(|column| rows.iter().skip(1).all(|row| cell(row, column).starts_with(|c: char| c.is_ascii_digit())))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, &width) in widths.iter().enumerate() {
            let cell = cell(row, column);
            // Writing to a string cannot fail.
            let _ = if numeric[column] { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_table() {
        let mut plain = Report::new(Vec::new(), false);
        plain.event_at(plain.begin + std::time::Duration::from_millis(1_234), Tone::Good, "cp2 holds the VIP");
        plain.table(&[
            vec!["what".into(), "outage".into()],
            vec!["crash".into(), "312 ms".into()],
            vec!["hand-over".into(), "0 ms".into()],
        ]);
        let text = String::from_utf8(plain.out).unwrap();
        assert_eq!(text, "    1.234 s  cp2 holds the VIP\nwhat       outage\ncrash      312 ms\nhand-over    0 ms\n");
        let mut colour = Report::new(Vec::new(), true);
        colour.title("A crash");
        assert_eq!(String::from_utf8(colour.out).unwrap(), "\n\x1b[1mA crash\x1b[0m\n");
    }
}
