//! The interfaces that VIPs need.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::core::placement::{Demand, Interface};

/// What the address task must look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The first interface; None: the interface of the default route.
    pub first: Option<String>,
    /// A VIP of a Service names no interface: it belongs on the first one.
    pub by_first: bool,
    /// The interfaces that VIPs name.
    pub named: BTreeSet<String>,
    /// The VIPs that name them.
    pub by_name: BTreeSet<IpAddr>,
    /// VIPs that belong on the interface whose subnet contains them.
    pub by_subnet: BTreeSet<IpAddr>,
    /// The VIPs of the control plane. The task looks for them on this node before the node carries them.
    pub vips: BTreeSet<IpAddr>,
    /// These are the needs of all VIPs. The control plane's: every name and every object has said its addresses. Those of Services:
    /// every source of VIPs was listed.
    pub all_known: bool,
}

impl Needs {
    /// The needs of these VIPs; `first`: the first interface; `all_known`: there are no other VIPs.
    pub fn of<'a>(first: Option<String>, demands: impl Iterator<Item = &'a Demand>, all_known: bool) -> Self {
        let mut needs = Self { first, all_known, ..Self::default() };
        for demand in demands {
            match &demand.interface {
                Interface::First => needs.by_first = true,
                Interface::Named(name) => {
                    needs.named.insert(name.clone());
                    needs.by_name.insert(demand.address);
                }
                Interface::Subnet => {
                    needs.by_subnet.insert(demand.address);
                }
            }
        }
        needs
    }

    /// Whether all VIPs of the control plane are of IPv6.
    pub fn only_v6(&self) -> bool {
        !self.vips.is_empty() && self.vips.iter().all(IpAddr::is_ipv6)
    }

    /// Whether this VIP of a Service belongs on the first interface, or may do so, as far as is known.
    pub fn may_want_first_for(&self, vip: IpAddr) -> bool {
        self.may_want_first() && !self.by_name.contains(&vip) && !self.by_subnet.contains(&vip)
    }

    /// Whether any does.
    pub const fn may_want_first(&self) -> bool {
        self.by_first || !self.all_known
    }
}
