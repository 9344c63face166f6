//! Taking VIPs off their interfaces, many at once.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;

use super::address::Vip;
use super::error::Error;
use super::put::{Placed, copy, doing, refused};
use super::{Datapath, Kind};

/// The result of a removal.
#[derive(Debug, Default)]
pub struct RemoveAll {
    /// They were there, and are not any more.
    pub removed: Vec<IpAddr>,
    /// They could not be removed.
    pub failed: Vec<(IpAddr, Error)>,
}

/// The result of a removal from single interfaces.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    /// Nothing is there (any more).
    pub(super) gone: Vec<Placed>,
    /// Of those: what was there.
    pub(super) removed: Vec<IpAddr>,
    pub(super) failed: Vec<(IpAddr, Error)>,
}

impl Datapath {
    /// Removes VIPs that are ours, wherever they stand.
    pub async fn remove_many(&mut self, addresses: &[IpAddr]) -> RemoveAll {
        let mut failed = Vec::new();
        let mut places: Vec<Placed> = Vec::new();
        let mut unknown = BTreeSet::new();
        {
            let known = self.known.lock();
            for address in addresses {
                let known = known.places(*address);
                if known.is_empty() {
                    unknown.insert(*address);
                }
                places.extend(known);
            }
        }
        match self.families_of(unknown.iter().copied()).await {
            Ok(seen) => {
                let known = self.known.lock();
                let ours = seen.iter().filter(|seen| unknown.contains(&seen.vip.address) && known.is_ours(seen));
                places.extend(ours.map(|seen| (seen.vip, seen.index)));
            }
            Err(error) => failed.extend(unknown.into_iter().map(|address| (address, copy(&error)))),
        }
        let mut outcome = self.remove_at(&places).await;
        outcome.failed.extend(failed);
        outcome
    }

    /// Removes VIPs that were seen as ours, each from this interface only.
    pub async fn remove_at(&mut self, places: &[Placed]) -> RemoveAll {
        let deleted = self.delete_all(places).await;
        if let Err(error) = self.known.lock().all_removed(deleted.gone) {
            tracing::warn!(%error, "file of own addresses could not be written: after a restart the agent may not recognise them");
        }
        RemoveAll { removed: deleted.removed, failed: deleted.failed }
    }

    /// Removes an address that kube-vip left behind, wherever it stands. `Ok(false)`: there is none.
    pub async fn remove_kube_vip(&mut self, address: IpAddr) -> Result<bool, Error> {
        let mut removed = false;
        let nowhere = self.leading_nowhere().await?;
        for seen in self.look(address).await? {
            if self.found(&seen, &nowhere).kind == Kind::KubeVip {
                removed |= self.delete_one((seen.vip, seen.index)).await?;
            }
        }
        Ok(removed)
    }

    /// Removes exactly this address; the caller has checked its owner. `Ok(false)`: the address was absent.
    pub(super) async fn delete_one(&self, place: Placed) -> Result<bool, Error> {
        let deleted = self.delete_all(&[place]).await;
        match deleted.failed.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(!deleted.removed.is_empty()),
        }
    }

    /// Removes exactly these addresses; the caller has checked their owners.
    pub(super) async fn delete_all(&self, places: &[Placed]) -> Deleted {
        let mut out = Deleted::default();
        if places.is_empty() {
            return out;
        }
        let messages = places.iter().map(|(vip, index)| (RouteNetlinkMessage::DelAddress(vip.message(*index)), 0));
        let outcomes = match self.requests.batch(messages.collect()).await {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                let error = match places {
                    [(vip, index)] => failure.about(doing("remove", *vip, *index), vip.address.is_ipv6()),
                    many => failure.about(format!("remove {} addresses", many.len()), false),
                };
                out.failed.extend(places.iter().map(|(vip, _)| (vip.address, copy(&error))));
                return out;
            }
        };
        for (place, outcome) in places.iter().zip(outcomes) {
            let (vip, index): (Vip, u32) = *place;
            match outcome {
                Ok(()) => {
                    out.gone.push(*place);
                    out.removed.push(vip.address);
                }
                // The address is not there, or the whole interface is gone.
                Err(Errno::EADDRNOTAVAIL | Errno::ENODEV | Errno::ENXIO) => out.gone.push(*place),
                Err(errno) => {
                    out.failed.push((vip.address, refused("remove", vip, index, errno)));
                }
            }
        }
        out
    }
}
