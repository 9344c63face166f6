//! Networks that are not plain, with default settings: hosts whose frames do not get out, filters by ARP sender, switches that answer
//! for others, isolated ports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mooring_agent_core::evidence::Sender;
use mooring_agent_core::rules::Rules;
use mooring_sim::clock::{MS, Nanos, SECOND};
use mooring_sim::elector::fault::Fault as OfElector;
use mooring_sim::elector::settings::Shape;
use mooring_sim::elector::{self, Elector};
use mooring_sim::fault::{Fault, How, Planned};
use mooring_sim::network::{Mute, Network};
use mooring_sim::plan::Plan;
use mooring_sim::record::Record;
use mooring_sim::run::run;
use mooring_sim::session_vips::{self, SessionVips};
use mooring_sim::settings;
use mooring_sim::subject::Subject;
use mooring_sim::world::World;

/// Seeds that showed a defect of the core, or of the simulator, on such networks.
const KEPT: &[u64] = &[
    402, 724, 1254, 2101, 2629, 2828, 3338, 20_000_423, 20_000_759, 20_001_373, 20_001_832, 20_002_067, 20_002_666,
    20_003_205, 20_003_528, 20_004_337, 20_004_573, 20_005_092, 20_005_180, 20_202_213, 20_305_149, 20_400_876,
    20_401_836, 20_403_198,
];
/// The same, of sessions.
const KEPT_OF_SESSIONS: &[u64] = &[
    20_000_212, 20_000_330, 20_000_765, 20_001_008, 20_001_272, 20_001_691, 20_300_263, 20_300_585, 20_300_851,
    20_301_211, 20_301_905, 20_302_540, 20_302_701, 20_400_033, 20_400_401, 20_401_284, 20_401_455, 20_402_036,
    20_500_157,
];

/// A gateway and kernels that ask for something every second.
const TALK: Network = Network { talk: Some(SECOND), filters: false, proxy: None, local_proxy: None, isolated: false };
/// The same, behind a filter by ARP sender.
const FILTER: Network = Network { filters: true, ..TALK };
/// The same, with switches that answer for others for five minutes.
const PROXY: Network = Network { proxy: Some(300 * SECOND), ..TALK };
/// The same, with a gateway that answers for everybody whoever names a sender.
const LOCAL: Network = Network { local_proxy: Some(0), ..TALK };
/// The same, later than owners answer.
const LATE: Network = Network { local_proxy: Some(800 * MS), ..TALK };
/// The same, on isolated ports.
const ISOLATED: Network = Network { isolated: true, ..TALK };

/// Something begins at 50 s.
const BEGINS: Nanos = 50 * SECOND;

fn at<O>(begins: Nanos, lasts: Nanos, fault: Fault<O>) -> Planned<O> {
    Planned { at: begins, lasts, fault }
}

/// Three nodes with default settings, each with its API server, and one VIP.
fn one_lease(seed: u64, network: Network, faults: Vec<Planned<OfElector>>) -> elector::Plan {
    let mut plan = Plan::<Elector>::drawn(seed, Some(3), 0);
    let settings = &mut plan.settings;
    (settings.rules, settings.defaults, settings.network) = (Rules::default(), true, network);
    (settings.spread, settings.ppm, settings.api) = (500 * MS, vec![0; 3], (MS / 2, 4 * MS));
    (settings.own.shape, settings.own.rival, settings.own.forgetful_client) = (Shape::External, None, true);
    settings.own.vips.truncate(1);
    plan.faults = faults;
    plan
}

/// Four nodes with default settings and six VIPs.
fn sessions(seed: u64, network: Network, faults: Vec<Planned<session_vips::fault::Fault>>) -> session_vips::Plan {
    let mut plan = Plan::<SessionVips>::drawn(seed, Some(4), 0);
    let settings = &mut plan.settings;
    (settings.rules, settings.defaults, settings.network) = (Rules::default(), true, network);
    (settings.segments, settings.absent, settings.ppm) = (1, BTreeSet::new(), vec![0; 4]);
    (settings.spread, settings.api) = (500 * MS, (MS / 2, 4 * MS));
    (settings.own.vips, settings.own.local) = (6, BTreeSet::new());
    plan.faults = faults;
    plan
}

