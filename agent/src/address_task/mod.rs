//! Addresses on interfaces. Each core has an address task. The task owns the datapath, so that additions and removals
//! keep their order. The task has a thread of its own: the kernel's lock may be held, and the kernel needs some ten
//! milliseconds for a thousand addresses. The event loop must hear and answer in that time.

mod ensure;
mod interfaces;
mod kernel;
mod left_overs;
mod needs;
mod policy;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

pub use needs::Needs;
pub use policy::Policy;

use crate::core::Vip;
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Interface, Options};
use crate::ops::Ops;
use crate::ops::health::Heart;
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
    /// A VIP could not be put on its interface.
    EnsureFailed {
        /// The VIP.
        address: IpAddr,
        /// What the kernel says, for people.
        reason: String,
    },
    /// A VIP left its interface, and this agent did not remove it.
    Gone(IpAddr),
}

/// VIPs that were released after the job to put them there was sent.
#[derive(Clone, Debug, Default)]
struct LetGo(Arc<Mutex<BTreeSet<IpAddr>>>);

impl LetGo {
    fn set(&self, addresses: impl IntoIterator<Item = IpAddr>, let_go: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            if let_go {
                all.insert(address);
            } else {
                all.remove(&address);
            }
        }
    }

    fn of(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.into_iter().filter(|address| all.contains(address)).collect()
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
    let (jobs, work) = mpsc::unbounded_channel();
    let (notice, notices) = mpsc::channel(NOTICES);
    let (open, opened) = oneshot::channel();
    let let_go = LetGo::default();
    let options = Options { run_dir: run_dir.to_owned(), whose: policy.whose(), ..Options::default() };
    let (ops, known) = (ops.clone(), let_go.clone());
    let thread = std::thread::Builder::new().name(policy.thread().into()).stack_size(STACK).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(source) => return drop(open.send(Err(Error::Thread(source)))),
        };
        runtime.block_on(async move {
            // The receiver may be gone: the process then ends.
            match Task::open(&options, policy, needs, known, notice, ops, heart) {
                Ok((task, kernel)) => {
                    let _ = open.send(Ok(()));
                    task.run(work, kernel).await;
                }
                Err(error) => drop(open.send(Err(error))),
            }
        });
    });
    let opened = match thread {
        Ok(_) => opened,
        Err(source) => {
            let (open, failed) = oneshot::channel();
            let _ = open.send(Err(Error::Thread(source)));
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
        self.let_go.set(vips.iter().map(|vip| vip.address), false);
        self.send(Job::Ensure { vips, deadline });
    }

    /// Removes VIPs from their interfaces, also VIPs that are being put there.
    pub fn remove(&self, addresses: Vec<IpAddr>) {
        self.let_go.set(addresses.iter().copied(), true);
        self.send(Job::Remove(addresses));
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
