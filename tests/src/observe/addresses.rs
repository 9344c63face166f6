//! When each watched address was added on which host, and when it was removed: from the kernel, by netlink.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mooring_agent::core::time::Time;
use netlink_packet_core::{NLM_F_DUMP, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use nix::errno::Errno;

use super::log::Log;
use super::netlink::Netlink;
use super::timeline::Timeline;
use super::worker::{Until, Worker};
use super::{Error, Place, inside, now};

/// `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR` of `linux/rtnetlink.h`.
const ADDRESS_GROUPS: u32 = 0x10 | 0x100;

/// What happened to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The address was added (or was there when the watch began).
    Added,
    /// The address was written again, or its flags changed.
    Refreshed,
    /// The address was removed.
    Removed,
}

/// The state of an address on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Length of the prefix, bits.
    pub prefix: u8,
    /// `IFA_F_*`.
    pub flags: AddressFlags,
    /// Seconds until the kernel removes it; `u32::MAX` is for ever.
    pub valid: u32,
    /// Seconds until it is deprecated; `u32::MAX` is for ever.
    pub preferred: u32,
    /// `IFA_PROTO`, where one was given (Linux 5.18 and later).
    pub protocol: Option<u8>,
}

impl State {
    /// Whether the kernel answers for the address: not during duplicate address detection, nor after a duplicate was
    /// found.
    #[must_use]
    pub const fn answers(&self) -> bool {
        let optimistic = self.flags.contains(AddressFlags::Optimistic);
        !self.flags.contains(AddressFlags::Dadfailed) && (optimistic || !self.flags.contains(AddressFlags::Tentative))
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was heard.
    pub at: Time,
    /// The host.
    pub host: Arc<str>,
    /// Index of the interface on that host.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// What happened.
    pub change: Change,
    /// The state of the address after the event; for a removal, the last known state.
    pub state: State,
}

/// A watch over the addresses of several hosts; ends when dropped.
#[derive(Debug)]
pub struct Addresses {
    watched: Arc<[IpAddr]>,
    events: Arc<Log<Vec<Event>>>,
    workers: Vec<Worker>,
}

impl Addresses {
    /// A watch for these addresses, with no host yet.
    #[must_use]
    pub fn of(watched: &[IpAddr]) -> Self {
        Self { watched: watched.into(), events: Arc::default(), workers: Vec::new() }
    }

    /// Watches `host` as well. When this returns, the existing addresses are known.
    ///
    /// # Errors
    /// When no netlink socket can be had, or the kernel does not list its addresses.
    pub fn watch(&mut self, host: &str, place: &impl Place) -> Result<(), Error> {
        let mut monitor = self.monitor(host, place)?;
        monitor.complete()?;
        self.workers.push(Worker::start("addresses", move |until| monitor.run(&until))?);
        Ok(())
    }

    fn monitor(&self, host: &str, place: &impl Place) -> Result<Monitor, Error> {
        let netlink = inside(place, || Netlink::open(ADDRESS_GROUPS))?;
        let (watched, events) = (Arc::clone(&self.watched), Arc::clone(&self.events));
        Ok(Monitor { host: host.into(), watched, events, netlink, known: HashMap::new(), dump: None, again: false })
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.read().clone()
    }

    /// Who held `address` when.
    #[must_use]
    pub fn timeline(&self, address: IpAddr) -> Timeline {
        Timeline::new(&self.events.read(), address)
    }

    /// Waits for an event at or after `from` that `wanted` accepts.
    ///
    /// # Errors
    /// [`Error::Waited`].
    pub async fn event(
        &self,
        what: &str,
        from: Time,
        limit: Duration,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Result<Event, Error> {
        self.events.wait(what, limit, |all| all.iter().find(|e| e.at >= from && wanted(e)).cloned()).await
    }

    /// Waits until exactly `host` holds `address`.
    ///
    /// # Errors
    /// [`Error::Waited`].
    pub async fn held_by(&self, address: IpAddr, host: &str, limit: Duration) -> Result<(), Error> {
        let what = format!("{host} alone to hold {address}");
        self.events
            .wait(&what, limit, |all| {
                let line = Timeline::new(all, address);
                let holders = line.holders_at(now());
                (holders.len() == 1 && holders.contains(host)).then_some(())
            })
            .await
    }
}

/// Interface and address; an interface may carry the address with several prefix lengths.
type Key = (u32, IpAddr, u8);

/// A list of addresses on its way.
struct Dump {
    sequence: u32,
    seen: Vec<Key>,
}

struct Monitor {
    host: Arc<str>,
    watched: Arc<[IpAddr]>,
    events: Arc<Log<Vec<Event>>>,
    netlink: Netlink,
    known: HashMap<Key, State>,
    dump: Option<Dump>,
    /// Events were lost while a list was under way: another list must follow (the kernel gives one at a time).
    again: bool,
}

impl Monitor {
    fn run(mut self, until: &Until) -> Result<(), Error> {
        while until.readable(self.netlink.as_fd())? {
            self.step()?;
        }
        Ok(())
    }

    /// Requests all addresses on the socket that receives the events: so the list and the events arrive in order.
    fn ask(&mut self) -> Result<(), Error> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let sequence = self.netlink.send(question, NLM_F_DUMP)?;
        self.dump = Some(Dump { sequence, seen: Vec::new() });
        Ok(())
    }

