//! Services whose namespace is not shown yet.
//!
//! Where a pool selects namespaces by label, a Service that is made together with its namespace may be shown first: the watches
//! of the two kinds are not in step. Nobody knows then whose pool it is to have, and it would keep an address of another one.

use std::collections::BTreeMap;

use mooring_allocator_core::names::Key;
use mooring_allocator_services::machine::Event;
use mooring_allocator_services::objects::Service;

use super::super::index::Index;

/// The Services that wait until their namespace is shown.
#[derive(Debug, Default)]
pub struct Early(BTreeMap<Key, Box<Service>>);

/// Whether it may be unknown which pools serve a Service. One that has an address keeps it, whatever its pool: it is shown at
/// once, because its claim must not be mistaken for one of a Service that is gone.
fn is_early(service: &Service, index: &Index) -> bool {
    let has_one = service.notes.record.is_some() || !service.ingress.is_empty();
    let known = || index.namespaces.contains_key(&*service.key.namespace);
    index.needs_labels() && service.load_balancer && !has_one && !known()
}

impl Early {
    /// What to tell of an event now. `known`: whether the machine was told of a Service; then it is told of its changes.
    pub fn keep_back(&mut self, event: Event, index: &Index, known: impl Fn(&Key) -> bool) -> Option<Event> {
        Some(match event {
            Event::Service(service) => {
                self.0.remove(&service.key);
                if is_early(&service, index) && !known(&service.key) {
                    self.0.insert(service.key.clone(), service);
                    return None;
                }
                Event::Service(service)
            }
            Event::Services(all) => {
                let wait = |service: &Service| is_early(service, index) && !known(&service.key);
                let (early, all): (Vec<_>, Vec<_>) = all.into_iter().partition(wait);
                self.0 = early.into_iter().map(|service| (service.key.clone(), Box::new(service))).collect();
                Event::Services(all)
            }
            Event::ServiceGone(key, uid) => {
                self.0.remove(&key);
                Event::ServiceGone(key, uid)
            }
            event => event,
        })
    }

    /// The Services that need not wait any more.
    pub fn come(&mut self, index: &Index) -> Vec<Service> {
        let mut come = Vec::new();
        for (key, service) in std::mem::take(&mut self.0) {
            if is_early(&service, index) {
                self.0.insert(key, service);
            } else {
                come.push(*service);
            }
        }
        come
    }
}
