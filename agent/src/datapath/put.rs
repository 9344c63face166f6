//! Puts VIPs on interfaces and keeps them there, many at once: one look, one datagram of changes, one look at the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;

use super::address::{Seen, Vip, family};
use super::error::Error;
use super::link::name_of;
use super::unanswered::each;
use super::{Datapath, Kind, Whose, clock, prefix, service};
use crate::core::fence;
use crate::core::time::Time;

/// How often VIPs are put at most when the kernel takes so long that their lifetime may outlast the Lease. A kernel whose networking lock
/// is held for some seconds leaves several rounds of a second each unanswered, and the VIPs stand all that time. So rounds end with the
/// Lease rather than here; this bounds the rounds of a kernel that refuses at once.
const ROUNDS: usize = 10;

/// A VIP, and the index of the interface it belongs on.
pub type Placed = (Vip, u32);

/// How the VIP came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The address was absent and has been added.
    Added,
    /// The address was there and is ours from before a restart: it goes on without a gap.
    Adopted,
    /// The agent put it there earlier; its lifetime is new.
    Refreshed,
}

/// The result for each VIP.
#[derive(Debug, Default)]
pub struct PutAll {
    /// The address is there, with the requested lifetime.
    pub there: Vec<(Placed, Put)>,
    /// The kernel has refused the change or not answered. An address that was there before still is, for the lifetime it had
    /// before, as far as is known.
    pub unchanged: Vec<(IpAddr, Error)>,
    /// The agent could not put the address there. It is absent, or another program's.
    pub failed: Vec<(IpAddr, Error)>,
}

impl Datapath {
    /// Puts VIPs on interfaces so that the kernel itself drops them before `deadline`, or gives them a new lifetime.
    ///
    /// With [`Error::Late`] the address is not there (any more).
    ///
    /// Netlink has no "refresh if it is there": `REPLACE` creates an address that is absent. So the agent reads the
    /// clock after the kernel's answer as well. Addresses whose lifetime may then outlast the Lease are put again, with a
    /// lifetime that allows the kernel to take as long as before. If every try was too slow, they are removed.
    pub async fn put_all(&mut self, vips: &[Placed], deadline: Time) -> PutAll {
        let mut out = PutAll::default();
        let mut left: Vec<Placed> = Vec::new();
        for (vip, index) in vips {
            match vip.check() {
                Ok(vip) => left.push((vip, *index)),
                Err(error) => out.failed.push((vip.address, error)),
            }
        }
        // The results of the first round.
        let mut first = BTreeMap::new();
        let mut took = Duration::ZERO;
        for _ in 0..ROUNDS {
            let began = clock::boottime();
            let Some(lifetime) = fence::lifetime(began + took, deadline).filter(|_| !left.is_empty()) else { break };
            let there = self.round(&left, lifetime, &mut out).await;
            took = clock::boottime().since(began);
            // An earlier round gave these a lifetime that may be too long.
            let unchanged = |(vip, _): &&Placed| out.unchanged.iter().any(|(address, _)| *address == vip.address);
            let too_long: Vec<Placed> = first.keys().filter(unchanged).copied().collect();
            out.unchanged.retain(|(address, _)| !too_long.iter().any(|(vip, _)| vip.address == *address));
            for (placed, put) in &there {
                first.entry(*placed).or_insert(*put);
            }
            left = there.into_iter().map(|(placed, _)| placed).collect();
            if fence::covers(clock::boottime(), lifetime, deadline) {
                out.there.extend(left.drain(..).filter_map(|placed| Some((placed, *first.get(&placed)?))));
                first.retain(|placed, _| too_long.contains(placed));
            }
            left.extend(too_long);
        }
        if left.is_empty() {
            return out;
        }
        let addresses: Vec<IpAddr> = left.iter().map(|(vip, _)| vip.address).collect();
        let removed = self.remove_many(&addresses).await;
        let mut not_removed: BTreeMap<IpAddr, Error> = removed.failed.into_iter().collect();
        out.failed.extend(left.into_iter().map(|(Vip { address, .. }, index)| {
            let interface = name_of(index);
            let error = match not_removed.remove(&address) {
                None => Error::Late { address, interface },
                Some(source) => Error::LateAndLeft { address, interface, source: Box::new(source) },
            };
            (address, error)
        }));
        out
    }

    /// Puts the VIPs there or gives them a new lifetime, once. The control plane's VIPs are looked up a second time
    /// when another program has added them between the lookup and the add.
    async fn round(&mut self, vips: &[Placed], lifetime: u32, out: &mut PutAll) -> Vec<(Placed, Put)> {
        let mut existing = Vec::new();
        let mut there = self.attempt(vips, lifetime, out, &mut existing).await;
        if self.whose == Whose::ControlPlane && !existing.is_empty() {
            let again: Vec<Placed> = std::mem::take(&mut existing);
            there.extend(self.attempt(&again, lifetime, out, &mut existing).await);
        }
        out.failed
            .extend(existing.into_iter().map(|(vip, index)| (vip.address, refused("put", vip, index, Errno::EEXIST))));
        there
    }

