//! The record of a prober, and its evaluation: pure.

use std::time::Duration;

use mooring_agent::core::time::Time;

/// A probe without an answer this long after it was sent is lost.
pub const LOST_AFTER: Duration = Duration::from_secs(1);

/// One probe. Its sequence number is its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// When it was sent.
    pub sent: Time,
    /// The first answer, however late.
    pub answer: Option<Answer>,
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was received.
    pub at: Time,
    /// The node that answered: an index into [`Probes::nodes`].
    pub node: usize,
}

/// The record of a prober.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// In the order of sending.
    pub(super) all: Vec<Probe>,
    /// Names of the nodes that answered, in the order of their first answers.
    pub(super) nodes: Vec<String>,
    /// The prober waited for answers until this time.
    ended: Time,
}

/// Probes lost one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the first lost probe was sent.
    pub from: Time,
    /// When the first probe after the gap was answered; without such an answer, when the last lost probe was sent.
    pub to: Time,
    /// How many probes were lost.
    pub lost: usize,
}

impl Gap {
    /// How long it lasted.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// An interval in which one node gave the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The node.
    pub node: String,
    /// When its first answer came.
    pub from: Time,
    /// When its last answer came.
    pub to: Time,
    /// How many answers.
    pub answers: usize,
}

impl Probe {
    /// How long the answer took.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.answer.map(|a| a.at.since(self.sent))
    }

    fn in_time(&self) -> Option<Answer> {
        self.answer.filter(|a| a.at.since(self.sent) < LOST_AFTER)
    }
}

impl Probes {
    pub(super) fn end(&mut self, at: Time) {
        self.ended = at;
    }

    /// A record made by hand.
    #[must_use]
    pub fn from_parts(all: Vec<Probe>, nodes: Vec<String>, ended: Time) -> Self {
        Self { all, nodes, ended }
    }

    /// Every probe, in the order in which they were sent.
    #[must_use]
    pub fn all(&self) -> &[Probe] {
        &self.all
    }

    /// The name of a node that answered.
    #[must_use]
    pub fn name(&self, node: usize) -> Option<&str> {
        self.nodes.get(node).map(String::as_str)
    }

    /// The probes sent from `from` on and before `to`.
    #[must_use]
    pub fn between(&self, from: Time, to: Time) -> Self {
        let all = self.all.iter().filter(|p| from <= p.sent && p.sent < to).copied().collect();
        Self { all, nodes: self.nodes.clone(), ended: self.ended }
    }

    fn lost_one(&self, probe: &Probe) -> bool {
        probe.in_time().is_none() && self.ended.since(probe.sent) >= LOST_AFTER
    }

