//! The datapath against the kernel, in anonymous network namespaces.

// A test says what is wrong by panicking; clippy's own exception is for functions marked as tests only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::time::Duration;

use mooring_agent::core::time::Time;
use mooring_agent::datapath::{Datapath, Error, Interface, KernelEvent, Kind, Options, Placed, Put, Vip, Whose, clock};
use netlink_packet_core::NLM_F_REPLACE;
use rtnetlink::{LinkVeth, RouteMessageBuilder};

use support::{Lab, One as _, add, delete_link, down, ip, lab, remove, sysctl, until, up, write};

const VIP: &str = "10.9.0.100";
const VIP6: &str = "fd09::100";

fn lease(millis: u64) -> Time {
    clock::boottime() + Duration::from_millis(millis)
}

fn vip() -> Vip {
    Vip::host(ip(VIP))
}

fn gone(event: &KernelEvent, address: IpAddr) -> bool {
    matches!(event, KernelEvent::AddressGone { address: gone, .. } if *gone == address)
}

async fn kinds(datapath: &Datapath, address: IpAddr) -> Vec<Kind> {
    datapath.find(address).await.unwrap().iter().map(|found| found.kind).collect()
}

/// The interface of the default route.
async fn by_route(datapath: &Datapath) -> Result<Interface, Error> {
    let index = datapath.default_interface(false).await?;
    let all = datapath.interfaces().await?;
    Ok(all.into_iter().find(|one| one.index == index).unwrap())
}

async fn is_ours(datapath: &Datapath, address: IpAddr) -> bool {
    matches!(kinds(datapath, address).await[..], [Kind::Ours { .. }])
}

#[test]
fn an_address_is_added_refreshed_and_expires_by_itself() {
    lab(async |lab: Lab| {
        let (mut datapath, mut events) = lab.datapath();
        let va = lab.va(&datapath).await;
        for address in [ip(VIP), ip(VIP6)] {
            datapath.watch_addresses([address]);
            let end = lease(2900);
            assert_eq!(datapath.put(Vip::host(address), va.index, lease(60_000)).await.unwrap(), Put::Added);
            assert_eq!(datapath.put(Vip::host(address), va.index, end).await.unwrap(), Put::Refreshed);
            let found = datapath.find(address).await.unwrap();
            assert!(
                matches!(found[..], [ref it] if it.index == va.index && it.interface == "va"
                    && matches!(it.kind, Kind::Ours { left } if left <= Duration::from_secs(1))),
                "{found:?}"
            );
            let added = KernelEvent::AddressAdded { address, index: va.index, ours: true };
            until(&mut events, |event| *event == added).await;
            until(&mut events, |event| gone(event, address)).await;
            assert_eq!(kinds(&datapath, address).await, []);
            assert!(!datapath.remove(address).await.unwrap());
            assert_eq!(datapath.put(Vip::host(address), va.index, lease(60_000)).await.unwrap(), Put::Added);
            assert!(datapath.remove(address).await.unwrap());
        }
    });
}

/// As while another program holds the kernel's networking lock: the request that waits for the lock holds up the whole thread. When
/// the thread goes on, the deadline is over, and the kernel's answer is there.
#[test]
fn an_answer_that_the_thread_is_late_to_read_counts() {
    lab(async |lab: Lab| {
        for whose in [Whose::ControlPlane, Whose::Services] {
            let options = Options { deadline: Duration::from_millis(50), whose, ..lab.options(false) };
            let (mut datapath, _events) = lab.datapath_with(&options);
            let va = lab.va(&datapath).await;
            let placed = [VIP, VIP6].map(|address| (Vip::host(ip(address)), va.index));
            for expected in [Put::Added, Put::Refreshed] {
                let late = async { std::thread::sleep(Duration::from_millis(120)) };
                let (put, ()) = tokio::join!(datapath.put_all(&placed, lease(60_000)), late);
                assert_eq!(put.there, placed.map(|placed| (placed, expected)), "{put:?}");
            }
            datapath.remove_all().await.unwrap();
        }
    });
}