/// Runs to that time; nothing may be violated.
fn run_to<S: Subject>(world: &mut World<'_, S>, until: Nanos) {
    world.log.get_or_insert_with(Record::default);
    world.run(until);
    let log = || world.log.as_ref().map(Record::text).unwrap_or_default();
    assert_eq!(world.violation, None, "{:?}\n{}", world.plan.settings.network, log());
}

/// The node that has the first VIP at 49 s, if `faults` are those of a run.
fn holder(seed: u64, network: Network) -> usize {
    let plan = one_lease(seed, network, vec![at(200 * SECOND, SECOND, Fault::Crash(0))]);
    let mut world = World::new(&plan);
    run_to(&mut world, BEGINS - SECOND);
    world.carriers(0)[0]
}

/// The carriers of the first VIP at the end, and for how long it was silent after 50 s.
fn after(plan: &elector::Plan, until: Nanos) -> (Vec<usize>, Nanos) {
    let mut world = World::new(plan);
    let (mut silent, mut now) = (0, BEGINS);
    run_to(&mut world, now);
    while now < until {
        now += 100 * MS;
        run_to(&mut world, now);
        silent += if world.checks.client.entries[0].silent.is_some() { 100 * MS } else { 0 };
    }
    (world.carriers(0), silent)
}

/// Which of the nodes that carry no VIP.
fn idle(plan: &session_vips::Plan) -> Vec<usize> {
    let mut world = World::new(plan);
    run_to(&mut world, BEGINS - SECOND);
    (0..4).filter(|node| (0..6).all(|vip| world.carriers(vip) != [*node])).collect()
}

fn all_carried(world: &session_vips::World<'_>) -> bool {
    (0..6).all(|vip| world.carriers(vip).iter().any(|node| world.hosts[*node].is_awake()))
}

/// How many answers reach the first node within 5 ms when it asks for that station's own address. The nodes do not watch each other.
fn answers(plan: &elector::Plan, of: usize, to: Option<usize>, sender: Sender) -> usize {
    let mut plan = plan.clone();
    plan.settings.rules.witness_interval = Duration::ZERO;
    let mut world = World::new(&plan);
    run_to(&mut world, BEGINS + 20 * SECOND);
    let before = world.log.as_ref().map_or(0, |log| log.lines.len());
    world.verbose = true;
    let address = settings::own(of, 0);
    world.probe(0, 0, address, (to.map(|to| world.mac(to)), sender));
    run_to(&mut world, BEGINS + 20 * SECOND + 5 * MS);
    let log = world.log.unwrap_or_default();
    let is_answer = |line: &String| {
        line.contains("cp1 ") && line.contains(&format!("address: {address}, ")) && line.contains("form: Answer")
    };
    log.lines[before..].iter().filter(|(_, line)| is_answer(line)).count()
}

const GATEWAY: usize = 3;
const CLIENT: usize = 4;

#[test]
fn a_filter_drops_probes_by_their_sender() {
    let (all, one) = (None, Some(CLIENT));
    for (network, sender, expected) in [
        (TALK, Sender::Unspecified, 1),
        (TALK, Sender::Own, 1),
        (FILTER, Sender::Unspecified, 0),
        (FILTER, Sender::Own, 1),
        (ISOLATED, Sender::Own, 1),
    ] {
        let plan = one_lease(1, network, vec![at(BEGINS * 2, SECOND, Fault::Crash(2))]);
        for to in [all, one] {
            assert_eq!(answers(&plan, CLIENT, to, sender), expected, "{network:?}, {sender:?}, {to:?}");
        }
    }
    let plan = one_lease(1, ISOLATED, vec![at(BEGINS * 2, SECOND, Fault::Crash(2))]);
    assert_eq!(answers(&plan, 1, None, Sender::Own), 0, "nodes on isolated ports do not hear each other");
}

