//! Addresses on interfaces. Each core has an address task. The task owns the datapath, so that additions and removals
//! keep their order. The task has a thread of its own: the kernel's lock may be held, and the kernel needs some ten
//! milliseconds for a thousand addresses. The event loop must hear and answer in that time.

mod by_route;
mod ensure;
mod interfaces;
mod kernel;
mod left_overs;
mod needs;
mod of_services;
mod order;
mod policy;
mod ports;
mod removal;
mod task;
#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod stalled;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

pub use needs::Needs;
pub use policy::Policy;

use crate::core::Vip;
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Interface, KernelEvent, Options};
use crate::ops::Ops;
use crate::ops::health::Heart;
use kernel::Kernel;
use task::Task;

/// The thread's stack, in bytes.
const STACK: usize = 512 * 1024;
/// How many notices may wait for the event loop.
const NOTICES: usize = 256;

/// A job for the address task.
#[derive(Debug)]
pub(crate) enum Job {
    /// Put the VIPs there, fenced so that the kernel drops them before the deadline.
    Ensure { vips: Vec<Vip>, deadline: Time },
    /// Remove the VIPs.
    Remove(Vec<IpAddr>),
    /// VIPs need these interfaces.
    Needs(Needs),
    /// Look for the interfaces again, and report them.
    Look,
    /// All jobs before this one are done when the sender is dropped.
    Flush(oneshot::Sender<()>),
}

/// A report of the address task to the event loop.
#[derive(Debug)]
pub enum Notice {
    /// The interfaces that VIPs may be on, the first one first, and all MAC addresses of the node.
    Interfaces(Vec<Interface>, Vec<Mac>),
    /// The link of an interface is up or down.
    Link {
        /// The interface's index.
        interface: u32,
        /// Whether frames can pass.
        up: bool,
    },
    /// VIPs of an earlier run were found.
    LeftOver(Vec<Vip>),
    /// These VIPs are permanent addresses of the node, and are not carried here.
    Own(BTreeSet<IpAddr>),
    /// VIPs are on their interfaces, until the requested deadline.
    Ensured(Vec<IpAddr>),
    /// These VIPs got no new lifetime. They are on their interfaces until the lifetime ends that they had before.
    NotRefreshed(Vec<IpAddr>),
    /// A VIP could not be put on its interface.
    EnsureFailed {
        /// The VIP.
        address: IpAddr,
        /// What the kernel says, for people.
        reason: String,
    },
    /// A VIP left its interface, and this agent did not remove it. Or another program's address is gone that was in the VIP's way.
    Gone(IpAddr),
    /// VIPs that were to be removed are on no interface. With each, the number of the last job about it when it was removed:
    /// [`AddressTask::confirmed`] says whether that still counts.
    Removed(Vec<(IpAddr, u64)>),
    /// A VIP could not be removed. The task tries again until it is gone, or is to be put there again.
    RemoveFailed {
        /// The VIP.
        address: IpAddr,
        /// What the kernel says, for people.
        reason: String,
    },
}

/// What was last asked for each VIP. The jobs that are queued may be older. A VIP that was removed is forgotten.
#[derive(Clone, Debug, Default)]
struct LetGo(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    /// The number of the last job.
    jobs: u64,
    /// The number of the VIP's last job, and the deadline of its fence; None: the VIP is to be removed.
    last: BTreeMap<IpAddr, (u64, Option<Time>)>,
}

impl LetGo {
    fn all(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, addresses: impl IntoIterator<Item = IpAddr>, asked: Option<Time>) {
        let mut all = self.all();
        all.jobs += 1;
        let job = all.jobs;
        all.last.extend(addresses.into_iter().map(|address| (address, (job, asked))));
    }

    /// The VIPs with the numbers of their last jobs.
    fn numbered(&self, addresses: &[IpAddr]) -> Vec<(IpAddr, u64)> {
        let all = self.all();
        addresses.iter().map(|address| (*address, all.last.get(address).map_or(0, |(job, _)| *job))).collect()
    }

    /// The VIPs for which nothing was asked since they were removed. They are forgotten.
    fn confirmed(&self, removed: Vec<(IpAddr, u64)>) -> Vec<IpAddr> {
        let mut all = self.all();
        let counts = |(address, job): &(IpAddr, u64)| all.last.get(address).is_none_or(|last| *last == (*job, None));
        let gone: Vec<IpAddr> = removed.into_iter().filter(counts).map(|(address, _)| address).collect();
        for address in &gone {
            all.last.remove(address);
        }
        gone
    }

    /// Those that were released after the job to put them there was sent.
    fn of(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
        let all = self.all();
        let released = |address: &IpAddr| matches!(all.last.get(address), Some((_, None)));
        addresses.into_iter().filter(released).collect()
    }

