//! The windows of several witnesses. Under a limit of frames a window opens when all its probes may leave. The window that has
//! waited longest comes first, and no other one on its interface overtakes it.

use std::collections::BTreeMap;

use crate::time::Time;
use crate::witness::Witness;

/// A witness on an interface, among others there.
pub(crate) trait Windowed {
    /// The interface of its probes.
    fn interface(&self) -> u32;

    /// The witness.
    fn witness(&mut self) -> &mut Witness;

    /// Since when its next window could open, if there is no room for the probes yet.
    fn waits_since(&mut self) -> &mut Option<Time>;
}

/// Opens the windows whose time has come. `open` opens one of them, or answers when to try again.
pub(crate) fn open_in_turn<W: Windowed>(
    now: Time,
    all: impl Iterator<Item = W>,
    mut open: impl FnMut(&mut W) -> Result<(), Time>,
) {
    let mut full: BTreeMap<u32, Time> = BTreeMap::new();
    let mut due: Vec<(Time, W)> = vec![];
    for mut one in all {
        let waits_since = *one.waits_since();
        if one.witness().opens(now) {
            due.push((waits_since.unwrap_or(now), one));
        } else if let Some(later) = one.witness().next().filter(|next| waits_since.is_some() && *next > now) {
            full.insert(one.interface(), later);
        }
    }
    due.sort_by_key(|(since, _)| *since);
    for (_, mut one) in due {
        let room = match full.get(&one.interface()) {
            Some(later) => Err(*later),
            None => open(&mut one),
        };
        match room {
            Ok(()) => *one.waits_since() = None,
            Err(later) => {
                full.insert(one.interface(), later);
                one.waits_since().get_or_insert(now);
                one.witness().put_off(later);
            }
        }
    }
}
