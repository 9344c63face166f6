//! A network namespace without a name: it lives as long as a process holds its file descriptor.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::{Handle, LinkUnspec};

use super::Error;

/// A network namespace. A clone is the same namespace; the namespace ends when the last clone is dropped and no process
/// is in it.
#[derive(Clone)]
pub struct Netns {
    name: Arc<str>,
    fd: Arc<OwnedFd>,
}

impl Netns {
    /// Makes a namespace with `lo` up, `ip_forward` 0 and the kernel's own defaults for ARP, independent of the
    /// machine's settings (a new namespace copies the machine's IPv4 settings).
    ///
    /// # Errors
    /// The kernel refuses the namespace, or a setting in it.
    pub fn new(name: &str) -> Result<Self, Error> {
        let made = thread::Builder::new()
            .name(format!("new {name}"))
            .spawn(|| -> Result<OwnedFd, Error> {
                unshare(CloneFlags::CLONE_NEWNET).map_err(Error::namespace("make a network namespace"))?;
                let path = "/proc/thread-self/ns/net";
                let fd = File::open(path).map_err(Error::io(format!("open {path}")))?;
                defaults()?;
                Ok(fd.into())
            })
            .map_err(Error::io("start a thread"))?
            .join()
            .unwrap_or_else(|cause| panic::resume_unwind(cause))?;
        let netns = Self { name: name.into(), fd: Arc::new(made) };
        netns.netlink("set lo up", async |handle| {
            handle.link().change(LinkUnspec::new_with_name("lo").up().build()).execute().await
        })?;
        Ok(netns)
    }

    /// The name given at its creation: for messages only.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts `work` on a thread of its own inside the namespace. Sockets that `work` opens, and processes that it
    /// starts, belong to the namespace wherever they are used later; `/proc/sys/net` and `/proc/thread-self` follow the
    /// thread, `/sys` does not.
    ///
    /// If the kernel refuses to enter, `work` does not run and the thread ends as after a panic.
    pub fn spawn_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let this = self.clone();
        thread::spawn(move || {
            if let Err(errno) = setns(&*this.fd, CloneFlags::CLONE_NEWNET) {
                panic::resume_unwind(Box::new(format!("cannot enter the namespace of {}: {errno}", this.name)));
            }
            work()
        })
    }

    /// Runs `work` inside the namespace and waits for it. A panic of `work` continues here.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn_thread(work).join().unwrap_or_else(|cause| panic::resume_unwind(cause))
    }

    /// Runs netlink requests inside the namespace and waits for them; from any thread, async or not.
    ///
    /// # Errors
    /// The kernel's answer, with `what` as the description of the attempt.
    pub fn netlink<T, F>(&self, what: &str, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error> + Send + 'static,
    {
        self.run(move || -> Result<Result<T, rtnetlink::Error>, io::Error> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection()?;
                let driver = tokio::spawn(connection);
                let result = work(handle).await;
                driver.abort();
                Ok(result)
            })
        })
        .map_err(Error::io(format!("open a netlink socket to {what}")))?
        .map_err(|source| Error::Netlink {
            what: what.to_owned(),
            netns: self.name.to_string(),
            source: source.into(),
        })
    }

    /// The index of an interface.
    ///
    /// # Errors
    /// There is no interface of this name.
    pub fn index(&self, interface: &str) -> Result<u32, Error> {
        let name = interface.to_owned();
        self.run(move || nix::net::if_::if_nametoindex(name.as_str()))
            .map_err(|_| Error::Unknown { what: "interface", name: format!("{interface} in {}", self.name) })
    }

    /// Runs a program inside the namespace, feeds it `input`, and waits for its end.
    ///
    /// # Errors
    /// It cannot be executed; how it ended is in the [`Output`].
    pub fn output(&self, mut command: Command, input: String) -> Result<Output, Error> {
        let name = format!("{command:?}");
        self.run(move || {
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes())?;
            }
            child.wait_with_output()
        })
        .map_err(Error::io(format!("run {name} in {}", self.name)))
    }

    /// Writes a setting under `/proc/sys/net` of the namespace, for example `("ipv4/conf/eth0/arp_ignore", "1")`.
    ///
    /// # Errors
    /// There is no such setting, or the value is refused.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.run(move || write_sysctl(&key, &value))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Netns({})", self.name)
    }
}

/// The initial settings of every namespace. IPv6: no duplicate address detection, because it would delay each address
/// by a second.
fn defaults() -> Result<(), Error> {
    write_sysctl("ipv4/ip_forward", "0")?;
    for scope in ["all", "default"] {
        for setting in
            ["arp_accept", "arp_announce", "arp_filter", "arp_ignore", "arp_notify", "proxy_arp", "rp_filter"]
        {
            write_sysctl(&format!("ipv4/conf/{scope}/{setting}"), "0")?;
        }
        for setting in ["accept_dad", "accept_ra", "dad_transmits", "forwarding"] {
            write_sysctl(&format!("ipv6/conf/{scope}/{setting}"), "0")?;
        }
    }
    Ok(())
}

fn write_sysctl(key: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/net/{key}");
    fs::write(&path, value).map_err(Error::io(format!("write {value} to {path}")))
}
