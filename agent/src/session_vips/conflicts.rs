//! Foreign hosts that keep claiming a VIP that this node holds. A single frame takes no address from a Service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::core::mac::Mac;
use crate::core::time::Time;

/// A claim by the same host counts as repeated when it comes later than this: an earlier claim was on its way before
/// the first defence arrived ...
const AFTER: Duration = Duration::from_millis(500);
/// ... and within this.
const WITHIN: Duration = Duration::from_secs(30);
/// Hosts that claim more VIPs than this are not other owners: they answer for everything (kube-proxy in IPVS mode
/// without strictARP, a proxy ARP). People are informed; the allocator exchanges no address for such a claim.
const MOST: usize = 8;

/// The hosts that claim VIPs: when each was first and last heard.
#[derive(Debug, Default)]
pub(super) struct Conflicts(BTreeMap<(Mac, IpAddr), (Time, Time)>);

impl Conflicts {
    /// Takes a foreign claim of a VIP. True: the host has claimed the VIP before, and counts as another owner.
    pub(super) fn goes_on(&mut self, now: Time, address: IpAddr, mac: Mac) -> bool {
        self.0.retain(|_, (_, last)| now.since(*last) < WITHIN);
        let (first, last) = self.0.entry((mac, address)).or_insert((now, now));
        *last = now;
        let again = now.since(*first) >= AFTER;
        again && self.0.keys().filter(|(one, _)| *one == mac).count() <= MOST
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn vip(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    #[test]
    fn one_frame_is_nothing_and_going_on_is() {
        let mut conflicts = Conflicts::default();
        let (one, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        assert!(!conflicts.goes_on(at(0), vip(1), one));
        assert!(!conflicts.goes_on(at(100), vip(1), one), "it had not heard the defence");
        assert!(!conflicts.goes_on(at(1_100), vip(1), other), "that is another one");
        assert!(conflicts.goes_on(at(1_200), vip(1), one));
        assert!(!conflicts.goes_on(at(60_000), vip(1), one), "long after");
    }

    #[test]
    fn who_claims_everything_is_no_owner() {
        let mut conflicts = Conflicts::default();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        for n in 0..20 {
            assert!(!conflicts.goes_on(at(0), vip(n), mac));
        }
        assert!((0..20).all(|n| !conflicts.goes_on(at(2_000), vip(n), mac)));
    }
}
