//! Evaluates a Cluster again: what to do is decided elsewhere, and done here, one write for each object at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef, Version};
use mooring_allocator_core::work::{ObjectWrite as _, STALE_WITHIN, Start};

use crate::notes::{RequestError, pool};
use crate::objects::{Cluster, Reference};
use crate::reason::{Condition, Reason};
use crate::{variables, words};

use super::decide::{Finding, endpoint};
use super::flaws::{Flaw, planted};
use super::slots::Object;
use super::standstill::Standstill;
use super::view::{Step, View, target};
use super::{Action, Kind, Machine, Write, for_services};

impl Machine {
    pub(super) fn look_at(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.writes.freshen(now);
        if !planted(Flaw::HiddenForEver) {
            slot.writes.unhide(now);
        }
        match slot.cluster.clone() {
            None => self.release(key),
            Some(cluster) if cluster.deleting && !planted(Flaw::IgnoresDeletion) => self.let_it_end(key, &cluster),
            Some(cluster) => self.settle(key, &cluster),
        }
        if self.slots.get(key).is_some_and(super::slots::Slot::is_empty) {
            self.slots.remove(key);
        }
    }

    fn settle(&mut self, key: &Key, cluster: &Arc<Cluster>) {
        let standstill = self.standstill(key, cluster);
        let mut finding = self.find(key, cluster, standstill);
        if let Some(until) = self.unsure_until(key) {
            self.work.mark_at(until, key.clone());
        }
        let mut written = BTreeSet::new();
        let mut trouble = None;
        for step in std::mem::take(&mut finding.steps) {
            match step {
                Step::Read(what) => {
                    written.insert(Object::Companion(what.clone()));
                    self.ask(key, what);
                }
                Step::Write(write) => {
                    written.insert(write.object());
                    trouble =
                        trouble.or_else(|| self.without_effect(key, &write)).or_else(|| self.outpaced(key, &write));
                    self.write(key, write);
                }
            }
        }
        let finished = finding.verdict.as_ref().is_none_or(Condition::ready);
        self.read_again(key, &finding.wants, finished);
        if let Some(condition) = finding.verdict {
            let failing = self.failing(key, &condition, &written);
            let condition = self.refusal(key, &written).or(trouble).or(failing).unwrap_or(condition);
            self.judge(key, cluster, condition, &mut written);
        } else if let Some(slot) = self.slots.get_mut(key) {
            (slot.verdict, slot.reported) = (None, None);
        }
        if let Some(slot) = self.slots.get_mut(key) {
            slot.writes.settled(self.work.now(), &written);
            slot.failed.retain(|object, _| written.contains(object));
        }
    }

    /// Cluster API does nothing for a paused Cluster, not even its deletion: the pause that was for its endpoint ends.
    fn let_it_end(&mut self, key: &Key, cluster: &Cluster) {
        let left_alone = self.wish(cluster) == Ok(None) && self.stated_pool(cluster).is_some();
        let ours = cluster.paused && cluster.notes.paused_for_endpoint;
        let mut written = BTreeSet::new();
        if ours && !left_alone && !cluster.held && !cluster.moving && !planted(Flaw::KeepsPauseOfTheDeleted) {
            let write = Write::Unpause(target(&cluster.key, &cluster.uid, &cluster.version));
            written.insert(write.object());
            self.write(key, write);
        }
        if let Some(slot) = self.slots.get_mut(key) {
            slot.writes.settled(self.work.now(), &written);
        }
    }

