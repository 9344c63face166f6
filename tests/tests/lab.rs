//! The lab itself: hosts, faults, and that nothing of it stays. Needs root or user namespaces with root inside.

#![allow(clippy::expect_used, reason = "a test that cannot go on shall say where")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mooring_tests::fault::Way;
use mooring_tests::host::{Host, Spec, Status, helper};
use mooring_tests::{Lab, Shape, fault, host, segment};

const SOON: Duration = Duration::from_secs(10);

async fn segment_lab() -> Lab {
    helper(env!("CARGO_BIN_EXE_lab"));
    Lab::up(Shape::segment()).await.expect("a lab")
}

/// Whether a datagram from one host reaches another. What is cut stays silent, so a "no" takes a while.
fn reaches(from: &Host, to: &Host, address: IpAddr) -> bool {
    let any: SocketAddr = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().expect("an address");
    let receiver = to.netns().run(move || UdpSocket::bind(any).expect("a socket"));
    let sender = from.netns().run(move || UdpSocket::bind(any).expect("a socket"));
    let port = receiver.local_addr().expect("bound").port();
    receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    // Several, as the first may be spent on a neighbour's address that is stale.
    (0..10).any(|_| {
        // Refused while the neighbour is known not to answer.
        drop(sender.send_to(b"?", (address, port)));
        receiver.recv_from(&mut [0; 8]).is_ok()
    })
}

/// Whether somebody answers an ARP or ND request of this host, by the kernel's own neighbour table.
fn neighbour(of: &Host, address: IpAddr) -> Option<String> {
    let sender = of
        .netns()
        .run(move || UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).expect("a socket"));
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        drop(sender.send_to(b"?", (address, 9)));
        let mut ip = Command::new("ip");
        ip.args(["neigh", "show", &address.to_string()]);
        let shown = of.netns().output(ip, String::new()).expect("ip");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        if shown.contains("FAILED") {
            return None;
        }
        if let Some((_, rest)) = shown.split_once("lladdr ") {
            return rest.split(' ').next().map(str::to_owned);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// All network namespaces that some process is in.
fn spaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path().join("ns/net")).ok()?.display().to_string())).collect()
}

#[tokio::test]
async fn two_labs_beside_each_other_leave_nothing() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let (one, two) = tokio::join!(segment_lab(), segment_lab());
    let [a, b] = [&one, &two].map(|lab| lab.host("cp1").expect("cp1"));
    assert_ne!(a.dir(), b.dir());
    let pids: Vec<_> = [&one, &two].iter().flat_map(|lab| lab.hosts()).filter_map(|host| host.pid()).collect();
    assert_eq!(pids.len(), 8);
    let inside: BTreeSet<_> = pids
        .iter()
        .map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).expect("a host").display().to_string())
        .collect();
    assert_eq!(inside.len(), 8, "every host has a network namespace of its own");
    let sleeper = a.start(Spec::new("sleeper", "sleep").arg("1000")).expect("a process");
    let sleeper = sleeper.pid().expect("it runs");
    let dirs = [one.dir().to_owned(), two.dir().to_owned()];
    assert!(reaches(&one.host("client").expect("client"), &a, a.ip4().into()));

    one.down();
    assert!(b.is_up(), "the other lab goes on");
    drop(b);
    drop(a);
    two.down();
    for pid in pids.iter().chain([&sleeper]) {
        assert!(!Path::new("/proc").join(pid.to_string()).exists(), "process {pid} is still there");
    }
    assert!(inside.is_disjoint(&spaces()));
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").expect("mounts"), mounts);
    for dir in dirs {
        assert!(!dir.exists(), "{} is still there", dir.display());
    }
}

#[test]
fn a_lab_that_is_killed_leaves_no_process() {
    let home = tempfile::tempdir().expect("a folder");
    let lab = |args: &[&str]| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.env("XDG_RUNTIME_DIR", home.path()).args(["--name", "killed"]).args(args).stdin(Stdio::null());
        lab
    };
    let up = lab(&["up", "--shape", "segment"]).process_group(0).output().expect("lab up");
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(up.status.success(), "{said}");
    let entered = lab(&["enter", "cp2", "hostname"]).output().expect("lab enter");
    assert_eq!(String::from_utf8_lossy(&entered.stdout), "cp2\n");
    let folder = said.lines().find_map(|line| line.trim().strip_prefix("logs")).expect("the folder").trim();
    let of_lab = || -> Vec<String> {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let of = |entry: &fs::DirEntry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            (line.contains(folder) || line.contains("killed\0__stand")).then(|| entry.file_name().into_string().ok())?
        };
        entries.filter_map(|entry| of(&entry)).collect()
    };
    let all = of_lab();
    assert_eq!(all.len(), 5, "the elector and the inits of four hosts: {all:?}");
    let elector = folder.rsplit('/').next().and_then(|name| name.split('-').nth(2)).expect("the elector's PID");
    assert!(Command::new("kill").args(["-9", elector]).status().expect("kill").success());
    let end = Instant::now() + SOON;
    while !of_lab().is_empty() {
        assert!(Instant::now() < end, "still there: {:?}", of_lab());
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_dir_all(folder).expect("the folder of a killed lab");
}

