//! OpenStack: what each call means for floating IPs, in Keystone and Neutron. What is asked, what an answer means and what a pool
//! allows is decided in `mooring_allocator_openstack`.
//!
//! A floating IP of ours has the claim's and the pool's uid in its description, written in the request that makes it.

mod calls;
mod http;
mod session;
#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use mooring_allocator_core::names::Uid;
use mooring_allocator_core::remote::{Answer, Failure, What};
use mooring_allocator_openstack::clouds;
use mooring_allocator_openstack::rules::{Pool, tag};
use mooring_allocator_openstack::spec::given;
use mooring_api::pool::FloatingIpPoolSpec;
use tokio::sync::Mutex;

use super::credentials::{Secret, Secrets};
use super::kept::Kept;
use crate::clock;
use crate::driver::claims::floating_ips::Look;
use calls::FloatingPool;
use session::Session;

/// Time limit for a call, at least: it is several requests, and Neutron makes a few floating IPs a second, one after the other.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// The keys of the Secret under which `clouds.yaml` may stand. The first is known to Mooring alone: the provider for OpenStack
/// leaves a pool alone whose Secret it cannot read.
const CLOUDS: [&str; 2] = ["mooring.clouds.yaml", "clouds.yaml"];
/// The key of the Secret with the certificates to trust.
const CA: &str = "cacert";

/// A pool's OpenStack.
pub(super) struct OpenStack {
    spec: FloatingIpPoolSpec,
    rules: Pool,
    choosing: Rc<Mutex<()>>,
    pool: Kept<FloatingPool>,
}

impl fmt::Debug for OpenStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStack").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl OpenStack {
    pub(super) fn new(spec: FloatingIpPoolSpec, name: &str, pool: &Uid) -> Self {
        let most = spec.most.map(|most| usize::try_from(most).unwrap_or(0));
        let (uid, given, reclaim) = (pool.to_string(), given(&spec), spec.reclaim_policy);
        let rules = Pool { uid, given, most, reclaim, tag: tag(name) };
        Self { spec, rules, choosing: Rc::default(), pool: Kept::default() }
    }

    /// Whether it is for this pool as it is.
    pub(super) fn is_of(&self, spec: &FloatingIpPoolSpec, pool: &Uid) -> bool {
        self.spec == *spec && *self.rules.uid == *pool.0
    }

    /// Carries out a call.
    pub(super) async fn carry_out(&self, secrets: &Secrets, what: &What) -> Result<Answer, Failure> {
        self.pool(secrets).await?.call(what).await
    }

    /// What is known of the network, and what the last list has shown; None: nothing was asked yet.
    pub(super) fn look(&self) -> Option<Look> {
        Some(self.pool.now()?.look())
    }

    /// The pool; another one if the Secret has changed.
    async fn pool(&self, secrets: &Secrets) -> Result<Rc<FloatingPool>, Failure> {
        let read = secrets.read(&self.spec.identity_ref.name);
        let make = |secret: &Secret| {
            let (network, choosing) = (self.spec.network.clone(), self.choosing.clone());
            Ok(FloatingPool::new(self.session(secret)?, self.rules.clone(), network, choosing))
        };
        self.pool.get(clock::now(), read, make).await
    }

    fn session(&self, secret: &Secret) -> Result<Session, String> {
        let identity = &self.spec.identity_ref;
        let Some(file) = CLOUDS.iter().find_map(|key| secret.text(key)) else {
            return Err(format!("Secret {} has no clouds.yaml: add it", identity.name));
        };
        let cloud = clouds::read(&file, &identity.cloud_name, identity.region.as_deref());
        Session::new(cloud.map_err(|error| error.to_string())?, secret.authorities(CA)?)
    }
}
