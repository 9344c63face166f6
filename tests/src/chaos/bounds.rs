//! The limits for a machine of two cores that runs other work as well. The benches measure the speed; a value beyond
//! these bounds is a defect.

use std::time::Duration;

use super::class::{Class, OUTLIVES};
use crate::report::table;

/// The fault should cost nothing: this much a busy machine may lose.
pub const HARMLESS: Duration = Duration::from_millis(500);
/// The segment is the witness: three unanswered probes of 100 ms, and a write.
pub const WITNESSED: Duration = Duration::from_secs(3);
/// The old holder cannot release the VIP: its fence ends up to 4 s before its Lease does.
pub const FENCED: Duration = Duration::from_secs(8);
/// The witness may not decide (several faults at once, four moves in 180 s): the Lease of 15 s runs out, counted in
/// full from the moment when candidates can read the Lease again.
pub const EXPIRED: Duration = Duration::from_secs(25);
/// Two owners that hear each other: one frame, plus the time to the kernel and to the observer.
pub const SHARED: Duration = Duration::from_millis(500);
/// The longest lifetime that an address may get: the rest of a Lease of 15 s less 1.5 s, in whole seconds.
pub const LIFETIME: u32 = 13;
/// How late the kernel and the observer may notice the end of an address.
pub const KERNEL: Duration = Duration::from_millis(1_500);
/// Two observers hear of two removals at the same moment within this.
pub const NOTICED: Duration = Duration::from_millis(200);
/// From the end of the last fault, with every API server ready, until one holder is heard without interruption.
pub const SETTLED: Duration = Duration::from_secs(25);
/// Requests of all agents within any second: a write, its race with a second API server, a read, an Event, three times.
pub const BURST: usize = 60;
/// Requests of all agents a second, over a whole round.
pub const RATE: f64 = 12.0;
/// Beside [`BURST`], where agents carry VIPs of Services: five watches that three agents open anew, with two API servers each, a list
/// and a watch; and for each of eight VIPs its record and its Events.
pub const SERVICES_BURST: usize = 90;
/// Beside [`RATE`], where agents carry VIPs of Services: a session's renewals, and hand-overs of eight VIPs.
pub const SERVICES_RATE: f64 = 12.0;
/// An agent was ready to run and got no processor for this long in a round, or the machine stood still for this long:
/// rules that depend on time cannot be judged then.
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

/// What a fault may cost that happens alone: on the holder or on another host, for this long.
#[must_use]
pub fn alone(class: Class, on_holder: bool, lasts: Duration) -> Bound {
    let bound = |outage, moves| Bound { outage, moves };
    let outlives = lasts >= OUTLIVES;
    match class {
        // A host that does not hear the holder any more, but hears others, takes the VIP; so both sides count.
        Class::Cut | Class::CutOneWay => bound(WITNESSED, 2),
        // Candidates with a bad line also find the holder silent.
        Class::Loss => bound(lasts + WITNESSED, 4),
        Class::Stranger => bound(lasts + WITNESSED, 0),
        Class::Claimed => bound(WITNESSED, 0),
        Class::AgentsUpgraded => bound(HARMLESS, 3),
        // The API servers start one after another: for some seconds, the host whose API server is ready first ranks
        // above the holder.
        Class::ApisStopped => bound(HARMLESS, 1),
        _ if !on_holder => bound(HARMLESS, 0),
        Class::Crash | Class::Isolated | Class::PortDown | Class::InterfaceRecreated => bound(WITNESSED, 2),
        Class::AgentFrozen | Class::HostFrozen | Class::AgentKilled if outlives => bound(FENCED, 2),
        Class::HostFrozen | Class::ApiCut | Class::ApiStopped | Class::ApiFrozen | Class::ApiSlow => bound(HARMLESS, 2),
        Class::AgentRestarted => bound(HARMLESS, 1),
        _ => bound(HARMLESS, 0),
    }
}

/// Whether a fault of this class may move or interrupt the VIP at all.
fn harms(class: Class, lasts: Duration) -> bool {
    let bound = alone(class, true, lasts);
    bound.moves > 0 || bound.outage > HARMLESS
}

/// What the faults of a round may cost. Each fault is given as its class, whether it affects the holder, and how long
/// it lasts. `spent`: the VIP has moved so often recently that the witness may not decide.
#[must_use]
pub fn of_round(faults: &[(Class, bool, Duration)], spent: bool) -> Bound {
    match faults {
        [] => Bound { outage: HARMLESS, moves: 0 },
        [(class, on_holder, lasts)] => {
            let bound = alone(*class, *on_holder, *lasts);
            let slow = spent && bound.outage >= WITNESSED && !matches!(class, Class::Claimed | Class::Stranger);
            if slow { Bound { outage: bound.outage + EXPIRED, ..bound } } else { bound }
        }
        several => {
            let moves = several.iter().map(|(class, _, lasts)| alone(*class, true, *lasts).moves).sum();
            // A host that is not the holder now may be the holder when its fault begins.
            let harmful = several.iter().any(|(class, _, lasts)| harms(*class, *lasts));
            let own = several.iter().filter(|(class, ..)| matches!(class, Class::Loss | Class::Stranger));
            let outage: Duration = own.map(|(_, _, lasts)| *lasts).sum();
            let harmless = HARMLESS * u32::try_from(several.len()).unwrap_or(u32::MAX);
            Bound { outage: outage + if harmful { EXPIRED } else { harmless }, moves }
        }
    }
}

/// The table of bounds, for readers.
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
        let harmless = of_round(&[(Class::ApisFrozen, true, SHORT)], true);
        assert_eq!(harmless, Bound { outage: HARMLESS, moves: 0 });
        assert_eq!(of_round(&[(Class::Crash, false, SHORT)], true), Bound { outage: HARMLESS, moves: 0 });
        let two = of_round(&[(Class::ApisFrozen, true, SHORT), (Class::CutGateway, true, SHORT)], false);
        assert_eq!(two, Bound { outage: HARMLESS * 2, moves: 0 });
    }

    #[test]
    fn a_spent_witness_and_company_cost_a_lease() {
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], false).outage, WITNESSED);
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], true).outage, WITNESSED + EXPIRED);
        let company = of_round(&[(Class::Crash, false, SHORT), (Class::PortDown, true, SHORT)], false);
        assert_eq!(company, Bound { outage: EXPIRED, moves: 4 });
    }
}
