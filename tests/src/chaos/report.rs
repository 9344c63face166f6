//! The result of a run: text for readers, JSON for the record.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::class::Class;
use super::rules::{Breach, Rule};
use super::seen::Seen;
use super::story::{self, Entry};
use crate::observe::probes::Gap;
use crate::report::table;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How many minutes were asked for.
    pub minutes: u64,
    /// `external` or `stacked`.
    pub etcd: &'static str,
    /// So many VIPs of Services were carried beside the control plane's.
    pub service_vips: usize,
    /// When it began, by the wall clock.
    pub began: String,
    /// How long it went on, in seconds.
    pub seconds: f64,
    /// Why the run ended early, if it did.
    pub ended_by: Option<String>,
    /// The run ended because the lab failed, not because the user stopped it.
    pub failed: bool,
    /// The agent's binary.
    pub agent: String,
    /// SHA-256 of the agent's binary.
    pub agent_sha256: String,
    /// Faults made.
    pub faults: usize,
    /// Faults of rounds in which no rule was broken.
    pub survived: usize,
    /// The figures by class.
    pub classes: BTreeMap<&'static str, Tally>,
    /// How often each rule was broken.
    pub broken: BTreeMap<Rule, usize>,
    /// How often all agents were restarted between rounds so that the witness may decide again. These restarts are not
    /// in the plan, but the rules judge them as well.
    pub restarts_between: usize,
    /// Every round, in order.
    pub rounds: Vec<Round>,
    /// Every round in which a rule was broken, with all observations.
    pub violations: Vec<Violation>,
    /// The same for rounds in which the machine gave the agents no time: these rounds count neither as survived nor as
    /// a violation.
    pub unjudged: Vec<Violation>,
    /// Faults of the unjudged rounds.
    pub unjudged_faults: usize,
}

/// The figures of one class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// How many faults.
    pub made: usize,
    /// How many of them affected the holder.
    pub on_holder: usize,
    /// How many of them happened together with others.
    pub in_company: usize,
    /// How many of them were in rounds in which no rule was broken.
    pub survived: usize,
    /// Outages in milliseconds of the faults that affected the holder and happened alone.
    pub outages_ms: Vec<u128>,
}

/// The figures of one round.
#[derive(Clone, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the report says round")]
pub struct Round {
    /// Its number.
    pub round: u64,
    /// When its first fault began, in seconds of the run.
    pub at: f64,
    /// Its faults: class and hosts.
    pub faults: Vec<String>,
    /// For how long the client heard nothing because of the faults.
    pub outage_ms: u128,
    /// For how long it heard nothing before the first fault began.
    pub outage_before_ms: u128,
    /// How long two hosts had the VIP, whether or not they could hear each other.
    pub shared_ms: u128,
    /// How often the VIP moved.
    pub moves: usize,
    /// The time from when all faults were healed and every API server was ready until one holder was heard without
    /// interruption; `None`: never.
    pub settled_ms: Option<u128>,
    /// Requests of agents.
    pub requests: usize,
    /// For how long the machine stood still.
    pub stalled_ms: u128,
    /// The longest time for which an agent was ready to run but got no processor.
    pub starved_ms: u128,
    /// The witness could not decide.
    pub spent: bool,
    /// Rules broken.
    pub broken: Vec<Rule>,
    /// How late the kernel removed an address of the lab's own.
    pub kernel_late_ms: u128,
    /// What was allowed because the kernel was late.
    pub allowed: Vec<String>,
}

/// A round in which a rule was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Its number.
    pub round: u64,
    /// The command that runs these faults again.
    pub again: String,
    /// `false`: the machine gave the agents no time, so this round proves nothing.
    pub judged: bool,
    /// What was broken.
    pub broken: Vec<(Rule, String)>,
    /// What every observer saw.
    pub timeline: Vec<Entry>,
}

