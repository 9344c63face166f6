//! Sessions and placement: one seed is one run, seeds that once found something find nothing any more.

use std::collections::BTreeSet;

use mooring_agent_core::rules::Rules;
use mooring_sim::clock::{MS, SECOND};
use mooring_sim::fault::{Fault, How, Planned};
use mooring_sim::many::{Order, many};
use mooring_sim::record::Record;
use mooring_sim::run::{finish, recorded, run};
use mooring_sim::session_vips::{Plan, SessionVips, World};
use mooring_sim::shrink::shrink;

/// Seeds that showed a defect of the core, or of the simulator.
const KEPT: &[u64] =
    &[34, 131, 162, 203, 253, 254, 294, 299, 605, 872, 893, 927, 948, 995, 1260, 1405, 1407, 1451, 1883];

/// The same, as they were drawn after the first widening.
const KEPT_SINCE: &[u64] = &[2341, 4453, 8332, 12877, 15795, 16030, 16327, 25581];

/// The same, as they were drawn after the seventh.
const KEPT_LATER: &[u64] = &[
    1087, 4042, 7528, 7643, 17133, 24356, 24948, 37230, 40167, 51753, 53978, 54501, 56685, 61254, 86303, 86414, 90887,
    97044,
];

/// The same, as they were drawn after the eighth.
const KEPT_SINCE_PORTS_FAIL: &[u64] = &[1708, 35947];

/// The same, as they were drawn after the ninth.
const KEPT_SINCE_MEMBERS: &[u64] = &[2_000_064, 2_002_018, 2_008_068, 2_008_375, 2_032_538];

/// The same, as they were drawn after the tenth.
const KEPT_SINCE_OLD_COPIES: &[u64] = &[3_100_609];

/// The same, as they were drawn after the eleventh.
const KEPT_SINCE_RACKS: &[u64] =
    &[4_705, 53_947, 302_206, 2_062_658, 3_320_454, 5_000_096, 5_000_167, 5_009_510, 5_013_429, 5_019_076];

/// The same, as they were drawn after the twelfth.
const KEPT_SINCE_CARDS: &[u64] = &[
    6_000_155, 6_015_965, 6_033_696, 6_050_585, 6_069_112, 6_094_540, 6_097_447, 7_012_743, 7_030_325, 7_050_217,
    8_011_753, 8_020_816, 8_071_660, 8_086_258, 8_087_286, 2_083_345, 8_104_986, 8_111_501, 9_155_269, 9_169_422,
    9_315_389, 10_080_180, 951, 20_100_518, 20_101_988, 20_102_505, 20_103_012, 20_103_142, 20_103_471, 20_103_931,
    20_302_563, 20_305_576, 20_305_841,
];

#[test]
fn one_seed_is_one_run_whether_or_not_anybody_looks() {
    for seed in 0..8 {
        let plan = Plan::of(seed, None);
        let (first, outcome) = recorded(&plan, true);
        let (second, again) = recorded(&plan, true);
        assert!(first.lines().count() > 100);
        assert_eq!((first, outcome.digest), (second, again.digest), "seed {seed}");
        assert_eq!(run(&plan).digest, outcome.digest, "seed {seed}, not recorded");
    }
}

#[test]
fn kept_seeds_find_nothing_any_more() {
    let kept = [
        (0, KEPT),
        (1, KEPT_SINCE),
        (7, KEPT_LATER),
        (8, KEPT_SINCE_PORTS_FAIL),
        (9, KEPT_SINCE_MEMBERS),
        (10, KEPT_SINCE_OLD_COPIES),
        (11, KEPT_SINCE_RACKS),
        (12, KEPT_SINCE_CARDS),
    ];
    for (widenings, seeds) in kept {
        for seed in seeds {
            let outcome = run(&Plan::drawn(*seed, None, widenings));
            assert_eq!(outcome.violation, None, "seed {seed}, as it was drawn then");
        }
    }
}