#[tokio::test]
async fn a_cut_cuts_and_only_one_way() {
    let lab = segment_lab().await;
    let [a, b, c] = ["cp1", "cp2", "cp3"].map(|name| lab.host(name).expect("a host"));
    for (from, to) in [(&a, &b), (&b, &a), (&a, &c)] {
        assert!(reaches(from, to, to.ip4().into()) && reaches(from, to, to.ip6().into()));
    }
    lab.cut("cp1", "cp2", Way::One).expect("a cut");
    assert!(!reaches(&a, &b, b.ip4().into()));
    assert!(!reaches(&a, &b, b.ip6().into()));
    assert!(reaches(&b, &a, a.ip4().into()), "the other way is open");
    assert!(reaches(&a, &c, c.ip4().into()), "others are open");
    lab.cut("cp1", "cp2", Way::Both).expect("a cut");
    assert!(!reaches(&b, &a, a.ip4().into()));
    lab.heal("cp2", "cp1").expect("healed");
    assert!(reaches(&a, &b, b.ip4().into()) && reaches(&b, &a, a.ip4().into()));

    lab.loss("cp3", 100).expect("loss");
    assert!(!reaches(&a, &c, c.ip4().into()));
    lab.heal_all().expect("healed");
    assert!(reaches(&a, &c, c.ip4().into()));
    assert!(matches!(lab.cut("cp1", "cp1", Way::One), Err(fault::Error::Itself(_))));
    assert!(matches!(lab.cut("cp1", "nobody", Way::One), Err(fault::Error::Host(host::Error::Unknown { .. }))));
}

#[tokio::test]
async fn a_crashed_host_is_silent_and_comes_back_without_its_vips() {
    let lab = segment_lab().await;
    let (cp1, client) = (lab.host("cp1").expect("cp1"), lab.host("client").expect("client"));
    let vip = lab.vip();
    lab.add_address("cp1", vip).expect("an address");
    fs::write(cp1.dir().join("disk"), "stays").expect("a file");
    let sleeper = cp1.start(Spec::new("sleeper", "sleep").arg("1000")).expect("a process");
    let run = |file: &str| {
        Command::new("nsenter")
            .args(["-t", &cp1.pid().expect("up").to_string(), "-m", "test", "-e", file])
            .status()
            .expect("nsenter")
            .success()
    };
    let touched = cp1.start(Spec::new("touch", "touch").arg("/run/mark")).expect("touch");
    touched.ended(SOON).await.expect("touched");
    assert!(run("/run/mark") && !Path::new("/run/mark").exists(), "/run is the host's own");
    assert_eq!(neighbour(&client, vip), Some(cp1.mac().to_string()));

    lab.crash("cp1").expect("a crash");
    assert!(!cp1.is_up() && !sleeper.is_running());
    lab.port_down("client").expect("down");
    lab.port_up("client").expect("up");
    let mut flush = Command::new("ip");
    flush.args(["neigh", "flush", "all"]);
    assert!(client.netns().output(flush, String::new()).expect("ip").status.success());
    assert_eq!(neighbour(&client, vip), None, "nobody answers ARP");
    assert_eq!(neighbour(&client, cp1.ip6().into()), None, "nor NDP");
    assert!(matches!(lab.crash("cp1"), Err(fault::Error::Host(host::Error::Down { .. }))));

    lab.revive("cp1").expect("back");
    assert!(sleeper.is_running() && !touched.is_running(), "what ran runs again");
    assert!(!run("/run/mark"), "/run is empty");
    assert_eq!(fs::read_to_string(cp1.dir().join("disk")).expect("the file"), "stays");
    assert_eq!(neighbour(&client, vip), None);
    assert_eq!(neighbour(&client, cp1.ip4().into()), Some(cp1.mac().to_string()));
}

