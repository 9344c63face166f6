//! Hosts that answers to broadcasts name as owners of VIPs that this node carries.
//!
//! ARP suppression (EVPN, NSX, OVN) answers a broadcast for a host that is gone, too. So a host that such an answer names is asked alone,
//! and counts as an owner only if it answers that. [`crate::witness`] does the same for a holder that it watches.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::mac::Mac;
use super::time::Time;

/// Between two questions.
const APART: Duration = Duration::from_millis(40);
/// So many questions: a frame may get lost. The next broadcast brings more.
const TRIES: u8 = 2;

/// The hosts that are asked, by interface and VIP.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedHosts(BTreeMap<(u32, IpAddr), Asking>);

/// A host that is asked.
#[derive(Clone, Copy, Debug)]
struct Asking {
    mac: Mac,
    next: Time,
    left: u8,
}

/// A question to one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) interface: u32,
    pub(crate) address: IpAddr,
    pub(crate) to: Mac,
}

impl NamedHosts {
    /// An answer to a broadcast named a host. While another one is asked for that VIP, the next broadcast has to name it again.
    pub(crate) fn name(&mut self, now: Time, interface: u32, address: IpAddr, mac: Mac) {
        self.0.entry((interface, address)).or_insert(Asking { mac, next: now, left: TRIES });
    }

    /// The questions that leave now.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Question> {
        let mut questions = vec![];
        self.0.retain(|(interface, address), asking| {
            if asking.next <= now {
                questions.push(Question { interface: *interface, address: *address, to: asking.mac });
                asking.next = now + APART;
                asking.left -= 1;
            }
            asking.left > 0
        });
        questions
    }

    /// When [`NamedHosts::due`] has something to do.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.values().map(|asking| asking.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100));
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_host_is_asked_twice_until_it_is_named_again() {
        let mut named = NamedHosts::default();
        named.name(at(0), 2, VIP, MAC);
        named.name(at(1), 2, VIP, Mac([2; 6]));
        let mut asked = vec![];
        for ms in 0..200 {
            asked.extend(named.due(at(ms)).into_iter().map(|question| (ms, question)));
        }
        let question = Question { interface: 2, address: VIP, to: MAC };
        assert_eq!(asked, [(0, question), (40, question)]);
        assert_eq!(named.next(), None);
        named.name(at(500), 2, VIP, Mac([2; 6]));
        assert_eq!(named.next(), Some(at(500)));
    }
}
