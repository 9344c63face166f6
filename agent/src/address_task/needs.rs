//! The interfaces that VIPs need.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::core::placement::{Demand, Interface};

/// What the address task must look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The first interface; None: the interface of the default route.
    pub first: Option<String>,
    /// The interfaces that VIPs name.
    pub named: BTreeSet<String>,
    /// VIPs that belong on the interface whose subnet contains them.
    pub by_subnet: BTreeSet<IpAddr>,
    /// The VIPs of the control plane. The task looks for them on this node before the node carries them.
    pub vips: BTreeSet<IpAddr>,
    /// These are all VIPs of the control plane: every name and every object has said its addresses.
    pub all_known: bool,
}

impl Needs {
    /// The needs of these VIPs; `first`: the first interface.
    pub fn of<'a>(first: Option<String>, demands: impl Iterator<Item = &'a Demand>) -> Self {
        let mut needs = Self { first, ..Self::default() };
        for demand in demands {
            match &demand.interface {
                Interface::First => {}
                Interface::Named(name) => {
                    needs.named.insert(name.clone());
                }
                Interface::Subnet => {
                    needs.by_subnet.insert(demand.address);
                }
            }
        }
        needs
    }
}
