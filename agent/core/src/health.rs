//! Makes a verdict out of single probe results. The verdict changes only after several equal results in a row.

use serde::{Deserialize, Serialize};

use super::planted::planted;

/// Whether a node's API server is fit to be reached by the VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<bool>", into = "Option<bool>")]
pub enum Verdict {
    /// It is ready, or health is switched off.
    Healthy,
    /// It is not ready.
    Unhealthy,
    /// The node has no API server: it is not judged by one.
    NoServer,
}

/// Where the cluster says that API servers are: the `EndpointSlices` of `default/kubernetes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// No list was read yet.
    Unknown,
    /// The list names other hosts, and not this node.
    Elsewhere,
    /// The list names an address of this node.
    Here,
}

/// Counts the results of a health probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    rise: u32,
    fall: u32,
    /// The verdict of the probes alone.
    ready: Option<bool>,
    /// This node has, or had, an API server: the list named it, or a probe found it ready. A server that fails goes from
    /// the list after some seconds, and its node is judged by it all the same.
    has_server: bool,
    verdict: Option<Verdict>,
    /// How many of the latest results in a row were equal to `last`.
    row: u32,
    last: bool,
}

impl Health {
    /// Healthy after `rise` good results in a row, unhealthy after `fall` bad results; 0 counts as 1. Unknown before that.
    #[must_use]
    pub const fn new(rise: u32, fall: u32) -> Self {
        let (rise, fall) = (if rise == 0 { 1 } else { rise }, if fall == 0 { 1 } else { fall });
        Self { rise, fall, ready: None, has_server: false, verdict: None, row: 0, last: false }
    }

    /// Takes one more result, and returns the verdict if the verdict has changed.
    pub fn result(&mut self, ok: bool, listed: Listed) -> Option<Verdict> {
        self.row = if self.last == ok { self.row.saturating_add(1) } else { 1 };
        self.last = ok;
        let enough = if ok { self.rise } else { self.fall };
        if self.row >= enough {
            self.ready = Some(ok);
        }
        self.has_server |= listed == Listed::Here || self.ready == Some(true);
        let verdict = match self.ready? {
            true => Verdict::Healthy,
            // Nobody has said yet where this node's API server is, if it has one: that loopback does not answer proves nothing.
            false if !self.has_server && listed == Listed::Unknown => return None,
            false if !self.has_server && listed == Listed::Elsewhere && !planted!(JudgesWithoutServer) => {
                Verdict::NoServer
            }
            false => Verdict::Unhealthy,
        };
        (self.verdict.replace(verdict) != Some(verdict)).then_some(verdict)
    }

    /// The verdict. None: unknown yet.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

impl From<Option<bool>> for Verdict {
    fn from(healthy: Option<bool>) -> Self {
        healthy.map_or(Self::NoServer, |healthy| if healthy { Self::Healthy } else { Self::Unhealthy })
    }
}

impl From<Verdict> for Option<bool> {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Healthy => Some(true),
            Verdict::Unhealthy => Some(false),
            Verdict::NoServer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    fn health(rise: u32, fall: u32) -> impl FnMut(bool) -> Option<bool> {
        let mut health = Health::new(rise, fall);
        move |ok| health.result(ok, Listed::Here).and_then(Option::from)
    }

    #[test]
    fn one_lost_probe_is_nothing() {
        let heard: Vec<_> =
            [true, true, false, false, true, false, false, false, true, true].into_iter().map(health(2, 3)).collect();
        assert_eq!(heard, [None, Some(true), None, None, None, None, None, Some(false), None, Some(true)]);
    }

    #[test]
    fn unknown_until_enough_was_seen() {
        let mut health = Health::new(1, 2);
        let first = health.result(false, Listed::Here);
        assert_eq!((first, health.verdict()), (None, None));
        assert_eq!(health.result(false, Listed::Here), Some(Verdict::Unhealthy));
        assert_eq!(Health::new(0, 0).result(true, Listed::Here), Some(Verdict::Healthy));
    }

    #[test]
    fn a_node_without_an_api_server_is_not_judged_by_one() {
        let mut health = Health::new(1, 2);
        assert_eq!(health.result(false, Listed::Unknown), None);
        assert_eq!(health.result(false, Listed::Unknown), None, "it may have one, elsewhere than on loopback");
        assert_eq!(health.verdict(), None);
        assert_eq!(health.result(false, Listed::Elsewhere), Some(Verdict::NoServer));
        assert_eq!(health.result(true, Listed::Elsewhere), Some(Verdict::Healthy), "it has one now");
        health.result(false, Listed::Elsewhere);
        assert_eq!(health.result(false, Listed::Elsewhere), Some(Verdict::Unhealthy), "and it had one before");
    }

    #[test]
    fn a_dead_api_server_that_is_listed_no_more_is_judged() {
        let mut health = Health::new(1, 1);
        assert_eq!(health.result(false, Listed::Here), Some(Verdict::Unhealthy));
        assert_eq!(health.result(false, Listed::Elsewhere), None);
        assert_eq!(health.verdict(), Some(Verdict::Unhealthy));
    }

    #[test]
    fn an_api_server_that_has_answered_is_judged_before_any_list() {
        let mut health = Health::new(1, 1);
        assert_eq!(health.result(false, Listed::Unknown), None);
        assert_eq!(health.result(true, Listed::Unknown), Some(Verdict::Healthy));
        assert_eq!(health.result(false, Listed::Unknown), Some(Verdict::Unhealthy));
        let mut listed = Health::new(1, 1);
        assert_eq!(listed.result(false, Listed::Unknown), None);
        assert_eq!(listed.result(false, Listed::Here), Some(Verdict::Unhealthy));
    }

    proptest! {
        #[test]
        fn changes_only_after_enough_in_a_row(rise in 1..5_u32, fall in 1..5_u32, all: Vec<bool>, last in any::<bool>()) {
            let mut health = Health::new(rise, fall);
            for (n, ok) in all.iter().chain([&last]).enumerate() {
                let before = health.verdict();
                if let Some(verdict) = health.result(*ok, Listed::Here) {
                    let row = if verdict == Verdict::Healthy { rise } else { fall } as usize;
                    assert!(before != Some(verdict) && Verdict::from(Some(*ok)) == verdict && n + 1 >= row);
                    assert!(all.iter().chain([&last]).skip(n + 1 - row).take(row).all(|x| x == ok));
                }
            }
        }
    }
}
