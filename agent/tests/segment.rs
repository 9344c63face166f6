//! ARP and neighbour discovery against real neighbours, in anonymous network namespaces.

// A test says what is wrong by panicking; clippy's own exception is for functions marked as tests only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::TryStreamExt;
use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use mooring_agent::datapath::{Interface, Vip, clock};
use mooring_agent::segment::frame::{ArpForm, arp_announce, arp_probe, na_announce};
use mooring_agent::segment::{Form, Heard, Kind, Options, Segment, Sender, To};
use netlink_packet_route::link::{LinkAttribute, MacVlanMode};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourState};
use pnet::datalink::{Channel, Config, DataLinkSender, NetworkInterface};
use rtnetlink::{Handle, LinkMacVlan, LinkVeth, RouteMessageBuilder};
use tokio::sync::mpsc;

use support::{Lab, One as _, add, delete_link, down, eventually, index, ip, lab, sysctl, up, within};

const VIP: &str = "10.9.0.100";
const VIP6: &str = "fd09::100";
const OWN: [&str; 2] = ["10.9.0.2", "fd09::2"];
const WRONG: Mac = Mac([2, 0, 0, 0, 0, 99]);

type Ear = mpsc::Receiver<(Time, Heard)>;

fn open(interface: &Interface) -> (Segment, Ear) {
    Segment::open(interface, Options::default()).unwrap()
}

async fn next(ear: &mut Ear) -> Heard {
    within(ear.recv()).await.expect("the segment has ended").1
}

/// The next answer. A holder's kernel that asks for our address with the VIP as source makes a claim besides.
async fn answer(ear: &mut Ear) -> Heard {
    loop {
        let heard = next(ear).await;
        if heard.form.is_answer() {
            return heard;
        }
    }
}

/// Sends bytes as they are, from the namespace it was made in.
fn raw(interface: &Interface) -> Box<dyn DataLinkSender> {
    let nic = NetworkInterface {
        name: interface.name.clone(),
        description: String::new(),
        index: interface.index,
        mac: Some(interface.mac.0.into()),
        ips: Vec::new(),
        flags: 0,
    };
    match pnet::datalink::channel(&nic, Config { promiscuous: false, ..Config::default() }).unwrap() {
        Channel::Ethernet(sender, _) => sender,
        _ => panic!("not a channel for frames"),
    }
}

/// Gives the neighbour cache a wrong, stale entry.
async fn mislead(handle: &Handle, name: &str, address: IpAddr) {
    let index = index(handle, name).await;
    let neighbour = handle.neighbours().add(index, address).link_layer_address(&WRONG.0);
    neighbour.state(NeighbourState::Stale).replace().execute().await.unwrap();
    assert_eq!(neighbour_of(handle, address).await, Some(WRONG));
}

async fn neighbour_of(handle: &Handle, address: IpAddr) -> Option<Mac> {
    let wanted = match address {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    };
    let all: Vec<_> = handle.neighbours().get().execute().try_collect().await.unwrap();
    let entry = all.iter().find(|entry| entry.attributes.contains(&NeighbourAttribute::Destination(wanted.clone())))?;
    entry.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(mac) => Some(Mac(mac.as_slice().try_into().unwrap())),
        _ => None,
    })
}

async fn learns(handle: &Handle, address: IpAddr, mac: Mac) {
    eventually(async || (neighbour_of(handle, address).await == Some(mac)).then_some(())).await;
}

#[test]
fn announcements_move_a_neighbours_entry() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (segment, _ear) = open(&va);
        for address in [ip(VIP), ip(VIP6)] {
            mislead(&lab.hb, "vb", address).await;
            segment.announce(address).unwrap();
            learns(&lab.hb, address, va.mac).await;
        }
        let counts = segment.counts();
        assert_eq!(counts.sent, [1, 1, 1, 0, 0]);
        assert_eq!(counts.sent(Kind::Advertisement), 1);
        // Each form by itself.
        let vip = Ipv4Addr::new(10, 9, 0, 100);
        let mut sender = raw(&va);
        for form in [ArpForm::Request, ArpForm::Reply] {
            mislead(&lab.hb, "vb", vip.into()).await;
            // An entry that was just changed is not changed again for a second (the kernel's `locktime`).
            sysctl_b(&lab, "net/ipv4/neigh/vb/locktime", "0");
            sender.send_to(&arp_announce(vip, va.mac, form), None).unwrap().unwrap();
            learns(&lab.hb, vip.into(), va.mac).await;
        }
    });
}

