//! Which node a VIP belongs to: rendezvous hashing over the live sessions that may have it.
//!
//! Hard conditions exclude a node; everything else only ranks. Each node computes its own place among the candidates in one
//! pass over the sessions. The nodes need not agree, because the record on the `IPAddress` decides.

mod hash;
mod selector;

pub use hash::{mix, seed};
pub use selector::{Labels, Selector};

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::session::{Link, Standing};

/// On which interface a VIP is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The one whose subnet contains the VIP.
    Subnet,
    /// The one of that name.
    Named(String),
    /// The first that the node declares.
    #[default]
    First,
}

/// A VIP that should exist, and what it demands of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The VIP.
    pub address: IpAddr,
    /// On which interface.
    pub interface: Interface,
    /// The labels that the pool asks for; None: any node may have it.
    pub selector: Option<Arc<Selector>>,
    /// The nodes with a ready endpoint, for `externalTrafficPolicy: Local`; None: it does not matter.
    pub local: Option<Arc<BTreeSet<String>>>,
    /// Preferred nodes and their weights.
    pub preferred: Option<Arc<BTreeMap<String, u32>>>,
}

impl Demand {
    /// A VIP that demands nothing.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self { address, interface: Interface::First, selector: None, local: None, preferred: None }
    }

    /// The interface on which a node with these links may have the VIP, whether or not the link is up.
    #[must_use]
    pub fn link_of<'a>(&self, links: &'a [Link]) -> Option<&'a Link> {
        match &self.interface {
            Interface::First => links.first(),
            Interface::Named(name) => links.iter().find(|link| link.is_named(name)),
            Interface::Subnet => links.iter().find(|link| link.contains(self.address)),
        }
    }

    /// Whether the node may have the VIP, as far as its name and its labels decide.
    #[must_use]
    pub fn admits(&self, node: &str, labels: &Labels) -> bool {
        self.selects(labels) && self.local.as_ref().is_none_or(|all| all.contains(node))
    }

    /// Whether a node with these labels may have the VIP, as far as they decide.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}

/// A node whose session is live.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its name.
    pub node: &'a str,
    /// The hash of its name.
    pub seed: u64,
    /// Its interfaces.
    pub links: &'a [Link],
    /// What Kubernetes says of it.
    pub standing: Standing,
    /// Its labels, or those of them that selectors ask for.
    pub labels: &'a Labels,
    /// It is about to leave.
    pub leaving: bool,
    /// Its session began after the last holder's had ended.
    pub late: bool,
}

/// How well a candidate suits: greater is better.
pub type Rank<'a> = (Reverse<bool>, Reverse<bool>, Reverse<u8>, u32, u64, Reverse<&'a str>);

/// A hard condition that a node does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lacks {
    /// The labels that the pool's selector asks for.
    Labels,
    /// A ready endpoint.
    Endpoint,
    /// An interface for the VIP.
    Interface,
    /// The link of that interface is down.
    Link,
}

/// The first condition for the VIP that a node with these labels and links does not meet.
#[must_use]
pub fn lacks(demand: &Demand, node: &str, labels: &Labels, links: &[Link]) -> Option<Lacks> {
    if !demand.selects(labels) {
        return Some(Lacks::Labels);
    }
    if demand.local.as_ref().is_some_and(|all| !all.contains(node)) {
        return Some(Lacks::Endpoint);
    }
    match demand.link_of(links) {
        None => Some(Lacks::Interface),
        Some(link) if !link.up => Some(Lacks::Link),
        Some(_) => None,
    }
}

/// Whether a candidate may have the VIP.
#[must_use]
pub fn fits(demand: &Demand, candidate: &Candidate<'_>) -> bool {
    lacks(demand, candidate.node, candidate.labels, candidate.links).is_none()
}

/// How well a candidate suits. `vip`: the hash of the address.
#[must_use]
pub fn rank<'a>(demand: &Demand, vip: u64, candidate: &Candidate<'a>) -> Rank<'a> {
    let of = candidate.standing;
    let demerits = u8::from(!of.ready) + u8::from(!of.schedulable) + u8::from(of.excluded);
    let weight = demand.preferred.as_ref().and_then(|all| all.get(candidate.node)).copied().unwrap_or(0);
    let hash = mix(vip, candidate.seed);
    (Reverse(candidate.late), Reverse(candidate.leaving), Reverse(demerits), weight, hash, Reverse(candidate.node))
}

/// A node's place among the candidates for a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// How many candidates are before it. None: the node is no candidate.
    pub position: Option<usize>,
    /// The best of the other candidates.
    pub other: Option<&'a str>,
}

/// The place of `me`, in one pass: nothing is sorted.
pub fn place<'a>(
    demand: &Demand,
    vip: u64,
    me: &str,
    candidates: impl Iterator<Item = Candidate<'a>> + Clone,
) -> Place<'a> {
    let fitting = candidates.filter(|c| fits(demand, c));
    let mine = fitting.clone().find(|c| c.node == me).map(|c| rank(demand, vip, &c));
    let (mut before, mut best) = (0, None);
    for candidate in fitting.filter(|c| c.node != me) {
        let rank = rank(demand, vip, &candidate);
        before += usize::from(mine.as_ref().is_some_and(|mine| rank > *mine));
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, candidate.node));
        }
    }
    Place { position: mine.map(|_| before), other: best.map(|(_, node)| node) }
}

/// All candidates, the best first: for people who ask which node would take over.
pub fn order<'a>(demand: &Demand, vip: u64, candidates: impl Iterator<Item = Candidate<'a>>) -> Vec<&'a str> {
    let mut all: Vec<_> = candidates.filter(|c| fits(demand, c)).map(|c| (rank(demand, vip, &c), c.node)).collect();
    all.sort_by(|a, b| b.0.cmp(&a.0));
    all.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests;