/// `SIM_SEED=n cargo test -p mooring-sim --test session_vips one_seed_told -- --nocapture` tells one run, with the fewest faults
/// that still fail if it fails; `SIM_VERBOSE=1` all that goes into the cores and comes out of them; `SIM_WIDENINGS=n` as it was drawn
/// after so many widenings.
#[test]
fn one_seed_told() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(seed) = number("SIM_SEED") else { return };
    let widenings = number("SIM_WIDENINGS").and_then(|n| usize::try_from(n).ok());
    let mut plan = widenings.map_or_else(|| Plan::of(seed, None), |widenings| Plan::drawn(seed, None, widenings));
    if let Some(violation) = run(&plan).violation {
        let kept = shrink(&plan, violation.rule);
        plan = plan.only(&kept);
    }
    let (text, outcome) = recorded(&plan, number("SIM_VERBOSE").is_some());
    println!("{:?}\n{text}{:?}", plan.settings, outcome.violation);
}

/// Requests of all nodes from one moment to another.
fn calls(world: &mut World<'_>, from: u64, to: u64) -> u64 {
    world.run(from);
    let before = world.counts.calls;
    world.run(to);
    assert_eq!(world.violation, None);
    world.counts.calls - before
}

#[test]
fn forty_nodes_ask_little_of_the_api() {
    ask_little(40);
}

#[test]
#[ignore = "it takes most of a minute: the nightly round has it"]
fn a_hundred_nodes_ask_little_of_the_api() {
    ask_little(100);
}

/// What the nodes ask of the API is their own renewals, whatever the VIPs are; after a node's crash, an end and a record for
/// each of its VIPs; after an outage, one list a node more.
fn ask_little(nodes: u64) {
    let mut plan = Plan::drawn(1, usize::try_from(nodes).ok(), 1);
    plan.settings.rules = Rules::default();
    (plan.settings.own.vips, plan.settings.segments, plan.settings.own.local) = (200, 1, BTreeSet::new());
    (plan.settings.absent, plan.settings.spread) = (BTreeSet::new(), 500 * MS);
    let at = |seconds, lasts, fault| Planned { at: seconds * SECOND, lasts: lasts * SECOND, fault };
    plan.faults = vec![at(50, 60, Fault::Crash(7)), at(80, 5, Fault::Api(1, How::Refused))];
    let mut world = World::new(&plan);
    let steady = calls(&mut world, 30 * SECOND, 50 * SECOND);
    assert!((9 * nodes..=11 * nodes).contains(&steady), "{nodes} that renew every 2 s: {steady} requests in 20 s");
    let crash = calls(&mut world, 50 * SECOND, 70 * SECOND);
    assert!(crash <= steady + 60, "a crash: {crash} requests in 20 s");
    let outage = calls(&mut world, 70 * SECOND, 90 * SECOND);
    // While calls are refused, each node tries its renewal, a list and its watch about once a second each; after it, all renew
    // and list until one list is younger than the API's return.
    assert!(outage <= 6 * steady, "an outage of 5 s: {outage} requests in 20 s");
    let after = calls(&mut world, 90 * SECOND, 110 * SECOND);
    assert!(after <= steady + 60, "after it: {after} requests in 20 s");
}

/// A fleet of so many nodes with 40 VIPs, in which one node dies and the API is away for 5 s: what each node is told in a
/// quiet time (events a second), about the crash (events), and after the outage (objects listed, and bytes).
fn told(nodes: u32) -> (f64, f64, f64, f64) {
    let mut plan = Plan::drawn(1, usize::try_from(nodes).ok(), 1);
    plan.settings.rules = Rules::default();
    (plan.settings.own.vips, plan.settings.segments, plan.settings.own.local) = (40, 1, BTreeSet::new());
    (plan.settings.absent, plan.settings.spread) = (BTreeSet::new(), 500 * MS);
    let at = |seconds, lasts, fault| Planned { at: seconds * SECOND, lasts: lasts * SECOND, fault };
    plan.faults = vec![at(60, 120, Fault::Crash(7)), at(80, 5, Fault::Api(1, How::Refused))];
    let mut world = World::new(&plan);
    let mut during = |from: u64, to: u64| {
        world.run(from * SECOND);
        let before = world.counts.clone();
        world.run(to * SECOND);
        assert_eq!(world.violation, None);
        let of = |after: u64, before: u64| u32::try_from(after - before).map_or(f64::MAX, f64::from) / f64::from(nodes);
        let counts = &world.counts;
        (of(counts.events, before.events), of(counts.listed, before.listed), of(counts.bytes, before.bytes))
    };
    let (quiet, _, _) = during(40, 60);
    let (crash, _, _) = during(60, 80);
    let (_, listed, bytes) = during(80, 130);
    (quiet / 20.0, crash - quiet, listed, bytes)
}

