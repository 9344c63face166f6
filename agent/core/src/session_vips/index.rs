//! The VIPs by what they are looked up by.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::time::Time;

/// Which VIPs concern a node, a moment, or this step. Each set says again, in order, what stands in [`super::vip::Vip`].
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The VIPs by the node that their record names.
    pub(super) held: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The VIPs that nobody holds, or that are handed over.
    pub(super) open: BTreeSet<IpAddr>,
    /// The VIPs that are carried here.
    pub(super) carried: BTreeSet<IpAddr>,
    /// The VIPs that this node holds by their records, that are to go to another node, and that no other node may have. They are
    /// considered again when any session changes.
    pub(super) stranded: BTreeSet<IpAddr>,
    /// The VIPs whose holder's session is not known. They are considered again after the next list of sessions.
    pub(super) unclear: BTreeSet<IpAddr>,
    /// The VIPs to consider in this step.
    pub(super) dirty: BTreeSet<IpAddr>,
    /// The VIPs to consider at some moment.
    pub(super) timers: BTreeSet<(Time, IpAddr)>,
}

impl Index {
    /// The record of a VIP names another node now.
    pub(super) fn holder_changed(&mut self, address: IpAddr, old: Option<&str>, new: Option<&str>) {
        if let Some(old) = old
            && let Some(held) = self.held.get_mut(old)
        {
            held.remove(&address);
            if held.is_empty() {
                self.held.remove(old);
            }
        }
        if let Some(new) = new {
            self.held.entry(new.to_owned()).or_default().insert(address);
        }
    }
}
