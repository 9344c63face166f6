//! Events change the known state, and mark the affected Clusters.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use mooring_allocator_core::names::{Key, Uid};

use crate::objects::{Claim, Cluster, Companion, ControlPlane, Infrastructure, Reference};

use super::flaws::{Flaw, planted};
use super::put_back::PutBack;
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
                    self.unlisted = self.settings.all();
                    self.asked += 1;
                    for slot in self.slots.values_mut() {
                        slot.known.clear();
                        slot.reading.clear();
                    }
                    self.work.mark_all(self.slots.keys().cloned());
                    self.work.act(Action::List(self.asked));
                }
            }
            Event::Listed(kind, asked) => {
                if asked == self.asked && self.unlisted.remove(&kind) {
                    // Those that name such a kind were held back.
                    if let Kind::Parts(group, name) = &kind {
                        let of_kind = |one: &&Reference| one.group == *group && one.kind == *name;
                        let named = self.named_by.keys().filter(of_kind).flat_map(|one| &self.named_by[one]);
                        self.work.mark_all(named.cloned());
                    }
                }
            }
            Event::Clusters(list) => {
                let listed: HashSet<&Key> = list.iter().map(|cluster| &cluster.key).collect();
                let seen = self.slots.values().filter_map(|slot| slot.cluster.clone());
                let gone: Vec<_> = seen.filter(|cluster| !listed.contains(&cluster.key)).collect();
                for cluster in gone {
                    self.cluster_gone(&cluster.key, &cluster.uid);
                }
                for cluster in list {
                    self.cluster(cluster);
                }
            }
            Event::Cluster(cluster) => self.cluster(*cluster),
            Event::ClusterGone(key, uid) => self.cluster_gone(&key, &uid),
            Event::Namespaces(all) => {
                let names: BTreeSet<Arc<str>> = self.defaults.keys().chain(all.keys()).cloned().collect();
                for name in names {
                    self.namespace(name.clone(), all.get(&name).cloned());
                }
            }
            Event::Namespace(name, pool) => self.namespace(name, pool),
            Event::Infrastructures(group, kind, list) => {
                let listed: HashSet<&Key> = list.iter().map(|one| &one.reference.key).collect();
                let of_kind = |one: &&Infrastructure| one.reference.group == group && one.reference.kind == kind;
                let gone = self.infrastructures.values().filter(of_kind);
                let gone = gone.filter(|one| !listed.contains(&one.reference.key));
                for (reference, uid) in gone.map(|one| (one.reference.clone(), one.uid.clone())).collect::<Vec<_>>() {
                    self.part_gone(&reference, &uid);
                }
                for one in list {
                    self.infrastructure(one);
                }
            }
            Event::Infrastructure(one) => self.infrastructure(*one),
            Event::ControlPlanes(group, kind, list) => {
                let listed: HashSet<&Key> = list.iter().map(|one| &one.reference.key).collect();
                let of_kind = |one: &&ControlPlane| one.reference.group == group && one.reference.kind == kind;
                let gone = self.control_planes.values().filter(of_kind);
                let gone = gone.filter(|one| !listed.contains(&one.reference.key));
                for (reference, uid) in gone.map(|one| (one.reference.clone(), one.uid.clone())).collect::<Vec<_>>() {
                    self.part_gone(&reference, &uid);
                }
                for one in list {
                    self.control_plane(one);
                }
            }
            Event::ControlPlane(one) => self.control_plane(*one),
            Event::Gone(reference, uid) => self.part_gone(&reference, &uid),
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
            Event::Answer { id, result, said } => self.answer(id, &result, said),
            Event::Read { id, result } => self.read(id, result),
        }
    }

    fn cluster(&mut self, cluster: Cluster) {
        let key = cluster.key.clone();
        if let Some(before) = self.slots.get(&key).and_then(|slot| slot.cluster.clone()) {
            if before.uid != cluster.uid {
                self.cluster_gone(&key, &before.uid);
            }
            self.names_no_more(&before);
            if *before != (Cluster { version: before.version.clone(), ..cluster.clone() })
                && !planted(Flaw::ReadsSecretsByTheMinute)
            {
                self.stir(&key);
            }
        }
        for reference in cluster.infrastructure.iter().chain(&cluster.control_plane) {
            self.named_by.entry(reference.clone()).or_default().insert(key.clone());
        }
        self.slots.entry(key.clone()).or_default().cluster = Some(Arc::new(cluster));
        self.work.mark(key);
    }

    fn cluster_gone(&mut self, key: &Key, uid: &Uid) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(cluster) = slot.cluster.take_if(|cluster| cluster.uid == *uid) else { return };
        slot.known.clear();
        slot.reading.clear();
        (slot.verdict, slot.reported) = (None, None);
        slot.writes.forget_what_was_said();
        slot.ownerless.owner_went(slot.claims.values().map(|claim| &claim.uid));
        (slot.put_back, slot.went_on) = (PutBack::default(), false);
        self.names_no_more(&cluster);
        self.work.mark(key.clone());
    }

    fn names_no_more(&mut self, cluster: &Cluster) {
        for reference in cluster.infrastructure.iter().chain(&cluster.control_plane) {
            if let Some(keys) = self.named_by.get_mut(reference) {
                keys.remove(&cluster.key);
                if keys.is_empty() {
                    self.named_by.remove(reference);
                }
            }
        }
    }

    fn namespace(&mut self, name: Arc<str>, pool: Option<Box<str>>) {
        if self.defaults.get(&name) == pool.as_ref() {
            return;
        }
        self.work.mark_all(self.slots.keys().filter(|key| key.namespace == name).cloned());
        match pool {
            Some(pool) => _ = self.defaults.insert(name, pool),
            None => _ = self.defaults.remove(&name),
        }
    }

    fn infrastructure(&mut self, one: Infrastructure) {
        self.work.mark_all(self.named_by.get(&one.reference).into_iter().flatten().cloned());
        let before = self.infrastructures.get(&one.reference);
        if before.is_some_and(|before| (&before.host, before.port) != (&one.host, one.port)) {
            self.stir_all(&one.reference);
        }
        self.infrastructures.insert(one.reference.clone(), one);
    }

    fn control_plane(&mut self, one: ControlPlane) {
        self.work.mark_all(self.named_by.get(&one.reference).into_iter().flatten().cloned());
        let before = self.control_planes.get(&one.reference);
        if before.is_some_and(|before| (&before.place, &before.sans) != (&one.place, &one.sans)) {
            self.stir_all(&one.reference);
        }
        self.names_secrets_no_more(&one.reference);
        self.names_secrets(&one);
        self.control_planes.insert(one.reference.clone(), one);
    }

    fn stir_all(&mut self, reference: &Reference) {
        for key in self.named_by.get(reference).cloned().into_iter().flatten() {
            self.stir(&key);
        }
    }

    fn part_gone(&mut self, reference: &Reference, uid: &Uid) {
        if self.infrastructures.get(reference).is_some_and(|one| one.uid == *uid) {
            self.infrastructures.remove(reference);
        }
        if self.control_planes.get(reference).is_some_and(|one| one.uid == *uid) {
            self.names_secrets_no_more(reference);
            self.control_planes.remove(reference);
        }
        self.work.mark_all(self.named_by.get(reference).into_iter().flatten().cloned());
    }

    fn claim(&mut self, mut claim: Claim) {
        if planted(Flaw::BelievesLabels)
            && let Some(label) = claim.mark().and_then(|mark| mark.label.clone())
        {
            claim.cluster.name = label;
        }
        let (key, cluster) = (claim.key.clone(), claim.cluster.clone());
        if self.cluster_of.get(&key).is_some_and(|before| *before != cluster) {
            self.forget_claim(&key);
        }
        self.cluster_of.insert(key.clone(), cluster.clone());
        let slot = self.slots.entry(cluster.clone()).or_default();
        // What was read of the Cluster before says nothing about this state of the claim.
        slot.known.remove(&Companion::Cluster(cluster.clone()));
        slot.reading.remove(&Companion::Cluster(cluster.clone()));
        let uid = claim.uid.clone();
        let before = slot.claims.insert(key.name.clone(), claim);
        slot.ownerless.claim_shown(before.as_ref().map(|before| &before.uid), &uid);
        slot.writes.shown(&Object::Claim(key.name), before.is_none());
        self.work.mark(cluster);
    }

    fn claim_gone(&mut self, key: &Key, uid: &Uid) {
        let slot = self.cluster_of.get(key).and_then(|cluster| self.slots.get(cluster));
        if slot.and_then(|slot| slot.claims.get(&key.name)).is_some_and(|claim| claim.uid == *uid) {
            self.forget_claim(key);
        }
    }

    fn forget_claim(&mut self, key: &Key) {
        let Some(cluster) = self.cluster_of.remove(key) else { return };
        if let Some(slot) = self.slots.get_mut(&cluster)
            && let Some(claim) = slot.claims.remove(&key.name)
        {
            slot.ownerless.claim_went(&claim.uid);
        }
        self.work.mark(cluster);
    }
}