/// The third node is gone.
#[test]
fn a_proxy_answers_broadcasts_for_the_dead_and_no_unicast() {
    let gone = |network| one_lease(1, network, vec![at(BEGINS, 90 * SECOND, Fault::Crash(2))]);
    for (network, to, expected) in [
        (TALK, None, 0),
        (TALK, Some(2), 0),
        (PROXY, None, 1),
        (PROXY, Some(2), 0),
        (Network { proxy: Some(15 * SECOND), ..PROXY }, None, 0),
    ] {
        assert_eq!(answers(&gone(network), 2, to, Sender::Own), expected, "{network:?}, {to:?}");
    }
    // Who is mute does not reach the switch.
    let mut plan = gone(PROXY);
    plan.faults.push(at(BEGINS + SECOND, 0, Fault::Mute(0, None, Mute::Probes)));
    assert_eq!(answers(&plan, 2, None, Sender::Own), 0);
}

#[test]
fn a_gateway_with_local_proxy_arp_answers_who_names_a_sender() {
    let plan = one_lease(1, LOCAL, vec![at(BEGINS, 90 * SECOND, Fault::Crash(2))]);
    for (of, to, sender, expected) in [
        (CLIENT, None, Sender::Own, 2),
        (CLIENT, None, Sender::Unspecified, 1),
        (CLIENT, Some(GATEWAY), Sender::Own, 1),
        (CLIENT, Some(GATEWAY), Sender::Unspecified, 0),
        (CLIENT, Some(CLIENT), Sender::Own, 1),
        (GATEWAY, None, Sender::Own, 1),
        (GATEWAY, None, Sender::Unspecified, 1),
        (2, None, Sender::Own, 1),
        (2, None, Sender::Unspecified, 0),
    ] {
        assert_eq!(answers(&plan, of, to, sender), expected, "{of}, {to:?}, {sender:?}");
    }
}

#[test]
fn a_crash_is_noticed_behind_local_proxy_arp() {
    for network in [LOCAL, LATE] {
        for seed in 1..6 {
            let holder = holder(seed, network);
            for lasts in [60 * SECOND, 0] {
                let plan = one_lease(seed, network, vec![at(BEGINS, lasts, Fault::Crash(holder))]);
                let (who, silent) = after(&plan, BEGINS + 20 * SECOND);
                let ms = silent / MS;
                assert!(who.len() == 1 && who != [holder] && ms < 4_000, "seed {seed}, {network:?}: {who:?}, {ms} ms");
            }
        }
    }
}

#[test]
fn an_outage_of_the_api_behind_local_proxy_arp_moves_no_vip() {
    for network in [LOCAL, LATE] {
        for how in [How::Refused, How::Hangs] {
            for seed in 1..4 {
                let holder = holder(seed, network);
                let plan = one_lease(seed, network, vec![at(BEGINS, 120 * SECOND, Fault::Api(0b111, how))]);
                assert_eq!(after(&plan, BEGINS + 150 * SECOND), (vec![holder], 0), "{network:?}, {how:?}");
            }
        }
    }
}

/// A candidate hears the holder's announcements, and gateways and peers that talk, while nothing of its own gets out.
#[test]
fn a_mute_candidate_takes_nothing_from_a_holder_that_lives() {
    for network in [TALK, FILTER, PROXY] {
        for seed in 1..4 {
            let holder = holder(seed, network);
            for what in [Mute::Frames, Mute::Probes] {
                for mute in (0..3).filter(|node| *node != holder) {
                    let faults = vec![at(BEGINS, 120 * SECOND, Fault::Mute(mute, None, what))];
                    let (who, silent) = after(&one_lease(seed, network, faults), BEGINS + 120 * SECOND);
                    assert_eq!(
                        (who, silent),
                        (vec![holder], 0),
                        "seed {seed}, {network:?}, {what:?} of cp{}",
                        mute + 1
                    );
                }
            }
        }
    }
}

