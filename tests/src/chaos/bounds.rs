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
/// As long as this an agent stands that is starved (200 ms and 20 ms for each of at most 25). Once it stands while another owner's frame
/// waits for it; then it knows that it was late, looks at the Lease, and may stand once more before it removes the VIP. Its fence bounds
/// that: who hands a VIP over keeps it for 4 s at most.
pub const STANDS: Duration = Duration::from_millis(700);
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
/// Two bad answers in a row make an API server unhealthy, and a hanging one takes 2 s for an answer.
pub const UNWELL: Duration = Duration::from_secs(2);
/// Moves beyond those of each fault, when nobody can ask the API and a cut between two hosts heals: a lapsed holder and a provisional one
/// hear each other, and each must yield. Another host takes the VIP provisionally; if the turns of two fall together, both yield once more.
pub const BOTH_YIELD: usize = 2;
/// Resident memory of an agent, in kilobytes.
pub const MEMORY: u64 = 48 * 1_024;

/// Where etcd's members are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Etcd {
    /// On a host apart.
    #[default]
    Apart,
    /// One on each control plane.
    Stacked,
    /// One on each control plane, and a fault isolated the one that led when the round began: until another one leads, nobody can ask the
    /// API.
    LeaderIsolated,
}

/// What one fault may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// For how long the client may hear nothing, in all.
    pub outage: Duration,
    /// How often the VIP may move.
    pub moves: usize,
}