#[test]
fn too_late_is_not_there() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        let late = datapath.put(vip(), va.index, lease(2400)).await;
        assert!(matches!(late, Err(Error::Late { .. })), "{late:?}");
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        let late = datapath.put(vip(), va.index, lease(0)).await;
        assert!(matches!(late, Err(Error::Late { .. })), "{late:?}");
        assert_eq!(kinds(&datapath, ip(VIP)).await, []);
    });
}

#[test]
fn a_strangers_address_is_left_alone() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        for (address, prefix) in [(VIP, 32), (VIP, 24), (VIP6, 128), (VIP6, 64)] {
            let stranger = format!("{address}/{prefix}");
            add(&lab.ha, "va", &stranger, None, false).await;
            let put = datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await;
            assert!(matches!(put, Err(Error::Stranger { .. })), "{put:?}");
            assert!(!datapath.remove(ip(address)).await.unwrap());
            datapath.remove_all().await.unwrap();
            assert_eq!(kinds(&datapath, ip(address)).await, [Kind::NodesOwn]);
            remove(&lab.ha, "va", &stranger).await;
        }
        assert_eq!(kinds(&datapath, ip("10.9.0.1")).await, [Kind::NodesOwn]);
    });
}

#[test]
fn an_address_of_the_nodes_own_is_no_vip_on_another_interface_either() {
    lab(async |lab: Lab| {
        lab.ha.link().add(LinkVeth::new("vc", "vd").build()).execute().await.unwrap();
        for whose in [Whose::ControlPlane, Whose::Services] {
            let (mut datapath, _events) = lab.datapath_with(&Options { whose, ..lab.options(false) });
            let va = lab.va(&datapath).await;
            for (address, prefix) in [(VIP, 32), (VIP6, 128)] {
                let own = format!("{address}/{prefix}");
                add(&lab.ha, "vc", &own, None, false).await;
                let put = datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await;
                assert!(matches!(&put, Err(Error::Stranger { interface, .. }) if interface == "vc"), "{put:?}");
                remove(&lab.ha, "vc", &own).await;
                datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await.unwrap();
                assert!(datapath.remove(ip(address)).await.unwrap());
            }
        }
    });
}

#[test]
fn after_a_restart_the_address_is_adopted() {
    lab(async |lab: Lab| {
        for no_proto in [false, true] {
            let (mut before, _) = lab.datapath_with(&lab.options(no_proto));
            let va = lab.va(&before).await;
            for address in [ip(VIP), ip(VIP6)] {
                before.put(Vip::host(address), va.index, lease(60_000)).await.unwrap();
            }
            drop(before);
            let record = || std::fs::read_dir(lab.run_dir.path()).unwrap().count();
            assert_eq!(record(), usize::from(no_proto));

            let (after, mut events) = lab.datapath_with(&lab.options(no_proto));
            after.watch_addresses([ip(VIP), ip(VIP6)]);
            assert_eq!(after.ours().await.unwrap().len(), 2);
            let (mut third, _) = lab.datapath_with(&lab.options(no_proto));
            for address in [ip(VIP), ip(VIP6)] {
                assert_eq!(third.put(Vip::host(address), va.index, lease(60_000)).await.unwrap(), Put::Adopted);
                assert_eq!(third.put(Vip::host(address), va.index, lease(60_000)).await.unwrap(), Put::Refreshed);
            }
            third.remove_all().await.unwrap();
            assert_eq!(third.ours().await.unwrap(), []);
            assert_eq!(record(), 0);
            // Without a gap: each is gone only once, now.
            let mut left = vec![ip(VIP), ip(VIP6)];
            while let Some(next) = left.first().copied() {
                let event = until(&mut events, |event| matches!(event, KernelEvent::AddressGone { .. })).await;
                assert!(gone(&event, next), "{event:?}");
                left.remove(0);
            }
        }
    });
}

