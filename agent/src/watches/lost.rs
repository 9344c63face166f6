//! The watches that are lost. Several watches may show one kind: its loss is reported with the first of them, and its return with
//! the last.

use std::collections::{BTreeMap, BTreeSet};

/// A watch: what it shows, for people, and its number among the watches of that kind.
pub type Name = (&'static str, usize);

/// The watches that are lost, by kind.
#[derive(Debug, Default)]
pub struct Lost(BTreeMap<&'static str, BTreeSet<usize>>);

/// What is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Failed,
    Works,
}

impl Lost {
    /// A watch is lost, or works (again). The error text changes with every try; the loss is reported once.
    pub fn take(&mut self, name: Name, wrong: Option<&str>) {
        let what = name.0;
        match self.news(name, wrong.is_some()) {
            Some(News::Failed) => {
                tracing::warn!(error = wrong, "watch of {what} failed; retrying, VIPs stay as they are");
            }
            Some(News::Works) => tracing::info!("watch of {what} works again"),
            None => {}
        }
    }

    fn news(&mut self, (what, nth): Name, is_lost: bool) -> Option<News> {
        let lost = self.0.entry(what).or_default();
        let before = !lost.is_empty();
        if is_lost {
            lost.insert(nth);
        } else {
            lost.remove(&nth);
        }
        match (before, !lost.is_empty()) {
            (false, true) => Some(News::Failed),
            (true, false) => Some(News::Works),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watch_that_fails_among_others_that_work_is_reported_once() {
        let mut lost = Lost::default();
        assert_eq!(lost.news(("EndpointSlices", 0), false), None);
        assert_eq!(lost.news(("EndpointSlices", 3), true), Some(News::Failed));
        for _ in 0..3 {
            assert_eq!(lost.news(("EndpointSlices", 0), false), None, "another one works");
            assert_eq!(lost.news(("EndpointSlices", 3), true), None);
        }
        assert_eq!(lost.news(("Nodes", 0), true), Some(News::Failed));
        assert_eq!(lost.news(("EndpointSlices", 0), true), None);
        assert_eq!(lost.news(("EndpointSlices", 3), false), None, "one of them still fails");
        assert_eq!(lost.news(("EndpointSlices", 0), false), Some(News::Works));
    }
}