/// What an agent is told does not grow with the number of nodes, but for its lists and the one crash.
#[test]
fn what_a_node_is_told_does_not_grow_with_the_fleet() {
    let (few, many) = (told(20), told(80));
    println!("(events a second, of a crash, objects listed, bytes) for each node: {few:?} of 20, {many:?} of 80");
    // Three Leases that are renewed every 2 s: both fleets are too large for a third judge.
    assert!(few.0 < 2.5 && many.0 < 2.5 && many.0 < few.0 * 1.1, "events a second: {few:?} -> {many:?}");
    assert!(many.1 < few.1 * 1.5 + 5.0, "events of a crash: {few:?} -> {many:?}");
    // All sessions and all records, a few times at most.
    for (nodes, one) in [(20.0, few), (80.0, many)] {
        assert!(one.2 < 3.0 * (2.0 * nodes + 80.0) && one.3 < 3_000.0 * (2.6 * nodes + 100.0), "{nodes}: {one:?}");
    }
}

#[test]
fn a_hundred_nodes_keep_the_rules() {
    let outcome = run(&Plan::of(2, Some(100)));
    assert_eq!(outcome.violation, None, "cargo lab sim --sessions --seed 2 --nodes 100 --timeline");
}

/// `SIM_SEEDS=n` runs so many; a few without that: `cargo lab test simulated-sessions` runs hundreds.
#[test]
fn seeds_keep_the_rules() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (from, seeds) = (number("SIM_FROM").unwrap_or(0), number("SIM_SEEDS").unwrap_or(20));
    let sum = many::<SessionVips>(&Order::new(from, seeds, jobs), &|_, _| {});
    let failed: Vec<String> = sum
        .failed
        .iter()
        .filter_map(|f| {
            let replay = format!("cargo lab sim --sessions --seed {} --timeline", f.seed);
            f.violation.as_ref().map(|v| format!("seed {}: {}: {}; {replay}", f.seed, v.rule, v.text))
        })
        .collect();
    println!(
        "{} runs, {} faults, {} s, {} steps, {} failed",
        sum.runs,
        sum.faults,
        sum.seconds,
        sum.steps,
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// `SIM_COST=1 cargo test --release -p mooring-sim --test session_vips what_a_core_costs -- --nocapture`: the processor's time of the
/// cores alone would be less, for the world is in it too.
#[test]
fn what_a_core_costs() {
    if std::env::var_os("SIM_COST").is_none() {
        return;
    }
    let mut plan = Plan::drawn(1, Some(20), 0);
    plan.settings.rules = Rules::default();
    (plan.settings.own.vips, plan.settings.segments, plan.settings.own.local) = (500, 1, BTreeSet::new());
    (plan.settings.absent, plan.settings.spread) = (BTreeSet::new(), 500 * MS);
    plan.faults = vec![Planned { at: 100 * SECOND, lasts: 60 * SECOND, fault: Fault::Crash(7) }];
    let mut world = World::new(&plan);
    for (from, to, what) in [(0, 40, "the beginning"), (40, 100, "a quiet minute"), (100, 105, "a crash")] {
        let (began, steps) = (std::time::Instant::now(), world.counts.steps);
        world.run(to * SECOND);
        let (took, steps) = (began.elapsed(), world.counts.steps - steps);
        let share = took.as_secs_f64() / f64::from(u32::try_from(to - from).unwrap_or(1)) / 20.0 * 100.0;
        println!("{what}: {took:?}, {steps} steps, {share:.3} % of a core for each agent; {:?}", world.violation);
    }
}

#[test]
fn what_is_drawn_shows_who_has_which_vip() {
    let plan = Plan::of(1, None);
    let mut world = World::new(&plan);
    world.log = Some(Record::default());
    finish(&mut world);
    let drawing = world.draw();
    assert!(drawing.starts_with("<svg") && drawing.contains(r#"class="vip""#) && drawing.contains("node1"));
}