#[test]
fn without_mark_and_record_it_is_a_strangers() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath_with(&lab.options(true));
        let va = lab.va(&datapath).await;
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        assert!(is_ours(&datapath, ip(VIP)).await);
        let elsewhere = tempfile::tempdir().unwrap();
        let options = mooring_agent::datapath::Options { run_dir: elsewhere.path().into(), ..lab.options(true) };
        let (mut other, _) = lab.datapath_with(&options);
        assert_eq!(other.ours().await.unwrap(), []);
        assert!(matches!(other.put(vip(), va.index, lease(60_000)).await, Err(Error::Stranger { .. })));
        // The signature counts as well as the record: somebody made it permanent.
        write(&lab.ha, "va", "10.9.0.100/32", None, true, NLM_F_REPLACE).await;
        assert_eq!(kinds(&datapath, ip(VIP)).await, [Kind::KubeVip]);
    });
}

#[test]
fn a_record_that_cannot_be_read_or_written_is_no_reason_where_the_mark_is_kept() {
    lab(async |lab: Lab| {
        let file = lab.run_dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        // A file is in the directory's place; and the file can be neither read nor made.
        for run_dir in [file.join("sub"), std::path::PathBuf::from("/proc/mooring")] {
            for no_proto in [false, true] {
                let options = mooring_agent::datapath::Options { run_dir: run_dir.clone(), ..lab.options(no_proto) };
                let (mut datapath, _events) = lab.datapath_with(&options);
                let va = lab.va(&datapath).await;
                let put = datapath.put(vip(), va.index, lease(60_000)).await;
                assert_eq!(put.is_ok(), !no_proto, "{put:?}");
                assert_eq!(kinds(&datapath, ip(VIP)).await.is_empty(), no_proto);
                datapath.remove_all().await.unwrap();
            }
        }
    });
}

#[test]
fn what_kube_vip_left_behind_is_known_and_removed() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        for (address, prefix) in [(VIP, 32), (VIP6, 128)] {
            add(&lab.ha, "va", &format!("{address}/{prefix}"), None, true).await;
            assert_eq!(kinds(&datapath, ip(address)).await, [Kind::KubeVip]);
            let own = datapath.interface("va").await.unwrap().addresses;
            assert_eq!(own.len(), 2, "{own:?}");
            let put = datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await;
            assert!(matches!(put, Err(Error::Stranger { .. })), "{put:?}");
            assert!(datapath.remove_kube_vip(ip(address)).await.unwrap());
            assert!(!datapath.remove_kube_vip(ip(address)).await.unwrap());
            assert_eq!(datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await.unwrap(), Put::Added);
            assert!(!datapath.remove_kube_vip(ip(address)).await.unwrap(), "ours is not kube-vip's");
        }
        assert!(!datapath.remove_kube_vip(ip("10.9.0.1")).await.unwrap());
    });
}

/// People put a Service's address on `lo` for direct server return; kube-proxy and kube-router bind it on dummies of theirs.
#[test]
fn an_address_that_stands_where_no_frames_go_is_carried_all_the_same() {
    lab(async |lab: Lab| {
        for whose in [Whose::ControlPlane, Whose::Services] {
            let (mut datapath, _events) = lab.datapath_with(&Options { whose, ..lab.options(false) });
            let va = lab.va(&datapath).await;
            for (address, host) in [(VIP, 32), (VIP6, 128)] {
                let there = format!("{address}/{host}");
                add(&lab.ha, "lo", &there, None, false).await;
                assert_eq!(kinds(&datapath, ip(address)).await, [Kind::LeadsNowhere]);
                let put = datapath.put(Vip::host(ip(address)), va.index, lease(60_000)).await;
                assert_eq!(put.unwrap(), Put::Added);
                assert!(datapath.remove(ip(address)).await.unwrap());
                assert_eq!(kinds(&datapath, ip(address)).await, [Kind::LeadsNowhere], "what others put there stays");
                remove(&lab.ha, "lo", &there).await;
            }
        }
    });
}