    /// How many probes were lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.all.iter().filter(|p| self.lost_one(p)).count()
    }

    /// How many probes were answered in time.
    #[must_use]
    pub fn answered_in_time(&self) -> usize {
        self.all.iter().filter(|p| p.in_time().is_some()).count()
    }

    /// Runs of lost probes.
    #[must_use]
    pub fn outages(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        let mut open: Option<Gap> = None;
        for probe in &self.all {
            if self.lost_one(probe) {
                let gap = open.get_or_insert(Gap { from: probe.sent, to: probe.sent, lost: 0 });
                gap.lost += 1;
                gap.to = probe.sent;
            } else if let Some(answer) = probe.in_time()
                && let Some(mut gap) = open.take()
            {
                gap.to = answer.at;
                gaps.push(gap);
            }
        }
        gaps.extend(open);
        gaps
    }

    /// The longest run of lost probes.
    #[must_use]
    pub fn longest_gap(&self) -> Option<Gap> {
        self.outages().into_iter().max_by_key(Gap::length)
    }

    /// The longest interval without any answer, from one answer to the next. A neighbour entry that is being resolved
    /// delays probes but does not drop them: that is silence, not loss.
    #[must_use]
    pub fn longest_silence(&self) -> Option<(Time, Time)> {
        let mut heard: Vec<Time> = self.all.iter().filter_map(|p| p.answer).map(|a| a.at).collect();
        heard.sort_unstable();
        heard.windows(2).map(|w| (w[0], w[1])).max_by_key(|(from, to)| to.since(*from))
    }

    /// The first answer to a probe that was sent at or after `after` (only by `node`, if given).
    #[must_use]
    pub fn first_answer_after(&self, after: Time, node: Option<&str>) -> Option<(Time, &str)> {
        let from = self.all.partition_point(|p| p.sent < after);
        self.all[from..]
            .iter()
            .filter_map(|p| p.answer)
            .filter_map(|a| self.nodes.get(a.node).map(|name| (a.at, name.as_str())))
            .filter(|(_, name)| node.is_none_or(|wanted| wanted == *name))
            .min_by_key(|(at, _)| *at)
    }

    /// Which node answered when, in the order of the answers.
    #[must_use]
    pub fn who(&self) -> Vec<Span> {
        let mut answers: Vec<Answer> = self.all.iter().filter_map(|p| p.answer).collect();
        answers.sort_unstable_by_key(|a| a.at);
        let mut spans: Vec<Span> = Vec::new();
        for answer in answers {
            let Some(name) = self.nodes.get(answer.node) else {
                continue;
            };
            match spans.last_mut().filter(|span| span.node == *name) {
                Some(span) => {
                    span.to = answer.at;
                    span.answers += 1;
                }
                None => spans.push(Span { node: name.clone(), from: answer.at, to: answer.at, answers: 1 }),
            }
        }
        spans
    }

    /// The longest time between two probes: the prober's own worst delay. An interruption shorter than this proves
    /// nothing about the VIP.
    #[must_use]
    pub fn worst_pause(&self) -> Duration {
        self.all.windows(2).map(|w| w[1].sent.since(w[0].sent)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MS)
    }

    /// One probe a millisecond; `seen` says which node answers and how long it took.
    fn probes(count: u64, ended: u64, seen: impl Fn(u64) -> Option<(usize, u64)>) -> Probes {
        let all = (0..count)
            .map(|ms| Probe { sent: at(ms), answer: seen(ms).map(|(node, took)| Answer { at: at(ms + took), node }) })
            .collect();
        Probes::from_parts(all, vec!["a".into(), "b".into()], at(ended))
    }

    #[test]
    fn a_gap_runs_from_the_first_lost_probe_to_the_next_answer() {
        let seen = probes(3_000, 9_000, |ms| match ms {
            0..500 => Some((0, 0)),
            500..800 => None,
            _ => Some((1, 2)),
        });
        assert_eq!(seen.outages(), [Gap { from: at(500), to: at(802), lost: 300 }]);
        assert_eq!(seen.lost(), 300);
        assert_eq!(seen.longest_silence(), Some((at(499), at(802))));
        assert_eq!(seen.first_answer_after(at(499), None), Some((at(499), "a")));
        assert_eq!(seen.first_answer_after(at(500), None), Some((at(802), "b")));
        let who = seen.who();
        assert_eq!(who.iter().map(|s| (s.node.as_str(), s.answers)).collect::<Vec<_>>(), [("a", 500), ("b", 2_200)]);
    }

    #[test]
    fn an_answer_that_may_still_come_is_not_lost_and_a_late_one_is() {
        let seen = probes(2_000, 2_000, |ms| (ms < 100).then_some((0, if ms == 7 { 1_000 } else { 1 })));
        // Probes 100..=1000 were sent a second or more before the end.
        assert_eq!(seen.lost(), 1 + 901);
        assert_eq!(seen.outages().len(), 2);
        assert_eq!(seen.outages().last().map(|g| (g.from, g.to)), Some((at(100), at(1_000))));
        assert_eq!(probes(0, 10, |_| None).longest_gap(), None);
    }

    #[test]
    fn a_part_of_the_record() {
        let seen = probes(1_000, 9_000, |ms| (ms % 10 != 0).then_some((0, 0)));
        assert_eq!(seen.between(at(100), at(200)).lost(), 10);
        assert_eq!(seen.worst_pause(), Duration::from_millis(1));
    }
}