    /// Asks, and waits for the whole list.
    fn complete(&mut self) -> Result<(), Error> {
        self.ask()?;
        while self.dump.is_some() {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        let messages = match self.netlink.receive() {
            // Events were lost: request everything again.
            Err(Error::System { errno: Errno::ENOBUFS, .. }) if self.dump.is_some() => {
                self.again = true;
                return Ok(());
            }
            Err(Error::System { errno: Errno::ENOBUFS, .. }) => return self.ask(),
            other => other?,
        };
        let at = now();
        for message in messages {
            let listed = self.dump.as_ref().is_some_and(|d| d.sequence == message.header.sequence_number);
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(m)) => self.came(at, &m, listed),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelAddress(m)) => self.went(at, &m),
                NetlinkPayload::Done(_) if listed => {
                    self.listed(at);
                    if std::mem::take(&mut self.again) {
                        self.ask()?;
                    }
                }
                NetlinkPayload::Error(error) if listed && error.code.is_some() => {
                    let errno = Errno::from_raw(error.raw_code().abs());
                    return Err(Error::System { what: format!("list the addresses of {}", self.host), errno });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn came(&mut self, at: Time, message: &AddressMessage, listed: bool) {
        let Some((key, state)) = self.parse(message) else {
            return;
        };
        if let Some(dump) = &mut self.dump {
            dump.seen.push(key);
        }
        let before = self.known.insert(key, state);
        // A list repeats known addresses; only a change is an event.
        if listed && before.is_some_and(|b| b.flags == state.flags) {
            return;
        }
        self.note(at, key, if before.is_some() { Change::Refreshed } else { Change::Added }, state);
    }

    fn went(&mut self, at: Time, message: &AddressMessage) {
        let Some((key, _)) = self.parse(message) else { return };
        if let Some(dump) = &mut self.dump {
            dump.seen.retain(|seen| *seen != key);
        }
        if let Some(state) = self.known.remove(&key) {
            self.note(at, key, Change::Removed, state);
        }
    }

    /// The list is complete: an address that is not in the list is gone.
    fn listed(&mut self, at: Time) {
        let Some(dump) = self.dump.take() else { return };
        let gone: Vec<Key> = self.known.keys().filter(|key| !dump.seen.contains(key)).copied().collect();
        for key in gone {
            if let Some(state) = self.known.remove(&key) {
                self.note(at, key, Change::Removed, state);
            }
        }
    }

    fn note(&self, at: Time, (interface, address, _): Key, change: Change, state: State) {
        let host = Arc::clone(&self.host);
        let event = Event { at, host, interface, address, change, state };
        self.events.change(|all| all.push(event));
    }

    /// Key and state of a message about a watched address.
    fn parse(&self, message: &AddressMessage) -> Option<(Key, State)> {
        let mut state = State {
            prefix: message.header.prefix_len,
            flags: AddressFlags::from_bits_retain(u32::from(message.header.flags.bits())),
            valid: u32::MAX,
            preferred: u32::MAX,
            protocol: None,
        };
        let (mut local, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                AddressAttribute::Flags(flags) => state.flags = *flags,
                AddressAttribute::CacheInfo(info) => {
                    (state.valid, state.preferred) = (info.ifa_valid, info.ifa_preferred);
                }
                AddressAttribute::Protocol(protocol) => state.protocol = Some(u8::from(*protocol)),
                _ => {}
            }
        }
        // IFA_ADDRESS is the peer on point-to-point links, the address itself elsewhere and for IPv6.
        let ip = local.or(address).filter(|ip| self.watched.contains(ip))?;
        Some(((message.header.index, ip, state.prefix), state))
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{setsockopt, sockopt};

    use super::super::netlink::{add_address, remove_address};
    use super::super::testing::Space;
    use super::*;

    #[test]
    fn what_was_missed_in_a_flood_is_asked_for_again() {
        let space = Space::new();
        let vip = IpAddr::from([192, 0, 2, 100]);
        let addresses = Addresses::of(&[vip]);
        inside(&space, move || add_address("lo", vip)).unwrap();
        let mut monitor = addresses.monitor("a", &space).unwrap();
        monitor.complete().unwrap();
        assert_eq!(addresses.timeline(vip).holders_at(now()), ["a"].into());

        setsockopt(&monitor.netlink, sockopt::RcvBuf, &4_096).unwrap();
        let flood = |space: &Space, on: bool| {
            inside(space, move || {
                for last in 1..=250 {
                    let ip = IpAddr::from([198, 51, 100, last]);
                    if on { add_address("lo", ip) } else { remove_address("lo", ip) }?;
                }
                if on { remove_address("lo", vip) } else { add_address("lo", vip) }
            })
            .unwrap();
        };
        flood(&space, true);
        // The removal itself did not fit into the socket: only the list can show it.
        let mut asked = false;
        while !(asked && monitor.dump.is_none()) {
            monitor.step().unwrap();
            asked |= monitor.dump.is_some();
        }
        assert_eq!(addresses.timeline(vip).holders_at(now()), [].into());
        flood(&space, false);
        asked = false;
        while !(asked && monitor.dump.is_none()) {
            monitor.step().unwrap();
            asked |= monitor.dump.is_some();
        }
        assert_eq!(addresses.timeline(vip).holders_at(now()), ["a"].into());
        let changes: Vec<Change> = addresses.events().iter().map(|e| e.change).collect();
        assert_eq!(changes, [Change::Added, Change::Removed, Change::Added]);
    }
}