#[test]
fn interfaces_are_found_by_their_other_names_too() {
    lab(async |lab: Lab| {
        let (datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        lab.ha.link().property_add(va.index).alt_ifname(&["enp3s0"]).execute().await.unwrap();
        let all = datapath.interfaces().await.unwrap();
        let named: Vec<u32> = all.iter().filter(|one| one.is_named("enp3s0")).map(|one| one.index).collect();
        assert_eq!(named, [va.index]);
        assert_eq!(datapath.interface("enp3s0").await.unwrap().name, "va");
    });
}

#[test]
fn what_stands_before_an_interface_s_own_addresses_is_known() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        let before = async |datapath: &Datapath| datapath.interface("va").await.unwrap().before_own;
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        assert_eq!(before(&datapath).await, [] as [IpAddr; 0]);
        // A network manager flushes the interface, and the agent is faster.
        remove(&lab.ha, "va", "10.9.0.1/24").await;
        assert_eq!(before(&datapath).await, [] as [IpAddr; 0], "there is nothing to stand before");
        add(&lab.ha, "va", "10.9.0.1/24", None, false).await;
        assert_eq!(before(&datapath).await, [ip(VIP)]);
        assert!(datapath.remove(ip(VIP)).await.unwrap());
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        assert_eq!(before(&datapath).await, [] as [IpAddr; 0]);
    });
}

#[test]
fn what_others_do_to_our_address_is_told() {
    lab(async |lab: Lab| {
        let (mut datapath, mut events) = lab.datapath();
        let va = lab.va(&datapath).await;
        datapath.watch_addresses([ip(VIP)]);
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        remove(&lab.ha, "va", "10.9.0.100/32").await;
        until(&mut events, |event| gone(event, ip(VIP))).await;
        assert_eq!(datapath.put(vip(), va.index, lease(60_000)).await.unwrap(), Put::Added);

        // A stranger takes it over: it is not ours any more, and stays.
        write(&lab.ha, "va", "10.9.0.100/32", None, false, NLM_F_REPLACE).await;
        let taken = KernelEvent::AddressAdded { address: ip(VIP), index: va.index, ours: false };
        until(&mut events, |event| *event == taken).await;
        let put = datapath.put(vip(), va.index, lease(60_000)).await;
        assert!(matches!(put, Err(Error::Stranger { .. })), "{put:?}");
        assert!(!datapath.remove(ip(VIP)).await.unwrap());
        assert_eq!(kinds(&datapath, ip(VIP)).await, [Kind::NodesOwn]);
    });
}

/// Why the clock is read after a refresh as well: there is no "refresh if it is there".
#[test]
fn replace_creates_what_is_absent() {
    lab(async |lab: Lab| {
        let (datapath, _events) = lab.datapath();
        for address in [VIP, VIP6] {
            let host = if address == VIP { 32 } else { 128 };
            write(&lab.ha, "va", &format!("{address}/{host}"), None, false, NLM_F_REPLACE).await;
            assert_eq!(kinds(&datapath, ip(address)).await, [Kind::NodesOwn]);
        }
    });
}

#[test]
fn a_short_prefix_takes_no_others_along() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        let va = lab.va(&datapath).await;
        let first = Vip { address: ip("10.10.0.100"), prefix: 24 };
        let refused = datapath.put(first, va.index, lease(60_000)).await;
        assert!(matches!(refused, Err(Error::PrefixWouldTakeOthers { .. })), "{refused:?}");
        // Behind an own address of the subnet it is secondary, and goes alone.
        let second = Vip { address: ip(VIP), prefix: 24 };
        assert_eq!(datapath.put(second, va.index, lease(60_000)).await.unwrap(), Put::Added);
        assert!(datapath.remove(ip(VIP)).await.unwrap());
        assert_eq!(kinds(&datapath, ip("10.9.0.1")).await, [Kind::NodesOwn]);
        // With promotion it may be the first.
        sysctl("net/ipv4/conf/va/promote_secondaries", "1");
        assert_eq!(datapath.put(first, va.index, lease(60_000)).await.unwrap(), Put::Added);
        add(&lab.ha, "va", "10.10.0.1/24", None, false).await;
        assert!(datapath.remove(first.address).await.unwrap());
        assert_eq!(kinds(&datapath, ip("10.10.0.1")).await, [Kind::NodesOwn]);
        for prefix in [0, 33] {
            let bad = datapath.put(Vip { address: ip(VIP), prefix }, va.index, lease(60_000)).await;
            assert!(matches!(bad, Err(Error::BadPrefix { most: 32, .. })), "{bad:?}");
        }
        // Another prefix length than before a restart.
        datapath.put(second, va.index, lease(60_000)).await.unwrap();
        assert_eq!(datapath.put(vip(), va.index, lease(60_000)).await.unwrap(), Put::Added);
        assert!(is_ours(&datapath, ip(VIP)).await);
    });
}

