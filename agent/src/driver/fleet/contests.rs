//! Which strangers go on claiming a VIP that is held here. A single frame takes no address from a Service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::core::mac::Mac;
use crate::core::time::Time;

/// A claim is the same host's going on when it comes after this: what came before it met the first defence on its way ...
const AFTER: Duration = Duration::from_millis(500);
/// ... and within this.
const WITHIN: Duration = Duration::from_secs(30);
/// Hosts that claim more VIPs than this are no other owners: they answer for everything (kube-proxy in IPVS mode without
/// strictARP, a proxy ARP). People are told; no address is exchanged for it.
const MOST: usize = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Contests(BTreeMap<(Mac, IpAddr), (Time, Time)>);

impl Contests {
    /// A stranger claims a VIP. Whether it has done so before, and is to be taken for another owner.
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
        let mut contests = Contests::default();
        let (one, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        assert!(!contests.goes_on(at(0), vip(1), one));
        assert!(!contests.goes_on(at(100), vip(1), one), "it had not heard the defence");
        assert!(!contests.goes_on(at(1_100), vip(1), other), "that is another one");
        assert!(contests.goes_on(at(1_200), vip(1), one));
        assert!(!contests.goes_on(at(60_000), vip(1), one), "long after");
    }

    #[test]
    fn who_claims_everything_is_no_owner() {
        let mut contests = Contests::default();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        for n in 0..20 {
            assert!(!contests.goes_on(at(0), vip(n), mac));
        }
        assert!((0..20).all(|n| !contests.goes_on(at(2_000), vip(n), mac)));
    }
}
