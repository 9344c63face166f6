//! What is judged, and the report of it.

use std::io::Stdout;

use anyhow::Result;

use super::story::Act;
use crate::report::{Report, Tone};
use crate::runner::Skip;

/// How a check went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should; what was found.
    Good(String),
    /// Not at all; what the machine lacks.
    Skipped(String),
    /// Not as it should; what is wrong.
    Failed(String),
}

impl From<Result<String>> for Outcome {
    fn from(result: Result<String>) -> Self {
        match result {
            Ok(found) => Self::Good(found),
            Err(error) => match error.downcast::<Skip>() {
                Ok(Skip(why)) => Self::Skipped(why),
                Err(error) => Self::Failed(format!("{error:#}")),
            },
        }
    }
}

impl Outcome {
    /// In a word, and a text.
    #[must_use]
    pub fn told(&self) -> (&'static str, &str) {
        match self {
            Self::Good(found) => ("good", found),
            Self::Skipped(why) => ("skipped", why),
            Self::Failed(wrong) => ("FAILED", wrong),
        }
    }
}

/// A report that collects verdicts.
pub struct Verdicts {
    /// Where all is told as it happens.
    pub report: Report<Stdout>,
    all: Vec<(&'static str, Outcome)>,
    /// The acts that are wanted; all, when none is named.
    acts: Vec<Act>,
}

impl Verdicts {
    /// None yet.
    #[must_use]
    pub fn new(acts: Vec<Act>) -> Self {
        Self { report: Report::to_stdout(), all: Vec::new(), acts }
    }

    /// Whether an act is wanted.
    #[must_use]
    pub fn wants(&self, act: Act) -> bool {
        self.acts.is_empty() || self.acts.contains(&act)
    }

    /// Whether an act is wanted; says then that it begins.
    pub fn begins(&mut self, act: Act, title: &str) -> bool {
        let wanted = self.wants(act);
        if wanted {
            self.report.title(title);
        }
        wanted
    }

    /// Takes a verdict, and says it. Answers whether the check went as it should.
    pub fn judge(&mut self, name: &'static str, outcome: Result<String>) -> bool {
        let outcome = Outcome::from(outcome);
        let tone = match outcome {
            Outcome::Good(_) => Tone::Good,
            Outcome::Skipped(_) => Tone::Plain,
            Outcome::Failed(_) => Tone::Bad,
        };
        let (word, text) = outcome.told();
        let word = if word == "good" { String::new() } else { format!("{word}: ") };
        self.report.event(tone, &format!("{name}: {word}{text}"));
        let good = matches!(outcome, Outcome::Good(_));
        self.all.push((name, outcome));
        good
    }

    /// Whether nothing has failed.
    #[must_use]
    pub fn good(&self) -> bool {
        !self.all.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
    }

    /// The table at the end.
    pub fn tell(&mut self) {
        self.report.title("What was found");
        let head = ["check", "", "found"].map(str::to_owned).to_vec();
        let row = |(name, outcome): &(&str, Outcome)| {
            let (word, text) = outcome.told();
            vec![(*name).to_owned(), word.to_owned(), text.lines().next().unwrap_or_default().to_owned()]
        };
        let rows: Vec<_> = std::iter::once(head).chain(self.all.iter().map(row)).collect();
        self.report.table(&rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_is_no_failure() {
        let outcome = Outcome::from(Err(Skip("the kernel has no IPVS".into()).into()));
        assert_eq!(outcome, Outcome::Skipped("the kernel has no IPVS".into()));
        assert_eq!(Outcome::from(Err(anyhow::anyhow!("late"))), Outcome::Failed("late".into()));
    }
}
