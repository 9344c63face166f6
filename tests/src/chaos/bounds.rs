//! What is allowed: for a machine of two cores that has other things to do as well. The benches say how fast it is; these
//! bounds say what would be a defect.

use std::time::Duration;

use super::class::{Class, OUTLIVES};
use crate::report::table;

/// Nothing should be lost: what a busy machine may swallow.
pub const CALM: Duration = Duration::from_millis(500);
/// The segment is the witness: three silent probes of 100 ms, and a write.
pub const WITNESSED: Duration = Duration::from_secs(3);
/// The old holder cannot let go: its fence ends up to 4 s before its Lease does.
pub const FENCED: Duration = Duration::from_secs(8);
/// The witness may not decide (several faults at once, four moves in 180 s): the Lease of 15 s runs out, once in full
/// from when it could be read again.
pub const EXPIRED: Duration = Duration::from_secs(25);
/// Two that hear each other: one frame and the way to the kernel and to the observer.
pub const SHARED: Duration = Duration::from_millis(500);
/// The longest lifetime that an address may be given: what is left of a Lease of 15 s less 1.5 s, in whole seconds.
pub const LIFETIME: u32 = 13;
/// How late the kernel and the observer may be with the end of an address.
pub const KERNEL: Duration = Duration::from_millis(1_500);
/// From the end of the last fault, with every API server ready, until one holder is heard for good.
pub const SETTLED: Duration = Duration::from_secs(25);
/// Requests of all agents within any second: a write, its race with a second API server, a read, an Event, three times.
pub const BURST: usize = 60;
/// Requests of all agents a second, over a whole round.
pub const RATE: f64 = 12.0;
/// An agent that was ready to run and was not let for so long in a round, or a machine that stood still for so long: what
/// depends on time cannot be judged then.
pub const STARVED: Duration = Duration::from_secs(1);
/// Resident memory of an agent, in kilobytes.
pub const MEMORY: u64 = 48 * 1_024;

/// What one fault may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// For how long the client may hear nothing, in all.
    pub outage: Duration,
    /// How often the VIP may move.
    pub moves: usize,
}

/// What a fault may cost that happens alone: to the holder or to another, for so long.
#[must_use]
pub fn alone(class: Class, on_holder: bool, lasts: Duration) -> Bound {
    let bound = |outage, moves| Bound { outage, moves };
    let outlives = lasts >= OUTLIVES;
    match class {
        // Whoever does not hear the holder any more, while others are heard, takes the VIP; so both sides count.
        Class::Cut | Class::CutOneWay => bound(WITNESSED, 2),
        // Candidates with a bad line find the holder silent, too.
        Class::Loss => bound(lasts + WITNESSED, 4),
        Class::Stranger => bound(lasts + WITNESSED, 0),
        Class::Claimed => bound(WITNESSED, 0),
        Class::AgentsUpgraded => bound(CALM, 3),
        // They start one after another: who is ready first is better than the holder for some seconds.
        Class::ApisStopped => bound(CALM, 1),
        _ if !on_holder => bound(CALM, 0),
        Class::Crash | Class::Isolated | Class::PortDown | Class::InterfaceRecreated => bound(WITNESSED, 2),
        Class::AgentFrozen | Class::HostFrozen | Class::AgentKilled if outlives => bound(FENCED, 2),
        Class::HostFrozen | Class::ApiCut | Class::ApiStopped | Class::ApiFrozen | Class::ApiSlow => bound(CALM, 2),
        Class::AgentRestarted => bound(CALM, 1),
        _ => bound(CALM, 0),
    }
}

/// Whether the VIP may go for a fault of this class at all.
fn harms(class: Class, lasts: Duration) -> bool {
    let bound = alone(class, true, lasts);
    bound.moves > 0 || bound.outage > CALM
}

/// What the faults of a round may cost, each given as class, whether it is the holder's, and how long it lasts. `spent`:
/// the VIP has moved so often lately that the witness may not decide.
#[must_use]
pub fn of_round(faults: &[(Class, bool, Duration)], spent: bool) -> Bound {
    match faults {
        [] => Bound { outage: CALM, moves: 0 },
        [(class, on_holder, lasts)] => {
            let bound = alone(*class, *on_holder, *lasts);
            let slow = spent && bound.outage >= WITNESSED && !matches!(class, Class::Claimed | Class::Stranger);
            if slow { Bound { outage: bound.outage + EXPIRED, ..bound } } else { bound }
        }
        several => {
            let moves = several.iter().map(|(class, _, lasts)| alone(*class, true, *lasts).moves).sum();
            // Who is not the holder now may be it when its fault comes.
            let harmful = several.iter().any(|(class, _, lasts)| harms(*class, *lasts));
            let own = several.iter().filter(|(class, ..)| matches!(class, Class::Loss | Class::Stranger));
            let outage: Duration = own.map(|(_, _, lasts)| *lasts).sum();
            let calm = CALM * u32::try_from(several.len()).unwrap_or(u32::MAX);
            Bound { outage: outage + if harmful { EXPIRED } else { calm }, moves }
        }
    }
}

/// The table of bounds, for people.
#[must_use]
pub fn for_people() -> String {
    let head = ["class", "what happens", "outage, on the holder", "on another", "moves", "on another"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let seconds = |bound: Bound| format!("{:.1} s", bound.outage.as_secs_f64());
    for class in Class::ALL {
        let about = class.about();
        let mut row = |name: String, lasts: Duration| {
            let (own, other) = (alone(class, true, lasts), alone(class, false, lasts));
            let cells = [name, about.what.to_owned(), seconds(own), seconds(other)];
            rows.push(cells.into_iter().chain([own.moves.to_string(), other.moves.to_string()]).collect());
        };
        row(about.name.to_owned(), if class == Class::Loss { Duration::ZERO } else { Duration::from_millis(1) });
        if about.long {
            row(format!("{}, 16 s or more", about.name), Duration::from_secs(16));
        }
    }
    let rest = format!(
        "Loss and strangers: their own duration on top. Several at once, or after 3 moves in 180 s: outage {} s.\n\
         Two owners that can hear each other: {} ms. One holder after all is healed: {} s. Requests of all agents: {BURST} \
         in a second, {RATE} a second over a round. Lifetime of the address: {LIFETIME} s. Memory of an agent: {} MiB.\n",
        EXPIRED.as_secs(),
        SHARED.as_millis(),
        SETTLED.as_secs(),
        MEMORY / 1_024,
    );
    table(&rows) + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(1);

    #[test]
    fn what_harms_nobody_is_allowed_nothing() {
        let calm = of_round(&[(Class::ApisFrozen, true, SHORT)], true);
        assert_eq!(calm, Bound { outage: CALM, moves: 0 });
        assert_eq!(of_round(&[(Class::Crash, false, SHORT)], true), Bound { outage: CALM, moves: 0 });
        let two = of_round(&[(Class::ApisFrozen, true, SHORT), (Class::CutGateway, true, SHORT)], false);
        assert_eq!(two, Bound { outage: CALM * 2, moves: 0 });
    }

    #[test]
    fn a_spent_witness_and_company_cost_a_lease() {
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], false).outage, WITNESSED);
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], true).outage, WITNESSED + EXPIRED);
        let company = of_round(&[(Class::Crash, false, SHORT), (Class::PortDown, true, SHORT)], false);
        assert_eq!(company, Bound { outage: EXPIRED, moves: 4 });
    }
}
