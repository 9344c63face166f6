//! A run before it is run: its settings and its faults, drawn from the seed.

use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault, How, Lasts, OwnFault as _, Planned};
use crate::network::{Mute, Network};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::subject::{FaultOf, Subject};
use crate::world::nanos;

/// The stream of what is drawn apart for every core.
const APART: u64 = 100;

/// A run before it is run.
#[derive(Clone, Debug)]
pub struct Plan<S: Subject> {
    /// Of this seed.
    pub seed: u64,
    /// What the run is made of.
    pub settings: Settings<S>,
    /// What goes wrong, in order of time.
    pub faults: Vec<Planned<S::Fault>>,
}

/// How many faults there are, and how far apart.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The first fault comes after this: the first election is over, and all take part.
    pub first: Nanos,
    /// Of so many runs of a thousand, the first fault is there before the first agent may be.
    pub cold: u32,
    /// At least and at most so many.
    pub count: (u64, u64),
    /// So long after the end of one, at most, the next begins, for most of those that come after an end.
    pub apart: Nanos,
    /// None begins much later than this.
    pub until: Nanos,
    /// After that time, so many are enough.
    pub enough: usize,
}

impl<S: Subject> Plan<S> {
    /// The plan of a seed. `nodes`: so many, whatever is drawn.
    #[must_use]
    pub fn of(seed: u64, nodes: Option<usize>) -> Self {
        Self::drawn(seed, nodes, S::WIDENINGS.saturating_sub(1))
    }

    /// The same; one run in five is on a network that filters ARP, answers for others, isolates ports or talks, and may have a host
    /// whose frames do not leave. That is drawn last.
    #[must_use]
    pub fn on_networks(seed: u64, nodes: Option<usize>) -> Self {
        Self::drawn(seed, nodes, S::WIDENINGS)
    }

    /// The plan with only the first `widenings` of what was added later, for seeds that are kept from before.
    #[must_use]
    pub fn drawn(seed: u64, nodes: Option<usize>, widenings: usize) -> Self {
        let mut rng = Rng::new(seed, S::STREAM);
        let settings = S::settings(&mut rng, nodes);
        let faults = faults(&mut rng, &settings);
        let mut plan = Self { seed, settings, faults };
        (0..widenings).for_each(|widening| S::widen(&mut plan, widening));
        plan
    }

    /// Draws, apart from the rest, kernels that do not answer; and, where the settings say `release`, long outages of the API in
    /// which an agent is restarted.
    pub fn widen_kernels_and_release(&mut self) {
        let mut rng = Rng::new(self.seed, S::STREAM + APART);
        let nodes = self.settings.nodes;
        let end = self.faults_end();
        if rng.chance(250) {
            // One beside other faults, one in a world that has settled: the bounds are tight there.
            let settled = end + 2 * S::bounds(&self.settings).informed;
            for at in [S::PACE.first + rng.below(end), settled + rng.below(5 * SECOND)] {
                let lasts = rng.pick(&[300, 1_000, 2_500, 2_500, 6_000, 15_000]) * MS;
                let fault = Fault::KernelSilent(rng.index(nodes), rng.pick(&[300, 1_000, 1_000]));
                self.faults.push(Planned { at, lasts, fault });
            }
        }
        let end = self.faults_end();
        let rules = &self.settings.rules;
        if !rules.hold_without_api && rng.chance(400) {
            let at = end + rng.between(8, 20) * SECOND;
            let servers = (1_u64 << S::servers(&self.settings).min(63)) - 1;
            let how = if rng.chance(500) { How::Refused } else { How::Hangs };
            let lasts = 2 * nanos(rules.lease_duration) + 20 * SECOND;
            self.faults.push(Planned { at, lasts, fault: Fault::Api(servers, how) });
            let at = at + rng.below(nanos(rules.renew_deadline));
            self.faults.push(Planned { at, lasts: rng.between(50, 800) * MS, fault: Fault::Kill(rng.index(nodes)) });
        }
        self.faults.sort_by_key(|planned| planned.at);
    }

    /// Draws, apart from the rest and after it, a partition that cuts one node off from all others and from the API. The world has
    /// settled by then, and the partition lasts longer than a Lease: the node must let go.
    pub fn widen_partitions(&mut self) {
        let mut rng = Rng::new(self.seed, S::STREAM + 2 * APART);
        if !rng.chance(60) {
            return;
        }
        let at = self.faults_end() + 2 * S::bounds(&self.settings).informed + rng.below(5 * SECOND);
        let lasts = 2 * nanos(self.settings.rules.lease_duration) + 10 * SECOND;
        let fault = Fault::Partition(1 << rng.index(self.settings.nodes), None, true);
        self.faults.push(Planned { at, lasts, fault });
    }

