//! Many VIPs at once: one look, one datagram of changes, one look at the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;

use super::address::{Seen, Vip, family};
use super::error::Error;
use super::link::name_of;
use super::{Datapath, Kind, clock, service};
use crate::core::fence;
use crate::core::time::Time;

/// A VIP, and the index of the interface it belongs on.
pub type Placed = (IpAddr, u32);

/// What became of each VIP.
#[derive(Debug, Default)]
pub struct PutAll {
    /// It is there, with the lifetime that was asked for.
    pub there: Vec<Placed>,
    /// It could not be put there. It is not there, or for the lifetime that it had before.
    pub failed: Vec<(IpAddr, Error)>,
}

impl Datapath {
    /// As [`Datapath::put`], for many VIPs that are addresses alone (/32, /128). One that kube-vip has left on this node is
    /// replaced.
    pub async fn put_all(&mut self, vips: &[Placed], lease_end: Time) -> PutAll {
        let mut out = PutAll::default();
        let mut left: Vec<Placed> = vips.to_vec();
        for _ in 0..2 {
            let Some(lifetime) = fence::lifetime(clock::boottime(), lease_end) else { break };
            let there = self.round(&left, lifetime, &mut out.failed).await;
            if fence::covers(clock::boottime(), lifetime, lease_end) {
                out.there = there;
                return out;
            }
            left = there;
        }
        let addresses: Vec<IpAddr> = left.iter().map(|(address, _)| *address).collect();
        let mut not_removed: BTreeMap<IpAddr, Error> = self.remove_many(&addresses).await.into_iter().collect();
        out.failed.extend(left.into_iter().map(|(address, index)| {
            let interface = name_of(index);
            let error = match not_removed.remove(&address) {
                None => Error::Late { address, interface },
                Some(source) => Error::LateAndLeft { address, interface, source: Box::new(source) },
            };
            (address, error)
        }));
        out
    }

    /// Removes VIPs that are ours, wherever they stand. Answers with those that could not be.
    pub async fn remove_many(&mut self, addresses: &[IpAddr]) -> Vec<(IpAddr, Error)> {
        let mut failed = Vec::new();
        let mut places: Vec<(Vip, u32)> = Vec::new();
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
        match self.seen(unknown.iter().copied()).await {
            Ok(seen) => {
                let known = self.known.lock();
                places.extend(seen.iter().filter(|seen| known.is_ours(seen)).map(|seen| (seen.vip, seen.index)));
            }
            Err(error) => failed.extend(unknown.into_iter().map(|address| (address, copy(&error)))),
        }
        let gone = self.delete_all(&places, &mut failed).await;
        if let Err(error) = self.known.lock().all_removed(gone) {
            tracing::warn!(%error, "the record of own addresses is not up to date");
        }
        failed
    }

