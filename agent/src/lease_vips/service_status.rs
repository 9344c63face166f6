//! Writes the holder of a Service's addresses on the Service, as kube-vip's agent does, where the addresses have no
//! `IPAddress` that this node may write its record on. No decision depends on this text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::api::objects::Key;
use crate::api::{Servers, services};
use crate::catalog::Catalog;
use crate::core::lease_vips::LeaseVips;
use crate::core::time::Time;

/// The time limit of each write.
const WITHIN: Duration = Duration::from_secs(5);
/// How many writes run at a time.
const AT_ONCE: usize = 16;
/// The longest pause between two writes for a Service that another controller writes too.
const LONGEST: Duration = Duration::from_mins(5);
/// How often the agent checks for Services to write.
const EVERY: Duration = Duration::from_millis(200);

/// The writes made lately.
pub(super) struct ServiceStatus {
    node: String,
    servers: Servers,
    on: bool,
    written: BTreeMap<Key, Written>,
    next: Time,
}

/// The last write for a Service.
#[derive(Clone, Debug)]
struct Written {
    /// The version that it was based on.
    base: String,
    at: Time,
    /// How many writes succeeded before it, each soon after the other: another controller writes something else.
    before: u32,
    /// The write is known to have succeeded. One that fails says nothing of other controllers.
    succeeded: Arc<AtomicBool>,
}

impl Written {
    fn after(last: Option<&Self>, base: &str, now: Time) -> Self {
        let before = last.map_or(0, |last| last.before.saturating_add(last.succeeded.load(Ordering::Relaxed).into()));
        Self { base: base.to_owned(), at: now, before, succeeded: Arc::default() }
    }

    /// Whether the write may still be under way.
    fn is_under_way(&self, now: Time) -> bool {
        now.since(self.at) < WITHIN
    }

    /// Whether the Service, at this version, may be written again.
    fn may_repeat(&self, version: &str, now: Time) -> bool {
        now >= self.at + self.pause() && !(self.base == version && self.is_under_way(now))
    }

    /// The time until the next write: twice as long after each that succeeded.
    fn pause(&self) -> Duration {
        EVERY.saturating_mul(2_u32.saturating_pow(self.before)).min(LONGEST)
    }

    /// Whether nobody has reset the Service for so long that the next write is the first one again.
    fn is_forgotten(&self, now: Time) -> bool {
        now.since(self.at) >= self.pause() + LONGEST
    }
}

impl ServiceStatus {
    /// With `on` false, nothing is ever written.
    pub(super) const fn new(node: String, servers: Servers, on: bool) -> Self {
        Self { node, servers, on, written: BTreeMap::new(), next: Time::from_nanos(0) }
    }

    /// Writes every Service that is not correct. `objects`: whether this node sees `IPAddress` objects.
    pub(super) fn sync(&mut self, now: Time, lease_vips: &LeaseVips, catalog: &Catalog, objects: bool) {
        if !self.on || now < self.next {
            return;
        }
        self.next = now + EVERY;
        let mut held: BTreeMap<&Key, Vec<IpAddr>> = BTreeMap::new();
        for (address, _) in lease_vips.held().filter(|(address, _)| catalog.ip_address(*address).is_none()) {
            for key in catalog.services_of(address) {
                held.entry(key).or_default().push(address);
            }
        }
        // One that was named as the holder, and holds nothing now, takes out what it had.
        for (key, service) in catalog.services() {
            let notes = &service.metadata.annotations;
            if notes.status_addresses.is_some() && notes.vip_host.as_deref() == Some(self.node.as_str()) {
                held.entry(key).or_default();
            }
        }
        self.written.retain(|_, written| !written.is_forgotten(now));
        let mut under_way = self.written.values().filter(|written| written.is_under_way(now)).count();
        for (key, addresses) in held {
            if under_way >= AT_ONCE {
                return;
            }
            let Some(service) = catalog.service(key) else { continue };
            let version = &service.metadata.resource_version;
            let known = services::Change::of(service, &self.node, &addresses).is_none();
            // The allocator writes the status for addresses it has given, as soon as it reads this node's record.
            let others = objects && service.metadata.annotations.ip_addresses.is_some();
            let last = self.written.get(key);
            if known || others || last.is_some_and(|last| !last.may_repeat(version, now)) {
                continue;
            }
            let written = Written::after(last, version, now);
            let succeeded = written.succeeded.clone();
            self.written.insert(key.clone(), written);
            under_way += 1;
            let (servers, key, node) = (self.servers.clone(), key.clone(), self.node.clone());
            tokio::spawn(async move {
                match services::tell(&servers, &key, &node, &addresses, WITHIN).await {
                    Ok(()) => succeeded.store(true, Ordering::Relaxed),
                    Err(error) => {
                        tracing::debug!(service = %key, %error, "status of the Service could not be written; retrying");
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writes in an hour beside another controller that resets the status so long after each, and the last of them.
    fn written_in_an_hour(reset_after: Duration) -> (u32, Written) {
        let end = Time::default() + Duration::from_hours(1);
        let (mut now, mut writes) = (Time::default(), 0_u32);
        let mut last: Option<Written> = None;
        while now < end {
            last = last.filter(|last| !last.is_forgotten(now));
            let is_reset = last.as_ref().is_none_or(|last| now >= last.at + reset_after);
            // Each time there is another version.
            let version = writes.to_string();
            if is_reset && last.as_ref().is_none_or(|last| last.may_repeat(&version, now)) {
                let write = Written::after(last.as_ref(), &version, now);
                write.succeeded.store(true, Ordering::Relaxed);
                last = Some(write);
                writes += 1;
            }
            now = now + EVERY;
        }
        (writes, last.unwrap())
    }

    #[test]
    fn beside_another_writer_writes_become_rare() {
        for seconds in [0, 1, 6, 30, 120, 290] {
            let (writes, _) = written_in_an_hour(Duration::from_secs(seconds));
            assert!((12..32).contains(&writes), "{writes} writes in an hour, each reset after {seconds} s");
        }
        let (_, last) = written_in_an_hour(Duration::ZERO);
        assert!(!last.may_repeat(&last.base, last.at + Duration::from_secs(1)), "it may still be under way");
        assert!(!last.is_forgotten(last.at + LONGEST), "it may be written again then, and no sooner");
        assert!(last.is_forgotten(last.at + 2 * LONGEST));
    }

    #[test]
    fn writes_that_fail_make_no_pause_longer() {
        let (mut now, mut last) = (Time::default(), None::<Written>);
        for succeeds in [true, true, false, false, false, false, true] {
            now = now + WITHIN;
            let write = Written::after(last.as_ref(), "1", now);
            write.succeeded.store(succeeds, Ordering::Relaxed);
            last = Some(write);
        }
        let last = last.unwrap();
        assert_eq!(last.pause(), EVERY * 4, "only the writes that came through before count");
        // Where the Service stays as it was, each write has its time.
        assert!(!last.may_repeat("1", now + EVERY * 4) && last.may_repeat("1", now + WITHIN));
    }
}
