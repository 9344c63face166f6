//! A run before it is run: its settings and its faults, drawn from the seed.

use super::api::Of;
use super::fault::{Fault, Planned};
use super::settings::Settings;
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::How;
use crate::rng::Rng;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of this seed.
    pub seed: u64,
    /// What the run is made of.
    pub settings: Settings,
    /// What goes wrong, in order of time.
    pub faults: Vec<Planned>,
}

/// The first fault comes after this.
const FIRST: Nanos = 12 * SECOND;

impl Plan {
    /// The plan of a seed. `nodes`: so many, whatever is drawn.
    #[must_use]
    pub fn of(seed: u64, nodes: Option<usize>) -> Self {
        let mut plan = Self::plain(seed, nodes);
        plan.widen();
        plan
    }

    /// Faults that came later are drawn apart, so that seeds which once found something go on to be what they were.
    fn widen(&mut self) {
        let mut rng = Rng::new(self.seed, 13);
        self.settings.apart = rng.chance(600);
        let some = |rng: &mut Rng| rng.chance(700).then(|| rng.pick(&Of::BOTH));
        for planned in &mut self.faults {
            match &mut planned.fault {
                Fault::WatchBreak(_, of) | Fault::WatchHang(_, of) | Fault::WatchLag(_, _, of)
                    if self.settings.apart =>
                {
                    *of = some(&mut rng);
                }
                Fault::Delete(vip) if rng.chance(400) => {
                    (planned.fault, planned.lasts) = (Fault::Remake(*vip), 0);
                }
                Fault::Delete(vip) if rng.chance(500) => planned.fault = Fault::Withdraw(*vip),
                Fault::LinkDown(host, segment, true) if rng.chance(300) => {
                    let (host, segment) = (*host, *segment);
                    if self.settings.is_on(host, segment) {
                        planned.fault = Fault::Unplug(host, segment);
                    }
                }
                Fault::Api(How::Errors | How::Slow(_)) if rng.chance(300) => {
                    planned.fault = Fault::Nudge(rng.pick(&[100, 500, 1_000]));
                }
                _ => {}
            }
        }
    }

    /// The same without what [`Plan::of`] has drawn apart.
    #[must_use]
    pub fn plain(seed: u64, nodes: Option<usize>) -> Self {
        let mut rng = Rng::new(seed, 11);
        let settings = Settings::draw(&mut rng, nodes);
        let faults = faults(&mut rng, &settings);
        Self { seed, settings, faults }
    }

    /// The same with only those of its faults whose numbers are given.
    #[must_use]
    pub fn only(&self, kept: &[usize]) -> Self {
        let faults = kept.iter().filter_map(|n| self.faults.get(*n).copied()).collect();
        Self { faults, ..self.clone() }
    }

    /// When the last fault is over.
    #[must_use]
    pub fn calm(&self) -> Nanos {
        let ends = self.faults.iter().map(|p| {
            let upgrade = if let Fault::Upgrade(apart) = p.fault { Nanos::from(apart) * MS } else { 0 };
            p.at + p.lasts + upgrade * (self.settings.nodes as u64 + 1)
        });
        ends.max().unwrap_or(0).max(FIRST)
    }
}

fn faults(rng: &mut Rng, settings: &Settings) -> Vec<Planned> {
    let mut at = if rng.chance(120) { rng.below(3 * SECOND) } else { FIRST + rng.below(3 * SECOND) };
    let wanted = rng.between(5, 9);
    let mut all: Vec<Planned> = vec![];
    for _ in 0..wanted {
        let fault = draw(rng, settings);
        let lasts = lasts(rng, &fault);
        all.push(Planned { at, lasts, fault });
        at += match rng.below(10) {
            0..2 => rng.below(300 * MS),
            2..6 => rng.below(4 * SECOND),
            6..9 => lasts + rng.below(14 * SECOND),
            _ => lasts + rng.below(25 * SECOND),
        };
        at = at.min(90 * SECOND + rng.below(SECOND));
    }
    all
}

