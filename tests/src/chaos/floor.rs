//! How late the kernel itself removes an address whose lifetime ended: measured on every host, beside the agents.
//!
//! The lab adds addresses of its own to `lo`, one a second, each with a short lifetime. Only the kernel removes them. What delays the
//! kernel (a busy machine, a holder of the RTNL lock) delays the end of a VIP in the same way. This applies to a frozen host as well:
//! SIGSTOP stops its processes, not its kernel.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Result;
use mooring_agent::core::time::Time;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;

use crate::observe::addresses::{Addresses, Change, Event};
use crate::observe::netlink::{Netlink, lent_address};
use crate::observe::worker::Worker;
use crate::observe::{inside, now};
use crate::rig::control_plane::ControlPlaneRig;

/// Between two addresses of a host.
pub const EVERY: Duration = Duration::from_secs(1);
/// The lifetime of each, in seconds. A kernel that is busy when one is to be added still has to remove those added before.
const VALID: u32 = 4;
/// So many addresses take turns. Loopback addresses: they disturb nobody, and a power failure in the lab leaves them alone.
const ADDRESSES: u8 = 16;
/// A lapse that ended longer ago than this says nothing about a round.
const PAST: Duration = Duration::from_mins(1);

/// The lifetime of an address of the lab ended, and the kernel removed the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The host.
    pub host: String,
    /// When the lifetime ended.
    pub end: Time,
    /// When the address was removed; `None`: not yet.
    pub gone: Option<Time>,
}

/// The addresses, and the watch over them; ends when dropped.
pub struct Floor {
    _adder: Worker,
    addresses: Addresses,
}

impl Floor {
    /// Starts to add addresses on every control plane.
    ///
    /// # Errors
    /// No netlink socket.
    pub fn start(rig: &ControlPlaneRig) -> Result<Self> {
        let all: Vec<IpAddr> = (1..=ADDRESSES).map(|last| [127, 77, 0, last].into()).collect();
        let mut addresses = Addresses::of(&all);
        let mut hosts = Vec::new();
        for name in rig.lab.control_planes() {
            let netns = rig.lab.netns(&name)?;
            addresses.watch(&name, &netns)?;
            let all = all.clone();
            hosts.push(inside(&netns, move || {
                let messages: Result<Vec<_>, _> = all.iter().map(|ip| lent_address("lo", *ip, VALID)).collect();
                Ok((Netlink::open(0)?, messages?))
            })?);
        }
        let adder = Worker::start("floor", move |until| {
            let mut turn = 0;
            while !until.over() {
                for (netlink, messages) in &mut hosts {
                    add(netlink, &messages[turn % messages.len()]);
                }
                turn += 1;
                std::thread::sleep(EVERY);
            }
            Ok(())
        })?;
        Ok(Self { _adder: adder, addresses })
    }

    /// The lapses that may concern a round that began at `from`.
    #[must_use]
    pub fn lapses(&self, from: Time) -> Vec<Lapse> {
        let mut all = lapses(&self.addresses.events());
        all.retain(|lapse| lapse.end + PAST >= from && lapse.end <= now());
        all
    }
}

/// Adds the address. An address that the kernel has not removed yet keeps its lifetime.
fn add(netlink: &mut Netlink, message: &AddressMessage) {
    let message = RouteNetlinkMessage::NewAddress(message.clone());
    if let Err(error) = netlink.request("add an address with a lifetime", message, NLM_F_CREATE | NLM_F_EXCL) {
        tracing::debug!(%error, "an address was not added");
    }
}

/// What the watch saw, in the order of the ends.
fn lapses(events: &[Event]) -> Vec<Lapse> {
    let mut open: HashMap<(&str, IpAddr), Time> = HashMap::new();
    let mut all = Vec::new();
    for event in events {
        let key = (&*event.host, event.address);
        match event.change {
            Change::Added => _ = open.insert(key, event.at + Duration::from_secs(event.state.valid.into())),
            Change::Refreshed => {}
            Change::Removed => all.extend(open.remove(&key).map(|end| Lapse {
                host: event.host.to_string(),
                end,
                gone: Some(event.at),
            })),
        }
    }
    all.extend(open.into_iter().map(|((host, _), end)| Lapse { host: host.to_owned(), end, gone: None }));
    all.sort_by_key(|lapse| lapse.end);
    all
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::address::AddressFlags;

    use super::*;
    use crate::observe::addresses::State;
    use crate::observe::testing::Space;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn event(ms: u64, host: &str, last: u8, change: Change, valid: u32) -> Event {
        let state = State { prefix: 32, flags: AddressFlags::empty(), valid, preferred: 0, protocol: None };
        Event { at: at(ms), host: host.into(), interface: 1, address: [127, 77, 0, last].into(), change, state }
    }

    #[test]
    fn an_address_that_went_and_one_that_stays() {
        let events = [
            event(0, "a", 1, Change::Added, 4),
            event(1_000, "b", 1, Change::Added, 4),
            event(1_500, "a", 1, Change::Refreshed, 2),
            event(2_000, "a", 2, Change::Added, 4),
            event(4_700, "a", 1, Change::Removed, 4),
            event(5_000, "b", 1, Change::Removed, 4),
        ];
        let lapse = |host: &str, end, gone: Option<u64>| Lapse { host: host.into(), end: at(end), gone: gone.map(at) };
        assert_eq!(
            lapses(&events),
            [lapse("a", 4_000, Some(4_700)), lapse("b", 5_000, Some(5_000)), lapse("a", 6_000, None)]
        );
    }

    #[test]
    fn the_kernel_removes_an_address_that_was_lent() {
        let space = Space::new();
        let ip = IpAddr::from([127, 77, 0, 1]);
        let mut addresses = Addresses::of(&[ip]);
        addresses.watch("a", &space).unwrap();
        let lend = move || {
            let message = lent_address("lo", ip, 1)?;
            add(&mut Netlink::open(0)?, &message);
            // The second one finds the first, and changes nothing.
            add(&mut Netlink::open(0)?, &lent_address("lo", ip, 60)?);
            Ok(())
        };
        inside(&space, lend).unwrap();
        let deadline = now() + Duration::from_secs(20);
        let gone = || lapses(&addresses.events()).first().is_some_and(|lapse| lapse.gone.is_some());
        while !gone() && now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let all = lapses(&addresses.events());
        let [Lapse { end, gone: Some(gone), .. }] = all[..] else { panic!("{all:?}") };
        assert!(gone + Duration::from_millis(500) > end, "{all:?}");
    }
}
