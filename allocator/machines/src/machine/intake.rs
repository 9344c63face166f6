//! Events change the known state, and mark the affected machines.

use std::collections::HashSet;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, Uid};

use crate::device::Device;
use crate::objects::{Claim, Cluster, Pool, Template, VSphereMachine};

use super::slots::Object;
use super::{Action, Event, Kind, Machine};

impl Machine {
    pub(super) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Leading(until) => {
                let led = self.work.leading();
                self.work.lead(until);
                if !led && self.work.leading() {
                    // Another allocator has led in the meantime: list everything, and read everything again.
                    self.unlisted = Kind::ALL.into();
                    self.asked += 1;
                    for slot in self.slots.values_mut() {
                        slot.forget_read();
                    }
                    self.work.mark_all(self.slots.keys().cloned());
                    self.work.act(Action::List(self.asked));
                }
            }
            Event::Listed(kind, asked) => {
                if asked == self.asked {
                    self.unlisted.remove(&kind);
                }
            }
            Event::Clusters(list) => {
                let listed: HashSet<&Key> = list.iter().map(|one| &one.key).collect();
                let gone: Vec<Key> = self.clusters.keys().filter(|key| !listed.contains(key)).cloned().collect();
                for key in &gone {
                    self.cluster_gone(key);
                }
                for one in list {
                    self.cluster(one);
                }
            }
            Event::Cluster(one) => self.cluster(one),
            Event::ClusterGone(key) => self.cluster_gone(&key),
            Event::Machines(list) => {
                let listed: HashSet<&Key> = list.iter().map(|one| &one.key).collect();
                let seen = self.slots.values().filter_map(|slot| slot.machine.clone());
                for one in seen.filter(|one| !listed.contains(&one.key)).collect::<Vec<_>>() {
                    self.machine_gone(&one.key, &one.uid);
                }
                for one in list {
                    self.machine(one);
                }
            }
            Event::Machine(one) => self.machine(*one),
            Event::MachineGone(key, uid) => self.machine_gone(&key, &uid),
            Event::Templates(list) => {
                let listed: HashSet<&Key> = list.iter().map(|one| &one.key).collect();
                let gone: Vec<Key> = self.templates.keys().filter(|key| !listed.contains(key)).cloned().collect();
                for key in &gone {
                    self.template_gone(key);
                }
                for one in list {
                    self.template(one);
                }
            }
            Event::Template(one) => self.template(one),
            Event::TemplateGone(key) => self.template_gone(&key),
            Event::Pools(list) => {
                let listed: HashSet<_> = list.iter().map(|one| &one.reference).collect();
                let gone: Vec<_> = self.pools.keys().filter(|one| !listed.contains(one)).cloned().collect();
                for one in gone {
                    self.pools.remove(&one);
                    self.pools_changed();
                }
                for one in list {
                    self.pool(one);
                }
            }
            Event::Pool(one) => self.pool(*one),
            Event::PoolGone(reference) => {
                if self.pools.remove(&reference).is_some() {
                    self.pools_changed();
                }
            }
            Event::Claims(list) => {
                let listed: HashSet<&Uid> = list.iter().map(|claim| &claim.uid).collect();
                let seen = self.slots.values().flat_map(|slot| slot.claims.values());
                let gone = seen.filter(|claim| !listed.contains(&claim.uid));
                for (key, uid) in gone.map(|claim| (claim.key.clone(), claim.uid.clone())).collect::<Vec<_>>() {
                    self.claim_gone(&key, &uid);
                }
                for claim in list {
                    self.claim(claim);
                }
            }
            Event::Claim(claim) => self.claim(*claim),
            Event::ClaimGone(key, uid) => self.claim_gone(&key, &uid),
            Event::Answer { id, result } => self.answer(id, &result),
            Event::Read { id, result } => self.read(id, result),
        }
    }

    /// The status of a Cluster changes all the time; what counts here hardly ever does.
    fn cluster(&mut self, one: Cluster) {
        let key = one.key.clone();
        if self.clusters.get(&key) != Some(&one) {
            self.clusters.insert(key.clone(), one);
            self.mark_of_cluster(&key);
        }
    }

    fn cluster_gone(&mut self, key: &Key) {
        if self.clusters.remove(key).is_some() {
            self.mark_of_cluster(key);
        }
    }

    fn mark_of_cluster(&mut self, cluster: &Key) {
        let names = |name: Option<&Arc<str>>| name == Some(&cluster.name);
        let of = self.slots.iter().filter(|(key, slot)| {
            let of_machine = slot.machine.as_ref().is_some_and(|one| names(one.cluster.as_ref()));
            key.namespace == cluster.namespace
                && (of_machine || slot.claims.values().any(|claim| names(claim.retained.cluster.as_ref())))
        });
        self.work.mark_all(of.map(|(key, _)| key.clone()));
    }

    fn template(&mut self, one: Template) {
        let key = one.key.clone();
        if self.templates.get(&key) != Some(&one) {
            self.templates.insert(key.clone(), one);
            self.mark_of_template(&key);
        }
    }

    fn template_gone(&mut self, key: &Key) {
        if self.templates.remove(key).is_some() {
            self.mark_of_template(key);
        }
    }

    fn mark_of_template(&mut self, template: &Key) {
        let of = self.slots.iter().filter(|(key, slot)| {
            let its = slot.machine.as_ref().is_some_and(|one| one.template.as_ref() == Some(&template.name));
            its && key.namespace == template.namespace
        });
        self.work.mark_all(of.map(|(key, _)| key.clone()));
    }

    fn pool(&mut self, one: Pool) {
        if self.pools.get(&one.reference) != Some(&one) {
            self.pools.insert(one.reference.clone(), one);
            self.pools_changed();
        }
    }

    /// Machines that wait may wait for this one.
    fn pools_changed(&mut self) {
        let of = self.slots.iter().filter(|(_, slot)| {
            let has = |ip| slot.claims.values().any(|claim| claim.address.is_some_and(|(has, _)| has == ip));
            let lacks = |device: &Device| device.fixed && device.addresses.iter().any(|ip| !has(*ip));
            let waits = |machine: &VSphereMachine| machine.devices.iter().any(|one| one.wants || lacks(one));
            slot.machine.as_deref().is_some_and(waits)
        });
        self.work.mark_all(of.map(|(key, _)| key.clone()));
    }

    fn machine(&mut self, one: VSphereMachine) {
        let key = one.key.clone();
        let before = self.seen(&key).map(|before| before.uid.clone());
        if let Some(uid) = before.filter(|uid| *uid != one.uid) {
            self.machine_gone(&key, &uid);
        }
        let slot = self.slots.entry(key.clone()).or_default();
        slot.machine = Some(Arc::new(one));
        slot.forget_read();
        self.work.mark(key);
    }

    fn machine_gone(&mut self, key: &Key, uid: &Uid) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.machine.take_if(|machine| machine.uid == *uid).is_none() {
            return;
        }
        slot.forget_read();
        slot.ownerless.owner_went(slot.claims.values().map(|claim| &claim.uid));
        (slot.verdict, slot.reported) = (None, None);
        slot.writes.forget_what_was_said();
        self.work.mark(key.clone());
    }

    fn claim(&mut self, claim: Claim) {
        let (key, machine) = (claim.key.clone(), claim.machine.clone());
        if self.owner_of.get(&key).is_some_and(|before| *before != machine) {
            self.forget_claim(&key);
        }
        self.owner_of.insert(key.clone(), machine.clone());
        let slot = self.slots.entry(machine.clone()).or_default();
        slot.forget_read();
        let uid = claim.uid.clone();
        let before = slot.claims.insert(key.name.clone(), claim);
        slot.ownerless.claim_shown(before.as_ref().map(|before| &before.uid), &uid);
        slot.writes.shown(&Object::Claim(key.name), before.is_none());
        self.work.mark(machine);
    }

    fn claim_gone(&mut self, key: &Key, uid: &Uid) {
        let slot = self.owner_of.get(key).and_then(|machine| self.slots.get(machine));
        if slot.and_then(|slot| slot.claims.get(&key.name)).is_some_and(|claim| claim.uid == *uid) {
            self.forget_claim(key);
        }
    }

    fn forget_claim(&mut self, key: &Key) {
        let Some(machine) = self.owner_of.remove(key) else { return };
        if let Some(slot) = self.slots.get_mut(&machine)
            && let Some(claim) = slot.claims.remove(&key.name)
        {
            slot.ownerless.claim_went(&claim.uid);
        }
        self.work.mark(machine);
    }
}