    /// Draws, apart from the rest, networks that are not plain, hosts whose frames do not get out, and what shows in a world that has
    /// settled how a network is.
    pub fn widen_networks(&mut self) {
        let mut rng = Rng::new(self.seed, S::STREAM + 9 * APART);
        if !rng.chance(200) {
            return;
        }
        self.settings.network = Network::draw(&mut rng);
        let nodes = self.settings.nodes;
        let informed = S::bounds(&self.settings).informed;
        let segment = |rng: &mut Rng, settings: &Settings<S>| {
            let one = rng.index(settings.segments);
            (settings.segments > 1 && rng.chance(300)).then_some(one)
        };
        let what = |rng: &mut Rng| if rng.chance(700) { Mute::Frames } else { Mute::Probes };
        if rng.chance(400) {
            let at = S::PACE.first + rng.below(self.faults_end());
            let lasts = rng.pick(&[500, 2_000, 8_000, 30_000]) * MS;
            let fault = Fault::Mute(rng.index(nodes), segment(&mut rng, &self.settings), what(&mut rng));
            self.faults.push(Planned { at, lasts, fault });
        }
        let after = |plan: &Self, rng: &mut Rng| plan.faults_end() + 2 * informed + rng.below(5 * SECOND);
        if rng.chance(400) {
            let at = after(self, &mut rng);
            self.faults.push(Planned { at, lasts: 30 * SECOND, fault: Fault::Crash(rng.index(nodes)) });
        }
        if rng.chance(400) {
            let at = after(self, &mut rng);
            let servers = (1_u64 << S::servers(&self.settings).min(63)) - 1;
            let how = if rng.chance(500) { How::Refused } else { How::Hangs };
            let lasts = 2 * nanos(self.settings.rules.lease_duration) + 10 * SECOND;
            self.faults.push(Planned { at, lasts, fault: Fault::Api(servers, how) });
        }
        // The last of all that is drawn here: a world with such a host settles without it.
        let watched = !self.settings.rules.witness_interval.is_zero() && !self.settings.network.isolated;
        if watched && rng.chance(500) {
            let at = after(self, &mut rng);
            let fault = Fault::Mute(rng.index(nodes), None, what(&mut rng));
            self.faults.push(Planned { at, lasts: 0, fault });
        }
        self.faults.sort_by_key(|planned| planned.at);
    }

    /// The same plan with only the faults of these numbers.
    #[must_use]
    pub fn only(&self, kept: &[usize]) -> Self {
        let faults = kept.iter().filter_map(|n| self.faults.get(*n).copied()).collect();
        Self { faults, ..self.clone() }
    }

    /// When the last fault is over.
    #[must_use]
    pub fn faults_end(&self) -> Nanos {
        let ends = self.faults.iter().map(|p| {
            let upgrade = if let Fault::Upgrade(apart) = p.fault { Nanos::from(apart) * MS } else { 0 };
            p.at + p.lasts + upgrade * (self.settings.nodes as u64 + 1)
        });
        ends.max().unwrap_or(0).max(S::PACE.first)
    }
}

fn faults<S: Subject>(rng: &mut Rng, settings: &Settings<S>) -> Vec<Planned<S::Fault>> {
    let pace = S::PACE;
    // Cold starts are looked at as well: sometimes a fault is there before the first agent.
    let mut at = if rng.chance(pace.cold) { rng.below(3 * SECOND) } else { pace.first + rng.below(3 * SECOND) };
    let wanted = rng.between(pace.count.0, pace.count.1);
    let mut all: Vec<Planned<S::Fault>> = vec![];
    for _ in 0..wanted {
        let fault = S::draw(rng, settings);
        let lasts = lasts::<S>(rng, &fault);
        all.push(Planned { at, lasts, fault });
        // Together, soon after one another, or far enough apart for everything to be quiet again.
        at += match rng.below(10) {
            0..2 => rng.below(300 * MS),
            2..6 => rng.below(4 * SECOND),
            6..9 => lasts + rng.below(pace.apart),
            _ => lasts + rng.below(25 * SECOND),
        };
        if at > pace.until && all.len() >= pace.enough {
            break;
        }
        at = at.min(pace.until + rng.below(SECOND));
    }
    all
}

fn lasts<S: Subject>(rng: &mut Rng, fault: &FaultOf<S>) -> Nanos {
    let kind = match fault {
        Fault::WallJump(..) | Fault::NewMac(_) | Fault::Strip(_) | Fault::Upgrade(_) => Lasts::Instant,
        Fault::Restart(_) => Lasts::Millis(1, 8_000),
        Fault::Primary(_) | Fault::SlowKernel(..) => Lasts::Millis(20, 2_000),
        Fault::Freeze(_) if rng.chance(400) => Lasts::Millis(20, 2_000),
        Fault::Own(own) => own.lasts(),
        _ => Lasts::Any,
    };
    match kind {
        Lasts::Instant => 0,
        Lasts::Millis(least, most) => rng.between(least, most) * MS,
        Lasts::Any => match rng.below(4) {
            0 => rng.between(20, 1_000) * MS,
            1 => rng.between(200, 5_000) * MS,
            2 => rng.between(2_000, 15_000) * MS,
            _ => rng.between(8_000, 30_000) * MS,
        },
    }
}

/// Draws how API servers fail; `forbids`: 403 is one of the ways.
#[must_use]
pub fn how(rng: &mut Rng, forbids: bool) -> How {
    match rng.below(9) {
        0..2 => How::Refused,
        2..4 => How::Hangs,
        4 => How::Errors,
        5 if forbids => How::Forbidden,
        5..7 => How::Slow(rng.pick(&[20, 150, 400, 900, 2_500])),
        7 => How::LosesRequests(rng.pick(&[100, 500, 900])),
        _ => How::LosesAnswers(rng.pick(&[100, 500, 1_000])),
    }
}