fn sysctl_b(lab: &Lab, name: &str, value: &str) {
    lab.in_b(|| sysctl(name, value));
}

#[test]
fn a_holder_answers_probes_and_is_silent_when_it_has_let_go() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (mut peer, vb) = lab.peer().await;
        let (segment, mut ear) = open(&va);
        // The VIP is outside the prober's subnets, too.
        let vips = [ip("192.0.2.100"), ip("2001:db8::100")];
        segment.listen_for(vips.into_iter().chain(OWN.map(ip)));
        for (vip, own) in vips.into_iter().zip(OWN.map(ip)) {
            peer.put(Vip::host(vip), vb.index, clock::boottime() + Duration::from_mins(1)).await.unwrap();
            for to in [To::Unicast(vb.mac), To::Broadcast] {
                for sender in [Sender::Unspecified, Sender::Own] {
                    segment.probe(vip, to, sender).unwrap();
                    let heard = answer(&mut ear).await;
                    assert_eq!((heard.address, heard.mac), (vip, vb.mac));
                    assert!(heard.form.answers(vip, sender), "{:?} to {sender:?}", heard.form);
                }
            }
            assert!(peer.remove(vip).await.unwrap());
            for to in [To::Unicast(vb.mac), To::Broadcast] {
                segment.probe(vip, to, Sender::Own).unwrap();
            }
            // Who answers later is asked later.
            segment.probe(own, To::Unicast(vb.mac), Sender::Own).unwrap();
            assert_eq!(answer(&mut ear).await.address, own);
        }
        assert_eq!(segment.counts().sent, [0, 0, 0, 7, 7]);
        assert!(segment.counts().heard >= 10);
    });
}

#[test]
fn proxy_arp_does_not_answer_a_probe() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (_peer, vb) = lab.peer().await;
        // The peer routes the VIP to another interface, and answers for it.
        lab.hb.link().add(LinkVeth::new("vx", "vy").build()).execute().await.unwrap();
        up(&lab.hb, "vx").await;
        up(&lab.hb, "vy").await;
        let vip = Ipv4Addr::new(192, 0, 2, 100);
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(vip, 32)
            .output_interface(index(&lab.hb, "vx").await);
        lab.hb.route().add(route.build()).execute().await.unwrap();
        sysctl_b(&lab, "net/ipv4/ip_forward", "1");
        sysctl_b(&lab, "net/ipv4/conf/vb/proxy_arp", "1");
        sysctl_b(&lab, "net/ipv4/neigh/vb/proxy_delay", "0");

        let (segment, mut ear) = open(&va);
        segment.listen_for([vip.into(), ip(OWN[0])]);
        // The proxy works: a question with a sender is answered.
        segment.probe(vip.into(), To::Broadcast, Sender::Own).unwrap();
        let form = Form::Answer(Sender::Own);
        assert_eq!(answer(&mut ear).await, Heard { address: vip.into(), mac: vb.mac, form });
        for to in [To::Unicast(vb.mac), To::Broadcast] {
            segment.probe(vip.into(), to, Sender::Unspecified).unwrap();
        }
        segment.probe(ip(OWN[0]), To::Broadcast, Sender::Unspecified).unwrap();
        assert_eq!(answer(&mut ear).await.address, ip(OWN[0]));
    });
}

