//! Pools made from the `ConfigMap`, and pools for addresses that Services had before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{PoolRef, Version};
use mooring_allocator_core::pool::PoolSpec;

use crate::configmap::{self, NewPool};
use crate::naming;
use crate::objects::{Made, Pool, Scope, Source};

use super::not_yet::NOT_YET;
use super::slots::{Topic, Writes, waits};
use super::{Machine, PoolTarget, Who, Write};

/// Writes about a pool, and the version on which the last write was decided.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolWrites(pub(super) Writes, pub(super) Option<Version>);

impl PoolWrites {
    /// The pool is as wanted, as far as the shown version tells.
    fn settled(&mut self, now: Duration, version: &Version) {
        if self.0.pending.is_none() && self.0.stale.as_ref() != Some(version) {
            self.0.repeats.settled_for_now(now);
        }
    }

    /// The watch shows this version.
    pub(super) fn shown(&mut self, version: &Version) {
        if self.0.stale.as_ref() != Some(version) {
            self.0.stale = None;
        }
        if self.1.is_none() {
            self.0.retry.not_before = Duration::ZERO;
        }
    }
}

impl Machine {
    /// Makes the existing pools match the wanted pools.
    pub(super) fn look_at_pools(&mut self) {
        let now = self.work.now();
        self.made.wanted = self.wanted();
        let mut there: BTreeMap<Source, Vec<Pool>> = BTreeMap::new();
        for pool in self.seen.pools.iter().filter(|pool| !pool.deleting) {
            if let Some(made) = &pool.made {
                there.entry(made.source.clone()).or_default().push(pool.clone());
            }
        }
        let mut current = BTreeMap::new();
        for (source, made) in &self.made.wanted.clone() {
            let own = there.get_mut(source);
            let found = own.and_then(|pools| {
                let same = pools.iter().position(|pool| pool.made.as_ref() == Some(made));
                let fits = same.or_else(|| pools.iter().position(|pool| self.may_become(pool, &made.spec)))?;
                Some(pools.remove(fits))
            });
            let Some(pool) = found else {
                self.make_pool(made);
                continue;
            };
            current.insert(source.clone(), pool.reference.clone());
            if pool.made.as_ref() == Some(made) {
                if let Some(writes) = self.made.writes.get_mut(&pool.reference) {
                    writes.settled(now, &pool.version);
                }
            } else {
                let new = NewPool { reference: pool.reference.clone(), made: made.clone() };
                self.pool_write(&pool.reference, Some(&pool), Write::UpdatePool(target(&pool), Box::new(new)));
            }
        }
        let to_come = self.config_may_come();
        for pool in there.into_values().flatten() {
            // A pool in use stays, but is no default any more; it goes with its last claim. A pool that the leader before made
            // for addresses of Services may be without a claim: it stays until these Services have claimed theirs.
            let awaited = pool.keeps() && !self.takeover.unsettled.is_empty();
            if !awaited && (pool.keeps() || !to_come) && !self.claims.by_pool.contains_key(&pool.reference) {
                self.pool_write(&pool.reference, Some(&pool), Write::DeletePool(target(&pool)));
            }
        }
        if current != self.seen.pools.made {
            self.seen.pools.made = current;
            self.wake(&Topic::Pools);
        }
    }

    /// Whether this allocator has seen no `ConfigMap`, and one may be restored yet. (Who deletes one means it.) Until then the pools
    /// that were made from the one of before stay: addresses of theirs may be there already, without claims.
    fn config_may_come(&mut self) -> bool {
        let now = self.work.now();
        let until = if self.seen.has_config { now } else { self.made.config_by.unwrap_or(now + NOT_YET) };
        self.made.config_by = Some(until);
        if until > now {
            self.work.mark_at(until, Who::Pools);
        }
        until > now
    }

    fn make_pool(&mut self, made: &Made) {
        let mut new = NewPool::new(made.clone(), None);
        let mut before = 0_u32;
        // People made a pool of this name, or its addresses are in use elsewhere, or it is being deleted and waits for its last
        // address: then another name is tried, and always the same one.
        while self.seen.pools.get(&new.reference).is_some() {
            let number = before.to_string();
            let addresses = made.spec.addresses.iter().map(String::as_str);
            let sum = naming::hash(addresses.chain((before > 0).then_some(&*number)));
            new = NewPool::new(made.clone(), Some(&format!("{:08x}", sum & 0xffff_ffff)));
            before += 1;
        }
        let reference = new.reference.clone();
        self.pool_write(&reference, None, Write::CreatePool(Box::new(new)));
    }

    fn wanted(&self) -> BTreeMap<Source, Made> {
        let free = |ip: &IpAddr| self.seen.addresses.at(*ip).next().is_none();
        let others = self.seen.reserved.keys().copied().chain(self.left_out()).filter(free);
        let others: BTreeSet<IpAddr> = others.collect();
        let mut wanted = configmap::pools(&self.seen.config, &others);
        let mut kept: BTreeSet<IpAddr> = self.takeover.kept.keys().copied().collect();
        for (pool, claims) in &self.claims.by_pool {
            let scope = self.seen.pools.get(pool).and_then(|pool| pool.made.as_ref()).map(|made| &made.source.scope);
            if scope == Some(&Scope::Kept) {
                let ips = claims.iter().filter_map(|claim| {
                    let address = self.address_of(claim).and_then(|address| address.address);
                    address.or_else(|| self.claims.get(claim)?.requested)
                });
                kept.extend(ips);
            }
        }
        for family in [Family::V4, Family::V6] {
            wanted.extend(configmap::kept(kept.iter(), family).map(|made| (made.source.clone(), made)));
        }
        wanted
    }

    /// Whether a pool may be edited into this. A pool with addresses in use is not moved to another network: the API
    /// server refuses this change.
    fn may_become(&self, pool: &Pool, spec: &PoolSpec) -> bool {
        let network = |spec: &PoolSpec| {
            let first = spec.addresses.first()?;
            let ip = first.split_once('-').map_or(&**first, |(first, _)| first).parse().ok()?;
            Block::prefix(ip, u8::try_from(spec.prefix).ok()?)
        };
        let nested = pool.made.as_ref().and_then(|made| Some(network(&made.spec)?.overlaps(network(spec)?)));
        nested == Some(true) || !self.claims.by_pool.contains_key(&pool.reference)
    }

    fn pool_write(&mut self, reference: &Arc<PoolRef>, pool: Option<&Pool>, write: Write) {
        let now = self.work.now();
        let writes = self.made.writes.entry(reference.clone()).or_default();
        let version = pool.map(|pool| pool.version.clone());
        writes.0.freshen(now);
        if writes.0.pending.is_some() || (version.is_some() && writes.0.stale == version) {
            return;
        }
        if let Some(at) = waits(&writes.0, now, &write) {
            return self.work.mark_at(at, Who::Pools);
        }
        writes.1 = version;
        let id = self.write(Who::Pools, write);
        if let Some(writes) = self.made.writes.get_mut(reference) {
            writes.0.pending = Some(id);
        }
    }
}

fn target(pool: &Pool) -> PoolTarget {
    PoolTarget { reference: pool.reference.clone(), uid: pool.uid.clone(), version: pool.version.clone() }
}