    /// Until when the VIP may be there; None: it may not.
    fn deadline(&self, address: IpAddr) -> Option<Time> {
        self.all().last.get(&address).and_then(|(_, asked)| *asked)
    }

    /// Whether a later job than the one with this deadline is about the VIP. When the kernel has held the task up, the deadlines of
    /// the jobs that waited are old: the last one counts.
    fn is_outdated(&self, address: IpAddr, deadline: Time) -> bool {
        self.all().last.get(&address).is_none_or(|(_, asked)| *asked != Some(deadline))
    }
}

/// The task, for the event loop. The thread ends when this is dropped.
pub struct AddressTask {
    // The loop never waits for the thread, which may be waiting for the loop. The number of jobs is the number of the
    // core's batches.
    jobs: mpsc::UnboundedSender<Job>,
    let_go: LetGo,
}

/// A running task and its channels.
pub struct Started {
    /// The task.
    pub task: AddressTask,
    /// The notices of the task.
    pub notices: mpsc::Receiver<Notice>,
    /// Whether the datapath could be opened.
    pub opened: oneshot::Receiver<Result<(), Error>>,
}

/// Starts the thread. [`Started::opened`] also reports a system that gives no thread, or no runtime for the thread.
pub fn start(policy: Policy, needs: Needs, run_dir: &Path, ops: &Arc<Ops>, heart: Heart) -> Started {
    let options = Options { run_dir: run_dir.to_owned(), whose: policy.whose(), ..Options::default() };
    let ops = ops.clone();
    start_with(policy, move |let_go, notice| Task::open(&options, policy, needs, let_go, notice, ops, heart))
}

/// Starts the thread with the task that `open` makes there.
fn start_with<K, F>(policy: Policy, open: F) -> Started
where
    K: Kernel,
    F: FnOnce(LetGo, mpsc::Sender<Notice>) -> Result<(Task<K>, mpsc::Receiver<KernelEvent>), Error> + Send + 'static,
{
    let (jobs, work) = mpsc::unbounded_channel();
    let (notice, notices) = mpsc::channel(NOTICES);
    let (open_now, opened) = oneshot::channel();
    let let_go = LetGo::default();
    let known = let_go.clone();
    let thread = std::thread::Builder::new().name(policy.thread().into()).stack_size(STACK).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(source) => return drop(open_now.send(Err(Error::Thread(source)))),
        };
        runtime.block_on(async move {
            // The receiver may be gone: the process then ends.
            match open(known, notice) {
                Ok((task, kernel)) => {
                    let _ = open_now.send(Ok(()));
                    task.run(work, kernel).await;
                }
                Err(error) => drop(open_now.send(Err(error))),
            }
        });
    });
    let opened = match thread {
        Ok(_) => opened,
        Err(source) => {
            let (open_now, failed) = oneshot::channel();
            let _ = open_now.send(Err(Error::Thread(source)));
            failed
        }
    };
    Started { task: AddressTask { jobs, let_go }, notices, opened }
}

impl AddressTask {
    /// One whose jobs a test takes.
    #[cfg(test)]
    pub(crate) fn fake() -> (Self, mpsc::UnboundedReceiver<Job>) {
        let (jobs, work) = mpsc::unbounded_channel();
        (Self { jobs, let_go: LetGo::default() }, work)
    }

    /// Puts VIPs on their interfaces until the deadline.
    pub fn ensure(&self, vips: Vec<Vip>, deadline: Time) {
        self.let_go.set(vips.iter().map(|vip| vip.address), Some(deadline));
        self.send(Job::Ensure { vips, deadline });
    }

    /// Removes VIPs from their interfaces, also VIPs that are being put there.
    pub fn remove(&self, addresses: Vec<IpAddr>) {
        self.let_go.set(addresses.iter().copied(), None);
        self.send(Job::Remove(addresses));
    }

    /// Those of the VIPs that a [`Notice::Removed`] names that nothing else was asked for since: a notice that waited may be about an
    /// earlier removal than the last one.
    pub fn confirmed(&self, removed: Vec<(IpAddr, u64)>) -> Vec<IpAddr> {
        self.let_go.confirmed(removed)
    }

    /// VIPs need these interfaces from now on.
    pub fn need(&self, needs: Needs) {
        self.send(Job::Needs(needs));
    }

    /// Looks for the interfaces again.
    pub fn look(&self) {
        self.send(Job::Look);
    }

    /// The receiver's sender is dropped without an answer when all earlier jobs are done.
    pub fn flush(&self) -> oneshot::Receiver<()> {
        let (done, all_done) = oneshot::channel();
        self.send(Job::Flush(done));
        all_done
    }

    fn send(&self, job: Job) {
        if self.jobs.send(job).is_err() {
            tracing::error!("address task has ended: no VIP is put on an interface or removed any more");
        }
    }
}
