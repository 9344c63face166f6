//! Windows that are answered and windows that are not.

#[cfg(feature = "planted")]
mod guards;

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
    witness.set_parties(vec![Party { address: GATEWAY, mac: Some(ROUTER) }]);
    witness
}

/// Runs windows of 100 ms from `from` to `to`; the holder answers if `holder`, the gateway when asked if `gateway`.
fn run(witness: &mut Witness, from: u64, to: u64, holder: bool, gateway: bool) -> Vec<Probe> {
    let mut last = vec![];
    for t in (from..to).step_by(100) {
        let (probes, _) = witness.tick(ms(t));
        for probe in &probes {
            match probe.address {
                VIP if holder => witness.heard(ms(t + 1), VIP, HOLDER, Form::Answer(probe.sender)),
                GATEWAY if gateway => witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender)),
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
    assert_eq!(last[0], Probe { address: VIP, to: None, sender: Sender::Own }, "the last probe is broadcast");
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
                witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
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
    witness.heard(ms(1_299), VIP, HOLDER, Form::Claim);
    witness.tick(ms(1_300));
    assert!(!witness.is_silent());
}

#[test]
fn while_the_holder_answers_nobody_else_is_bothered() {
    let mut witness = watching();
    for t in (0..1_000).step_by(100) {
        let (probes, _) = witness.tick(ms(t));
        assert_eq!(probes, [Probe { address: VIP, to: Some(HOLDER), sender: Sender::Own }]);
        witness.heard(ms(t + 1), VIP, HOLDER, Form::Answer(Sender::Own));
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
    witness.heard_for_another(ROUTER, Form::Claim);
    assert_eq!(witness.state().0, 2, "it is another host's frame");
    witness.heard_for_another(HOLDER, Form::Claim);
    run(&mut witness, 1_300, 1_600, false, true);
    assert!(!witness.is_silent());
    witness.tick(ms(1_600));
    assert!(witness.is_silent());
}

#[test]
fn a_holder_that_speaks_for_another_vip_only_has_not_answered_in_its_tenure() {
    let mut witness = watching();
    witness.heard_for_another(HOLDER, Form::Claim);
    run(&mut witness, 0, 2_000, false, true);
    assert!(witness.is_free() && !witness.is_silent());
}

#[test]
fn what_is_said_unasked_entitles_nobody() {
    // A candidate that hears and cannot send: the holder announces, the gateway asks for its hosts.
    let mut witness = watching();
    for t in (0..5_000).step_by(100) {
        witness.tick(ms(t));
        witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Claim);
        if t == 0 {
            witness.heard(ms(1), VIP, HOLDER, Form::Claim);
        }
        assert!(!witness.is_silent() && !witness.is_free(), "at {t} ms");
    }
}

#[test]
fn a_third_party_counts_only_for_probes_of_its_form() {
    // Each case: the windows in which the gateway answers, by unicast and by broadcast; whether silence is found.
    for (unicast, broadcast, silent) in [(true, true, true), (true, false, false), (false, true, false)] {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        for t in (1_000..3_000).step_by(100) {
            for probe in witness.tick(ms(t)).0 {
                let answers = if probe.to.is_some() { unicast } else { broadcast };
                if probe.address == GATEWAY && answers {
                    witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
                }
            }
        }
        assert_eq!(witness.is_silent(), silent, "unicast {unicast}, broadcast {broadcast}");
    }
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    for t in (1_000..3_000).step_by(100) {
        witness.tick(ms(t));
        witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(Sender::Unspecified));
    }
    assert!(!witness.is_silent(), "an answer to a probe with another sender");
}