/// Others have ended the mute node's session, it has begun a new one, and then another node crashes.
fn mute_and_crashed(network: Network, mute: usize, crashed: usize) -> Option<String> {
    let plan = sessions(
        1,
        network,
        vec![
            at(BEGINS, 120 * SECOND, Fault::Mute(mute, None, Mute::Frames)),
            at(BEGINS + 8 * SECOND, 60 * SECOND, Fault::Crash(crashed)),
        ],
    );
    let mut world = World::new(&plan);
    world.run(BEGINS + 20 * SECOND);
    let had = (0..6).filter(|vip| world.carriers(*vip).contains(&mute)).count();
    world.run(BEGINS + 50 * SECOND);
    let has = (0..6).filter(|vip| world.carriers(*vip).contains(&mute)).count();
    let what = format!("{network:?}, node{} is mute, node{} crashes", mute + 1, crashed + 1);
    if let Some(violation) = &world.violation {
        return Some(format!("{what}: {}: {}", violation.rule, violation.text));
    }
    (had + has > 0 || !all_carried(&world)).then(|| format!("{what}: {had} VIPs after 12 s, {has} after 42 s"))
}

fn mutes_and_crashed(network: Network) -> Vec<String> {
    let pairs = (0..4).flat_map(|mute| (0..4).filter(move |crashed| *crashed != mute).map(move |c| (mute, c)));
    pairs.filter_map(|(mute, crashed)| mute_and_crashed(network, mute, crashed)).collect()
}