fn lasts(rng: &mut Rng, fault: &Fault) -> Nanos {
    match fault {
        Fault::WallJump(..)
        | Fault::Restore
        | Fault::DeleteSession(_)
        | Fault::StripSession(_)
        | Fault::StripRecord(_)
        | Fault::WatchBreak(..)
        | Fault::Remake(_)
        | Fault::Strip(_)
        | Fault::Rebalance(_)
        | Fault::Upgrade(_) => 0,
        Fault::SlowKernel(..) => rng.between(20, 2_000) * MS,
        Fault::Restart(_) => rng.between(1, 8_000) * MS,
        Fault::Freeze(_) if rng.chance(400) => rng.between(20, 2_000) * MS,
        _ => match rng.below(4) {
            0 => rng.between(20, 1_000) * MS,
            1 => rng.between(200, 5_000) * MS,
            2 => rng.between(2_000, 15_000) * MS,
            _ => rng.between(8_000, 30_000) * MS,
        },
    }
}

fn how(rng: &mut Rng) -> How {
    match rng.below(9) {
        0..2 => How::Refused,
        2..4 => How::Hangs,
        4 => How::Errors,
        5..7 => How::Slow(rng.pick(&[20, 150, 400, 900, 2_500])),
        7 => How::LosesRequests(rng.pick(&[100, 500, 900])),
        _ => How::LosesAnswers(rng.pick(&[100, 500, 1_000])),
    }
}

fn draw(rng: &mut Rng, settings: &Settings) -> Fault {
    let nodes = settings.nodes;
    let node = rng.index(nodes);
    let other = (node + 1 + rng.index(nodes.max(2) - 1)) % nodes.max(2);
    let vip = rng.index(settings.vips);
    let some = (rng.draw() & ((1_u64 << nodes.min(63)) - 1)).max(1);
    let segment = rng.index(settings.segments);
    match rng.below(100) {
        0..13 => Fault::Crash(node),
        13..20 => Fault::Freeze(node),
        20..24 => Fault::Kill(node),
        24..29 => Fault::Restart(node),
        29 => Fault::Upgrade(rng.pick(&[500, 2_000, 4_000])),
        30..33 => Fault::Starve(node, rng.pick(&[30, 120, 400, 1_500])),
        33..36 => Fault::Suspend(node),
        36..39 => Fault::Stun(node, rng.chance(600)),
        39 => Fault::WallJump(node, rng.pick(&[-86_400, -30, 2, 40, 86_400])),
        40..45 => Fault::LinkDown(node, segment, rng.chance(600)),
        45..52 => Fault::Partition(some, rng.chance(400).then_some(segment), rng.chance(500)),
        52..54 => Fault::Loss(node, other, rng.pick(&[200, 600, 1_000, 1_000])),
        54 => Fault::Delay(node, other, rng.pick(&[3, 40, 150, 600])),
        55..63 => Fault::Api(how(rng)),
        63..71 => Fault::ApiOf(node, how(rng)),
        71 => {
            if rng.chance(300) {
                Fault::Restore
            } else {
                Fault::DeleteSession(node)
            }
        }
        72 => Fault::StripSession(node),
        73 => Fault::StripRecord(vip),
        74..76 => Fault::Delete(vip),
        76..78 => Fault::Burst(rng.pick(&[1, 5, 20])),
        78 => Fault::WatchBreak(node, None),
        79..81 => Fault::WatchHang(node, None),
        81..83 => Fault::WatchLag(node, rng.pick(&[100, 700, 3_000]), None),
        83..86 => Fault::NoEndpoints(node),
        86 => Fault::NoEndpointsAnywhere,
        87 => Fault::AllUnready,
        88 => Fault::Cordon(node),
        89..91 => Fault::Drain(node),
        91 => Fault::Rebalance(node),
        92 => Fault::Strip(node),
        93..95 => Fault::SlowKernel(node, rng.pick(&[20, 300, 700])),
        95..97 => Fault::Refuse(node),
        97 => Fault::Foreign,
        _ => Fault::Crash(other),
    }
}
