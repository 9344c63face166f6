//! What the runner prints.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use super::{Ended, Outcome};

/// How much of each log a failure quotes, lines.
const TAIL: usize = 25;

/// How many bytes of a log are read for it at most.
const QUOTED: usize = 64 << 10;

/// The lines so far.
pub struct Screen {
    terminal: bool,
    total: usize,
    running: Vec<String>,
    ended: Vec<Ended>,
}

impl Screen {
    pub fn new(total: usize) -> Self {
        Self { terminal: std::io::stdout().is_terminal(), total, running: Vec::new(), ended: Vec::new() }
    }

    pub fn started(&mut self, title: &str) {
        self.running.push(title.to_owned());
        self.status();
    }

    pub fn ended(&mut self, ended: Ended) {
        self.running.retain(|title| *title != ended.title);
        let (word, colour, more) = match &ended.outcome {
            Outcome::Passed => ("passed", "32", String::new()),
            Outcome::Failed(why) => ("FAILED", "1;31", format!("  {}", why.lines().next().unwrap_or_default())),
            Outcome::Skipped(why) => ("skipped", "33", format!("  {why}")),
        };
        let word = self.paint(&format!("{word:<7}"), colour);
        self.line(&format!("{word} {:>8.2} s  {}{more}", ended.took.as_secs_f64(), ended.title));
        self.ended.push(ended);
        self.status();
    }

    #[cfg(test)]
    pub fn into_ended(self) -> Vec<Ended> {
        self.ended
    }

    /// Quotes the failures and prints the last line. Returns how many tests failed.
    pub fn verdict(&mut self, took: Duration, interrupted: bool) -> usize {
        self.clear();
        for ended in &self.ended {
            let Outcome::Failed(why) = &ended.outcome else { continue };
            self.line(&format!("\n{} {}", self.paint("---", "1;31"), ended.title));
            self.line(why);
            for (name, lines) in tails(&ended.dir) {
                self.line(&format!("  {name}:"));
                for line in lines {
                    self.line(&format!("    {line}"));
                }
            }
        }
        for line in groups(&self.ended) {
            self.line(&line);
        }
        let count = |wanted: fn(&Outcome) -> bool| self.ended.iter().filter(|e| wanted(&e.outcome)).count();
        let passed = count(|o| *o == Outcome::Passed);
        let failed = count(|o| matches!(o, Outcome::Failed(_)));
        let names = |wanted: fn(&Outcome) -> bool| {
            let names: Vec<&str> = self.ended.iter().filter(|e| wanted(&e.outcome)).map(|e| e.title.as_str()).collect();
            names.join(", ")
        };
        let mut line = format!("\n{passed} passed, {failed} failed");
        let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
        // Writing to a string cannot fail.
        if skipped > 0 {
            let _ = write!(line, ", {skipped} skipped ({})", names(|o| matches!(o, Outcome::Skipped(_))));
        }
        if interrupted {
            let _ = write!(line, ", interrupted: {} not run to the end", self.total - self.ended.len());
        }
        self.line(&format!("{line} in {:.1} s", took.as_secs_f64()));
        failed
    }

    /// What is running, on a line that the next one overwrites.
    fn status(&self) {
        if self.terminal && !self.running.is_empty() {
            let text = format!("        {}/{}: {}", self.ended.len(), self.total, self.running.join(", "));
            let text: String = text.chars().take(100).collect();
            print!("\r\x1b[K{}", self.paint(&text, "2"));
            let _ = std::io::stdout().flush();
        }
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[K");
        }
    }

    fn line(&self, text: &str) {
        self.clear();
        // The output is closed: the tests go on without it.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn paint(&self, text: &str, colour: &str) -> String {
        if self.terminal { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How long each group took, the longest first, if there are several. Tests that ran at the same time count each.
pub fn groups(ended: &[Ended]) -> Vec<String> {
    let mut groups = BTreeMap::<&str, (usize, Duration)>::new();
    for test in ended {
        let group = test.title.split('/').next().unwrap_or_default();
        let (tests, took) = groups.entry(group).or_default();
        (*tests, *took) = (*tests + 1, *took + test.took);
    }
    if groups.len() < 2 {
        return Vec::new();
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (_, took))| Reverse(*took));
    let line =
        |(name, (tests, took)): (&str, (usize, Duration))| format!("{:>9.1} s {tests:>5}  {name}", took.as_secs_f64());
    [String::new(), format!("{:>11} {:>5}  group", "time", "tests")]
        .into_iter()
        .chain(groups.into_iter().map(line))
        .collect()
}

/// The last lines of each log in a directory.
fn tails(dir: &Path) -> Vec<(String, Vec<String>)> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut logs: Vec<_> =
        entries.flatten().map(|e| e.path()).filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs.iter()
        .filter_map(|path| {
            let bytes = fs::read(path).ok()?;
            let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(QUOTED)..]).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(TAIL)..].iter().map(|&l| l.to_owned()).collect();
            Some((path.file_name()?.to_string_lossy().into_owned(), last))
        })
        .collect()
}
