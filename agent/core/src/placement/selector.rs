//! The labels that a VIP asks of its holder's node: a selector as `kubectl --selector` has it, without sets.

use std::collections::BTreeMap;
use std::fmt;

/// The labels of a Node.
pub type Labels = BTreeMap<String, String>;

/// Parts with commas between, which must all be fulfilled: `key=value`, `key!=value`, `key`, `!key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, Test)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Is(String),
    IsNot(String),
    Exists,
    Absent,
}

impl Selector {
    /// Reads a selector. Every text is one: what is no part of the other forms is a key.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let read = |part: &str| {
            let (key, what) = if let Some(key) = part.strip_prefix('!') {
                (key, Test::Absent)
            } else if let Some((key, value)) = part.split_once("!=") {
                (key, Test::IsNot(value.trim().to_owned()))
            } else if let Some((key, value)) = part.split_once('=') {
                (key, Test::Is(value.trim_start_matches('=').trim().to_owned()))
            } else {
                (part, Test::Exists)
            };
            (key.trim().to_owned(), what)
        };
        Self(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(read).collect())
    }

    /// Whether labels fulfil all parts.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, what)| match (what, labels.get(key)) {
            (Test::Is(wanted), found) => found == Some(wanted),
            (Test::IsNot(unwanted), found) => found != Some(unwanted),
            (Test::Exists, found) => found.is_some(),
            (Test::Absent, found) => found.is_none(),
        })
    }

    /// The keys that it asks for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (key, what)) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "," })?;
            match what {
                Test::Is(value) => write!(f, "{key}={value}")?,
                Test::IsNot(value) => write!(f, "{key}!={value}")?,
                Test::Exists => write!(f, "{key}")?,
                Test::Absent => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_selector_count() {
        let labels: Labels = [("zone".to_owned(), "a".to_owned()), ("edge".to_owned(), String::new())].into();
        for (selector, expected) in [
            ("", true),
            ("zone=a", true),
            ("zone==a, edge", true),
            ("zone=b", false),
            ("zone!=b,!worker", true),
            ("!edge", false),
            ("worker", false),
        ] {
            assert_eq!(Selector::of(selector).matches(&labels), expected, "{selector}");
        }
        assert_eq!(Selector::of("zone == a ,!b, c != d,e").to_string(), "zone=a,!b,c!=d,e");
    }
}
