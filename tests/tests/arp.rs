//! What the lab does to ARP: it is what the networks do that it stands for, and nothing else.

#![allow(clippy::expect_used, reason = "a test that cannot go on shall say where")]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use mooring_tests::fault::Probes;
use mooring_tests::host::{Host, helper};
use mooring_tests::observe::frames::send_here;
use mooring_tests::observe::neighbours::{forget_neighbour, neighbour};
use mooring_tests::observe::now;
use mooring_tests::observe::tap::{Kind, Tap};
use mooring_tests::segment::ip4;
use mooring_tests::{Lab, Shape};

const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const VIP: Ipv4Addr = ip4(100);
/// A "no" takes this long.
const NO: Duration = Duration::from_millis(400);

async fn lab() -> (Lab, [Host; 3], Host) {
    helper(env!("CARGO_BIN_EXE_lab"));
    let lab = Lab::up(Shape::segment()).await.expect("a lab");
    let hosts = ["cp1", "cp2", "cp3"].map(|name| lab.host(name).expect("a host"));
    let client = lab.host("client").expect("the client");
    (lab, hosts, client)
}

/// A host asks as `sender` for `target`, one host or everybody: the MAC addresses of those who answer.
async fn ask(host: &Host, sender: Ipv4Addr, target: Ipv4Addr, to: Mac) -> Vec<Mac> {
    let tap = Tap::start(host.netns(), &[]).expect("a tap");
    let from = say(host, sender, target, to);
    let answer = |f: &mooring_tests::observe::tap::Frame| f.kind == Kind::ArpReply && f.sender == target;
    drop(tap.frame("an answer", from, NO, answer).await);
    // More may come.
    tokio::time::sleep(NO / 8).await;
    tap.between(from, now(), answer).into_iter().map(|frame| frame.sender_mac.unwrap_or(frame.source)).collect()
}

fn say(host: &Host, sender: Ipv4Addr, target: Ipv4Addr, to: Mac) -> Time {
    let mac = host.mac();
    let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    let frame = [&to.0[..], &mac.0, &head, &mac.0, &sender.octets(), &[0; 6], &target.octets()].concat();
    let at = now();
    host.netns().run(move || send_here("eth0", &frame)).expect("a frame");
    at
}

async fn hears(host: &Host, from: &Host) -> bool {
    let tap = Tap::start(host.netns(), &[]).expect("a tap");
    let at = say(from, from.ip4(), ip4(253), Mac::BROADCAST);
    tap.frame("a question", at, NO, |frame| frame.source == from.mac()).await.is_ok()
}

#[tokio::test]
async fn a_mute_host_hears_and_is_not_heard() {
    // By NDP.
    let finds = |host: &Host, of: &Host| {
        forget_neighbour(host.netns(), "eth0", of.ip6().into()).expect("forgotten");
        let from = host.netns().run(|| UdpSocket::bind("[::]:0").expect("a socket"));
        drop(from.send_to(b"?", (of.ip6(), 9)));
        std::thread::sleep(NO);
        let known = neighbour(host.netns(), "eth0", of.ip6().into()).expect("neighbours");
        known.and_then(|known| known.mac).is_some()
    };
    let (lab, [a, b, _], client) = lab().await;
    for sender in [NOBODY, a.ip4()] {
        assert_eq!(ask(&a, sender, b.ip4(), Mac::BROADCAST).await, [b.mac()]);
        assert_eq!(ask(&a, sender, b.ip4(), b.mac()).await, [b.mac()]);
    }
    assert!(finds(&a, &b));
    lab.mute("cp1").expect("mute");
    assert!(!finds(&a, &b) && !finds(&client, &a) && finds(&client, &b));
    assert!(hears(&a, &b).await && !hears(&b, &a).await && !hears(&client, &a).await);
    for sender in [NOBODY, a.ip4()] {
        assert!(ask(&a, sender, b.ip4(), b.mac()).await.is_empty(), "its question is not heard");
    }
    assert!(ask(&b, b.ip4(), a.ip4(), a.mac()).await.is_empty(), "its answer is not heard");
    assert_eq!(ask(&client, client.ip4(), b.ip4(), Mac::BROADCAST).await, [b.mac()], "others are open");
    lab.unmute("cp1").expect("heard");
    assert!(hears(&b, &a).await);
    assert_eq!(ask(&a, NOBODY, b.ip4(), b.mac()).await, [b.mac()]);
}