impl Report {
    /// Adds a round.
    pub fn add(&mut self, round: Round, seen: &Seen, violation: Option<Violation>) {
        let company = seen.faults.len() > 1;
        for fault in &seen.faults {
            let tally = self.classes.entry(fault.class.name()).or_default();
            tally.made += 1;
            tally.on_holder += usize::from(fault.on_holder);
            tally.in_company += usize::from(company);
            if violation.is_none() {
                tally.survived += 1;
                self.survived += 1;
            }
            if !company && (fault.on_holder || !fault.class.has_host()) {
                tally.outages_ms.push(round.outage_ms);
            }
        }
        self.faults += seen.faults.len();
        if violation.as_ref().is_some_and(|violation| !violation.judged) {
            self.unjudged_faults += seen.faults.len();
        }
        self.note(&round, violation);
        self.rounds.push(round);
    }

    fn note(&mut self, round: &Round, violation: Option<Violation>) {
        let Some(violation) = violation else { return };
        if !violation.judged {
            self.unjudged.push(violation);
            return;
        }
        for rule in &round.broken {
            *self.broken.entry(*rule).or_default() += 1;
        }
        self.violations.push(violation);
    }

    /// Adds a restart of all agents between rounds.
    pub fn add_between(&mut self, round: &Round, violation: Option<Violation>) {
        self.restarts_between += 1;
        self.note(round, violation);
    }

    /// Whether no rule was broken, neither by the agents nor by the lab.
    #[must_use]
    pub fn good(&self) -> bool {
        self.violations.is_empty() && !self.failed
    }

    /// The report as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut rows = vec![
            ["class", "faults", "on the holder", "in company", "survived", "outage ms: median", "max"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for class in Class::ALL {
            let Some(tally) = self.classes.get(class.name()) else { continue };
            let mut outages = tally.outages_ms.clone();
            outages.sort_unstable();
            let pick = |at: Option<&u128>| at.map_or_else(|| "-".to_owned(), ToString::to_string);
            let counts = [tally.made, tally.on_holder, tally.in_company, tally.survived].map(|n| n.to_string());
            let figures = [pick(outages.get(outages.len() / 2)), pick(outages.last())];
            rows.push([class.name().to_owned()].into_iter().chain(counts).chain(figures).collect());
        }
        text.push_str(&table(&rows));
        let settled: Vec<u128> = self.rounds.iter().filter_map(|round| round.settled_ms).collect();
        let rate = self.rounds.iter().map(|round| round.requests).sum::<usize>();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = rate as f64 / self.seconds.max(1.0);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n{} faults in {} rounds and {:.0} s (one in {:.1} s), seed {}; {} survived; settled after at most {} ms; \
             {rate:.1} API requests a second",
            self.faults,
            self.rounds.len(),
            self.seconds,
            self.pace(),
            self.seed,
            self.survived,
            settled.iter().max().copied().unwrap_or_default(),
        );
        if let Some(why) = &self.ended_by {
            let _ = writeln!(text, "ended before its time: {why}");
        }
        if !self.unjudged.is_empty() {
            let _ = writeln!(
                text,
                "{} rounds ({} faults) are not judged: the machine had no time for the agents, and a bound was missed",
                self.unjudged.len(),
                self.unjudged_faults
            );
        }
        let late = self.rounds.iter().map(|round| round.kernel_late_ms).max().unwrap_or_default();
        let _ =
            writeln!(text, "the kernel removed addresses of the lab at most {late} ms after their lifetimes had ended");
        for round in &self.rounds {
            for what in &round.allowed {
                let _ = writeln!(text, "  allowed in round {}: {what}", round.round);
            }
        }
        for violation in self.violations.iter().chain(&self.unjudged) {
            let judged = if violation.judged { "" } else { " (not judged)" };
            let _ = writeln!(text, "\nround {}{judged}; again: {}", violation.round, violation.again);
            for (rule, detail) in &violation.broken {
                let _ = writeln!(text, "  BROKEN: {}: {detail}", rule.text());
            }
            text.push_str(&story::text(&violation.timeline));
        }
        let _ = match self.violations.len() {
            0 => writeln!(text, "no violation"),
            1 => writeln!(text, "1 VIOLATION"),
            many => writeln!(text, "{many} VIOLATIONS"),
        };
        text
    }

    /// Seconds per fault.
    fn pace(&self) -> f64 {
        self.seconds / f64::from(u32::try_from(self.faults).unwrap_or(u32::MAX)).max(1.0)
    }
}

