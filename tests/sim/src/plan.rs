//! A run before it is run: its settings and its faults, drawn from the seed.

use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault, How, Planned};
use crate::rng::Rng;
use crate::settings::{Settings, Shape};

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

/// The first fault comes after this: the first election is over, and all take part.
const FIRST: Nanos = 9 * SECOND;

impl Plan {
    /// The plan of a seed. `nodes`: so many, whatever is drawn.
    #[must_use]
    pub fn of(seed: u64, nodes: Option<usize>) -> Self {
        let mut rng = Rng::new(seed, 1);
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
    // Cold starts are looked at as well: sometimes a fault is there before the first agent.
    let mut at = if rng.chance(150) { rng.below(3 * SECOND) } else { FIRST + rng.below(3 * SECOND) };
    let wanted = rng.between(5, 10);
    let mut all: Vec<Planned> = vec![];
    for _ in 0..wanted {
        let fault = draw(rng, settings);
        let lasts = lasts(rng, &fault);
        all.push(Planned { at, lasts, fault });
        // Together, soon after one another, or far enough apart for everything to be quiet again.
        at += match rng.below(10) {
            0..2 => rng.below(300 * MS),
            2..6 => rng.below(4 * SECOND),
            6..9 => lasts + rng.below(12 * SECOND),
            _ => lasts + rng.below(25 * SECOND),
        };
        if at > 95 * SECOND && all.len() >= 5 {
            break;
        }
        at = at.min(95 * SECOND + rng.below(SECOND));
    }
    all
}

fn lasts(rng: &mut Rng, fault: &Fault) -> Nanos {
    let short = |rng: &mut Rng| rng.between(20, 2_000) * MS;
    let any = |rng: &mut Rng| match rng.below(4) {
        0 => rng.between(20, 1_000) * MS,
        1 => rng.between(200, 5_000) * MS,
        2 => rng.between(2_000, 15_000) * MS,
        _ => rng.between(8_000, 30_000) * MS,
    };
    match fault {
        Fault::WallJump(..)
        | Fault::Restore
        | Fault::Delete
        | Fault::StripNotes
        | Fault::WatchBreak(_)
        | Fault::WatchGone(_)
        | Fault::WatchReplay(_)
        | Fault::Strip(_)
        | Fault::Upgrade(_) => 0,
        Fault::NoLeader => rng.between(500, 6_000) * MS,
        Fault::Restart(_) => rng.between(1, 8_000) * MS,
        Fault::Primary(_) | Fault::SlowKernel(..) => short(rng),
        Fault::Freeze(_) if rng.chance(400) => short(rng),
        _ => any(rng),
    }
}

fn how(rng: &mut Rng) -> How {
    match rng.below(9) {
        0..2 => How::Refused,
        2..4 => How::Hangs,
        4 => How::Errors,
        5 => How::Forbidden,
        6 => How::Slow(rng.pick(&[20, 150, 400, 900, 2_500])),
        7 => How::LosesRequests(rng.pick(&[100, 500, 900])),
        _ => How::LosesAnswers(rng.pick(&[100, 500, 1_000])),
    }
}

fn draw(rng: &mut Rng, settings: &Settings) -> Fault {
    let nodes = settings.nodes;
    let node = rng.index(nodes);
    let other = (node + 1 + rng.index(nodes.max(2) - 1)) % nodes.max(2);
    let servers = if settings.shape == Shape::Remote { 3 } else { nodes };
    let all = |n: usize| (1_u64 << n.min(63)) - 1;
    let some = |rng: &mut Rng, n: usize| (rng.draw() & all(n)).max(1);
    match rng.below(100) {
        0..9 => Fault::Crash(node),
        9..16 => Fault::Freeze(node),
        16..20 => Fault::Kill(node),
        20..23 => Fault::Restart(node),
        23 => Fault::Upgrade(rng.pick(&[500, 2_000, 4_000])),
        24..27 => Fault::Starve(node, rng.pick(&[30, 120, 400, 1_500])),
        27..30 => Fault::Suspend(node),
        30..33 => Fault::Stun(node, rng.chance(600)),
        33..35 => Fault::WallJump(node, rng.pick(&[-86_400, -30, 2, 40, 86_400])),
        35..40 => Fault::LinkDown(node),
        40..48 => Fault::Partition(some(rng, nodes), rng.chance(500)),
        48..51 => Fault::Loss(node, other, rng.pick(&[200, 600, 1_000, 1_000])),
        51..53 => Fault::Noise(node, rng.pick(&[50, 200, 500, 900])),
        53..55 => Fault::Delay(node, other, rng.pick(&[3, 40, 150, 600])),
        55 => Fault::Twice(node, rng.pick(&[200, 1_000])),
        56..64 => Fault::Api(all(servers), how(rng)),
        64..67 => Fault::Api(some(rng, servers), how(rng)),
        67..74 => Fault::ApiOf(node, how(rng)),
        74..77 => Fault::NoLeader,
        77 => {
            if rng.chance(250) {
                Fault::Restore
            } else {
                Fault::WatchBreak(node)
            }
        }
        78 => {
            if rng.chance(300) {
                Fault::Delete
            } else {
                Fault::StripNotes
            }
        }
        79 => Fault::WatchBreak(node),
        80..82 => Fault::WatchHang(node),
        82 => Fault::WatchGone(node),
        83 => Fault::WatchReplay(node),
        84..86 => Fault::WatchLag(rng.index(servers), rng.pick(&[100, 700, 3_000])),
        86..90 => Fault::Unhealthy(node),
        90 => Fault::AllUnhealthy,
        91..93 => Fault::Strip(node),
        93 => Fault::Primary(node),
        94..96 => Fault::SlowKernel(node, rng.pick(&[20, 300, 700])),
        96 => Fault::Refuse(node),
        97..99 => Fault::Foreign(rng.chance(600)),
        _ => Fault::Crash(other),
    }
}
