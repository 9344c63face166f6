//! VIPs on an interface that is a port of a bridge, bond or team: they may be there, and never answer.

use super::kernel::Kernel;
use super::task::{Task, news};
use crate::datapath::Interface;

impl<K: Kernel> Task<K> {
    /// Tells people which of these interfaces are ports, or that none is any more. The interfaces are used all the same.
    pub(super) fn warn_of_ports<'a>(&mut self, used: impl Iterator<Item = &'a Interface>) {
        let ports: Vec<String> = used.filter_map(advice).collect();
        let waits = (!ports.is_empty()).then(|| ports.join("; "));
        if let Some(text) = news(&mut self.ports, waits.as_deref()) {
            tracing::warn!("{text}: VIPs on a port may not answer");
        }
        self.ops.readiness.set(self.policy.port_reason(), waits);
    }
}

fn advice(one: &Interface) -> Option<String> {
    let above = one.port_of.as_ref()?;
    Some(format!("{} is a port of {above}: name {above} instead", one.name))
}