    /// Puts them there or gives them a new lifetime, once. Answers with those that are there.
    async fn round(&mut self, vips: &[Placed], lifetime: u32, failed: &mut Vec<(IpAddr, Error)>) -> Vec<Placed> {
        let is_held = |(address, index): &Placed| self.known.lock().holds(Vip::host(*address), *index);
        let (held, new): (Vec<Placed>, Vec<Placed>) = vips.iter().copied().partition(is_held);
        let mut changes: Vec<(Placed, u16)> = held.into_iter().map(|placed| (placed, NLM_F_REPLACE)).collect();
        let mut added = BTreeSet::new();
        if !new.is_empty() {
            let adopted = self.look_at_new(new, &mut added, failed).await;
            changes.extend(adopted.into_iter().map(|placed| (placed, NLM_F_REPLACE)));
            let these = added.iter().map(|(address, index)| (Vip::host(*address), *index));
            if let Err(error) = self.known.lock().adding(these) {
                failed.extend(added.iter().map(|(address, _)| (*address, copy(&error))));
                added.clear();
            }
            changes.extend(added.iter().map(|placed| (*placed, NLM_F_CREATE | NLM_F_EXCL)));
        }
        let mark = self.known.lock().mark();
        let messages = changes.iter().map(|((address, index), flags)| {
            let message = Vip::host(*address).message_for(*index, lifetime, mark);
            (RouteNetlinkMessage::NewAddress(message), *flags)
        });
        let outcomes = self.requests.batch(messages.collect()).await;
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                // Which of them are there is looked up the next time.
                let error = failure.about(format!("put {} addresses", changes.len()), false);
                let mut known = self.known.lock();
                for ((address, index), _) in changes {
                    known.gone(Vip::host(address), index);
                    failed.push((address, copy(&error)));
                }
                return Vec::new();
            }
        };
        let mut there = Vec::new();
        let mut not_added = Vec::new();
        for ((placed, _), outcome) in changes.into_iter().zip(outcomes) {
            let (address, index) = placed;
            match outcome {
                Ok(()) => {
                    self.known.lock().added(Vip::host(address), index);
                    there.push(placed);
                }
                Err(errno) => {
                    not_added.push((Vip::host(address), index));
                    let what = format!("put {address} on {}", name_of(index));
                    failed.push((address, Error::Kernel { what, errno, v6: address.is_ipv6() }));
                }
            }
        }
        if let Err(error) = self.known.lock().all_removed(not_added) {
            tracing::warn!(%error, "the record of own addresses is not up to date");
        }
        self.settle(&mut there, &added, failed).await;
        there
    }

    /// What stands in the way of new ones: theirs is refused, kube-vip's goes, ours on another interface goes, ours here is
    /// adopted. Answers with those; the others are to be added.
    async fn look_at_new(
        &mut self,
        new: Vec<Placed>,
        added: &mut BTreeSet<Placed>,
        failed: &mut Vec<(IpAddr, Error)>,
    ) -> Vec<Placed> {
        let seen = match self.seen(new.iter().map(|(address, _)| *address)).await {
            Ok(seen) => seen,
            Err(error) => {
                failed.extend(new.into_iter().map(|(address, _)| (address, copy(&error))));
                return Vec::new();
            }
        };
        let (mut adopted, mut in_the_way) = (Vec::new(), Vec::new());
        'each: for (address, index) in new {
            let mut stands = false;
            for there in seen.iter().filter(|there| there.vip.address == address) {
                match self.found(there).kind {
                    Kind::Ours { .. } if there.index == index && there.vip.is_host() => {
                        stands = self.known.lock().saw(there);
                    }
                    Kind::Ours { .. } | Kind::KubeVip => in_the_way.push((there.vip, there.index)),
                    _ if there.index == index => {
                        let interface = name_of(index);
                        failed.push((address, Error::Stranger { address, interface, look: there.look() }));
                        continue 'each;
                    }
                    Kind::KubeProxy | Kind::NodesOwn | Kind::Dynamic => {}
                }
            }
            if stands {
                adopted.push((address, index));
            } else {
                added.insert((address, index));
            }
        }
        if !in_the_way.is_empty() {
            tracing::info!(addresses = ?in_the_way, "removing what was left of VIPs elsewhere");
            let gone = self.delete_all(&in_the_way, failed).await;
            if let Err(error) = self.known.lock().all_removed(gone) {
                tracing::warn!(%error, "the record of own addresses is not up to date");
            }
        }
        adopted
    }

    /// Whether the kernel keeps the mark, once; and IPv6 addresses are waited for until they can be reached.
    async fn settle(&mut self, there: &mut Vec<Placed>, added: &BTreeSet<Placed>, failed: &mut Vec<(IpAddr, Error)>) {
        let first = there.iter().copied().find(|placed| added.contains(placed));
        if let Some((address, index)) = first
            && let Err(error) = self.read_back(Vip::host(address), index).await
        {
            there.retain(|(one, _)| *one != address);
            failed.push((address, error));
        }
        // The kernel's worker takes them in order: when the last one is in service, all are.
        if let Some((address, _)) = there.iter().rev().find(|placed| placed.0.is_ipv6() && added.contains(*placed)) {
            service::wait(&self.requests, *address).await;
        }
    }

    /// Where these stand on this node.
    async fn seen(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Result<Vec<Seen>, Error> {
        let wanted: BTreeSet<IpAddr> = addresses.into_iter().collect();
        let mut all = Vec::new();
        for v4 in [true, false] {
            if let Some(one) = wanted.iter().find(|address| address.is_ipv4() == v4) {
                all.extend(self.dump(family(*one)).await?);
            }
        }
        all.retain(|seen| wanted.contains(&seen.vip.address));
        Ok(all)
    }

    /// Removes exactly these. Answers with those that are gone.
    async fn delete_all(&self, places: &[(Vip, u32)], failed: &mut Vec<(IpAddr, Error)>) -> Vec<(Vip, u32)> {
        if places.is_empty() {
            return Vec::new();
        }
        let messages = places.iter().map(|(vip, index)| (RouteNetlinkMessage::DelAddress(vip.message(*index)), 0));
        let outcomes = match self.requests.batch(messages.collect()).await {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                let error = failure.about(format!("remove {} addresses", places.len()), false);
                failed.extend(places.iter().map(|(vip, _)| (vip.address, copy(&error))));
                return Vec::new();
            }
        };
        let mut gone = Vec::new();
        for (place, outcome) in places.iter().zip(outcomes) {
            match outcome {
                // Not there any more, or the interface is gone.
                Ok(()) | Err(Errno::EADDRNOTAVAIL | Errno::ENODEV | Errno::ENXIO) => gone.push(*place),
                Err(errno) => {
                    let (address, interface) = (place.0.address, name_of(place.1));
                    let what = format!("remove {address} from {interface}");
                    failed.push((address, Error::Kernel { what, errno, v6: address.is_ipv6() }));
                }
            }
        }
        gone
    }
}

/// One failure of many addresses, told of each.
fn copy(error: &Error) -> Error {
    match error {
        Error::Kernel { what, errno, v6 } => Error::Kernel { what: what.clone(), errno: *errno, v6: *v6 },
        Error::Deadline { what, deadline } => Error::Deadline { what: what.clone(), deadline: *deadline },
        other => Error::Netlink { what: "many addresses at once".into(), reason: other.to_string() },
    }
}
