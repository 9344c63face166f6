//! Putting a VIP on an interface, keeping it there, and taking it away.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;

use super::address::Vip;
use super::error::{Error, ErrorList};
use super::link::name_of;
use super::request::Failure;
use super::{Datapath, clock, prefix, service};
use crate::core::fence;
use crate::core::time::Time;

/// What [`Datapath::put`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The address was not there and is now.
    Added,
    /// It was there, and is ours from before (a restart): it goes on without a gap.
    Adopted,
    /// It was put there before; its lifetime is new.
    Refreshed,
}

impl Datapath {
    /// Puts `vip` on the interface `index` so that the kernel itself drops it before `lease_end`, or gives it a new
    /// lifetime.
    ///
    /// With [`Error::Late`] the address is not there (any more). With another error it may be there, at most for the
    /// lifetime it was given before.
    ///
    /// There is no "refresh if it is there" in netlink: `REPLACE` creates an address that is absent. So the clock is
    /// read after the kernel's answer as well, and an address whose lifetime may then outlast the Lease is put again,
    /// and if that was slow too, removed.
    pub async fn put(&mut self, vip: Vip, index: u32, lease_end: Time) -> Result<Put, Error> {
        let vip = vip.check()?;
        let mut done = None;
        for _ in 0..2 {
            let Some(lifetime) = fence::lifetime(clock::boottime(), lease_end) else {
                break;
            };
            let put = if self.known.lock().holds(vip, index) {
                self.write(vip, index, lifetime, NLM_F_REPLACE).await?;
                Put::Refreshed
            } else {
                self.first(vip, index, lifetime).await?
            };
            let put = *done.get_or_insert(put);
            if fence::covers(clock::boottime(), lifetime, lease_end) {
                return Ok(put);
            }
        }
        let (address, interface) = (vip.address, name_of(index));
        match self.remove(address).await {
            Ok(_) => Err(Error::Late { address, interface }),
            Err(source) => Err(Error::LateAndLeft { address, interface, source: Box::new(source) }),
        }
    }

    /// Removes an address that is ours, wherever it stands. `Ok(false)`: it was not there.
    pub async fn remove(&mut self, address: IpAddr) -> Result<bool, Error> {
        let mut places = self.known.lock().places(address);
        if places.is_empty() {
            let seen = self.look(address).await?;
            let known = self.known.lock();
            places = seen.iter().filter(|seen| known.is_ours(seen)).map(|seen| (seen.vip, seen.index)).collect();
        }
        let mut removed = false;
        for (vip, index) in places {
            removed |= self.delete(vip, index).await?;
            self.known.lock().removed(vip, index)?;
        }
        Ok(removed)
    }

    /// Removes all addresses that are ours; goes on past failures and returns all of them.
    pub async fn remove_all(&mut self) -> Result<(), ErrorList> {
        let mut errors = Vec::new();
        let mut addresses = self.known.lock().all();
        match self.ours().await {
            Ok(ours) => addresses.extend(ours.iter().map(|(vip, ..)| vip.address)),
            Err(error) => errors.push(error),
        }
        for address in addresses {
            if let Err(error) = self.remove(address).await {
                errors.push(error);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ErrorList(errors)) }
    }

    /// The first time: looks whose address it is, if it is there. A second round is for somebody who adds it between
    /// the look and the add.
    async fn first(&mut self, vip: Vip, index: u32, lifetime: u32) -> Result<Put, Error> {
        let failed = |failure: Failure| failure.about(doing("put", vip, index), vip.address.is_ipv6());
        let mut outcome = Failure::Errno(Errno::EEXIST);
        for _ in 0..2 {
            let seen = self.family_of(vip.address).await?;
            for there in seen.iter().filter(|there| there.vip.address == vip.address && there.index == index) {
                if !self.known.lock().is_ours(there) {
                    let (address, interface) = (vip.address, name_of(index));
                    return Err(Error::Stranger { address, interface, look: there.look() });
                }
                if there.vip == vip {
                    self.known.lock().saw(there);
                    self.write(vip, index, lifetime, NLM_F_REPLACE).await?;
                    return Ok(Put::Adopted);
                }
                // Ours, with the prefix length of earlier settings.
                self.delete(there.vip, index).await?;
                self.known.lock().removed(there.vip, index)?;
            }
            prefix::check(vip, index, &seen, &self.known)?;
            self.known.lock().adding([(vip, index)])?;
            match self.request(vip, index, lifetime, NLM_F_CREATE | NLM_F_EXCL).await {
                Ok(()) => {
                    self.known.lock().added(vip, index);
                    self.read_back(vip, index).await?;
                    service::wait(&self.requests, vip.address).await;
                    return Ok(Put::Added);
                }
                Err(failure) => outcome = failure,
            }
            self.known.lock().removed(vip, index)?;
            if !matches!(outcome, Failure::Errno(Errno::EEXIST)) {
                break;
            }
        }
        Err(failed(outcome))
    }

    /// Looks, once, whether the kernel keeps the mark. Where it does not and the record cannot be written either,
    /// the address goes again: it would not be known after a restart.
    pub(super) async fn read_back(&mut self, vip: Vip, index: u32) -> Result<(), Error> {
        if !self.known.lock().must_read_back() {
            return Ok(());
        }
        let seen = self.look(vip.address).await?;
        let Some(there) = seen.iter().find(|there| there.vip == vip && there.index == index) else {
            return Ok(());
        };
        let noted = self.known.lock().read_back(there.proto.is_some());
        if let Err(error) = noted {
            if there.proto.is_some() {
                tracing::warn!(%error, "a record of own addresses that is not needed could not be removed");
                return Ok(());
            }
            self.delete(vip, index).await?;
            self.known.lock().gone(vip, index);
            return Err(error);
        }
        Ok(())
    }

    async fn write(&self, vip: Vip, index: u32, lifetime: u32, flags: u16) -> Result<(), Error> {
        self.request(vip, index, lifetime, flags).await.map_err(|failure| {
            // Whether it is there, and whose it is, is looked up the next time.
            self.known.lock().gone(vip, index);
            failure.about(doing("put", vip, index), vip.address.is_ipv6())
        })
    }

    async fn request(&self, vip: Vip, index: u32, lifetime: u32, flags: u16) -> Result<(), Failure> {
        let message = vip.message_for(index, lifetime, self.known.lock().mark());
        self.requests.ask(RouteNetlinkMessage::NewAddress(message), flags).await.map(drop)
    }

    /// Removes exactly this; whose it is was asked before.
    pub(super) async fn delete(&self, vip: Vip, index: u32) -> Result<bool, Error> {
        match self.requests.ask(RouteNetlinkMessage::DelAddress(vip.message(index)), 0).await {
            Ok(_) => Ok(true),
            // The address is not there, or the whole interface is gone.
            Err(Failure::Errno(Errno::EADDRNOTAVAIL | Errno::ENODEV | Errno::ENXIO)) => Ok(false),
            Err(failure) => Err(failure.about(doing("remove", vip, index), vip.address.is_ipv6())),
        }
    }
}

fn doing(verb: &str, vip: Vip, index: u32) -> String {
    format!("{verb} {}/{} on {}", vip.address, vip.prefix, name_of(index))
}
