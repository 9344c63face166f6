//! Evaluates a machine again: what to do is decided elsewhere, and done here, one write for each object at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_allocator_core::names::Key;

use crate::objects::VSphereMachine;

use super::decide::{View, decide};
use super::flaws::{Flaw, planted};
use super::slots::{Object, Slot, Writes};
use super::{Action, Machine, Write};

impl Machine {
    pub(super) fn look_at(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.writes.values_mut().for_each(|writes| writes.freshen(now));
        slot.unhide(now);
        let mut written = BTreeSet::new();
        self.release(key, &mut written);
        if let Some(machine) = self.slots.get(key).and_then(|slot| slot.machine.clone()) {
            self.settle(key, &machine, &mut written);
        }
        self.settled(key, &written);
        if self.slots.get(key).is_some_and(Slot::is_empty) {
            self.slots.remove(key);
        }
    }

    fn settle(&mut self, key: &Key, machine: &Arc<VSphereMachine>, written: &mut BTreeSet<Object>) {
        let Some(slot) = self.slots.get(key) else { return };
        let beside = |name: &Arc<str>| Key { namespace: key.namespace.clone(), name: name.clone() };
        let finding = decide(&View {
            machine,
            cluster: machine.cluster.as_ref().and_then(|name| self.clusters.get(&beside(name))),
            template: machine.template.as_ref().and_then(|name| self.templates.get(&beside(name))),
            pools: &self.pools,
            claims: &slot.claims,
            hidden: &|name| slot.hidden.contains(name),
        });
        let mut trouble = None;
        for write in finding.writes {
            written.insert(Object::of(&write));
            trouble = trouble.or_else(|| self.without_effect(key, &write));
            self.write(key, write);
        }
        match finding.verdict {
            Some(condition) => {
                let condition = self.refusal(key, written).or(trouble).unwrap_or(condition);
                self.judge(key, condition);
            }
            None => {
                if let Some(slot) = self.slots.get_mut(key) {
                    (slot.verdict, slot.reported) = (None, None);
                }
            }
        }
    }

    /// Writes, unless a write about the object is under way, its known version is stale, or the write has to wait.
    pub(super) fn write(&mut self, key: &Key, write: Write) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        let object = Object::of(&write);
        let writes = slot.writes.entry(object.clone()).or_default();
        let version = write.target().map(|target| &target.version);
        if writes.pending.is_some() || (version.is_some() && writes.stale.as_ref() == version) {
            return;
        }
        let waits = if planted(Flaw::RepeatsAtOnce) { writes.retry.waits(now) } else { writes.waits(now, &write) };
        if let Some(at) = waits {
            return self.work.mark_at(at, key.clone());
        }
        let id = self.work.write(key.clone(), write, |id, write| Action::Write { id, write });
        if let Some(writes) = self.slots.get_mut(key).and_then(|slot| slot.writes.get_mut(&object)) {
            writes.pending = Some(id);
        }
    }

    /// The objects that need no write: those that were written are as wanted.
    fn settled(&mut self, key: &Key, written: &BTreeSet<Object>) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        for (_, writes) in slot.writes.iter_mut().filter(|(object, _)| !written.contains(object)) {
            if writes.pending.is_none() {
                writes.repeats.settled_for_now(now);
            }
        }
        slot.writes.retain(|object, writes| written.contains(object) || !is_idle(writes));
        slot.refused.retain(|object, _| written.contains(object));
    }
}

/// Whether there is nothing to remember about the writes of an object.
fn is_idle(writes: &Writes) -> bool {
    writes.pending.is_none() && writes.stale.is_none() && writes.retry.failures == 0 && writes.repeats.is_settled()
}
