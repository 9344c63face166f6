//! What a pool allows.
//!
//! - A claim gets a free address of the pool's list, in the list's order; else one that was kept; else a new one.
//! - `maxIPs` counts the addresses that claims have. It counts the list too when one is about to be made: with `maxIPs` equal
//!   to the list's length no address outside the list is ever made, also while some of the list are missing.
//! - An address of the list is never deleted, nor is one that was in the list when its claim got it.

use std::net::IpAddr;

use mooring_api::pool::ReclaimPolicy;

use crate::mark::{Holder, Mark, NoRoom};
use crate::neutron::FloatingIp;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its uid.
    pub uid: String,
    /// The addresses of its list, in its order.
    pub given: Vec<IpAddr>,
    /// `maxIPs`
    pub most: Option<usize>,
    /// `reclaimPolicy`
    pub reclaim: ReclaimPolicy,
    /// The tag that Cluster API's provider for OpenStack puts on the pool's floating IPs.
    pub tag: String,
}

/// The pool's tag, as Cluster API's provider for OpenStack writes it.
#[must_use]
pub fn tag(pool: &str) -> String {
    format!("cluster-api-provider-openstack-fip-pool-{pool}")
}

/// How a claim gets its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This floating IP becomes the claim's: its description is changed to this.
    Take(FloatingIp, String),
    /// A new one is made.
    Make,
    /// It gets none, for this reason.
    Full(String),
    /// It gets none: it asks for an address that it cannot have.
    Unfit(String),
}

/// What is done about a floating IP that its claim lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing: it is not the claim's (any more).
    Nothing,
    /// It is deleted.
    Delete,
    /// Its description is changed to this.
    Describe(String),
}

impl Pool {
    /// Whether the choice depends on what there is already. Without a list, a limit and kept addresses, it does not.
    #[must_use]
    pub fn must_look(&self) -> bool {
        !self.given.is_empty() || self.most.is_some() || self.reclaim == ReclaimPolicy::Retain
    }

    /// The mark of a floating IP that this pool makes for a claim.
    #[must_use]
    pub fn mark(&self, claim: Holder) -> Mark {
        Mark { kept: String::new(), pool: self.uid.clone(), claim: Some(claim), made: true }
    }

    /// The mark with which a claim takes a floating IP that is there.
    ///
    /// # Errors
    /// A person's text leaves no room.
    pub fn taken(&self, one: &FloatingIp, claim: Holder) -> Result<String, NoRoom> {
        let before = one.mark();
        let kept = before.as_ref().map_or_else(|| one.description.clone(), |mark| mark.kept.clone());
        let tagged = one.tags.contains(&self.tag);
        let made = before.map_or(tagged, |mark| mark.made) && !self.given.contains(&one.address);
        // What the pool's former controller wrote about one that it made is of no use to people.
        let kept = if made { String::new() } else { kept };
        Mark { kept, pool: self.uid.clone(), claim: Some(claim), made }.description()
    }

    /// How a claim gets its address. `there`: all floating IPs of the project in the pool's network. `wanted`: the address that
    /// the claim asks for.
    #[must_use]
    pub fn choose(&self, there: &[FloatingIp], claim: &Holder, wanted: Option<IpAddr>) -> Choice {
        let of_pool = |one: &&FloatingIp| one.mark().is_some_and(|mark| mark.pool == self.uid);
        let claimed = there.iter().filter(of_pool).filter(|one| one.mark().is_some_and(|m| m.claim.is_some())).count();
        if let Some(most) = self.most.filter(|most| claimed >= *most) {
            return Choice::Full(format!("maxIPs is {most}, and claims have {claimed} floating IPs"));
        }
        let mut no_room = None;
        for one in self.free(there).into_iter().filter(|one| wanted.is_none_or(|wanted| wanted == one.address)) {
            match self.taken(one, claim.clone()) {
                Ok(description) => return Choice::Take(one.clone(), description),
                Err(error) => no_room = Some(format!("; {}: {error}", one.address)),
            }
        }
        if let Some(wanted) = wanted.filter(|wanted| self.given.contains(wanted)) {
            return Choice::Unfit(format!("{wanted} of preAllocatedFloatingIPs is not free, or not in this project"));
        }
        let made = there.iter().filter(|one| of_pool(one) && !self.given.contains(&one.address)).count();
        match self.most.filter(|most| made + self.given.len() >= *most) {
            Some(most) => {
                let missing = self.missing(there);
                let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
                let missing = match list.len() {
                    0 => String::new(),
                    _ => crate::one_line(&format!("; not in this project or not in this network: {}", list.join(", "))),
                };
                Choice::Full(format!(
                    "none of {} preAllocatedFloatingIPs is free, and maxIPs ({most}) allows no other{missing}{}",
                    self.given.len(),
                    no_room.unwrap_or_default()
                ))
            }
            None => Choice::Make,
        }
    }

    /// The addresses of the list that are not there.
    #[must_use]
    pub fn missing(&self, there: &[FloatingIp]) -> Vec<IpAddr> {
        self.given.iter().filter(|given| there.iter().all(|one| one.address != **given)).copied().collect()
    }

    /// The floating IPs that a claim could take, in order.
    #[must_use]
    pub fn free<'a>(&self, there: &'a [FloatingIp]) -> Vec<&'a FloatingIp> {
        let unclaimed = |one: &&FloatingIp| one.mark().is_none_or(|mark| mark.claim.is_none());
        // Somebody else has put it on a port.
        let loose = |one: &&FloatingIp| one.port.is_none();
        let at = |address: &IpAddr| there.iter().find(|one| one.address == *address);
        let listed = self.given.iter().filter_map(at).filter(|one| unclaimed(one) && loose(one));
        let kept = |one: &&FloatingIp| {
            let ours = |mark: Mark| mark.made && mark.claim.is_none() && mark.pool == self.uid;
            one.mark().is_some_and(ours) && !self.given.contains(&one.address)
        };
        let mut kept: Vec<&FloatingIp> = there.iter().filter(|one| kept(one) && loose(one)).collect();
        kept.sort_by_key(|one| one.address);
        listed.chain(kept).collect()
    }

    /// What is done about a floating IP that this claim lets go. `claim`: None: one without a mark, that the pool's former
    /// controller gave. `moved`: the mark may be of the pool as it was called in the cluster that it was moved from.
    #[must_use]
    pub fn release(&self, one: &FloatingIp, claim: Option<&str>, moved: bool) -> Release {
        let given = self.given.contains(&one.address);
        let Some(mark) = one.mark() else {
            let may =
                claim.is_none() && one.tags.contains(&self.tag) && !given && self.reclaim == ReclaimPolicy::Delete;
            return if may { Release::Delete } else { Release::Nothing };
        };
        let holder = mark.claim.as_ref().map(|holder| &*holder.uid);
        if (mark.pool != self.uid && !moved) || holder.is_none() || holder != claim {
            return Release::Nothing;
        }
        if mark.made && !given && self.reclaim == ReclaimPolicy::Delete {
            return Release::Delete;
        }
        Release::Describe(if given { mark.kept } else { Mark { pool: self.uid.clone(), ..mark }.freed() })
    }
}

#[cfg(test)]
mod tests;
