//! Two anonymous network namespaces joined by a veth pair: `va` (the agent's, where the test's thread is) and `vb`
//! (the peer's).

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::fs::File;
use std::future::Future;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt;
use ipnet::IpNet;
use mooring_agent::core::time::Time;
use mooring_agent::datapath::{Datapath, Error, Interface, KernelEvent, Options, Put, Vip};
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, CacheInfo};
use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::{Handle, LinkUnspec, LinkVeth};
use tokio::sync::mpsc;

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The two namespaces.
pub struct Lab {
    a: File,
    b: File,
    /// Netlink in the agent's namespace.
    pub ha: Handle,
    /// Netlink in the peer's.
    pub hb: Handle,
    pub run_dir: tempfile::TempDir,
}

/// Runs `test` in a thread of its own with a lab; says so and does nothing where namespaces are not allowed.
pub fn lab(test: impl AsyncFnOnce(Lab) + Send + 'static) {
    let run = move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED: no network namespace ({error}); run as root, or under `unshare -rn`");
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lab = Lab::new().await;
            tokio::time::timeout(6 * PATIENCE, test(lab)).await.expect("the test hangs");
        });
    };
    std::thread::spawn(run).join().unwrap();
}

impl Lab {
    async fn new() -> Self {
        let own = || File::open("/proc/thread-self/ns/net").unwrap();
        prepare();
        let (a, ha) = (own(), connect());
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        prepare();
        let (b, hb) = (own(), connect());
        setns(&a, CloneFlags::CLONE_NEWNET).unwrap();
        let lab = Self { a, b, ha, hb, run_dir: tempfile::tempdir().unwrap() };
        up(&lab.ha, "lo").await;
        up(&lab.hb, "lo").await;
        lab.join().await;
        lab
    }

    /// Makes the veth pair and puts .1 and .2 on it.
    pub async fn join(&self) {
        let (watch, mut events) = self.datapath_with(&self.options(false));
        self.ha.link().add(LinkVeth::new("va", "vb").build()).execute().await.unwrap();
        let to_b = LinkUnspec::new_with_name("vb").setns_by_fd(self.b.as_raw_fd()).build();
        self.ha.link().set(to_b).execute().await.unwrap();
        for (handle, name, last) in [(&self.ha, "va", 1), (&self.hb, "vb", 2)] {
            up(handle, name).await;
            add(handle, name, &format!("10.9.0.{last}/24"), None, false).await;
            add(handle, name, &format!("fd09::{last}/64"), None, false).await;
        }
        until(&mut events, |event| matches!(event, KernelEvent::Link { name, up: true, .. } if name == "va")).await;
        drop(watch);
    }

    /// Runs `f` in the agent's namespace, where this thread is anyway, unless `in_b` is around it.
    fn in_a<T>(&self, f: impl FnOnce() -> T) -> T {
        setns(&self.a, CloneFlags::CLONE_NEWNET).unwrap();
        f()
    }

    /// Runs `f` in the peer's namespace. Sockets and threads that it makes stay there.
    pub fn in_b<T>(&self, f: impl FnOnce() -> T) -> T {
        setns(&self.b, CloneFlags::CLONE_NEWNET).unwrap();
        let result = f();
        setns(&self.a, CloneFlags::CLONE_NEWNET).unwrap();
        result
    }

    /// A datapath in the agent's namespace.
    pub fn datapath(&self) -> (Datapath, mpsc::Receiver<KernelEvent>) {
        self.datapath_with(&self.options(false))
    }

    pub fn datapath_with(&self, options: &Options) -> (Datapath, mpsc::Receiver<KernelEvent>) {
        self.in_a(|| Datapath::open_with(options).unwrap())
    }

    pub fn options(&self, no_proto: bool) -> Options {
        Options { run_dir: self.run_dir.path().into(), no_proto, ..Options::default() }
    }

    /// A datapath in the peer's namespace, and its end of the cable.
    pub async fn peer(&self) -> (Datapath, Interface) {
        let (peer, _) = self.in_b(|| Datapath::open_with(&self.options(false)).unwrap());
        let vb = eventually(async || peer.interface("vb").await.ok().filter(|vb| vb.link_local.is_some())).await;
        (peer, vb)
    }

    /// The agent's end of the cable.
    pub async fn va(&self, datapath: &Datapath) -> Interface {
        eventually(async || {
            let va = datapath.interface("va").await.ok()?;
            (va.up && va.link_local.is_some()).then_some(va)
        })
        .await
    }
}

/// No duplicate address detection: link-local addresses are there at once.
fn prepare() {
    for what in ["all", "default"] {
        for setting in ["accept_dad", "dad_transmits"] {
            sysctl(&format!("net/ipv6/conf/{what}/{setting}"), "0");
        }
    }
}

