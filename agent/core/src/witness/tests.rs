//! Windows that are answered and windows that are not.

use super::*;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100));
const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const HOLDER: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn watching() -> Witness {
    let mut witness = Witness::new(Duration::from_millis(100), 3);
    let declaration =
        Declaration { holder: "cp1".into(), transitions: 1, acquired: None, macs: vec![HOLDER], vips: vec![] };
    witness.aim(ms(0), Target::Holder(&declaration), [VIP].into_iter());
    witness.set_parties(vec![GATEWAY]);
    witness
}

/// Runs windows of 100 ms from `from` to `to`; the holder answers if `holder`, the gateway when asked if `gateway`.
fn run(witness: &mut Witness, from: u64, to: u64, holder: bool, gateway: bool) -> Vec<Probe> {
    let mut last = vec![];
    for t in (from..to).step_by(100) {
        let (probes, _) = witness.tick(ms(t));
        for probe in &probes {
            match probe.address {
                VIP if holder => witness.heard(ms(t + 1), VIP, HOLDER),
                GATEWAY if gateway => witness.heard(ms(t + 1), GATEWAY, ROUTER),
                _ => {}
            }
        }
        last = probes;
    }
    last
}

#[test]
fn three_misses_while_a_third_party_answers_are_silence() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    assert!(!witness.is_silent());
    let last = run(&mut witness, 1_000, 1_300, false, true);
    assert_eq!(last[0], Probe { address: VIP, to: None, sender: Sender::Unspecified }, "the last probe is broadcast");
    witness.tick(ms(1_300));
    assert!(witness.is_silent());
}

#[test]
fn a_deaf_candidate_judges_nothing() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 5_000, false, false);
    assert!(!witness.is_silent());
    assert!(witness.is_quiet(), "but it may rule out a foreign owner");
}

#[test]
fn a_candidate_that_goes_deaf_forgets_what_it_missed() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 1_600, false, true);
    assert!(witness.is_silent());
    run(&mut witness, 1_600, 1_800, false, false);
    assert!(!witness.is_silent());
}

#[test]
fn a_starved_candidate_judges_nothing() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    for t in (1_000..5_000).step_by(200) {
        for probe in witness.tick(ms(t)).0 {
            if probe.address == GATEWAY {
                witness.heard(ms(t + 1), GATEWAY, ROUTER);
            }
        }
    }
    assert!(!witness.is_silent());
}

#[test]
fn who_stood_still_judges_nothing_by_what_it_missed_before() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 1_400, false, true);
    witness.begin(ms(1_420));
    assert!(witness.is_silent());
    witness.begin(ms(1_800));
    assert!(!witness.is_silent());
}

#[test]
fn a_holder_that_never_answered_in_this_tenure_is_not_abandoned() {
    let mut witness = watching();
    run(&mut witness, 0, 5_000, false, true);
    assert!(!witness.is_silent());
}

#[test]
fn an_answer_ends_the_suspicion() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 1_300, false, true);
    witness.heard(ms(1_299), VIP, HOLDER);
    witness.tick(ms(1_300));
    assert!(!witness.is_silent());
}

#[test]
fn while_the_holder_answers_nobody_else_is_bothered() {
    let mut witness = watching();
    for t in (0..1_000).step_by(100) {
        let (probes, _) = witness.tick(ms(t));
        assert_eq!(probes, [Probe { address: VIP, to: Some(HOLDER), sender: Sender::Unspecified }]);
        witness.heard(ms(t + 1), VIP, HOLDER);
    }
}

#[test]
fn a_window_that_is_put_off_is_no_miss_and_makes_nobody_late() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 1_200, false, true);
    assert!(witness.end_window(ms(1_200)), "the second miss");
    witness.put_off(ms(2_000));
    assert_eq!((witness.next(), witness.opens(ms(1_999))), (Some(ms(2_000)), false));
    assert_eq!(witness.state().0, 2);
    witness.begin(ms(2_000));
    assert!(witness.opens(ms(2_000)));
    run(&mut witness, 2_000, 2_100, false, true);
    assert!(!witness.is_silent());
    witness.tick(ms(2_100));
    assert!(witness.is_silent(), "the third");
}

#[test]
fn a_holder_that_speaks_for_another_vip_is_not_silent() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    run(&mut witness, 1_000, 1_300, false, true);
    witness.heard_for_another(ROUTER);
    assert_eq!(witness.state().0, 2, "it is another host's frame");
    witness.heard_for_another(HOLDER);
    run(&mut witness, 1_300, 1_600, false, true);
    assert!(!witness.is_silent());
    witness.tick(ms(1_600));
    assert!(witness.is_silent());
}

#[test]
fn a_holder_that_speaks_for_another_vip_only_has_not_answered_in_its_tenure() {
    let mut witness = watching();
    witness.heard_for_another(HOLDER);
    run(&mut witness, 0, 2_000, false, true);
    assert!(witness.is_free() && !witness.is_silent());
}
