use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::action::{Report as What, Why};
use crate::core::Vip;
use crate::event::Failure;
use crate::evidence::Form;
use crate::health::Verdict;
use crate::session::Link;
use crate::time::WallTime;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 101));
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

type Steps = Arc<Mutex<Vec<(ForElector, Vec<Action>)>>>;

fn at(millis: u64) -> Moment {
    let micros = i64::try_from(millis * 1_000).unwrap();
    Moment { now: Time::from_nanos((60_000 + millis) * 1_000_000), wall: WallTime(micros) }
}

fn rules() -> Rules {
    Rules {
        node: "cp1".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        witness_interval: Duration::from_millis(100),
        witness_misses: 3,
        hold_without_api: true,
        quorum: crate::peers::Quorum::Most,
        provisional: true,
        provisional_spread: Duration::from_secs(1),
        handover_grace: Duration::from_secs(5),
        link_down_delay: Duration::from_secs(1),
        announce_refresh: Duration::from_secs(30),
        conflict_probe: true,
        refresh: Duration::ZERO,
        frames_per_second: None,
    }
}

fn interface(index: u32, up: bool, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let link =
        Link { name: "eth0".into(), altnames: vec![], macs: vec![MAC], addresses, subnets: vec![], up, unheard: false };
    Interface { index, link, gateways: vec![GATEWAY] }
}

fn node(interfaces: &[Interface]) -> Event {
    Event::Node { interfaces: interfaces.to_vec(), macs: vec![MAC] }
}

/// A control plane, and what its Elector is told and wants.
fn observed() -> (ControlPlane, Steps) {
    let steps = Steps::default();
    let shown = steps.clone();
    let observer = move |_: Moment, event: &ForElector, actions: &[Action]| {
        shown.lock().unwrap().push((event.clone(), actions.to_vec()));
    };
    (ControlPlane::new(rules()).observed_by(Box::new(observer)), steps)
}

fn told(steps: &Steps) -> Vec<ForElector> {
    std::mem::take(&mut *steps.lock().unwrap()).into_iter().map(|(event, _)| event).collect()
}

/// Has taken the Lease, with both VIPs on interface 7.
fn holding() -> (ControlPlane, Steps) {
    let (mut core, steps) = observed();
    core.step(at(0), Event::Input(Input::Vips(vec![VIP, OTHER])));
    core.step(at(0), node(&[interface(7, true, &["192.0.2.1"])]));
    core.step(at(0), Event::Input(Input::Health(Verdict::Healthy)));
    core.step(at(0), Event::Input(Input::Seen(None)));
    let mut calls = vec![];
    for millis in (0..8_000).step_by(50) {
        let outputs = core.step(at(millis), Event::Tick);
        for output in outputs {
            let Output::Call(Call::Write { id, record, notes, .. }) = output else { continue };
            calls.push(id);
            let version = format!("{millis}");
            let view = crate::lease::LeaseView { version, record, notes };
            let carried = core.step(at(millis), Event::Input(Input::Wrote { id, result: Ok(view) }));
            if carried.iter().any(|output| matches!(output, Output::Ensure { .. })) {
                core.step(at(millis), Event::Ensured(vec![VIP, OTHER]));
            }
        }
        if core.elector().is_holding() {
            break;
        }
    }
    assert!(core.elector().is_holding(), "{calls:?}");
    steps.lock().unwrap().clear();
    (core, steps)
}