#[test]
fn addresses_of_the_node_are_told_when_they_come_and_go_and_not_when_they_are_renewed() {
    lab(async |lab: Lab| {
        let (mut datapath, mut events) = lab.datapath();
        let va = lab.va(&datapath).await;
        datapath.watch_addresses([ip(VIP)]);
        let told = KernelEvent::NodeAddress { index: va.index };
        add(&lab.ha, "va", "10.9.0.7/24", None, false).await;
        until(&mut events, |event| *event == told).await;
        assert!(datapath.interface("va").await.unwrap().addresses.iter().any(|net| net.addr() == ip("10.9.0.7")));
        // A VIP is none of them, however often it is refreshed.
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        remove(&lab.ha, "va", "10.9.0.7/24").await;
        let between = std::cell::Cell::new(0);
        until(&mut events, |event| {
            between.set(between.get() + u32::from(matches!(event, KernelEvent::AddressAdded { .. })));
            *event == told
        })
        .await;
        assert_eq!(between.get(), 2, "told before the address went");
    });
}

#[test]
fn links_come_and_go() {
    lab(async |lab: Lab| {
        let (mut datapath, mut events) = lab.datapath();
        let va = lab.va(&datapath).await;
        datapath.watch_addresses([ip(VIP)]);
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        let link = |wanted: bool| move |event: &KernelEvent| matches!(event, KernelEvent::Link { name, up, .. } if name == "va" && *up == wanted);
        down(&lab.hb, "vb").await; // the cable
        until(&mut events, link(false)).await;
        assert!(!datapath.interface("va").await.unwrap().up);
        up(&lab.hb, "vb").await;
        let event = until(&mut events, link(true)).await;
        assert_eq!(event, KernelEvent::Link { index: va.index, name: "va".into(), up: true, mac: Some(va.mac) });

        delete_link(&lab.ha, "va").await;
        until(&mut events, |event| gone(event, ip(VIP))).await;
        until(&mut events, |event| *event == KernelEvent::LinkGone { index: va.index, name: "va".into() }).await;
        let nothing = datapath.interface("va").await;
        assert!(matches!(nothing, Err(Error::NoInterface { .. })), "{nothing:?}");
        let put = datapath.put(vip(), va.index, lease(60_000)).await.unwrap_err();
        assert_eq!(put.errno(), Some(nix::errno::Errno::ENODEV), "{put}");
        assert!(!datapath.remove(ip(VIP)).await.unwrap());

        lab.join().await;
        until(&mut events, link(true)).await;
        let again = lab.va(&datapath).await;
        assert_ne!(again.index, va.index);
        assert_eq!(datapath.put(vip(), again.index, lease(60_000)).await.unwrap(), Put::Added);
        assert!(datapath.own_macs().await.unwrap().contains(&again.mac));
    });
}

