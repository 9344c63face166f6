//! Whether a Service may share a claim with the Services that have it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::objects::Service;
use crate::ports::{Clash, clash};
use crate::reason::Reason;
use crate::request::shows;

use super::Machine;
use super::slots::Topic;

/// Why a Service cannot have what it wants, and which changes may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) until: Vec<Topic>,
}

impl Trouble {
    pub(super) fn new(reason: Reason, message: impl Into<String>, until: impl IntoIterator<Item = Topic>) -> Self {
        Self { reason, message: message.into(), until: until.into_iter().collect() }
    }
}

impl Machine {
    /// Whether a Service may share a claim with the Services that have it.
    pub(super) fn may_join(&self, service: &Service, claim: &Key) -> Result<(), Trouble> {
        let until = [Topic::Claim(claim.clone())];
        let ip = self.address_of(claim).and_then(|address| address.address);
        let what = ip.map_or_else(|| "the address".to_owned(), |ip| ip.to_string());
        let namespace = &service.key.namespace;
        if let Some(whom) = self.of_whom(claim, namespace) {
            let claim = claim.told_in(namespace, "claim");
            let message = format!("{whom} has {what}, with {claim}: ask for another address");
            return Err(Trouble::new(Reason::AddressTaken, message, until));
        }
        let mut nodes = self.nodes_of(service).cloned();
        for other in self.others(service, claim) {
            let whose = other.key.told_in(namespace, "Service");
            if !self.agree(service, other, ip) {
                let share = self.how_to_share(service, other);
                let message = format!("{whose} has {what}: ask for another address, or {share}");
                return Err(Trouble::new(Reason::AddressTaken, message, until));
            }
            match clash(&service.ports, &other.ports) {
                None => {}
                Some(Clash::Port(port)) => {
                    let message = format!("{whose} has port {port} of {what}: change the port, or do not share");
                    return Err(Trouble::new(Reason::PortConflict, message, until));
                }
                Some(Clash::Whole) => {
                    let message = format!("it cannot share {what} with {whose}: one of them has no ports");
                    return Err(Trouble::new(Reason::PortConflict, message, until));
                }
            }
            if service.local && other.local && self.seen.endpoints.wanted && !self.seen.endpoints.listed {
                let message = "it waits until the endpoints of all Services are known";
                return Err(Trouble::new(Reason::Allocating, message, [Topic::Endpoints]));
            }
            // The nodes common to all other Services, if known, must include a node for this Service.
            let theirs = self.nodes_of(other);
            if let (Some(mine), Some(theirs)) = (&mut nodes, theirs) {
                mine.retain(|node| theirs.contains(node));
                if mine.is_empty() {
                    let message = format!(
                        "it cannot share {what} with {whose}: both have externalTrafficPolicy Local, and no node has ready endpoints \
                         of both; run them on the same nodes, or set Cluster on one"
                    );
                    return Err(Trouble::new(Reason::NoCommonNode, message, until));
                }
            }
        }
        Ok(())
    }

    /// The other Services that have a claim.
    pub(super) fn others<'a>(&'a self, service: &'a Service, claim: &Key) -> impl Iterator<Item = &'a Service> {
        let members = self.claims.get(claim).into_iter().flat_map(|slot| slot.members.keys());
        let others = members.filter(|key| **key != service.key).filter_map(|key| self.services.get(key));
        others.map(|slot| &*slot.service)
    }

    /// The nodes on which the address of a Service must be; None: any, or not known yet.
    fn nodes_of(&self, service: &Service) -> Option<&BTreeSet<Arc<str>>> {
        self.seen.endpoints.nodes.get(&service.key).filter(|_| service.local)
    }

    /// Whether two Services may share at all. They may if they have the same key. They also may if neither has a key
    /// and both had the address before Mooring came: kube-vip lets Services share without any key, and Mooring leaves
    /// alone what works.
    pub(super) fn agree(&self, one: &Service, other: &Service, ip: Option<IpAddr>) -> bool {
        match (self.sharing_key(one), self.sharing_key(other)) {
            (Some(one), Some(other)) => one.text == other.text,
            (None, None) => {
                one.key.namespace == other.key.namespace && ip.is_some_and(|ip| shows(one, ip) && shows(other, ip))
            }
            _ => false,
        }
    }

    /// The claims of the Services with this sharing key, lowest address first.
    pub(super) fn group<'a>(&'a self, text: &Arc<str>, family: Family) -> impl Iterator<Item = &'a Key> {
        let claims = self.claims.by_group.get(&(text.clone(), family)).into_iter().flatten().map(|(_, key)| key);
        claims.filter(|key| self.claims.get(key).is_some_and(|slot| !slot.going()))
    }

    /// Whether all claims of a group already have one of the Service's ports: then no claim of the group needs
    /// checking.
    pub(super) fn full(&self, service: &Service, text: &Arc<str>, family: Family) -> bool {
        let all = self.claims.by_group.get(&(text.clone(), family)).map_or(0, BTreeSet::len);
        service.ports.iter().any(|port| self.claims.by_port.get(&(text.clone(), family, *port)) == Some(&all))
    }
}
