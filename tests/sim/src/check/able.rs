//! Which nodes could serve the client.

use crate::clock::Nanos;
use crate::world::World;

impl World<'_> {
    /// Who could serve is looked at anew.
    pub fn watch_able(&mut self) {
        for host in 0..self.hosts.len() {
            let able = self.could_serve(host);
            let now = self.now;
            let since = &mut self.hosts[host].able;
            *since = if able { since.or(Some(now)) } else { None };
        }
    }

    /// Its kernel takes the address, its agent can act and is to stay, and it and the client hear each other. Whether its
    /// API server is ready does not count: when none is, the VIP stays where it is.
    fn could_serve(&self, host: usize) -> bool {
        let of = &self.hosts[host];
        let willing = of.agent.as_ref().is_some_and(|agent| !agent.ending && agent.prober.verdict().is_some());
        willing
            && of.is_live()
            && of.starved == 0
            && of.kernel == 0
            && !of.refuses
            && of.own
            && self.hear_each_other(host, self.client_station())
            && !self.segment.foreign
    }

    /// Since when somebody could.
    #[must_use]
    pub fn able_since(&self) -> Option<(usize, Nanos)> {
        let able = self.hosts.iter().enumerate().filter_map(|(n, h)| h.able.map(|since| (n, since)));
        able.min_by_key(|(_, since)| *since)
    }
}