#[test]
fn who_answers_a_broadcast_for_a_dead_host_does_not_hide_its_silence() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    let mut since = None;
    for t in (1_000..2_000).step_by(100) {
        let probes = witness.tick(ms(t)).0;
        since = since.or_else(|| witness.is_silent().then_some(t));
        for probe in probes {
            match (probe.address, probe.to) {
                (VIP, None) => witness.heard(ms(t), VIP, HOLDER, Form::Answer(probe.sender)),
                (GATEWAY, _) => witness.heard(ms(t), GATEWAY, ROUTER, Form::Answer(probe.sender)),
                _ => {}
            }
        }
    }
    assert_eq!(
        since,
        Some(1_800),
        "after as many probes of the host that was named, one more of everybody, and one of who is named then"
    );
}

#[test]
fn a_bond_that_answers_from_another_port_is_asked_there() {
    const PORT: Mac = Mac([2, 0, 0, 0, 0, 3]);
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    for t in (1_000..3_000).step_by(100) {
        for probe in witness.tick(ms(t)).0 {
            match (probe.address, probe.to) {
                (VIP, None | Some(PORT)) => witness.heard(ms(t), VIP, PORT, Form::Answer(probe.sender)),
                (GATEWAY, _) => witness.heard(ms(t), GATEWAY, ROUTER, Form::Answer(probe.sender)),
                _ => {}
            }
        }
        assert!(!witness.is_silent(), "at {t} ms");
    }
    assert_eq!(witness.state().0, 0);
}

#[test]
fn a_third_party_of_unknown_mac_is_asked_by_broadcast_first() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    let mut known = None;
    for t in (1_000..1_500).step_by(100) {
        witness.end_window(ms(t));
        witness.set_parties(vec![Party { address: GATEWAY, mac: known }]);
        for probe in witness.tick(ms(t)).0 {
            if probe.address == GATEWAY {
                known = Some(ROUTER);
                witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
            }
        }
    }
    assert!(witness.is_silent(), "one window later");
}

/// A look with `own` as the interface's own sender. The gateway answers probes of these senders.
fn look(own: Sender, works: bool, gateway: &[Sender]) -> (Witness, Vec<Sender>) {
    let mut witness = Witness::new(Duration::from_millis(100), 3);
    witness.set_senders(own, Looks { first: Sender::Unspecified, works });
    witness.aim(ms(0), Target::Anybody, [VIP].into_iter());
    let (mut asked, mut known) = (vec![], None);
    for t in (0..2_000).step_by(100) {
        witness.end_window(ms(t));
        if witness.is_quiet() {
            break;
        }
        witness.set_parties(vec![Party { address: GATEWAY, mac: known }]);
        for probe in witness.tick(ms(t)).0 {
            if probe.address == VIP {
                asked.push(probe.sender);
            } else if gateway.contains(&probe.sender) {
                known = Some(ROUTER);
                witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
            }
        }
    }
    (witness, asked)
}

#[test]
fn a_look_that_no_third_party_answers_asks_as_any_host_too() {
    use Sender::{Own, Unspecified};
    let (zero, both) = (vec![Unspecified; 3], [vec![Unspecified; 3], vec![Own; 3]].concat());
    let (witness, asked) = look(Own, false, &[Unspecified, Own]);
    assert_eq!((asked, witness.is_free()), (zero.clone(), true));
    let (witness, asked) = look(Own, false, &[Own]);
    assert_eq!((asked, witness.is_free()), (both.clone(), true), "a filter by sender");
    let (witness, asked) = look(Own, false, &[]);
    assert_eq!((asked, witness.is_free()), (both, false), "nobody there");
    assert_eq!(look(Own, true, &[]).1, zero, "probes of this form were answered lately");
    assert_eq!(look(Unspecified, false, &[]).1, zero, "there is no own address");
}

#[test]
fn who_hears_only_answers_to_broadcasts_finds_nothing_free() {
    // ARP suppression answers for the gateway, which this node does not reach.
    let mut witness = Witness::new(Duration::from_millis(100), 3);
    witness.aim(ms(0), Target::Anybody, [VIP].into_iter());
    for t in (0..3_000).step_by(100) {
        witness.end_window(ms(t));
        assert!(!witness.is_free(), "at {t} ms");
        witness.set_parties(vec![Party { address: GATEWAY, mac: (t > 0).then_some(ROUTER) }]);
        for probe in witness.tick(ms(t)).0 {
            if probe.address == GATEWAY && probe.to.is_none() {
                witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
            }
        }
    }
    assert!(witness.is_quiet(), "which is enough where the Lease decides");
}

