//! The observers on real frames, in anonymous namespaces.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netlink_packet_route::neighbour::NeighbourState;

use super::addresses::{Addresses, Change};
use super::echo::{Echo, PORT};
use super::frames::{announce, announcement, send_here};
use super::neighbours::{forget_neighbour, neighbour, set_neighbour};
use super::netlink::{Netlink, add_address, mac_of, remove_address};
use super::prober::Prober;
use super::tap::{Kind, Tap};
use super::testing::{Segment, Space};
use super::timeline::{longest, total};
use super::{Error, inside, now};
use crate::bench::floor::{Host, floor};
use crate::bench::keepalived::{self, End};

const LIMIT: Duration = Duration::from_secs(10);

fn vip(v6: bool) -> SocketAddr {
    let ip = if v6 { "2001:db8::100" } else { "192.0.2.100" };
    SocketAddr::new(ip.parse().unwrap(), PORT)
}

fn add(host: &Space, ip: IpAddr) {
    inside(host, move || add_address("eth0", ip)).unwrap();
}

fn remove(host: &Space, ip: IpAddr) {
    inside(host, move || remove_address("eth0", ip)).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_move_by_hand_is_seen_by_every_observer() {
    for v6 in [false, true] {
        runtime().block_on(moved(v6));
    }
}

async fn moved(v6: bool) {
    let segment = Segment::new(3);
    let [a, b, client] = segment.hosts.as_slice() else { panic!("three hosts") };
    let vip = vip(v6);
    let tap = Tap::start(&segment.switch, &["br0"]).unwrap();
    let mut addresses = Addresses::of(&[vip.ip()]);
    addresses.watch("a", a).unwrap();
    addresses.watch("b", b).unwrap();
    // The echo servers start before the address is added.
    let _echoes = [Echo::start(a, "a", vip).unwrap(), Echo::start(b, "b", vip).unwrap()];

    add(a, vip.ip());
    addresses.held_by(vip.ip(), "a", LIMIT).await.unwrap();
    let prober = Prober::start(client, vip).unwrap();
    prober.answer_after(now(), Some("a"), LIMIT).await.unwrap();

    // Two owners for a while, then one.
    let both = now();
    add(b, vip.ip());
    addresses.event("the address on b", both, LIMIT, |e| &*e.host == "b" && e.change == Change::Added).await.unwrap();
    let mac_b = inside(b, || mac_of("eth0")).unwrap();
    let mac_a = inside(a, || mac_of("eth0")).unwrap();
    assert_eq!(neighbour(client, "eth0", vip.ip()).unwrap().unwrap().mac, Some(mac_a));
    let told = now();
    announce(b, "eth0", vip.ip()).unwrap();
    let seen = tap.frame("the announcement", told, LIMIT, |f| f.announces(vip.ip())).await.unwrap();
    assert_eq!((seen.sender_mac, &*seen.port), (Some(mac_b), "p1"));
    let kind = if v6 { Kind::Advertisement { solicited: false, overriding: true } } else { Kind::ArpRequest };
    assert_eq!(seen.kind, kind);
    prober.answer_after(told, Some("b"), LIMIT).await.unwrap();
    assert_eq!(neighbour(client, "eth0", vip.ip()).unwrap().unwrap().mac, Some(mac_b));
    remove(a, vip.ip());
    addresses.held_by(vip.ip(), "b", LIMIT).await.unwrap();
    let alone = now();

    // No owner, then an owner again: loss.
    remove(b, vip.ip());
    addresses.event("the end", alone, LIMIT, |e| e.change == Change::Removed).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    add(b, vip.ip());
    let back = now();
    prober.answer_after(back, Some("b"), LIMIT).await.unwrap();
    let seen = prober.finish().unwrap();

    let line = addresses.timeline(vip.ip());
    let twice = line.two_owners(both, alone);
    assert_eq!(twice.len(), 1, "{line:?}");
    assert_eq!(total(&twice), longest(&twice));
    assert!(twice[0].from >= both && twice[0].to <= alone);
    assert_eq!(line.two_owners(alone, now()), []);
    let nobody = line.nobody(alone, back);
    assert_eq!(nobody.len(), 1, "{line:?}");
    assert!(total(&nobody) >= Duration::from_millis(200));

    // Before this interval, a busy machine may have lost some probes.
    let gap = seen.between(alone - Duration::from_millis(20), now()).longest_gap().unwrap();
    println!(
        "v6 {v6}: two owners {:?}, gap {:?} of {} packets, silence {:?}, worst pause {:?}, who {:?}",
        total(&twice),
        gap.length(),
        gap.lost,
        seen.longest_silence().map(|(from, to)| to.since(from)),
        seen.worst_pause(),
        seen.who(),
    );
    assert!(gap.lost >= 150, "{gap:?}");
    assert!(gap.from >= alone - Duration::from_millis(20) && gap.to >= back - Duration::from_millis(20), "{gap:?}");
    assert_eq!(seen.between(both, told).lost(), 0);
    let order: Vec<String> = seen.who().into_iter().map(|s| s.node).collect();
    assert_eq!(order.first().map(String::as_str), Some("a"));
    assert_eq!(order.last().map(String::as_str), Some("b"));
    assert!(!tap.announcements(vip.ip(), told, Some(mac_b)).is_empty());
    assert_eq!(tap.announcements(vip.ip(), told, Some(mac_a)), []);
    assert!(tap.per_second(told, |f| f.announces(vip.ip())).iter().sum::<usize>() >= 1);
}

#[test]
fn an_echo_server_falls_silent_and_a_prober_says_so() {
    let segment = Segment::new(2);
    let vip = vip(false);
    add(&segment.hosts[0], vip.ip());
    let echo = Echo::start(&segment.hosts[0], "a", vip).unwrap();
    let prober = Prober::start(&segment.hosts[1], vip).unwrap();
    runtime().block_on(async {
        prober.answer_after(now(), None, LIMIT).await.unwrap();
        echo.silence(true);
        let silent = now() + Duration::from_millis(5);
        let waited = prober.answer_after(silent, None, Duration::from_millis(300)).await;
        assert!(matches!(waited, Err(Error::Silent { .. })), "{waited:?}");
        echo.silence(false);
        prober.answer_after(now(), Some("a"), LIMIT).await.unwrap();
    });
    echo.stop().unwrap();
    let again = Echo::start(&segment.hosts[0], "a", vip).unwrap();
    let taken = Echo::start(&segment.hosts[0], "a", vip);
    assert!(taken.unwrap_err().to_string().contains("echo socket on 192.0.2.100:7007"));
    again.stop().unwrap();
    assert!(prober.finish().unwrap().outages().iter().any(|gap| gap.lost >= 200));
}

#[test]
fn a_neighbour_entry_is_written_read_and_forgotten() {
    let segment = Segment::new(1);
    let host = &segment.hosts[0];
    let wrong = "02:00:5e:00:53:77".parse().unwrap();
    for ip in [vip(false).ip(), vip(true).ip()] {
        assert_eq!(neighbour(host, "eth0", ip).unwrap(), None);
        set_neighbour(host, "eth0", ip, wrong, NeighbourState::Stale).unwrap();
        let entry = neighbour(host, "eth0", ip).unwrap().unwrap();
        assert_eq!((entry.mac, entry.state), (Some(wrong), NeighbourState::Stale));
        forget_neighbour(host, "eth0", ip).unwrap();
        forget_neighbour(host, "eth0", ip).unwrap();
    }
    assert!(matches!(neighbour(host, "eth9", vip(false).ip()), Err(Error::NoInterface { .. })));
}

#[test]
fn a_strangers_announcement_is_heard_with_the_strangers_mac() {
    let segment = Segment::new(2);
    let vip = vip(false).ip();
    let tap = Tap::start(&segment.switch, &["br0"]).unwrap();
    let stranger = "02:00:5e:00:53:66".parse().unwrap();
    let before = now();
    inside(&segment.hosts[1], move || send_here("eth0", &announcement(stranger, vip))).unwrap();
    runtime().block_on(async {
        let frame = tap.frame("the stranger", before, LIMIT, |f| f.claims(vip)).await.unwrap();
        assert_eq!((frame.source, frame.sender_mac, &*frame.port), (stranger, Some(stranger), "p1"));
    });
}

#[test]
fn the_floor_and_keepalived() {
    let segment = Segment::new(3);
    let [a, b, client] = segment.hosts.as_slice() else { panic!("three hosts") };
    let hosts = [
        Host { name: "a", place: a, interface: "eth0", port: "p0" },
        Host { name: "b", place: b, interface: "eth0", port: "p1" },
    ];
    runtime().block_on(async {
        for v6 in [false, true] {
            let times = floor([&hosts[0], &hosts[1]], client, vip(v6), 6).await.unwrap();
            assert_eq!(times.len(), 6);
            println!("floor, v6 {v6}: {times:?}");
        }
        let Some(program) = keepalived::installed() else {
            println!("keepalived is not installed: left out");
            return;
        };
        let advert = Duration::from_millis(100);
        for end in [End::Crash, End::Terminate] {
            let places = (&segment.switch, client);
            let runs = keepalived::measure(&program, &hosts, places, vip(false), (end, advert, 2)).await.unwrap();
            println!("keepalived, {end:?}: {runs:?}");
            assert_eq!(runs.len(), 2);
        }
    });
}

#[test]
fn netlink_says_what_the_kernel_refused() {
    let space = Space::new();
    let refused = inside(&space, || {
        remove_address("lo", IpAddr::from([192, 0, 2, 1]))
            .map_err(|e| Error::Waited { what: e.to_string(), limit: LIMIT })
    });
    assert!(refused.unwrap_err().to_string().contains("remove 192.0.2.1 from lo: EADDRNOTAVAIL"));
    assert_eq!(inside(&space, || Netlink::open(0)?.name_of(1)).unwrap(), "lo");
}