impl Round {
    /// The figures of the observations.
    #[must_use]
    pub fn of(number: u64, at: f64, faults: Vec<String>, seen: &Seen, breaches: &[Breach]) -> Self {
        let shared = seen.holds.two_owners(seen.from, seen.to);
        let mut broken: Vec<Rule> = breaches.iter().map(|breach| breach.rule).collect();
        broken.dedup();
        let late = seen.floor.iter().map(|lapse| (lapse.gone.unwrap_or(seen.to), lapse.end));
        let late = late.filter(|(gone, _)| *gone >= seen.from).map(|(gone, end)| gone.since(end));
        Self {
            round: number,
            at: (at * 1_000.0).round() / 1_000.0,
            faults,
            outage_ms: seen.outage().as_millis(),
            outage_before_ms: seen.before().iter().map(Gap::length).sum::<Duration>().as_millis(),
            shared_ms: shared.iter().map(crate::observe::timeline::Interval::length).sum::<Duration>().as_millis(),
            moves: seen.moves().len(),
            settled_ms: seen.settled().map(|at| at.since(seen.ready).as_millis()),
            requests: seen.requests.len(),
            stalled_ms: seen.stalled(seen.from, seen.to).as_millis(),
            starved_ms: seen.starved.as_millis(),
            spent: seen.spent,
            broken,
            kernel_late_ms: late.max().unwrap_or_default().as_millis(),
            allowed: Vec::new(),
        }
    }

    /// With what was allowed because the kernel was late.
    #[must_use]
    pub fn allowing(self, allowed: Vec<String>) -> Self {
        Self { allowed, ..self }
    }

    /// A progress line during the run.
    #[must_use]
    pub fn line(&self) -> String {
        let settled = self.settled_ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms"));
        let broken: Vec<&str> = self.broken.iter().map(|rule| rule.text()).collect();
        let broken = if broken.is_empty() { String::new() } else { format!("  BROKEN: {}", broken.join("; ")) };
        let spent = if self.spent { ", witness spent" } else { "" };
        let late = self.stalled_ms.max(self.starved_ms);
        let stalled = if late >= 300 { format!(", the machine had no time for {late} ms") } else { String::new() };
        format!(
            "{:>8.1} s  {:>3}  {}: outage {} ms, {} moves, two owners {} ms, settled {settled}{spent}{stalled}{broken}",
            self.at,
            self.round,
            self.faults.join(" + "),
            self.outage_ms,
            self.moves,
            self.shared_ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use mooring_agent::core::time::Time;

    use super::super::seen::Happened;
    use super::*;

    #[test]
    fn counts_by_class_and_names_what_was_broken() {
        let time = Time::default();
        let fault = Happened {
            class: Class::Crash,
            host: "cp1".into(),
            peer: None,
            on_holder: true,
            lasts: Duration::from_secs(1),
            from: time,
            to: time,
        };
        let seen = Seen { faults: vec![fault], ..Seen::default() };
        let mut report = Report { seed: 9, seconds: 20.0, ..Report::default() };
        report.add(Round::of(1, 1.0, vec!["crash cp1".into()], &seen, &[]), &seen, None);
        let breach = Breach { rule: Rule::Outage, at: time, detail: "9 s".into() };
        let round = Round::of(2, 9.0, vec!["crash cp1".into()], &seen, std::slice::from_ref(&breach));
        assert!(round.line().contains("BROKEN: outage"));
        let entry = Entry { at: 9.5, by: "client", host: "cp2".into(), what: "is heard".into() };
        let broken = vec![(breach.rule, breach.detail)];
        let violation =
            Violation { round: 2, again: "cargo lab chaos".into(), judged: true, broken, timeline: vec![entry] };
        report.add(round.clone(), &seen, Some(violation.clone()));
        let mut busy = report.clone();
        busy.add(round, &seen, Some(Violation { judged: false, ..violation }));
        assert_eq!((busy.faults, busy.survived, busy.violations.len(), busy.unjudged_faults), (3, 1, 1, 1));
        assert!(busy.text().contains("1 rounds (1 faults) are not judged"));
        assert_eq!((report.faults, report.survived, report.good()), (2, 1, false));
        let text = report.text();
        for part in ["crash       2", "1 VIOLATION", "9.500 s  client", "one in 10.0 s"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["classes"]["crash"]["survived"], 1);
        assert_eq!(json["broken"]["outage"], 1);
    }
}
