//! Evaluates a machine again: what to do is decided elsewhere, and done here, one write for each object at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::work::{ObjectWrite as _, Start};

use crate::objects::VSphereMachine;

use super::decide::{View, decide};
use super::flaws::{Flaw, planted};
use super::slots::{Object, Slot};
use super::{Action, Machine, Write};

impl Machine {
    pub(super) fn look_at(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.writes.freshen(now);
        if !planted(Flaw::HiddenForEver) {
            slot.writes.unhide(now);
        }
        let mut written = BTreeSet::new();
        self.release(key, &mut written);
        if let Some(machine) = self.slots.get(key).and_then(|slot| slot.machine.clone()) {
            self.settle(key, &machine, &mut written);
        }
        if let Some(slot) = self.slots.get_mut(key) {
            slot.writes.settled(now, &written);
        }
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
            hidden: &|name| slot.writes.is_hidden(&Object::Claim(name.into())),
        });
        let mut trouble = None;
        for write in finding.writes {
            written.insert(write.object());
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
        if planted(Flaw::RepeatsAtOnce) {
            slot.writes.forget_repeats();
        }
        match slot.writes.start(now, &write) {
            Start::Now => {
                let object = write.object();
                let id = self.work.write(key.clone(), write, |id, write| Action::Write { id, write });
                slot.writes.started(object, id);
            }
            Start::At(at) => self.work.mark_at(at, key.clone()),
            Start::AfterAnother => {}
        }
    }
}