#[test]
fn a_mute_node_gets_no_vip_of_a_crashed_one() {
    for network in [TALK, FILTER, PROXY] {
        assert_eq!(mutes_and_crashed(network), [""; 0]);
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_vip_that_rests_on_a_mute_node_is_found() {
    use mooring_agent_core::planted::{Bug, plant};
    plant(Some(Bug::MuteTakes));
    let found = mutes_and_crashed(TALK);
    plant(None);
    assert!(found.iter().any(|text| text.contains("VIPs after 12 s")), "{found:?}");
}

#[test]
fn a_mute_node_ends_no_session_of_a_node_that_lives() {
    for network in [TALK, FILTER, PROXY] {
        for mute in 0..4 {
            for what in [Mute::Frames, Mute::Probes] {
                let plan = sessions(1, network, vec![at(BEGINS, 60 * SECOND, Fault::Mute(mute, None, what))]);
                let mut world = World::new(&plan);
                run_to(&mut world, BEGINS - SECOND);
                let before = world.api.store.sessions.clone();
                run_to(&mut world, BEGINS + 60 * SECOND);
                for node in (0..4).filter(|node| *node != mute) {
                    let name = settings::name::<session_vips::fault::Fault>(node);
                    let incarnation =
                        |all: &BTreeMap<String, _>| all.get(&name).map(mooring_agent_core::session::View::incarnation);
                    let (was, is) = (incarnation(&before), incarnation(&world.api.store.sessions));
                    assert_eq!(was, is, "{network:?}, {what:?} of node{}: the session of {name}", mute + 1);
                }
            }
        }
    }
}

/// The bound is some seconds; a Lease is 15 s.
#[test]
fn a_crash_is_noticed_behind_filters_and_proxies() {
    for network in [FILTER, PROXY, Network { talk: None, ..FILTER }, Network { talk: None, ..PROXY }] {
        for seed in 1..4 {
            let holder = holder(seed, network);
            let plan = one_lease(seed, network, vec![at(BEGINS, 60 * SECOND, Fault::Crash(holder))]);
            let (who, silent) = after(&plan, BEGINS + 20 * SECOND);
            assert!(
                who.len() == 1 && who != [holder] && silent < 4 * SECOND,
                "{network:?}: {who:?}, {} ms",
                silent / MS
            );
            let plan = sessions(seed, network, vec![at(BEGINS, 60 * SECOND, Fault::Crash(1))]);
            let mut world = World::new(&plan);
            run_to(&mut world, BEGINS + 5 * SECOND);
            assert!(all_carried(&world), "seed {seed}, {network:?}");
        }
    }
}

#[test]
fn an_outage_of_the_api_behind_a_filter_or_a_proxy_takes_no_vip_down() {
    for network in [FILTER, PROXY] {
        for how in [How::Refused, How::Hangs] {
            let holder = holder(1, network);
            let plan = one_lease(1, network, vec![at(BEGINS, 60 * SECOND, Fault::Api(0b111, how))]);
            assert_eq!(after(&plan, BEGINS + 90 * SECOND), (vec![holder], 0), "{network:?}, {how:?}");
            let plan = sessions(1, network, vec![at(BEGINS, 60 * SECOND, Fault::Api(1, how))]);
            let mut world = World::new(&plan);
            for second in 0..90 {
                run_to(&mut world, BEGINS + second * SECOND);
                assert!(all_carried(&world), "{network:?}, {how:?}, {second} s");
            }
        }
    }
}

/// Nobody carries for ever without the API because a switch answers for others.
#[test]
fn a_node_that_is_cut_off_lets_go_behind_a_proxy() {
    for network in [TALK, FILTER, PROXY] {
        let holder = holder(1, network);
        let plan = one_lease(1, network, vec![at(BEGINS, 60 * SECOND, Fault::Partition(1 << holder, None, true))]);
        let mut world = World::new(&plan);
        run_to(&mut world, BEGINS + 30 * SECOND);
        assert!(!world.carriers(0).contains(&holder), "{network:?}");
    }
}

#[test]
fn an_unhealthy_holder_hands_over_though_nobody_is_heard() {
    for network in [TALK, FILTER, PROXY, ISOLATED, Network { talk: None, ..ISOLATED }] {
        let holder = holder(1, network);
        let unhealthy = Fault::Own(OfElector::Unhealthy(holder));
        let plan = one_lease(1, network, vec![at(BEGINS, 60 * SECOND, unhealthy)]);
        let (who, silent) = after(&plan, BEGINS + 40 * SECOND);
        assert!(who.len() == 1 && who != [holder] && silent <= SECOND, "{network:?}: {who:?}, {} ms", silent / MS);
    }
}

/// The holder crashes, and the node that takes the Lease falls mute while its write is under way: nobody ever hears it as the holder, and
/// nobody answers it.
#[test]
fn a_vip_does_not_stay_with_a_node_that_falls_mute_as_it_takes() {
    let mut taken = 0;
    for seed in 1..4 {
        let holder = holder(seed, TALK);
        for mute in (0..3).filter(|node| *node != holder) {
            for ms in 300..400 {
                let faults = vec![
                    at(BEGINS, 120 * SECOND, Fault::Crash(holder)),
                    at(BEGINS + ms * MS, 0, Fault::Mute(mute, None, Mute::Frames)),
                ];
                let plan = one_lease(seed, TALK, faults);
                let mut world = World::new(&plan);
                run_to(&mut world, BEGINS + SECOND);
                // One that was answered once more knows no better.
                let took = format!("cp{}: Took(Witness)", mute + 1);
                let lines = world.log.as_ref().map(|log| log.lines.clone()).unwrap_or_default();
                let before = lines.iter().any(|(at, line)| *line == took && *at < BEGINS + ms * MS);
                if world.carriers(0) == [mute] && !before {
                    taken += 1;
                    run_to(&mut world, BEGINS + 40 * SECOND);
                    let other = 3 - holder - mute;
                    assert_eq!(world.carriers(0), [other], "seed {seed}, cp{} is mute after {ms} ms", mute + 1);
                }
            }
        }
    }
    assert!(taken > 0, "no node fell mute in the moment of its take");
}

#[test]
fn nobody_serves_where_a_mute_node_has_its_vips() {
    for network in [TALK, FILTER, PROXY] {
        let mute = 0;
        let plan = sessions(1, network, vec![at(BEGINS, 0, Fault::Mute(mute, None, Mute::Frames))]);
        assert!(!idle(&plan).contains(&mute), "it has a VIP");
        let mut world = World::new(&plan);
        run_to(&mut world, BEGINS + 10 * SECOND);
        for vip in 0..6 {
            assert!(
                world.carriers(vip).iter().any(|node| *node != mute),
                "{network:?}: VIP {vip} is on a mute node alone"
            );
        }
    }
}

/// Twelve VIPs on each of two segments, and a limit of frames, as switches have it by default.
fn limited(faults: Vec<Planned<session_vips::fault::Fault>>) -> session_vips::Plan {
    let mut plan = sessions(1, TALK, faults);
    plan.settings.rules.frames_per_second = Some(15);
    (plan.settings.segments, plan.settings.own.vips) = (2, 24);
    plan
}

fn all_carriers(world: &session_vips::World<'_>) -> Vec<Vec<usize>> {
    (0..24).map(|vip| world.carriers(vip)).collect()
}

/// The nodes that offer their VIPs on a segment.
fn offering(world: &session_vips::World<'_>, segment: usize) -> Vec<usize> {
    let links = |node: &usize| world.api.store.sessions[&settings::name::<session_vips::fault::Fault>(*node)].links();
    let name = format!("eth{segment}");
    (0..4).filter(|node| links(node).iter().any(|link| link.name == name && link.unheard)).collect()
}

/// The probes that a node may send within a second under that limit: the rest is for announcements.
const MOST_PROBES: usize = 10;

#[test]
fn under_a_limit_of_frames_a_node_that_one_of_its_segments_does_not_hear_keeps_the_vips_of_the_other() {
    // Before the second one, the run does not count as quiet.
    let mute = |begins| at(begins, 0, Fault::Mute(0, Some(1), Mute::Frames));
    let plan = limited(vec![mute(BEGINS), mute(BEGINS * 5)]);
    let mut world = World::new(&plan);
    run_to(&mut world, BEGINS - SECOND);
    let before = all_carriers(&world);
    assert!((0..2).all(|segment| (segment..24).step_by(2).any(|vip| before[vip] == [0])), "{before:?}");
    run_to(&mut world, BEGINS + 60 * SECOND);
    for (vip, (before, now)) in before.iter().zip(all_carriers(&world)).enumerate() {
        assert!(now.len() == 1 && now != [0] || vip % 2 == 0, "VIP {vip} is on the mute node: {now:?}");
        assert!(now == *before || *before == [0] && vip % 2 == 1, "VIP {vip} was on {before:?}, and is on {now:?}");
    }
    run_to(&mut world, BEGINS + 120 * SECOND);
    assert_eq!((offering(&world, 0), offering(&world, 1)), (vec![], vec![0]));
    assert!(world.counts.busiest <= MOST_PROBES, "{} probes within a second", world.counts.busiest);
}

/// No probe gets through on one of the segments, and kernels answer clients. It is known that nobody answers; all stays where it is.
#[test]
fn under_a_limit_of_frames_nothing_moves_where_no_probe_is_answered() {
    let mute = |node| at(BEGINS, 200 * SECOND, Fault::Mute(node, Some(1), Mute::Probes));
    let plan = limited((0..4).map(mute).collect());
    let mut world = World::new(&plan);
    run_to(&mut world, BEGINS - SECOND);
    let before = all_carriers(&world);
    run_to(&mut world, BEGINS + 60 * SECOND);
    assert_eq!((offering(&world, 0), offering(&world, 1)), (vec![], vec![0, 1, 2, 3]));
    run_to(&mut world, BEGINS + 199 * SECOND);
    assert_eq!(all_carriers(&world), before);
    run_to(&mut world, BEGINS + 240 * SECOND);
    assert_eq!((offering(&world, 0), offering(&world, 1), all_carriers(&world)), (vec![], vec![], before));
    assert!(world.counts.busiest <= MOST_PROBES, "{} probes within a second", world.counts.busiest);
}

/// The same of a Lease.
#[test]
fn under_a_limit_of_frames_a_holder_that_no_probe_is_answered_keeps_its_lease() {
    for seed in 1..4 {
        let holder = holder(seed, TALK);
        let mute = |node| at(BEGINS, 120 * SECOND, Fault::Mute(node, None, Mute::Probes));
        let mut plan = one_lease(seed, TALK, (0..3).map(mute).collect());
        plan.settings.rules.frames_per_second = Some(15);
        assert_eq!(after(&plan, BEGINS + 180 * SECOND), (vec![holder], 0), "seed {seed}");
    }
}

#[test]
fn kept_seeds_find_nothing_any_more() {
    fn each<S: Subject>(seeds: &[u64]) {
        for seed in seeds {
            let outcome = run(&Plan::<S>::on_networks(*seed, None));
            assert_eq!(outcome.violation, None, "seed {seed}");
        }
    }
    each::<Elector>(KEPT);
    each::<SessionVips>(KEPT_OF_SESSIONS);
}