#[test]
fn the_first_interface_makes_the_node() {
    let (mut core, steps) = observed();
    let first = interface(7, true, &["fe80::1", "192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    core.step(at(0), node(&[first.clone(), interface(8, false, &["198.51.100.1"])]));
    let addresses = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
    let participant = Participant { macs: vec![MAC], addresses, ..Participant::default() };
    let expected = Node { participant, macs: vec![MAC], gateways: vec![GATEWAY], bare: false };
    assert_eq!(told(&steps), [ForElector::Node(expected), ForElector::Link { up: true }]);
    assert!(core.listens_for().contains(&GATEWAY));

    core.step(at(1), node(std::slice::from_ref(&first)));
    assert_eq!(told(&steps), [], "nothing has changed");
    let fewer = interface(7, true, &["fe80::1", "192.0.2.1", "2001:db8::1"]);
    core.step(at(2), node(&[fewer]));
    assert_eq!(told(&steps), [], "nothing that is told on the Lease");
}

#[test]
fn an_interface_that_goes_is_a_link_that_is_down() {
    let (mut core, steps) = observed();
    let eth0 = interface(7, true, &["192.0.2.1"]);
    core.step(at(0), node(std::slice::from_ref(&eth0)));
    told(&steps);
    core.step(at(1), Event::Link { interface: 8, up: false });
    assert_eq!(told(&steps), [], "another interface");
    core.step(at(2), Event::Link { interface: 7, up: false });
    core.step(at(3), node(&[]));
    assert_eq!(told(&steps), [ForElector::Link { up: false }], "told once");
    core.step(at(4), Event::Heard { interface: 7, address: VIP, mac: MAC, form: Form::Claim });
    assert_eq!(told(&steps), [], "a frame of an interface that is gone");
    core.step(at(5), node(&[interface(9, true, &["192.0.2.1"])]));
    assert_eq!(told(&steps).len(), 2, "the node and the link");
    core.step(at(6), node(&[]));
    assert_eq!(told(&steps), [ForElector::Link { up: false }]);
}

#[test]
fn an_address_of_the_nodes_own_is_no_vip() {
    let (mut core, steps) = observed();
    core.step(at(0), Event::Input(Input::Vips(vec![VIP, OTHER])));
    core.step(at(1), Event::Input(Input::Own([OTHER].into())));
    core.step(at(2), Event::Input(Input::Vips(vec![OTHER])));
    core.step(at(3), Event::Input(Input::Own(BTreeSet::new())));
    let vips = |these: &[IpAddr]| ForElector::Vips(these.to_vec());
    assert_eq!(told(&steps), [vips(&[VIP, OTHER]), vips(&[VIP]), vips(&[]), vips(&[OTHER])]);
    assert_eq!(core.vips(), [OTHER]);
}

#[test]
fn what_goes_together_is_one_list() {
    let (mut core, steps) = holding();
    let both = [VIP, OTHER].map(|address| Vip { address, interface: 7 });
    let out = core.step(at(500), Event::Link { interface: 7, up: true });
    let lists: Vec<_> =
        out.iter().filter(|output| matches!(output, Output::Ensure { .. } | Output::Announce(_))).collect();
    let [Output::Ensure { vips, .. }, Output::Announce(announced)] = lists[..] else { panic!("{out:?}") };
    assert_eq!((&vips[..], &announced[..]), (&both[..], &both[..]));
    assert_eq!(told(&steps), [ForElector::Link { up: true }]);

    let out = core.step(at(501), Event::Ensured(vec![VIP, OTHER]));
    assert_eq!(told(&steps), [VIP, OTHER].map(|address| ForElector::Put { address }), "one by one");
    assert_eq!(out, []);
}

#[test]
fn a_report_names_the_vips_that_it_is_about() {
    let (mut core, _) = holding();
    let out = core.step(at(500), Event::Input(Input::Vips(vec![OTHER])));
    assert_eq!(out.first(), Some(&Output::Remove(vec![VIP])));
    let report = Report { vips: [VIP].into(), what: What::LetGo(Why::NotWanted) };
    assert_eq!(out.get(1), Some(&Output::Report(report)), "{out:?}");
    let out = core.step(at(600), Event::Input(Input::Vips(vec![])));
    assert!(out.contains(&Output::Remove(vec![OTHER])), "{out:?}");
}

/// The Elector's actions that an output was made of.
fn actions(output: Output) -> Vec<Action> {
    match output {
        Output::Ensure { vips, deadline } => {
            vips.into_iter().map(|vip| Action::Carry { address: vip.address, deadline }).collect()
        }
        Output::Remove(addresses) => addresses.into_iter().map(|address| Action::Drop { address }).collect(),
        Output::Announce(vips) => vips.into_iter().map(|vip| Action::Announce { address: vip.address }).collect(),
        Output::Probe(probes) => probes
            .into_iter()
            .map(|probe| Action::Probe { address: probe.address, to: probe.to, sender: probe.sender })
            .collect(),
        Output::Call(Call::Read { id, within }) => vec![Action::Read { id, within }],
        Output::Call(Call::Write { id, base, record, notes, within }) => {
            vec![Action::Write { id, base, record, notes, within }]
        }
        Output::Call(Call::AskPeers { id, within }) => vec![Action::AskPeers { id, within }],
        Output::Report(report) => vec![Action::Report(report.what)],
        Output::Exit => vec![Action::Exit],
    }
}

#[test]
fn what_is_wanted_keeps_the_electors_order() {
    let (mut core, steps) = holding();
    let failed = |address| Event::EnsureFailed { address, reason: "it does not fit".into() };
    let mut out = core.step(at(500), failed(VIP));
    out.extend(core.step(at(501), failed(OTHER)));
    assert_eq!(core.wake(), core.elector().wake());
    let wanted: Vec<Action> = steps.lock().unwrap().iter().flat_map(|(_, actions)| actions.clone()).collect();
    assert!(wanted.len() > out.len(), "lists: {out:?}");
    assert!(out.contains(&Output::Remove(vec![VIP, OTHER])), "{out:?}");
    assert_eq!(out.into_iter().flat_map(actions).collect::<Vec<_>>(), wanted);

    let out = core.step(at(502), Event::Input(Input::Read { id: 999, result: Err(Failure::Away) }));
    assert_eq!(out, [], "nobody has asked for it");
}

#[test]
fn who_holds_hands_over_and_exits() {
    let (mut core, _) = holding();
    let mut out = core.step(at(500), Event::Shutdown);
    for millis in (500..30_000).step_by(50) {
        for output in std::mem::take(&mut out) {
            match output {
                Output::Exit => return,
                Output::Call(Call::Write { id, record, notes, .. }) => {
                    let view = crate::lease::LeaseView { version: format!("{millis}"), record, notes };
                    out.extend(core.step(at(millis), Event::Input(Input::Wrote { id, result: Ok(view) })));
                }
                _ => {}
            }
        }
        out.extend(core.step(at(millis), Event::Tick));
    }
    panic!("it does not end");
}

#[test]
fn the_address_of_the_api_server_is_declared_whatever_interface_has_it() {
    let (mut core, steps) = observed();
    let server = "198.51.100.1".parse().unwrap();
    core.step(at(0), Event::Input(Input::ApiServers(vec![server])));
    core.step(at(0), node(&[interface(7, true, &["192.0.2.1"])]));
    let declared = |event: &ForElector| match event {
        ForElector::Node(node) => Some(node.participant.api_servers.clone()),
        _ => None,
    };
    assert_eq!(told(&steps).iter().find_map(declared), Some(vec![server]));
    let other = "198.51.100.2".parse().unwrap();
    core.step(at(1), Event::Input(Input::ApiServers(vec![other])));
    assert_eq!(told(&steps).iter().rev().find_map(declared), Some(vec![other]));
}