#[tokio::test]
async fn processes_are_frozen_killed_and_started_again() {
    let lab = segment_lab().await;
    let cp1 = lab.host("cp1").expect("cp1");
    let process = cp1.start(Spec::new("sleeper", "sleep").arg("1000")).expect("a process");
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
    };
    let pid = process.pid().expect("it runs");
    // A program that has only begun has hardly any memory.
    let end = Instant::now() + SOON;
    while process.rss_kb().is_none_or(|kb| kb <= 100) {
        assert!(Instant::now() < end, "it has {:?} kB", process.rss_kb());
        std::thread::sleep(Duration::from_millis(1));
    }
    let until = |wanted: char| {
        let end = Instant::now() + SOON;
        while state(pid) != wanted {
            assert!(Instant::now() < end, "{} instead of {wanted}", state(pid));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    process.freeze().expect("frozen");
    until('T');
    process.thaw().expect("thawed");
    until('S');
    lab.freeze_host("cp1").expect("frozen");
    until('T');
    lab.thaw_host("cp1").expect("thawed");
    until('S');
    assert!(cp1.start(Spec::new("sleeper", "sleep").arg("1")).is_err(), "it runs already");
    let sent = process.kill().expect("killed");
    let (how, at) = process.ended(SOON).await.expect("its end");
    assert_eq!(how, "killed by SIGKILL");
    assert!(at >= sent);
    process.start().expect("again");
    assert!(matches!(process.status(), Status::Running { .. }));
    let error = cp1.start(Spec::new("nothing", "/does/not/exist")).expect_err("no such program");
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}

#[tokio::test]
async fn ports_interfaces_strangers_and_addresses() {
    let lab = segment_lab().await;
    let (cp1, client) = (lab.host("cp1").expect("cp1"), lab.host("client").expect("client"));
    assert!(reaches(&client, &cp1, cp1.ip4().into()));
    lab.port_down("cp1").expect("down");
    assert!(!reaches(&client, &cp1, cp1.ip4().into()));
    lab.port_up("cp1").expect("up");
    assert!(reaches(&client, &cp1, cp1.ip4().into()));

    let before = cp1.netns().index("eth0").expect("eth0");
    lab.delete_interface("cp1").expect("deleted");
    assert!(cp1.netns().index("eth0").is_err());
    lab.create_interface("cp1").expect("made");
    assert_ne!(cp1.netns().index("eth0").expect("eth0"), before);
    assert!(reaches(&client, &cp1, cp1.ip6().into()));

    for vip in lab.vips().to_vec() {
        lab.add_address("cp1", vip).expect("added");
        assert_eq!(neighbour(&client, vip), Some(cp1.mac().to_string()));
        lab.stranger(vip, true).expect("a stranger");
        let stranger = segment::mac(99).to_string();
        let end = Instant::now() + SOON;
        while neighbour(&client, vip).as_ref() != Some(&stranger) {
            assert!(Instant::now() < end, "the announcement of {vip} did not move the client");
        }
        lab.stranger_leaves(vip).expect("gone");
        lab.announce("cp1", vip).expect("announced");
        lab.delete_address("cp1", vip).expect("deleted");
        assert!(lab.delete_address("cp1", vip).is_err());
    }
    let nic = lab.add_nic("cp2", 1).expect("a second interface");
    assert_eq!(lab.host("cp2").expect("cp2").netns().addresses("eth1").expect("eth1")[0].0, nic.addresses[0]);
    let more = lab.add_host("worker", 14).expect("one more host");
    assert!(reaches(&client, &more, more.ip4().into()));
    assert!(lab.add_host("worker", 15).is_err() && lab.add_host("other", 14).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_lab_is_as_good_as_new_unless_a_host_of_its_own_was_harmed() {
    let lab = segment_lab().await;
    let vip = lab.vip();
    let one = lab.host("cp1").expect("cp1");
    let before = lab.hosts().len();
    let own = one.netns().addresses("eth0").expect("addresses");
    // One more host that crashes, a stranger, an address that nobody took away, and a program with its log.
    lab.add_host("w1", 121).expect("w1");
    lab.crash("w1").expect("a crash");
    lab.stranger(vip, true).expect("a stranger");
    lab.add_address("cp1", vip).expect("an address");
    let sleeper = one.start(Spec::new("sleeper", "/bin/sleep").arg("1000")).expect("started");
    lab.renew().await.expect("as good as new");
    assert_eq!(lab.hosts().len(), before);
    assert_eq!(one.netns().addresses("eth0").expect("addresses"), own);
    assert!(!sleeper.is_running() && !sleeper.log().exists());
    // The next one has such a host again, under the same name and at the same port.
    let again = lab.add_host("w1", 121).expect("w1 again");
    assert!(reaches(&one, &again, again.ip4().into()));
    lab.crash("cp1").expect("a crash");
    assert!(lab.renew().await.is_err(), "a host of the lab's own has lost its interfaces");
    lab.down();
}
