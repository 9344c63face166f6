//! The stand-in of the crate `mooring-neutron`, on loopback of a host.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use mooring_neutron::{Cloud, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::host::{Host, Netns, lock};

/// The stand-in. It ends when this is dropped.
#[derive(Debug)]
pub struct StandIn {
    /// What it has, and what goes wrong with it.
    pub cloud: Cloud,
    netns: Netns,
    at: SocketAddr,
    task: Mutex<JoinHandle<()>>,
}

impl StandIn {
    /// Starts it on a host, for programs of that host, with this many addresses.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start(host: &Host, addresses: u8) -> Result<Self> {
        let netns = host.netns().clone();
        let listener = listen(&netns, ([127, 0, 0, 1], 0).into())?;
        let at = listener.local_addr()?;
        let all: Vec<Ipv4Addr> = (1..=addresses).map(|last| Ipv4Addr::new(203, 0, 113, last)).collect();
        let cloud = Cloud::new(&all, &format!("http://{at}"));
        let task = Mutex::new(spawn(&cloud, listener));
        Ok(Self { cloud, netns, at, task })
    }

    /// Nobody listens any more.
    ///
    /// # Errors
    /// Its task does not end.
    pub async fn leave(&self) -> Result<()> {
        let ended = std::mem::replace(&mut *lock(&self.task), tokio::spawn(std::future::ready(())));
        ended.abort();
        // What it says is that it was aborted.
        let _ = ended.await;
        Ok(())
    }

    /// It listens again.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn come_back(&self) -> Result<()> {
        *lock(&self.task) = spawn(&self.cloud, listen(&self.netns, self.at)?);
        Ok(())
    }

    /// Its URL on its host: Keystone's and Neutron's.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// A `clouds.yaml` for it, with this password.
    #[must_use]
    pub fn clouds(&self, password: &str) -> Value {
        let user = mooring_neutron::USER.0;
        let auth = json!({"auth_url": format!("http://{}/v3", self.at), "username": user, "password": password,
            "project_name": user, "domain_id": "default"});
        json!({"clouds": {"openstack": {"auth": auth}}})
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        lock(&self.task).abort();
    }
}

fn listen(netns: &Netns, at: SocketAddr) -> Result<TcpListener> {
    let listener = netns.run(move || std::net::TcpListener::bind(at)).context("listen")?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

fn spawn(cloud: &Cloud, listener: TcpListener) -> JoinHandle<()> {
    let serving = serve(cloud.clone(), listener);
    tokio::spawn(async move { match serving.await {} })
}