#[test]
fn others_are_heard_and_own_frames_are_not() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (_peer, vb) = lab.peer().await;
        let (ours, mut ear) = open(&va);
        let (theirs, _) = lab.in_b(|| open(&vb));
        let others = ip("10.9.0.101");
        ours.listen_for([ip(VIP), ip(VIP6)]);
        for (address, frames) in [(ip(VIP), 2), (ip(VIP6), 1)] {
            ours.announce(address).unwrap();
            ours.probe(address, To::Broadcast, Sender::Unspecified).unwrap();
            theirs.announce(others).unwrap();
            theirs.probe(address, To::Broadcast, Sender::Unspecified).unwrap();
            theirs.announce(address).unwrap();
            for _ in 0..frames {
                assert_eq!(next(&mut ear).await, Heard { address, mac: vb.mac, form: Form::Claim });
            }
        }
        // The kernel's own questions are heard as well, when the VIP is their sender.
        let mut question = arp_probe((vb.mac, Ipv4Addr::UNSPECIFIED), Ipv4Addr::new(10, 9, 0, 1), Mac::BROADCAST);
        question[28..32].copy_from_slice(&[10, 9, 0, 100]);
        let mut sender = lab.in_b(|| raw(&vb));
        // Lies and scraps, and what is for another host, are not.
        let mut lie = arp_announce(Ipv4Addr::new(10, 9, 0, 100), vb.mac, ArpForm::Reply);
        lie[27] ^= 1;
        let mut elsewhere = arp_announce(Ipv4Addr::new(10, 9, 0, 100), vb.mac, ArpForm::Reply);
        elsewhere[..6].copy_from_slice(&WRONG.0);
        let mut routed = na_announce("fd09::100".parse().unwrap(), vb.mac);
        routed[21] = 64;
        for frame in [&lie[..], &elsewhere, &routed, &lie[..20], &routed[..60], &question] {
            sender.send_to(frame, None).unwrap().unwrap();
        }
        assert_eq!(next(&mut ear).await, Heard { address: ip(VIP), mac: vb.mac, form: Form::Claim });
        assert!(ear.try_recv().is_err());
        assert_eq!(ours.counts().heard, 4);
    });
}

#[test]
fn frames_of_an_interface_above_are_of_another_segment() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (_peer, vb) = lab.peer().await;
        // A macvlan in place of a VLAN, which not all kernels have: the kernel treats their frames alike.
        let above = LinkMacVlan::new("above", va.index, MacVlanMode::Bridge);
        lab.ha.link().add(above.build()).execute().await.unwrap();
        up(&lab.ha, "above").await;
        let above = eventually(async || datapath.interface("above").await.ok().filter(|above| above.up)).await;
        let ((below, mut ear), (segment, mut ear_above)) = (open(&va), open(&above));
        below.listen_for([ip(VIP)]);
        segment.listen_for([ip(VIP)]);
        let vip = Ipv4Addr::new(10, 9, 0, 100);
        let mut sender = lab.in_b(|| raw(&vb));
        let mut frame = arp_announce(vip, vb.mac, ArpForm::Reply);
        frame[..6].copy_from_slice(&above.mac.0);
        sender.send_to(&frame, None).unwrap().unwrap();
        let form = Form::Answer(Sender::Own);
        assert_eq!(next(&mut ear_above).await, Heard { address: ip(VIP), mac: vb.mac, form });
        sender.send_to(&arp_announce(vip, vb.mac, ArpForm::Request), None).unwrap().unwrap();
        assert_eq!(next(&mut ear).await, Heard { address: ip(VIP), mac: vb.mac, form: Form::Claim });
    });
}

#[test]
fn no_interface_becomes_promiscuous() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (segment, _ear) = open(&va);
        segment.announce(ip(VIP)).unwrap();
        let link = lab.ha.link().get().match_name("va").execute().try_next().await.unwrap().unwrap();
        assert!(link.attributes.contains(&LinkAttribute::Promiscuity(0)), "{:?}", link.attributes);
        assert!(link.attributes.contains(&LinkAttribute::AllMulticast(0)));
    });
}

