//! An address task whose kernel takes a request and does not come back, as while another program holds the kernel's networking
//! lock (RTNL): the thread stands still in a system call.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc as threads;

use tokio::sync::mpsc;

use super::kernel::Kernel;
use super::task::Task;
use super::{Needs, Policy, Started, start_with};
use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Error, Found, Interface, KernelEvent, PutAll, RemoveAll, Vip};
use crate::ops::Ops;
use crate::ops::health::Heart;

/// A kernel that does not come back from putting an address on an interface. It shows no interfaces.
struct Stalls {
    began: mpsc::UnboundedSender<()>,
    go_on: threads::Receiver<()>,
}

/// The other end. When it is dropped, the kernel goes on.
pub(crate) struct Stall {
    /// A message for each request that the kernel has begun.
    pub(crate) began: mpsc::UnboundedReceiver<()>,
    _go_on: threads::Sender<()>,
    // While it lives, the task waits for events.
    _events: mpsc::Sender<KernelEvent>,
}

impl Kernel for Stalls {
    fn watch_addresses(&self, _: impl IntoIterator<Item = IpAddr>) {}

    fn current_name(&self, _: u32) -> Option<String> {
        Some("eth0".into())
    }

    async fn interface(&self, _: &str) -> Result<Interface, Error> {
        Err(Error::NoDefaultRoute)
    }

    async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        Ok(vec![])
    }

    async fn default_interface(&self, _: bool) -> Result<u32, Error> {
        Err(Error::NoDefaultRoute)
    }

    async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        Ok(vec![])
    }

    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error> {
        Ok(vec![])
    }

    async fn find(&self, _: IpAddr) -> Result<Vec<Found>, Error> {
        Ok(vec![])
    }

    async fn put_all(&mut self, _: &[(Vip, u32)], _: Time) -> PutAll {
        let _ = self.began.send(());
        // The thread is blocked here, and everything that shares it.
        let _ = self.go_on.recv();
        PutAll::default()
    }

    async fn remove_many(&mut self, _: &[IpAddr]) -> RemoveAll {
        RemoveAll::default()
    }

    async fn remove_at(&mut self, _: &[(Vip, u32)]) -> RemoveAll {
        RemoveAll::default()
    }

    async fn remove_kube_vip(&mut self, _: IpAddr) -> Result<(), Error> {
        Ok(())
    }
}

/// Starts a task that takes one job, and then no other until [`Stall`] is dropped.
pub(crate) fn start(ops: &Arc<Ops>, heart: Heart) -> (Started, Stall) {
    let (began, begins) = mpsc::unbounded_channel();
    let (goes_on, go_on) = threads::channel();
    let (events, kernel) = mpsc::channel(1);
    let ops = ops.clone();
    let started = start_with(Policy::Services, move |let_go, notice| {
        let stalls = Stalls { began, go_on };
        Ok((Task::new(stalls, Policy::Services, Needs::default(), let_go, notice, ops, heart), kernel))
    });
    (started, Stall { began: begins, _go_on: goes_on, _events: events })
}
