//! A stand-in for Keystone and Neutron, as far as pools of floating IPs use them. What it answers was read off the real ones
//! (Keystone 30, Neutron 29): statuses, errors, revisions, tags, quotas. And it fails as networks and clouds do: see
//! [`Fault`].

mod fault;
mod routes;
mod serve;
mod state;

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use fault::{Fault, Rule};
pub use serve::serve;
pub use state::FloatingIp;

use state::State;
use tokio::sync::{Notify, Semaphore};

/// Who may ask: user and password. The project has the user's name.
pub const USER: (&str, &str) = ("k8s", "of-k8s");
/// Who may ask as an administrator.
pub const ADMIN: (&str, &str) = ("admin", "of-the-administrator");
/// The id of the external network.
pub const NETWORK: &str = "7b0f9f3c-52a4-4a5e-9d0b-1f6f0d1f2a3b";
/// The id of the user's project.
pub const PROJECT: &str = "5f1c2b7e9a5d4c0e8b7a6d5c4b3a2918";
/// An application credential of the user: id and secret.
pub const CREDENTIAL: (&str, &str) = ("9c1b1a4e6f0d4f6b8a3e2d1c0b9a8f7e", "of-the-credential");

/// The stand-in. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Cloud {
    state: Arc<Mutex<State>>,
    /// Told of each request.
    asked: Arc<Notify>,
    /// How many changes are worked on at once.
    workers: Arc<Semaphore>,
}

impl Cloud {
    /// How many changes it works on at once.
    pub const WORKERS: usize = 2;

    /// One with these addresses. `neutron`: Neutron's URL, for the catalog.
    #[must_use]
    pub fn new(addresses: &[Ipv4Addr], neutron: &str) -> Self {
        let workers = Arc::new(Semaphore::new(Self::WORKERS));
        Self { state: Arc::new(Mutex::new(State::new(addresses, neutron))), asked: Arc::default(), workers }
    }

    /// All floating IPs of the user's project.
    #[must_use]
    pub fn floating_ips(&self) -> Vec<FloatingIp> {
        self.state().all(PROJECT)
    }

    /// Makes a floating IP as its owner would by hand; None: no address is left.
    #[must_use]
    pub fn allocate(&self, description: &str) -> Option<FloatingIp> {
        self.state().create(PROJECT, description, None).ok()
    }

    /// Deletes a floating IP, as a person would.
    pub fn delete(&self, id: &str) {
        self.state().delete(id);
    }

    /// Changes a floating IP, as a person would.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut FloatingIp)) {
        self.state().change(id, change);
    }

    /// How many floating IPs the project may have; None: no limit.
    pub fn quota(&self, most: Option<usize>) {
        self.state().quota = most;
    }

    /// No token is accepted any more that was given before now.
    pub fn forget_tokens(&self) {
        self.state().tokens.clear();
    }

    /// How long tokens last from now on, as Keystone says it, in seconds.
    pub fn tokens_last(&self, seconds: u64) {
        self.state().token_seconds = seconds;
    }

    /// No password is right any more, or they are again.
    pub fn lock_out(&self, out: bool) {
        self.state().locked_out = out;
    }

    /// From now on each change of a floating IP takes so long, [`Self::WORKERS`] of them at once.
    pub fn changes_take(&self, time: Duration) {
        self.state().change_takes = time;
    }

    /// Works on a change.
    async fn work(&self) {
        let time = self.state().change_takes;
        if !time.is_zero()
            && let Ok(_worker) = self.workers.acquire().await
        {
            tokio::time::sleep(time).await;
        }
    }

    /// Adds a fault.
    pub fn fault(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.chance = None;
    }

    /// From now on requests to Neutron fail at random: `per_mille` of a thousand.
    pub fn fail_at_random(&self, seed: u64, per_mille: u64) {
        self.state().chance = Some((seed, per_mille));
    }

    /// How many requests with this method and a path that begins like this were answered or lost.
    #[must_use]
    pub fn asked(&self, method: &str, path: &str) -> usize {
        self.state().asked.iter().filter(|(m, p)| m == method && p.starts_with(path)).count()
    }

    /// How many requests there were.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.state().asked.len()
    }

    /// Waits until there were this many requests; the last one has had its effect.
    pub async fn until_requests(&self, count: usize) {
        loop {
            let told = self.asked.notified();
            if self.requests() >= count {
                return;
            }
            told.await;
        }
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