#[test]
fn a_rate_limit_delays_and_a_withdrawal_is_at_once() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (_peer, vb) = lab.peer().await;
        let (_hearer, mut ear) = {
            let (segment, ear) = lab.in_b(|| open(&vb));
            segment.listen_for([1, 2, 3].map(|last| ip(&format!("10.9.0.{}", 100 + last))));
            (segment, ear)
        };
        let (segment, _) = Segment::open(&va, Options { frames_per_second: Some(6) }).unwrap();
        // A third of the limit is for announcements. Its channel was dropped, so the listener ends with the first frame that is listened for: none is.
        for last in [101, 102, 103] {
            segment.announce(ip(&format!("10.9.0.{last}"))).unwrap();
        }
        assert_eq!(segment.counts().sent, [1, 1, 0, 0, 0]);
        segment.withdraw(ip("10.9.0.102"));
        for last in [101, 101, 103, 103] {
            assert_eq!(next(&mut ear).await.address, ip(&format!("10.9.0.{last}")));
        }
        assert!(ear.try_recv().is_err());
        // A queued frame may be heard before the thread that sent it has counted it.
        eventually(async || (segment.counts().sent == [2, 2, 0, 0, 0]).then_some(())).await;
    });
}

#[test]
fn a_link_that_flaps_keeps_its_segment_and_one_that_is_gone_ends_it() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (peer, vb) = lab.peer().await;
        let (segment, mut ear) = open(&va);
        let (theirs, _) = lab.in_b(|| open(&vb));
        segment.listen_for([ip(VIP)]);
        down(&lab.ha, "va").await;
        let refused = segment.announce(ip(VIP)).unwrap_err();
        assert!(refused.to_string().contains("is down"), "{refused}");
        assert!(segment.counts().failed > 0);
        up(&lab.ha, "va").await;
        lab.va(&datapath).await;
        eventually(async || peer.interface("vb").await.ok().filter(|vb| vb.up)).await;
        theirs.announce(ip(VIP)).unwrap();
        assert_eq!(next(&mut ear).await.mac, vb.mac);

        delete_link(&lab.ha, "va").await;
        within(async { while ear.recv().await.is_some() {} }).await;
        let refused = segment.probe(ip(VIP), To::Broadcast, Sender::Unspecified).unwrap_err();
        assert!(refused.to_string().contains("is gone"), "{refused}");
        assert!(Segment::open(&va, Options::default()).is_err());
        // Closing ends it, too.
        lab.join().await;
        let (segment, mut ear) = open(&lab.va(&datapath).await);
        drop(segment);
        assert_eq!(within(ear.recv()).await, None);
    });
}

#[test]
fn without_ipv6_the_rest_works() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = Interface { link_local: None, ..lab.va(&datapath).await };
        let (segment, _ear) = open(&va);
        for refused in [segment.announce(ip(VIP6)), segment.probe(ip(VIP6), To::Broadcast, Sender::Unspecified)] {
            assert_eq!(refused.unwrap_err().category(), "no_ipv6");
        }
        add(&lab.hb, "vb", "10.9.0.200/24", None, false).await;
        segment.announce(ip(VIP)).unwrap();
        assert_eq!(segment.counts().sent, [1, 1, 0, 0, 0]);
    });
}

/// A frame of a rate-limited segment waits for probes, too: switches count all frames of a port.
#[test]
fn probes_count_for_the_rate_limit() {
    lab(async |lab: Lab| {
        let (datapath, _) = lab.datapath();
        let va = lab.va(&datapath).await;
        let (segment, _ear) = Segment::open(&va, Options { frames_per_second: Some(4) }).unwrap();
        for _ in 0..4 {
            segment.probe(ip(VIP), To::Broadcast, Sender::Unspecified).unwrap();
        }
        segment.announce(ip(VIP)).unwrap();
        assert_eq!(segment.counts().sent, [0, 0, 0, 4, 0], "the announcement waits");
        eventually(async || (segment.counts().sent == [1, 1, 0, 4, 0]).then_some(())).await;
    });
}
