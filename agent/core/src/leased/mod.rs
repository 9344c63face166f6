//! VIPs that are placed by Leases as kube-vip places them: by one for all of them, or by one for each Service.
//!
//! ```text
//!   what is to be carried by which Lease (lots) ──┐    ┌─▶ Keeper of that Lease ─▶ lists of VIPs: carry, drop, announce
//!   Leases, frames, the kernel ───────────────────┴────┘   (one for each Lease)  ─▶ reads and writes of the Lease
//! ```
//!
//! Every Lease has a [`Keeper`], so that each VIP has the fence, the challenge and the hand-over of the control plane's. Added
//! here is what several VIPs under one Lease need: one that another host has keeps none of the others from being taken; what
//! comes later is looked for on the segment first; and what is done is put into lists.

mod batch;
mod event;
mod look;
mod tenant;

#[cfg(test)]
mod tests;

pub use event::{Action, Event, Lot};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::event::{Event as ForKeeper, Moment, Node};
use crate::keeper::Snapshot;
use crate::rules::Rules;
use crate::time::Time;
use batch::Batch;
use tenant::Tenant;

/// See the module's text.
#[derive(Debug)]
pub struct Leased {
    rules: Rules,
    node: Node,
    tenants: BTreeMap<String, Tenant>,
    /// Which Lease each VIP belongs to.
    by_vip: BTreeMap<IpAddr, String>,
    /// Found on the interfaces at start; None: what there should be is known, and the others are gone.
    left_over: Option<Vec<IpAddr>>,
    shutting_down: bool,
    left: bool,
    batch: Batch,
}

/// One Lease, for outsiders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Namespace and name.
    pub name: String,
    /// Its keeper; None: this node does not campaign for it.
    pub keeper: Option<Snapshot>,
    /// VIPs that are held back: who has them, if another host was heard.
    pub held_back: Vec<(IpAddr, Option<crate::mac::Mac>)>,
}

impl Leased {
    /// Of a node that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            node: Node::default(),
            tenants: BTreeMap::new(),
            by_vip: BTreeMap::new(),
            left_over: Some(vec![]),
            shutting_down: false,
            left: false,
            batch: Batch::default(),
        }
    }

    /// Takes in what happened at that moment, and says what to do.
    pub fn step(&mut self, at: Moment, event: Event) -> Vec<Action> {
        match event {
            Event::Tick => {}
            Event::Node(node) => {
                self.node = node.clone();
                self.all(at, &ForKeeper::Node(node));
            }
            Event::Lots(lots) => self.take_lots(at, lots),
            Event::Lease { name, event } => self.one(at, &name, event),
            Event::Heard { address, mac } => {
                let heard = ForKeeper::Heard { address, mac };
                if self.by_vip.contains_key(&address) {
                    self.of_vip(at, address, heard);
                } else {
                    self.all(at, &heard);
                }
            }
            Event::LeftOver(addresses) => match &mut self.left_over {
                Some(waiting) => waiting.extend(addresses),
                None => {
                    for address in addresses {
                        self.batch.drop(address);
                    }
                }
            },
            Event::Put(addresses) => {
                for address in addresses {
                    self.of_vip(at, address, ForKeeper::Put { address });
                }
            }
            Event::PutFailed { address, reason } => {
                self.of_vip(at, address, ForKeeper::PutFailed { address, reason });
            }
            Event::Gone(address) => self.of_vip(at, address, ForKeeper::Gone { address }),
            Event::ClockJump(by) => self.all(at, &ForKeeper::ClockJump(by)),
            Event::Shutdown => {
                self.shutting_down = true;
                self.all(at, &ForKeeper::Shutdown);
            }
        }
        for (name, tenant) in &mut self.tenants {
            tenant.advance(at, name, &mut self.batch);
        }
        self.tenants.retain(|_, tenant| !tenant.is_over());
        let mut out = self.batch.flush(at.now);
        if self.shutting_down && !self.left && self.tenants.values().all(|tenant| !tenant.campaigns()) {
            self.left = true;
            out.push(Action::Exit);
        }
        out
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.tenants.values().filter_map(Tenant::wake).chain(self.batch.wake()).min()
    }

    /// The Leases that are to be watched.
    pub fn leases(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// Everybody whose frames mean something here.
    #[must_use]
    pub fn listens_for(&self) -> BTreeSet<IpAddr> {
        self.tenants.values().flat_map(Tenant::listens_for).collect()
    }

    /// The VIPs that a Lease gives to this node, each with that Lease.
    pub fn held(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        let holding = self.tenants.iter().filter(|(_, tenant)| tenant.is_holding());
        holding.flat_map(|(name, tenant)| tenant.given().map(move |address| (address, name.as_str())))
    }

    /// Whether this node carries a VIP, by whatever right.
    #[must_use]
    pub fn is_carried(&self, address: IpAddr) -> bool {
        let tenant = self.by_vip.get(&address).and_then(|name| self.tenants.get(name));
        tenant.is_some_and(|tenant| tenant.is_carrying() && tenant.given().any(|one| one == address))
    }

    /// How many VIPs there are for this node, and how many of them it carries.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let carried = self.tenants.values().filter(|tenant| tenant.is_carrying()).map(|tenant| tenant.given().count());
        (self.by_vip.len(), carried.sum())
    }

    /// Whom a Lease names, as last seen; empty: nobody.
    #[must_use]
    pub fn holder(&self, name: &str) -> &str {
        self.tenants.get(name).map_or("", Tenant::holder)
    }

    /// The version of a Lease as last seen.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&str> {
        self.tenants.get(name)?.version()
    }

    /// All Leases, for outsiders.
    #[must_use]
    pub fn states(&self) -> Vec<LeaseState> {
        self.tenants.iter().map(|(name, tenant)| tenant.state(name)).collect()
    }

    fn take_lots(&mut self, at: Moment, lots: BTreeMap<String, Lot>) {
        let left_over = self.left_over.take();
        self.by_vip.clear();
        for (name, lot) in &lots {
            self.by_vip.extend(lot.vips.iter().map(|address| (*address, name.clone())));
        }
        // What a VIP leaves comes before what it goes to.
        for (name, tenant) in &mut self.tenants {
            let lot = lots.get(name).cloned().unwrap_or_default();
            tenant.take_away(at, name, &lot, &mut self.batch);
        }
        for (name, lot) in lots {
            let tenant = self.tenants.entry(name.clone()).or_insert_with(|| Tenant::new(&self.rules));
            let found = left_over.as_deref().unwrap_or_default();
            let may_begin = !self.shutting_down;
            tenant.give(at, &name, lot, may_begin.then_some((&self.node, found)), &mut self.batch);
        }
        let stays = |address: &IpAddr| {
            self.by_vip.get(address).and_then(|name| self.tenants.get(name)).is_some_and(Tenant::is_carrying)
        };
        let gone: Vec<IpAddr> = left_over.into_iter().flatten().filter(|address| !stays(address)).collect();
        for address in gone {
            self.batch.drop(address);
        }
    }

    fn one(&mut self, at: Moment, name: &str, event: ForKeeper) {
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.step(at, name, event, &mut self.batch);
        }
    }

    fn all(&mut self, at: Moment, event: &ForKeeper) {
        for (name, tenant) in &mut self.tenants {
            tenant.step(at, name, event.clone(), &mut self.batch);
        }
    }

    fn of_vip(&mut self, at: Moment, address: IpAddr, event: ForKeeper) {
        if let Some(name) = self.by_vip.get(&address).cloned() {
            self.one(at, &name, event);
        }
    }
}
