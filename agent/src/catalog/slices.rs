//! The `EndpointSlice` objects of the Services that need a local endpoint. Several watches show them: each covers some Services.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Catalog, Change};
use crate::api::objects::{Key, Slice};

/// The Services whose slices a watch shows, and no others. From time to time the Services are dealt out to the watches anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dealt {
    /// The number of the watch.
    pub watch: usize,
    /// The number of the deal that gave the watch these Services. Later deals have higher numbers.
    pub deal: u64,
    /// The Services.
    pub services: Arc<BTreeSet<Key>>,
}

impl Dealt {
    /// All Services for one watch.
    #[must_use]
    pub fn to_one(services: &BTreeSet<Key>) -> Self {
        Self { services: Arc::new(services.clone()), ..Self::default() }
    }
}

/// Who listed a Service last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    watch: usize,
    deal: u64,
}

impl Catalog {
    pub(super) fn take_slices(&mut self, dealt: &Dealt, change: Change<Slice>) {
        let watch = dealt.watch;
        match change {
            Change::All(all) => {
                // A list may arrive after a later deal gave the Service to another watch, which has listed the Service already and
                // does not list it again.
                let before = self.covered.iter().filter(|(_, by)| by.watch == watch).map(|(service, _)| service);
                let of = dealt.services.iter().filter(|service| !self.is_dealt_later(dealt, service));
                let of: BTreeSet<Key> = of.cloned().collect();
                let concerned: BTreeSet<Key> = before.cloned().chain(of.iter().cloned()).collect();
                for service in &concerned {
                    for slice in self.slices_of.remove(service).unwrap_or_default() {
                        self.slices.remove(&slice);
                    }
                    self.covered.remove(service);
                }
                let cover = Cover { watch, deal: dealt.deal };
                self.covered.extend(of.into_iter().map(|service| (service, cover)));
                for one in all {
                    self.put_slice(watch, one);
                }
                for service in &concerned {
                    self.service_dirty(service);
                }
            }
            Change::One(one) => {
                let service = service_of(&one);
                self.put_slice(watch, one);
                if let Some(service) = service {
                    self.service_dirty(&service);
                }
            }
            Change::Gone(one) => {
                let Some(service) = service_of(&one).filter(|service| self.is_covered_by(watch, service)) else {
                    return;
                };
                let key = one.metadata.key();
                self.slices.remove(&key);
                if let Some(slices) = self.slices_of.get_mut(&service) {
                    slices.remove(&key);
                }
                self.service_dirty(&service);
            }
        }
    }

    /// Whether a watch of a later deal has listed the Service.
    fn is_dealt_later(&self, dealt: &Dealt, service: &Key) -> bool {
        self.covered.get(service).is_some_and(|by| by.deal > dealt.deal)
    }

    /// Another watch may have listed the Service since: what this one shows is then older.
    fn is_covered_by(&self, watch: usize, service: &Key) -> bool {
        self.covered.get(service).is_some_and(|by| by.watch == watch)
    }

    fn put_slice(&mut self, watch: usize, slice: Slice) {
        let (key, service) = (slice.metadata.key(), service_of(&slice));
        if let Some(service) = service.filter(|service| self.is_covered_by(watch, service)) {
            self.slices_of.entry(service).or_default().insert(key.clone());
            self.slices.insert(key, slice);
        }
    }

    /// Whether the slices of all Services that need them are known.
    pub(crate) fn is_all_covered(&self) -> bool {
        self.local.iter().all(|service| self.covered.contains_key(service))
    }
}

fn service_of(slice: &Slice) -> Option<Key> {
    let name = slice.metadata.labels.service.clone()?;
    Some(Key { namespace: slice.metadata.namespace.clone(), name })
}