#[test]
fn the_default_route_names_the_interface() {
    lab(async |lab: Lab| {
        let (mut datapath, _events) = lab.datapath();
        assert!(matches!(by_route(&datapath).await, Err(Error::NoDefaultRoute)));
        assert!(matches!(datapath.interface("no-such-one").await, Err(Error::NoInterface { .. })));
        assert!(matches!(datapath.interface("longer-than-any-name").await, Err(Error::NoInterface { .. })));
        assert!(matches!(datapath.interface("lo").await, Err(Error::NotEthernet { .. })));

        let va = lab.va(&datapath).await;
        let other = rtnetlink::LinkVeth::new("vx", "vy").build();
        lab.ha.link().add(other).execute().await.unwrap();
        for name in ["vx", "vy"] {
            up(&lab.ha, name).await;
        }
        add(&lab.ha, "vx", "10.8.0.1/24", None, false).await;
        let default_by = async |gateway: &str, metric| {
            let route = match ip(gateway) {
                IpAddr::V4(gateway) => {
                    RouteMessageBuilder::<std::net::Ipv4Addr>::new().gateway(gateway).priority(metric).build()
                }
                IpAddr::V6(gateway) => {
                    RouteMessageBuilder::<std::net::Ipv6Addr>::new().gateway(gateway).priority(metric).build()
                }
            };
            lab.ha.route().add(route).execute().await.unwrap();
        };
        default_by("fd09::2", 1).await;
        assert_eq!(by_route(&datapath).await.unwrap().index, va.index, "IPv6 where there is no IPv4");
        default_by("10.8.0.2", 200).await;
        assert_eq!(by_route(&datapath).await.unwrap().name, "vx", "IPv4 first");
        assert_eq!(datapath.default_interface(true).await.unwrap(), va.index, "or IPv6 first");
        default_by("10.9.0.2", 100).await;
        datapath.put(vip(), va.index, lease(60_000)).await.unwrap();
        let found = by_route(&datapath).await.unwrap();
        assert_eq!((found.index, found.mac, found.up), (va.index, va.mac, true));
        assert_eq!(found.gateways, [ip("10.9.0.2"), ip("fd09::2")]);
        let mut own: Vec<_> = found.addresses.iter().map(ToString::to_string).collect();
        own.sort();
        assert_eq!(own, ["10.9.0.1/24", "fd09::1/64"]);
        assert_eq!(datapath.own_macs().await.unwrap().len(), 3);
    });
}

#[test]
fn many_addresses_go_at_once() {
    lab(async |lab: Lab| {
        let (mut datapath, mut events) = lab.datapath();
        let va = lab.va(&datapath).await;
        datapath.watch_addresses([ip("10.9.1.250")]);
        for last in 1..=250 {
            let address = ip(&format!("10.9.1.{last}"));
            assert_eq!(datapath.put(Vip::host(address), va.index, lease(60_000)).await.unwrap(), Put::Added);
        }
        assert_eq!(datapath.ours().await.unwrap().len(), 250);
        drop(datapath);
        let (mut next, _) = lab.datapath();
        next.remove_all().await.unwrap();
        assert_eq!(next.ours().await.unwrap(), []);
        // The dropped datapath's monitor has ended, after what was told before.
        support::within(async { while events.recv().await.is_some() {} }).await;
    });
}

/// Many VIPs, half of them IPv6.
fn many(count: u16) -> Vec<IpAddr> {
    let four = (0..count / 2)
        .map(|n| IpAddr::from([10, 9, 1 + u8::try_from(n / 200).unwrap(), u8::try_from(n % 200).unwrap()]));
    let six = (0..count / 2).map(|n| IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 1, n]));
    four.chain(six).collect()
}

#[test]
fn many_are_put_refreshed_and_removed_at_once() {
    lab(async |lab: Lab| {
        for no_proto in [false, true] {
            let options = Options { whose: Whose::Services, ..lab.options(no_proto) };
            let (mut datapath, _events) = lab.datapath_with(&options);
            let va = lab.va(&datapath).await;
            // More than one datagram.
            let all = many(1_000);
            let placed: Vec<Placed> = all.iter().map(|address| (Vip::host(*address), va.index)).collect();
            for _ in 0..2 {
                let put = datapath.put_all(&placed, lease(60_000)).await;
                assert!(put.failed.is_empty(), "{:?}", put.failed.first());
                assert_eq!(put.there.len(), all.len());
                assert_eq!(datapath.ours().await.unwrap().len(), all.len());
            }
            // Another agent's run adopts them; who holds the control plane's VIPs sees nothing of its own.
            let (mut next, _) = lab.datapath_with(&options);
            let (other, _) = lab.datapath_with(&lab.options(no_proto));
            assert_eq!(other.ours().await.unwrap(), []);
            let put = next.put_all(&placed, lease(60_000)).await;
            assert_eq!((put.there.len(), put.failed.len()), (all.len(), 0));
            assert_eq!(next.ours().await.unwrap().len(), all.len());
            assert!(next.remove_many(&all).await.failed.is_empty());
            assert_eq!(next.ours().await.unwrap(), []);
            assert!(next.remove_many(&all).await.failed.is_empty(), "they are gone already");
        }
    });
}

