//! From which MAC addresses the VIPs of a holder were heard.

use crate::mac::Mac;

/// So many hosts that the holder has not declared are remembered.
const MOST_OTHERS: usize = 8;

/// The VIPs that are asked for, by their places, and who was heard to have them since the witness was aimed at their holder.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    vips: usize,
    from_holder: Places,
    from_others: Vec<(Mac, Places)>,
}

impl Owners {
    /// Nobody was heard to have any of so many VIPs.
    pub(super) const fn of(vips: usize) -> Self {
        Self { vips, from_holder: Places(0), from_others: vec![] }
    }

    /// The holder was heard to have the VIP with that place.
    pub(super) const fn is_holders(&mut self, nth: usize) {
        self.from_holder.add(nth);
    }

    /// A host that the holder has not declared was heard to have the VIP with that place: whether that host has spoken for all VIPs that
    /// the holder was heard to have; for all, if the holder was heard to have none.
    ///
    /// A bond or a virtual machine may have another MAC address by now, and then speaks for all of them. A foreign host that has one of
    /// them must not hide that the holder is gone.
    pub(super) fn has_all(&mut self, mac: Mac, nth: usize) -> bool {
        let all = if self.from_holder.0 == 0 { Places::all(self.vips) } else { self.from_holder };
        let known = self.from_others.iter().position(|(host, _)| *host == mac);
        let mut heard = known.map_or(Places(0), |known| self.from_others[known].1);
        heard.add(nth);
        match known {
            Some(known) => self.from_others[known].1 = heard,
            None if self.from_others.len() < MOST_OTHERS => self.from_others.push((mac, heard)),
            None => {}
        }
        heard.0 & all.0 == all.0
    }
}

/// Places of VIPs, a bit for each. A witness asks for a few only.
#[derive(Clone, Copy, Debug, Default)]
struct Places(u32);

impl Places {
    const fn all(count: usize) -> Self {
        if count >= 32 { Self(u32::MAX) } else { Self((1 << count) - 1) }
    }

    const fn add(&mut self, nth: usize) {
        if nth < 32 {
            self.0 |= 1 << nth;
        }
    }
}
