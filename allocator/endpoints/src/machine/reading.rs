//! Reads of objects that are not watched, and when they are read again.

use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::work::BackOff;

use crate::objects::{Companion, Reading};

use super::flaws::{Flaw, planted};
use super::slots::{Known, Object};
use super::{Action, Failure, Machine};

/// Delay before an object that is not there is read again.
const MISSING: BackOff = BackOff { first: Duration::from_millis(250), last: Duration::from_secs(30) };
/// An object is read again after this time: nobody tells of its changes.
const RECHECK: Duration = Duration::from_secs(30);
/// The same, once the endpoint is written, of a `Secret`: machines are made from it.
const RECHECK_SECRET: Duration = Duration::from_mins(1);
/// After a sign of somebody who applies the Cluster's objects a `Secret` is read again at once, and then after this time, and each half
/// of the time since that sign: what is put back a while later is found when half as much time again has passed.
const RECHECK_APPLIED: Duration = Duration::from_secs(1);
/// The same of anything else.
pub(super) const RECHECK_WRITTEN: Duration = Duration::from_mins(5);

impl Machine {
    /// Reads an object, unless it is being read.
    pub(super) fn ask(&mut self, key: &Key, what: Companion) {
        let id = self.work.id();
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.reading.contains_key(&what) {
            return;
        }
        slot.reading.insert(what.clone(), id);
        self.reads.insert(id, (key.clone(), what.clone()));
        self.work.act(Action::Read { id, what });
    }

    /// Reads again what was read long ago, and forgets what nobody wants.
    pub(super) fn read_again(&mut self, key: &Key, wants: &[Companion], finished: bool) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.known.retain(|what, _| wants.contains(what));
        let mut due = Vec::new();
        for (what, known) in &slot.known {
            let is_secret = matches!(what, Companion::Secret(..));
            let after = match &known.reading {
                None => MISSING.delay(known.misses),
                Some(_) if is_secret && known.at < slot.stirred => Duration::ZERO,
                Some(_) if is_secret && !planted(Flaw::ReadsSecretsByTheMinute) => {
                    let applied = ((known.at.saturating_sub(slot.stirred)) / 2).max(RECHECK_APPLIED);
                    applied.min(if finished { RECHECK_SECRET } else { RECHECK })
                }
                Some(_) if finished && is_secret => RECHECK_SECRET,
                Some(_) if finished => RECHECK_WRITTEN,
                Some(_) => RECHECK,
            };
            if known.at + after <= now {
                due.push(what.clone());
            } else {
                self.work.mark_at(known.at + after, key.clone());
            }
        }
        for what in due {
            self.ask(key, what);
        }
    }

    /// Something of a Cluster has changed: whoever did it mostly puts back its `Secret`s too, and nobody tells of these.
    pub(super) fn stir(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stirred = now;
        let secrets = slot.known.iter_mut().filter(|(what, _)| matches!(what, Companion::Secret(..)));
        secrets.for_each(|(_, known)| known.at = Duration::ZERO);
    }

    /// The result of a read.
    pub(super) fn read(&mut self, id: u64, result: Result<Option<Reading>, Failure>) {
        let Some((key, what)) = self.reads.remove(&id) else { return };
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if slot.reading.get(&what) != Some(&id) {
            // Something has happened since that makes it worthless.
            return;
        }
        slot.reading.remove(&what);
        match result {
            Ok(reading) => {
                let misses =
                    slot.known.get(&what).filter(|known| known.reading.is_none()).map_or(0, |known| known.misses + 1);
                slot.writes.accepted(&Object::Companion(what.clone()));
                slot.known.insert(what, Known { reading, at: now, misses });
                self.work.mark(key);
            }
            Err(error) => {
                if let Failure::Refused(why) = error {
                    slot.writes.refused(Object::Companion(what), &why);
                }
                self.work.mark_at(now + RECHECK / 15, key);
            }
        }
    }
}