#[test]
fn one_that_cannot_be_put_does_not_keep_the_others_out() {
    lab(async |lab: Lab| {
        let options = Options { whose: Whose::Services, ..lab.options(false) };
        let (mut datapath, _events) = lab.datapath_with(&options);
        let va = lab.va(&datapath).await;
        let all = many(8);
        add(&lab.ha, "va", &format!("{}/32", all[1]), None, false).await;
        // kube-vip's, left behind.
        add(&lab.ha, "va", &format!("{}/32", all[2]), None, true).await;
        let mut placed: Vec<Placed> = all.iter().map(|address| (Vip::host(*address), va.index)).collect();
        placed[3].1 = 4_711;
        let put = datapath.put_all(&placed, lease(60_000)).await;
        let failed: Vec<IpAddr> = put.failed.iter().map(|(address, _)| *address).collect();
        assert_eq!(failed, [all[1], all[3]], "{:?}", put.failed);
        assert_eq!(put.there.len(), 6);
        assert_eq!(kinds(&datapath, all[1]).await, [Kind::NodesOwn]);
        assert!(is_ours(&datapath, all[2]).await);
        assert!(datapath.remove_many(&[all[1]]).await.failed.is_empty());
        assert_eq!(kinds(&datapath, all[1]).await, [Kind::NodesOwn]);
        // Too late: none of them is there any more.
        let late =
            datapath.put_all(&put.there.iter().map(|(placed, _)| *placed).collect::<Vec<_>>(), lease(2_000)).await;
        assert_eq!((late.there.len(), late.failed.len()), (0, 6));
        assert!(late.failed.iter().all(|(_, error)| matches!(error, Error::Late { .. })));
        assert_eq!(datapath.ours().await.unwrap(), []);
    });
}

/// Routes as a router of the Internet has them.
fn full_table(count: u32) {
    let mut routes = String::new();
    for n in 0..count {
        let (a, b, c) = (n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff);
        writeln!(routes, "route add {}.{b}.{c}.0/24 dev va", 11 + a).unwrap();
        if n % 10 == 0 {
            writeln!(routes, "route add 2001:{a:x}:{:x}::/48 dev va", n & 0xffff).unwrap();
        }
    }
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    ip.stdin.take().unwrap().write_all(routes.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success());
}

/// The most memory that this process had so far, in KiB.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn an_interface_is_found_beside_a_full_routing_table() {
    lab(async |lab: Lab| {
        let (datapath, _events) = lab.datapath();
        full_table(100_000);
        let before = peak_memory();
        assert!(matches!(by_route(&datapath).await, Err(Error::NoDefaultRoute)));
        for gateway in ["10.9.0.2", "10.9.0.3"] {
            let metric = u32::from(gateway.ends_with('3')) + 1;
            let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(gateway.parse().unwrap()).priority(metric);
            lab.ha.route().add(route.build()).execute().await.unwrap();
        }
        let six = RouteMessageBuilder::<Ipv6Addr>::new().gateway("fd09::2".parse().unwrap());
        lab.ha.route().add(six.build()).execute().await.unwrap();
        for found in [by_route(&datapath).await.unwrap(), datapath.interface("va").await.unwrap()] {
            assert_eq!((&*found.name, found.gateways), ("va", ["10.9.0.2", "10.9.0.3", "fd09::2"].map(ip).to_vec()));
        }
        assert_eq!(datapath.interfaces().await.unwrap().iter().find(|one| one.name == "va").unwrap().gateways.len(), 3);
        // A route takes some hundred bytes: the agent, whose memory is limited, must not hold them all.
        let grown = peak_memory() - before;
        assert!(grown < 8 << 10, "the look-up took {grown} KiB");
    });
}
