//! Figures over several runs: minimum, median, percentiles by nearest rank, maximum.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Serialize, Serializer};

/// One figure of a bench. As JSON it is the object that `cargo lab bench --json` prints on one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    #[serde(rename = "figure")]
    pub name: String,
    /// How many values it sums up.
    pub runs: usize,
    /// The smallest value.
    #[serde(serialize_with = "short")]
    pub min: f64,
    /// The 50th percentile.
    #[serde(serialize_with = "short")]
    pub median: f64,
    /// The 90th percentile.
    #[serde(serialize_with = "short")]
    pub p90: f64,
    /// The 99th percentile.
    #[serde(serialize_with = "short")]
    pub p99: f64,
    /// The largest value.
    #[serde(serialize_with = "short")]
    pub max: f64,
    /// What is counted: `ms`, `packets`, `1/s`, `MB`.
    pub unit: &'static str,
    /// What it shall be.
    #[serde(skip)]
    pub goals: Vec<Goal>,
}

/// A statistic of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The median.
    Median,
    /// The 99th percentile.
    P99,
    /// The maximum.
    Max,
}

/// What a figure shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Of what.
    pub of: Statistic,
    /// Which values are good.
    pub bound: Bound,
}

/// Which values are good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Up to this one.
    AtMost(f64),
    /// From this one on.
    AtLeast(f64),
}

impl Figure {
    /// Sums up values.
    ///
    /// # Errors
    /// There are none.
    pub fn new(name: &str, unit: &'static str, values: &[f64]) -> Result<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let share = |percent| percentile(&sorted, percent);
        let sum = || {
            let (name, runs, goals) = (name.to_owned(), sorted.len(), Vec::new());
            let (min, median, p90, p99, max) = (share(0)?, share(50)?, share(90)?, share(99)?, share(100)?);
            Some(Self { name, runs, min, median, p90, p99, max, unit, goals })
        };
        sum().with_context(|| format!("{name}: nothing was measured; --runs must be 1 or more"))
    }

    /// Sums up durations, in milliseconds.
    ///
    /// # Errors
    /// There are none.
    pub fn of_times(name: &str, times: &[Duration]) -> Result<Self> {
        let values: Vec<f64> = times.iter().map(|t| t.as_secs_f64() * 1_000.0).collect();
        Self::new(name, "ms", &values)
    }

    /// Sums up counts, of packets say.
    ///
    /// # Errors
    /// There are none.
    pub fn of_counts(name: &str, unit: &'static str, counts: &[usize]) -> Result<Self> {
        let values: Vec<f64> = counts.iter().map(|&n| f64::from(u32::try_from(n).unwrap_or(u32::MAX))).collect();
        Self::new(name, unit, &values)
    }

    /// Adds what is to be reached.
    #[must_use]
    pub fn goal(mut self, of: Statistic, at_most: f64) -> Self {
        self.goals.push(Goal { of, bound: Bound::AtMost(at_most) });
        self
    }

    /// Adds what is to be reached, where more is better.
    #[must_use]
    pub fn at_least(mut self, of: Statistic, least: f64) -> Self {
        self.goals.push(Goal { of, bound: Bound::AtLeast(least) });
        self
    }

    /// Whether every goal is reached.
    #[must_use]
    pub fn good(&self) -> bool {
        self.goals.iter().all(|goal| self.reached(goal))
    }

    fn reached(&self, goal: &Goal) -> bool {
        let value = match goal.of {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
            Statistic::Max => self.max,
        };
        match goal.bound {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        }
    }

    fn judged(&self) -> String {
        let mut text = String::new();
        for goal in &self.goals {
            let name = match goal.of {
                Statistic::Median => "median",
                Statistic::P99 => "p99",
                Statistic::Max => "max",
            };
            let verdict = if self.reached(goal) { "reached" } else { "MISSED" };
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let bound = match goal.bound {
                Bound::AtMost(most) => format!("<= {}", number(most)),
                Bound::AtLeast(least) => format!(">= {}", number(least)),
            };
            let _ = write!(text, "{comma}{name} {bound} {verdict}");
        }
        text
    }
}

/// The value at or below which `percent` of the sorted values lie (nearest rank: always one of them).
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent.min(100)).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

/// The figures as a table for people.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let head = ["figure", "runs", "min", "median", "p90", "p99", "max", "unit", "to reach"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(figures.iter().map(|f| {
        let [min, median, p90, p99, max] = [f.min, f.median, f.p90, f.p99, f.max].map(number);
        [f.name.clone(), f.runs.to_string(), min, median, p90, p99, max, f.unit.to_owned(), f.judged()]
    }));
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Numbers to the right, words to the left.
            let _ = match column {
                1..=6 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The figures as JSON, one object a line.
///
/// # Errors
/// Those of the encoder: a value that JSON cannot have.
pub fn json(figures: &[Figure]) -> Result<String, serde_json::Error> {
    let lines: Vec<String> = figures.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// Whole numbers as such, others with as many digits as mean something.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Three digits behind the point at most, none for whole numbers.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn short<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be a whole number that fits")]
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        to.serialize_i64(rounded as i64)
    } else {
        to.serialize_f64(rounded)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn nearest_rank_and_both_outputs() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let figure = Figure::new("failover", "ms", &values).unwrap().goal(Statistic::P99, 9.0);
        assert_eq!(
            json(std::slice::from_ref(&figure)).unwrap(),
            "{\"figure\":\"failover\",\"runs\":10,\"min\":1,\"median\":5,\"p90\":9,\"p99\":10,\"max\":10,\"unit\":\"ms\"}\n"
        );
        assert!(!figure.good());
        assert!(table(&[figure]).contains("p99 <= 9 MISSED"));
        assert!(Figure::of_times("none", &[]).is_err());
        let one = Figure::of_times("one", &[Duration::from_micros(1_234_567)]).unwrap();
        assert!(json(&[one]).unwrap().contains("\"p99\":1234.567,"));
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_value_with_its_share_at_or_below(
            mut values in proptest::collection::vec(-1e6..1e6_f64, 1..200),
            percent in 1_usize..=100,
        ) {
            let figure = Figure::new("x", "ms", &values).unwrap();
            values.sort_unstable_by(f64::total_cmp);
            let found = percentile(&values, percent).unwrap();
            let below = values.iter().filter(|v| **v <= found).count();
            prop_assert!(below * 100 >= percent * values.len());
            // And no smaller value would do.
            let smaller = values.iter().filter(|v| **v < found).count();
            prop_assert!(smaller * 100 < percent * values.len());
            prop_assert!(figure.min <= figure.median && figure.median <= figure.p90);
            prop_assert!(figure.p90 <= figure.p99 && figure.p99 <= figure.max);
            prop_assert_eq!(figure.runs, values.len());
        }
    }
}
