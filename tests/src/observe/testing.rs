//! A segment of anonymous namespaces for the observers' own tests: a switch, some hosts and a client.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::{LinkBridge, LinkUnspec, LinkVeth};

use super::Place;

/// An anonymous network namespace; the namespace lives as long as this file is open.
#[derive(Clone, Debug)]
pub struct Space(Arc<File>);

impl Space {
    pub fn new() -> Self {
        let (send, receive) = mpsc::channel();
        let thread = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("run the tests as root, or under unshare -rn");
            send.send(File::open("/proc/thread-self/ns/net").unwrap()).unwrap();
        });
        let file = receive.recv();
        thread.join().unwrap();
        Self(Arc::new(file.unwrap()))
    }

    /// Runs netlink requests inside.
    pub fn netlink<F: Future<Output = ()>>(&self, work: impl FnOnce(rtnetlink::Handle) -> F + Send + 'static) {
        self.spawn_thread(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection().unwrap();
                tokio::spawn(connection);
                work(handle).await;
            });
        })
        .join()
        .unwrap();
    }
}

impl Place for Space {
    fn spawn_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = Arc::clone(&self.0);
        thread::spawn(move || {
            setns(&*file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
    }
}

/// A bridge `br0` in `switch`, and hosts with an `eth0` each: host `i` is 192.0.2.(i+1)/24 and `2001:db8::(i+1)/64`.
pub struct Segment {
    pub switch: Space,
    pub hosts: Vec<Space>,
}

impl Segment {
    pub fn new(hosts: u8) -> Self {
        let switch = Space::new();
        switch.netlink(|handle| async move {
            handle.link().add(LinkBridge::new("br0").build()).execute().await.unwrap();
            handle.link().change(LinkUnspec::new_with_name("br0").up().build()).execute().await.unwrap();
        });
        let hosts = (0..hosts)
            .map(|number| {
                let host = Space::new();
                let target = Arc::clone(&host.0);
                switch.netlink(move |handle| async move {
                    let port = format!("p{number}");
                    handle.link().add(LinkVeth::new(&port, "eth0").build()).execute().await.unwrap();
                    let bridge = index_of("br0");
                    let change = LinkUnspec::new_with_name("eth0").setns_by_fd(target.as_raw_fd()).build();
                    handle.link().change(change).execute().await.unwrap();
                    let change = LinkUnspec::new_with_name(&port).controller(bridge).up().build();
                    handle.link().change(change).execute().await.unwrap();
                });
                host.netlink(move |handle| async move {
                    std::fs::write("/proc/sys/net/ipv6/conf/all/accept_dad", "0").unwrap();
                    std::fs::write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0").unwrap();
                    for name in ["lo", "eth0"] {
                        handle.link().change(LinkUnspec::new_with_name(name).up().build()).execute().await.unwrap();
                    }
                    for (address, prefix) in addresses(number) {
                        handle.address().add(index_of("eth0"), address, prefix).execute().await.unwrap();
                    }
                });
                host
            })
            .collect();
        Self { switch, hosts }
    }
}

fn addresses(number: u8) -> [(IpAddr, u8); 2] {
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number) + 1);
    [(Ipv4Addr::new(192, 0, 2, number + 1).into(), 24), (v6.into(), 64)]
}

fn index_of(name: &str) -> u32 {
    nix::net::if_::if_nametoindex(name).unwrap()
}