    /// `existing`: the addresses that another program has added meanwhile.
    async fn attempt(
        &mut self,
        vips: &[Placed],
        lifetime: u32,
        out: &mut PutAll,
        existing: &mut Vec<Placed>,
    ) -> Vec<(Placed, Put)> {
        let began = clock::boottime();
        let ago = || clock::boottime().since(began);
        let is_held = |(vip, index): &Placed| self.known.lock().holds(*vip, *index);
        let (held, new): (Vec<Placed>, Vec<Placed>) = vips.iter().copied().partition(is_held);
        let mut changes: Vec<(Placed, Put)> = held.into_iter().map(|placed| (placed, Put::Refreshed)).collect();
        if !new.is_empty() {
            let (adopted, mut added) = self.look_at_new(new, out).await;
            changes.extend(adopted.into_iter().map(|placed| (placed, Put::Adopted)));
            if let Err(error) = self.known.lock().adding(added.iter().copied()) {
                out.failed.extend(added.iter().map(|(vip, _)| (vip.address, copy(&error))));
                added.clear();
            }
            changes.extend(added.into_iter().map(|placed| (placed, Put::Added)));
        }
        let mark = self.known.lock().mark();
        let messages = changes.iter().map(|((vip, index), put)| {
            let flags = if *put == Put::Added { NLM_F_CREATE | NLM_F_EXCL } else { NLM_F_REPLACE };
            (RouteNetlinkMessage::NewAddress(vip.message_for(*index, lifetime, mark)), flags)
        });
        let outcomes = match self.requests.batch(messages.collect()).await {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                let error = match changes.as_slice() {
                    [((vip, index), _)] => failure.about(doing("put", *vip, *index), vip.address.is_ipv6()),
                    many => failure.about(format!("put {} addresses", many.len()), false),
                };
                return self.look_after(each(changes, &error), lifetime, ago, out).await;
            }
        };
        let mut there = Vec::new();
        let mut not_added = Vec::new();
        let mut not_refreshed = Vec::new();
        for ((placed, put), outcome) in changes.into_iter().zip(outcomes) {
            let (vip, index) = placed;
            match outcome {
                Ok(()) => {
                    self.known.lock().added(vip, index);
                    there.push((placed, put));
                }
                Err(Errno::EEXIST) if put == Put::Added => {
                    not_added.push(placed);
                    existing.push(placed);
                }
                Err(errno) if put == Put::Added => {
                    not_added.push(placed);
                    out.failed.push((vip.address, refused("put", vip, index, errno)));
                }
                Err(errno) => not_refreshed.push(((placed, put), refused("put", vip, index, errno))),
            }
        }
        if let Err(error) = self.known.lock().all_removed(not_added) {
            tracing::warn!(%error, "file of own addresses could not be written: after a restart the agent may not recognise them");
        }
        if !not_refreshed.is_empty() {
            there.extend(self.look_after(not_refreshed, lifetime, ago, out).await);
        }
        self.settle(&mut there, &mut out.failed).await;
        there
    }

    /// The addresses of the families of these VIPs; and the interfaces that lead nowhere, if one of the VIPs stands somewhere.
    async fn what_stands(&self, new: &[Placed]) -> Result<(Vec<Seen>, BTreeSet<u32>), Error> {
        let wanted = addresses(new);
        let all = self.families_of(wanted.iter().copied()).await?;
        let stands = all.iter().any(|seen| wanted.contains(&seen.vip.address));
        let nowhere = if stands { self.leading_nowhere().await? } else { BTreeSet::new() };
        Ok((all, nowhere))
    }

    /// Handles existing addresses in the way of new VIPs. Our address here is adopted; our address here with another
    /// prefix length is removed; a foreign address here is refused. For Services, our address on another interface is
    /// removed, and kube-vip's left-overs on any interface. A permanent address of the node is refused on any interface: the
    /// node's kernel answers for it whether the VIP is carried here or not. Returns the adopted VIPs and the VIPs to add.
    async fn look_at_new(&mut self, new: Vec<Placed>, out: &mut PutAll) -> (Vec<Placed>, BTreeSet<Placed>) {
        let (all, nowhere) = match self.what_stands(&new).await {
            Ok(stands) => stands,
            Err(error) => {
                out.unchanged.extend(new.into_iter().map(|(vip, _)| (vip.address, copy(&error))));
                return (Vec::new(), BTreeSet::new());
            }
        };
        let wanted = addresses(&new);
        let seen: Vec<&Seen> = all.iter().filter(|seen| wanted.contains(&seen.vip.address)).collect();
        let failed = &mut out.failed;
        let of_services = self.whose == Whose::Services;
        let (mut adopted, mut added, mut in_the_way) = (Vec::new(), BTreeSet::new(), Vec::new());
        'each: for (vip, index) in new {
            let mut stands = false;
            for there in seen.iter().filter(|there| there.vip.address == vip.address) {
                let here = there.index == index;
                match self.found(there, &nowhere).kind {
                    Kind::Ours { .. } if here && there.vip == vip => stands = self.known.lock().saw(there),
                    Kind::Ours { .. } if here || of_services => in_the_way.push((there.vip, there.index)),
                    Kind::KubeVip if of_services => in_the_way.push((there.vip, there.index)),
                    kind if here || kind == Kind::NodesOwn => {
                        let interface = name_of(there.index);
                        let stranger = Error::Stranger { address: vip.address, interface, look: there.look() };
                        failed.push((vip.address, stranger));
                        continue 'each;
                    }
                    _ => {}
                }
            }
            if stands {
                adopted.push((vip, index));
            } else if let Err(error) = prefix::check(vip, index, &all, &self.known) {
                failed.push((vip.address, error));
            } else {
                added.insert((vip, index));
            }
        }
        if !in_the_way.is_empty() {
            tracing::info!(addresses = ?in_the_way, "removing VIPs that were left on other interfaces");
            let removed = self.delete_all(&in_the_way).await;
            if !of_services {
                added.retain(|(vip, _)| !removed.failed.iter().any(|(address, _)| *address == vip.address));
            }
            failed.extend(removed.failed);
            if let Err(error) = self.known.lock().all_removed(removed.gone) {
                tracing::warn!(%error, "file of own addresses could not be written: after a restart the agent may not recognise them");
            }
        }
        (adopted, added)
    }

    /// Whether the kernel keeps the mark, once; and IPv6 addresses are waited for until they can be reached.
    async fn settle(&mut self, there: &mut Vec<(Placed, Put)>, failed: &mut Vec<(IpAddr, Error)>) {
        let first = there.iter().find(|(_, put)| *put == Put::Added).map(|(placed, _)| *placed);
        if let Some(first) = first
            && let Err(error) = self.read_back(first).await
        {
            there.retain(|(placed, _)| *placed != first);
            failed.push((first.0.address, error));
        }
        // The kernel's worker takes them in order: when the last one is in service, all are.
        let last = there.iter().rev().find(|((vip, _), put)| vip.address.is_ipv6() && *put == Put::Added);
        if let Some(((vip, _), _)) = last {
            service::wait(&self.requests, vip.address).await;
        }
    }

    /// Looks, once, whether the kernel keeps the mark. Where it does not and the record cannot be written either,
    /// the address goes again: it would not be known after a restart.
    async fn read_back(&mut self, (vip, index): Placed) -> Result<(), Error> {
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
                tracing::warn!(%error, "file of own addresses is not needed and could not be removed");
                return Ok(());
            }
            self.delete_one((vip, index)).await?;
            self.known.lock().gone(vip, index);
            return Err(error);
        }
        Ok(())
    }

    /// All addresses of the families of these.
    pub(super) async fn families_of(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Result<Vec<Seen>, Error> {
        let wanted: Vec<IpAddr> = addresses.into_iter().collect();
        let mut all = Vec::new();
        for v4 in [true, false] {
            if let Some(one) = wanted.iter().find(|address| address.is_ipv4() == v4) {
                all.extend(self.dump(family(*one)).await?);
            }
        }
        Ok(all)
    }
}

fn addresses(vips: &[Placed]) -> BTreeSet<IpAddr> {
    vips.iter().map(|(vip, _)| vip.address).collect()
}

/// The kernel's refusal of a change.
pub(super) fn refused(verb: &str, vip: Vip, index: u32, errno: Errno) -> Error {
    Error::Kernel { what: doing(verb, vip, index), errno, v6: vip.address.is_ipv6() }
}

pub(super) fn doing(verb: &str, vip: Vip, index: u32) -> String {
    format!("{verb} {}/{} on {}", vip.address, vip.prefix, name_of(index))
}

/// Copies one failure of a batch to each address.
pub(super) fn copy(error: &Error) -> Error {
    match error {
        Error::Kernel { what, errno, v6 } => Error::Kernel { what: what.clone(), errno: *errno, v6: *v6 },
        Error::Deadline { what, deadline } => Error::Deadline { what: what.clone(), deadline: *deadline },
        Error::File { path, source } => {
            Error::File { path: path.clone(), source: std::io::Error::new(source.kind(), source.to_string()) }
        }
        other => Error::Netlink { what: "many addresses at once".into(), reason: other.to_string() },
    }
}