#[test]
fn a_lost_frame_after_the_answer_to_a_broadcast_is_no_silence() {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    // Two probes get lost, the broadcast is answered, and the next two get lost again.
    for t in (1_000..1_500).step_by(100) {
        for probe in witness.tick(ms(t)).0 {
            let answers = probe.address == GATEWAY || t == 1_200;
            let (address, mac) = if probe.address == GATEWAY { (GATEWAY, ROUTER) } else { (VIP, HOLDER) };
            if answers {
                witness.heard(ms(t + 1), address, mac, Form::Answer(probe.sender));
            }
        }
    }
    witness.end_window(ms(1_500));
    assert!(!witness.is_silent());
    run(&mut witness, 1_500, 1_600, true, true);
    assert_eq!(witness.state().0, 0);
}

#[test]
fn an_answer_to_a_probe_with_another_sender_is_not_the_holders() {
    let mut witness = watching();
    for t in (0..3_000).step_by(100) {
        for probe in witness.tick(ms(t)).0 {
            if probe.address == GATEWAY {
                witness.heard(ms(t + 1), GATEWAY, ROUTER, Form::Answer(probe.sender));
            }
        }
        // A proxy answers what another part of this node asks by broadcast, for a host that has never answered.
        witness.heard(ms(t + 2), VIP, HOLDER, Form::Answer(Sender::Unspecified));
    }
    assert!(!witness.is_silent());
}

#[test]
fn neighbour_discovery_says_nothing_about_arp() {
    const ROUTER6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    for t in (1_000..3_000).step_by(100) {
        witness.end_window(ms(t));
        witness.set_parties(vec![Party { address: ROUTER6, mac: Some(ROUTER) }]);
        witness.tick(ms(t));
        witness.heard(ms(t + 1), ROUTER6, ROUTER, Form::Answer(Sender::Own));
        assert!(!witness.is_silent(), "at {t} ms");
    }
}

/// A router with local proxy ARP answers for the holder that is gone; `also` answers broadcasts after it, and when it is asked alone. When
/// the VIP is found silent, if it is.
fn behind_a_proxy(zero_passes: bool, also: Option<Mac>) -> Option<u64> {
    let mut witness = watching();
    run(&mut witness, 0, 1_000, true, true);
    witness.set_proxies(vec![ROUTER]);
    for t in (1_000..4_000).step_by(100) {
        let probes = witness.tick(ms(t)).0;
        if witness.is_silent() {
            return Some(t);
        }
        for probe in probes {
            let passes = zero_passes || probe.sender == Sender::Own;
            let reaches = |mac| passes && probe.to.is_none_or(|to| to == mac);
            if reaches(ROUTER) && (probe.address == GATEWAY || probe.sender == Sender::Own) {
                witness.heard(ms(t), probe.address, ROUTER, Form::Answer(probe.sender));
            }
            if let Some(mac) = also.filter(|mac| probe.address == VIP && reaches(*mac)) {
                witness.heard(ms(t), VIP, mac, Form::Answer(probe.sender));
            }
        }
    }
    None
}

#[test]
fn a_router_that_answers_for_everybody_does_not_hide_a_holder_that_is_gone() {
    assert_eq!(behind_a_proxy(true, None), Some(1_800));
    assert_eq!(behind_a_proxy(false, None), None, "behind a filter by sender nobody can tell");
}

#[test]
fn a_router_that_answers_for_everybody_does_not_hide_a_holder_that_lives() {
    const PORT: Mac = Mac([2, 0, 0, 0, 0, 3]);
    assert_eq!(behind_a_proxy(true, Some(PORT)), None, "a bond that answers from another port");
    assert_eq!(behind_a_proxy(true, Some(ROUTER)), None, "the router has the VIP itself");
}
