//! Pools of floating IPs: what their status says beside the conditions. Its fields are those of the provider for OpenStack.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use mooring_allocator_core::names::PoolRef;
use mooring_allocator_core::protocol::PoolStatus;
use mooring_api::conditions::{self, Condition};
use mooring_api::patch::{self, LockedPatch, NotSeen};
use mooring_api::pool::{FloatingIpNetwork, FloatingIpPoolStatus};

use super::super::index::{Index, KnownPool};
use super::pool_status;

/// What a pool's floating IPs have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The network; None: it is not known yet.
    pub network: Option<FloatingIpNetwork>,
    /// What the last list has shown; None: there was none yet.
    pub stock: Option<Stock>,
}

/// What a list of all floating IPs shows of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// What claims may get or have without a new one being made, in the order in which they get it.
    pub there: Vec<IpAddr>,
    /// The addresses of its list that are not there.
    pub missing: Vec<IpAddr>,
}

/// The last look at each pool. A clone is the same one.
pub type Looks = Rc<RefCell<HashMap<Arc<PoolRef>, Look>>>;

impl Index {
    /// The patch for the status of a pool of floating IPs.
    pub(super) fn floating_ips_status(
        &self,
        reference: &PoolRef,
        pool: &KnownPool,
        shown: &FloatingIpPoolStatus,
        status: &PoolStatus,
        now: &Time,
    ) -> Result<Option<LockedPatch>, NotSeen> {
        let its = |one: &&Arc<_>| {
            let one: &mooring_allocator_core::protocol::Address = one;
            *one.pool == *reference && one.rest.is_none()
        };
        let claimed: BTreeSet<IpAddr> = self.protocol.addresses().filter(its).filter_map(|one| one.address).collect();
        let texts = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut new = shown.clone();
        new.claimed = claimed.iter().map(ToString::to_string).collect();
        let look = self.floating_ips.borrow().get(reference).cloned().unwrap_or_default();
        new.network = look.network.or(new.network);
        match look.stock {
            Some(Stock { there, missing }) => {
                let free: Vec<IpAddr> = there.into_iter().filter(|one| !claimed.contains(one)).collect();
                (new.available, new.failed) = (texts(&free), texts(&missing));
            }
            None => new.available.retain(|one| !new.claimed.contains(one)),
        }
        new.conditions = pool_status::conditions(pool, status, now);
        new.conditions.push(theirs(pool, status, now));
        patch::floating_ip_pool_status(&pool.seen.meta, shown, &new)
    }

    /// Whether the object shows this status.
    pub(super) fn floating_ips_say(
        &self,
        reference: &PoolRef,
        pool: &KnownPool,
        shown: &FloatingIpPoolStatus,
        status: &PoolStatus,
    ) -> bool {
        let patch = self.floating_ips_status(reference, pool, shown, status, &Time(Timestamp::UNIX_EPOCH));
        matches!(patch, Ok(None))
    }
}

/// The condition by which users of the provider for OpenStack know whether a pool works.
fn theirs(pool: &KnownPool, status: &PoolStatus, now: &Time) -> Condition {
    let full = status.counts.total > 0 && status.counts.available == 0;
    let (ready, reason, message) = match (status.ready, full) {
        (true, false) => (true, conditions::FLOATING_IPS_READY, String::new()),
        (true, true) => {
            (false, conditions::MAX_IPS_REACHED, format!("maxIPs is {}, and no claim gets more", status.counts.total))
        }
        (false, _) => (false, conditions::OPENSTACK_ERROR, status.message.clone()),
    };
    let condition = Condition::new(conditions::FLOATING_IP_POOL_READY, ready, reason, message, now);
    condition.of_generation(pool.seen.meta.generation)
}