/// Writes a sysctl of the namespace this thread is in.
pub fn sysctl(name: &str, value: &str) {
    std::fs::write(Path::new("/proc/sys").join(name), value).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn connect() -> Handle {
    let (connection, handle, _) = rtnetlink::new_connection().unwrap();
    tokio::spawn(connection);
    handle
}

pub async fn up(handle: &Handle, name: &str) {
    handle.link().set(LinkUnspec::new_with_name(name).up().build()).execute().await.unwrap();
}

pub async fn down(handle: &Handle, name: &str) {
    handle.link().set(LinkUnspec::new_with_name(name).down().build()).execute().await.unwrap();
}

pub async fn index(handle: &Handle, name: &str) -> u32 {
    let link = handle.link().get().match_name(name).execute().try_next().await.unwrap().unwrap();
    link.header.index
}

pub async fn delete_link(handle: &Handle, name: &str) {
    let index = index(handle, name).await;
    handle.link().del(index).execute().await.unwrap();
}

/// Adds an address as anybody would: permanent, or for `valid` seconds; deprecated, or not.
pub async fn add(handle: &Handle, name: &str, address: &str, valid: Option<u32>, deprecated: bool) {
    write(handle, name, address, valid, deprecated, netlink_packet_core::NLM_F_CREATE).await;
}

pub async fn write(handle: &Handle, name: &str, address: &str, valid: Option<u32>, deprecated: bool, flags: u16) {
    let mut message = message(handle, name, address).await;
    let mut cache = CacheInfo::default();
    cache.ifa_valid = valid.unwrap_or(u32::MAX);
    cache.ifa_preferred = if deprecated { 0 } else { cache.ifa_valid };
    message.attributes.push(AddressAttribute::CacheInfo(cache));
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    request(handle, RouteNetlinkMessage::NewAddress(message), flags).await;
}

pub async fn remove(handle: &Handle, name: &str, address: &str) {
    let message = message(handle, name, address).await;
    request(handle, RouteNetlinkMessage::DelAddress(message), 0).await;
}

async fn message(handle: &Handle, name: &str, address: &str) -> AddressMessage {
    let net: IpNet = address.parse().unwrap();
    let mut message = AddressMessage::default();
    message.header.index = index(handle, name).await;
    message.header.prefix_len = net.prefix_len();
    message.header.family = match net {
        IpNet::V4(_) => netlink_packet_route::AddressFamily::Inet,
        IpNet::V6(_) => netlink_packet_route::AddressFamily::Inet6,
    };
    message.attributes = vec![AddressAttribute::Local(net.addr()), AddressAttribute::Address(net.addr())];
    message
}

async fn request(handle: &Handle, message: RouteNetlinkMessage, flags: u16) {
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut handle = handle.clone();
    let answers: Vec<_> = futures::StreamExt::collect(handle.request(request).unwrap()).await;
    for answer in answers {
        if let NetlinkPayload::Error(error) = answer.payload {
            assert_eq!(error.code, None, "{error}");
        }
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The first event that is as wanted.
pub async fn until(events: &mut mpsc::Receiver<KernelEvent>, wanted: impl Fn(&KernelEvent) -> bool) -> KernelEvent {
    within(async {
        loop {
            let event = events.recv().await.expect("the monitor has ended");
            if wanted(&event) {
                return event;
            }
        }
    })
    .await
}

pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it did not happen")
}

/// Asks again and again what no event tells.
pub async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// One VIP at a time.
pub trait One {
    /// Has it there.
    async fn put(&mut self, vip: Vip, index: u32, deadline: Time) -> Result<Put, Error>;

    /// Whether it was there.
    async fn remove(&mut self, address: IpAddr) -> Result<bool, Error>;

    /// All that are ours.
    async fn remove_all(&mut self) -> Result<(), Error>;
}

impl One for Datapath {
    async fn put(&mut self, vip: Vip, index: u32, deadline: Time) -> Result<Put, Error> {
        let out = self.put_all(&[(vip, index)], deadline).await;
        assert_eq!(out.there.len() + out.failed.len() + out.unchanged.len(), 1, "{out:?}");
        match out.failed.into_iter().chain(out.unchanged).next() {
            Some((_, error)) => Err(error),
            None => Ok(out.there[0].1),
        }
    }

    async fn remove(&mut self, address: IpAddr) -> Result<bool, Error> {
        let out = self.remove_many(&[address]).await;
        out.failed.into_iter().next().map_or(Ok(!out.removed.is_empty()), |(_, error)| Err(error))
    }

    async fn remove_all(&mut self) -> Result<(), Error> {
        let ours: Vec<IpAddr> = self.ours().await?.iter().map(|(vip, ..)| vip.address).collect();
        let out = self.remove_many(&ours).await;
        out.failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }
}