#[tokio::test]
async fn a_filter_knows_senders() {
    let (lab, [a, b, _], client) = lab().await;
    lab.add_address("cp1", VIP.into()).expect("the VIP");
    lab.let_speak("cp1", &[a.ip4().into(), VIP.into()]).expect("a filter");
    assert_eq!(ask(&a, a.ip4(), b.ip4(), b.mac()).await, [b.mac()]);
    assert!(ask(&a, NOBODY, b.ip4(), b.mac()).await.is_empty() && ask(&a, ip4(9), b.ip4(), b.mac()).await.is_empty());
    assert_eq!(ask(&client, NOBODY, VIP, Mac::BROADCAST).await, [a.mac()], "an answer has its sender too");
    lab.let_speak("cp1", &[a.ip4().into()]).expect("a filter");
    assert!(ask(&client, NOBODY, VIP, Mac::BROADCAST).await.is_empty(), "the newer one counts");
    assert_eq!(ask(&client, NOBODY, a.ip4(), Mac::BROADCAST).await, [a.mac()]);
    lab.heal_all().expect("healed");
    assert_eq!(ask(&a, NOBODY, b.ip4(), b.mac()).await, [b.mac()]);
}

#[tokio::test]
async fn strangers_hear_others() {
    let (lab, [a, b, c], client) = lab().await;
    lab.estrange(&["cp1", "cp2"]).expect("isolated");
    assert!(!hears(&a, &b).await && !hears(&b, &a).await);
    assert!(hears(&a, &c).await && hears(&c, &b).await && hears(&client, &a).await && hears(&b, &client).await);
    assert_eq!(ask(&a, a.ip4(), ip4(1), Mac::BROADCAST).await.len(), 1, "the gateway hears");
    lab.heal_all().expect("healed");
    assert!(hears(&a, &b).await);
}

#[tokio::test]
async fn a_switch_that_suppresses_answers_for_the_dead() {
    let (lab, [a, b, c], client) = lab().await;
    lab.suppress_arp(Probes::Answered).expect("suppression");
    // Nobody has said yet who has it: the question reaches the owner.
    assert_eq!(ask(&a, NOBODY, b.ip4(), Mac::BROADCAST).await, [b.mac()]);
    lab.add_address("cp2", VIP.into()).expect("the VIP");
    assert!(hears(&client, &b).await, "what is not known is passed on");
    lab.announce("cp2", VIP.into()).expect("announced");
    for (sender, to) in [(NOBODY, Mac::BROADCAST), (a.ip4(), Mac::BROADCAST), (a.ip4(), b.mac()), (NOBODY, b.mac())] {
        assert_eq!(ask(&a, sender, VIP, to).await, [b.mac()], "one answer, to {to}");
    }
    lab.crash("cp2").expect("a crash");
    for sender in [NOBODY, a.ip4()] {
        assert_eq!(ask(&a, sender, VIP, Mac::BROADCAST).await, [b.mac()], "it answers for the dead");
        assert!(ask(&a, sender, VIP, b.mac()).await.is_empty(), "the dead do not answer");
    }
    // Who comes next is believed, and everybody hears the announcement.
    let tap = Tap::start(client.netns(), &[]).expect("a tap");
    let at = now();
    lab.announce("cp3", VIP.into()).expect("announced");
    tap.frame("an announcement", at, NO, |frame| frame.announces(VIP.into())).await.expect("heard");
    assert_eq!(ask(&a, a.ip4(), VIP, Mac::BROADCAST).await, [c.mac()]);
    lab.suppress_arp(Probes::Dropped).expect("suppression");
    assert_eq!(ask(&a, a.ip4(), c.ip4(), Mac::BROADCAST).await, [c.mac()]);
    assert!(ask(&a, NOBODY, c.ip4(), Mac::BROADCAST).await.is_empty(), "a probe is dropped");
    assert_eq!(ask(&a, NOBODY, c.ip4(), c.mac()).await, [c.mac()], "a probe to one host is not");
    lab.heal_all().expect("healed");
    assert!(ask(&a, a.ip4(), VIP, Mac::BROADCAST).await.is_empty(), "nobody has it, and nobody answers");
}

#[tokio::test]
async fn talk_is_heard_until_it_ends() {
    let (lab, [a, ..], client) = lab().await;
    let tap = Tap::start(client.netns(), &[]).expect("a tap");
    for (who, number) in [("gateway", 1), ("cp1", a.number())] {
        let from = now();
        let talk = lab.talk(who, Duration::from_millis(20)).expect("talk");
        let by = |frame: &mooring_tests::observe::tap::Frame| frame.sender == ip4(number);
        let second = from + Duration::from_millis(30);
        tap.frame("the second question", second, Duration::from_secs(10), by).await.expect("heard");
        drop(talk);
        let ended = now();
        tokio::time::sleep(NO).await;
        assert!(tap.between(ended + Duration::from_millis(50), now(), by).is_empty(), "{who} goes on");
    }
}