/// What a fault may cost that happens alone: on the holder or on another host, for this long. `stacked`: each control plane has an etcd
/// member of its own.
#[must_use]
pub fn alone(class: Class, on_holder: bool, lasts: Duration, stacked: bool) -> Bound {
    let bound = |outage, moves| Bound { outage, moves };
    let outlives = lasts >= OUTLIVES;
    match class {
        // The cut separates two etcd members as well: who took the VIP may find its own API server unhealthy, and hands over.
        Class::Cut | Class::CutOneWay if stacked && lasts >= UNWELL => bound(WITNESSED, 3),
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
fn harms(class: Class, lasts: Duration, stacked: bool) -> bool {
    let bound = alone(class, true, lasts, stacked);
    bound.moves > 0 || bound.outage > HARMLESS
}

/// Whether a cut heals while nobody can ask the API.
fn heals_without_api(faults: &[(Class, bool, Duration)], etcd: Etcd) -> bool {
    let any = |wanted: fn(&Class) -> bool| faults.iter().any(|(class, ..)| wanted(class));
    etcd == Etcd::LeaderIsolated
        || any(|class| matches!(class, Class::ApisStopped | Class::ApisFrozen | Class::EtcdFrozen))
            && any(|class| matches!(class, Class::Cut | Class::CutOneWay | Class::Isolated))
}

/// What the faults of a round may cost. Each fault is given as its class, whether it affects the holder, and how long
/// it lasts. `spent`: the VIP has moved so often recently that the witness may not decide.
#[must_use]
pub fn of_round(faults: &[(Class, bool, Duration)], spent: bool, etcd: Etcd) -> Bound {
    let both_yield = heals_without_api(faults, etcd);
    let stacked = etcd != Etcd::Apart;
    let yields = if both_yield { BOTH_YIELD } else { 0 };
    match faults {
        [] => Bound { outage: HARMLESS, moves: 0 },
        [(class, on_holder, lasts)] => {
            let bound = alone(*class, *on_holder, *lasts, stacked);
            let bound = Bound { moves: bound.moves + if *on_holder { yields } else { 0 }, ..bound };
            let slow = spent && bound.outage >= WITNESSED && !matches!(class, Class::Claimed | Class::Stranger);
            if slow { Bound { outage: bound.outage + EXPIRED, ..bound } } else { bound }
        }
        several => {
            // Without an API nobody hands over because of its health.
            let stacked = stacked && !both_yield;
            let moves: usize = several.iter().map(|(class, _, lasts)| alone(*class, true, *lasts, stacked).moves).sum();
            let moves = moves + yields;
            // A host that is not the holder now may be the holder when its fault begins.
            let harmful = several.iter().any(|(class, _, lasts)| harms(*class, *lasts, stacked));
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
            let (own, other) = (alone(class, true, lasts, false), alone(class, false, lasts, false));
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
         Stacked: a cut of {} s or more, one move more. A cut that heals while nobody can ask the API, or an isolation of etcd's leader: {BOTH_YIELD} moves more.\n\
         Two owners that can hear each other: {} ms; {} ms more if the agent of one is starved. One holder after all is healed: {} s. Requests of all agents: {BURST} \
         in a second, {RATE} a second over a round. Lifetime of the address: {LIFETIME} s. Memory of an agent: {} MiB.\n",
        EXPIRED.as_secs(),
        UNWELL.as_secs(),
        SHARED.as_millis(),
        (2 * STANDS).as_millis(),
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
        let harmless = of_round(&[(Class::ApisFrozen, true, SHORT)], true, Etcd::Apart);
        assert_eq!(harmless, Bound { outage: HARMLESS, moves: 0 });
        assert_eq!(of_round(&[(Class::Crash, false, SHORT)], true, Etcd::Apart), Bound { outage: HARMLESS, moves: 0 });
        let two = of_round(&[(Class::ApisFrozen, true, SHORT), (Class::CutGateway, true, SHORT)], false, Etcd::Apart);
        assert_eq!(two, Bound { outage: HARMLESS * 2, moves: 0 });
    }

    #[test]
    fn a_spent_witness_and_company_cost_a_lease() {
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], false, Etcd::Apart).outage, WITNESSED);
        assert_eq!(of_round(&[(Class::Crash, true, SHORT)], true, Etcd::Apart).outage, WITNESSED + EXPIRED);
        let company = of_round(&[(Class::Crash, false, SHORT), (Class::PortDown, true, SHORT)], false, Etcd::Apart);
        assert_eq!(company, Bound { outage: EXPIRED, moves: 4 });
    }

    #[test]
    fn a_cut_that_heals_without_an_api_makes_both_yield() {
        let moves = |one, other| of_round(&[(one, true, SHORT), (other, true, SHORT)], false, Etcd::Apart).moves;
        assert_eq!(moves(Class::ApisStopped, Class::Cut), 3 + BOTH_YIELD);
        assert_eq!(moves(Class::EtcdFrozen, Class::Isolated), 2 + BOTH_YIELD);
        let long = |class| (class, true, UNWELL);
        assert_eq!(of_round(&[long(Class::ApisStopped), long(Class::Cut)], false, Etcd::Stacked).moves, 3 + BOTH_YIELD);
        // With an API the Lease decides; without a cut nobody hears another; a crashed host comes back without the VIP.
        assert_eq!(moves(Class::ApiStopped, Class::Cut), 4);
        assert_eq!(moves(Class::ApisStopped, Class::Claimed), 1);
        assert_eq!(moves(Class::ApisStopped, Class::Crash), 3);
    }

    #[test]
    fn an_isolation_of_etcds_leader_that_heals_makes_both_yield() {
        let isolated = |on_holder, leader| of_round(&[(Class::Isolated, on_holder, UNWELL)], false, leader).moves;
        assert_eq!(isolated(true, Etcd::LeaderIsolated), 2 + BOTH_YIELD);
        assert_eq!(isolated(true, Etcd::Stacked), 2, "the API answers the other hosts");
        assert_eq!(isolated(false, Etcd::LeaderIsolated), 0, "the holder needs no API");
    }

    #[test]
    fn a_cut_between_etcd_members_makes_an_api_server_unhealthy() {
        let moves = |lasts, etcd| of_round(&[(Class::CutOneWay, true, lasts)], false, etcd).moves;
        assert_eq!(moves(UNWELL, Etcd::Stacked), 3);
        assert_eq!(moves(SHORT, Etcd::Stacked), 2, "too short for two bad answers");
        assert_eq!(moves(UNWELL, Etcd::Apart), 2, "etcd is elsewhere");
        assert_eq!(of_round(&[(Class::CutGateway, true, UNWELL)], false, Etcd::Stacked).moves, 0);
    }
}