    fn find(&self, key: &Key, cluster: &Cluster, standstill: Option<Standstill>) -> Finding {
        let Some(slot) = self.slots.get(key) else { return Finding::default() };
        let wish = self.wish(cluster);
        if let Some(verdict) = self.unlisted_part(cluster) {
            return Finding { verdict: Some(verdict).filter(|_| wish != Ok(None)), ..Finding::default() };
        }
        let infrastructure = &cluster.infrastructure;
        let followed =
            |reference: &Reference| self.settings.kinds.contains(&(reference.group.clone(), reference.kind.clone()));
        let view = View {
            now: self.work.now(),
            cluster,
            wish,
            claims: &slot.claims,
            hidden: &|name| slot.writes.is_hidden(&Object::Claim(name.into())),
            followed: infrastructure.as_ref().is_none_or(followed),
            infrastructure: infrastructure.as_ref().and_then(|reference| self.infrastructures.get(reference)),
            control_plane: cluster.control_plane.as_ref().and_then(|reference| self.control_planes.get(reference)),
            read: &|what| slot.known.get(what).map(|known| known.reading.clone()),
            read_at: &|what| slot.known.get(what).map(|known| known.at),
            standstill,
            shared: &|secret| self.other_users(key, secret),
            unsure: self.unsure_until(key).is_some(),
        };
        let mut finding = endpoint(&view);
        let of_services = for_services::add(&view, &mut finding);
        let of_services =
            of_services.unwrap_or_else(|error| Some(Condition::new(Reason::InvalidRequest, error.to_string())));
        if let Some(trouble) = of_services
            && finding.verdict.as_ref().is_none_or(Condition::ready)
        {
            finding.verdict = Some(trouble);
        }
        finding
    }

    /// A Cluster that names a kind of which no list has come waits for it, and no other does.
    fn unlisted_part(&self, cluster: &Cluster) -> Option<Condition> {
        let unlisted = |reference: &&Reference| {
            self.unlisted.contains(&Kind::Parts(reference.group.clone(), reference.kind.clone()))
        };
        let said = |reason, reference: &Reference| {
            let message = format!(
                "the allocator has not listed the kind of {reference} yet: if this lasts, its log says why; it needs the right to \
                 list and watch it"
            );
            Condition::new(reason, message)
        };
        if planted(Flaw::ViewsOfDifferentAge) {
            return None;
        }
        let infrastructure = cluster.infrastructure.as_ref().filter(unlisted);
        let control_plane = cluster.control_plane.as_ref().filter(unlisted);
        infrastructure
            .map(|one| said(Reason::WaitingForInfrastructure, one))
            .or_else(|| control_plane.map(|one| said(Reason::WaitingForControlPlane, one)))
    }

    /// The pool of a Cluster's endpoint; None: none is wanted.
    fn wish(&self, cluster: &Cluster) -> Result<Option<Arc<PoolRef>>, RequestError> {
        self.stated_pool(cluster).map_or(Ok(None), |text| pool(text, &cluster.key.namespace))
    }

    /// The pool as it is written.
    fn stated_pool<'a>(&'a self, cluster: &'a Cluster) -> Option<&'a str> {
        let variable = cluster.variables.as_deref().and_then(|all| variables::text(all, words::POOL_VARIABLE));
        let variable = variable.map(str::trim).filter(|text| !text.is_empty());
        let default = self.defaults.get(&cluster.key.namespace).map(|text| &**text);
        cluster.notes.pool.as_deref().or(variable).or(default)
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

    /// Until when a write to an object other than a claim may take effect that is not shown yet; None: none may.
    fn unsure_until(&self, key: &Key) -> Option<Duration> {
        let (now, slot) = (self.work.now(), self.slots.get(key)?);
        let of_others = slot.writes.iter().filter(|(object, _)| !matches!(object, Object::Claim(_)));
        let until = of_others.filter_map(|(object, writes)| {
            let unshown = writes.stale.is_some() && writes.stale == self.shown(key, object);
            match writes.retry.failures {
                _ if writes.pending.is_some() || unshown => Some(now + STALE_WITHIN),
                0 => None,
                _ => Some(writes.retry.not_before + STALE_WITHIN),
            }
        });
        until.max().filter(|until| *until > now)
    }

    /// The version of an object that the watch, or a read, shows.
    pub(super) fn shown(&self, key: &Key, object: &Object) -> Option<Version> {
        let slot = self.slots.get(key)?;
        let cluster = slot.cluster.as_ref();
        match object {
            Object::Cluster => Some(cluster?.version.clone()),
            Object::ControlPlane => Some(self.control_planes.get(cluster?.control_plane.as_ref()?)?.version.clone()),
            Object::Infrastructure => {
                Some(self.infrastructures.get(cluster?.infrastructure.as_ref()?)?.version.clone())
            }
            Object::Claim(name) => Some(slot.claims.get(name)?.version.clone()),
            Object::Companion(what) => Some(slot.known.get(what)?.reading.as_ref()?.version.clone()),
        }
    }
}
