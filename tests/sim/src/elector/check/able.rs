//! Which nodes could serve the client.

use mooring_agent_core::health::Verdict;

use crate::clock::Nanos;
use crate::elector::Elector;
use crate::world::World;

impl World<'_, Elector> {
    /// Who could serve is looked at anew.
    pub fn watch_able(&mut self) {
        for host in 0..self.hosts.len() {
            let able = self.could_serve(host);
            let now = self.now;
            let since = &mut self.hosts[host].own.able;
            *since = if able { since.or(Some(now)) } else { None };
        }
    }

    /// Its kernel takes the address, its agent can act and is to stay, it and the client hear each other, and its API server
    /// is ready. When none is anywhere, and none answers either, that does not count: nothing is worse than nobody. (While they
    /// answer, and say that they are not ready, nobody campaigns.)
    fn could_serve(&self, host: usize) -> bool {
        let of = &self.hosts[host];
        let willing = of.agent.as_ref().filter(|agent| !agent.ending).and_then(|agent| agent.own.prober.verdict());
        let none_ready = || (0..self.api.servers.all.len()).all(|s| self.is_ready(s) != Some(true));
        // Nodes without an API server are not judged by one; and own probes that fail keep nobody from the VIP for long.
        let by_others = self.api.servers.remote || of.own.own_probe_fails && self.is_ready(host) == Some(true);
        let well = |verdict| verdict == Verdict::Healthy || by_others || none_ready() && !self.has_api(host);
        willing.is_some_and(well)
            && of.is_live()
            && of.starved == 0
            && of.kernel == 0
            && !of.refuses
            && of.unanswered == 0
            && of.own_address
            && self.segment.mutes.of(host, 0).is_none()
            && self.hear_each_other(0, host, self.client())
            && (self.has_some_api(host) || self.hears_most(host))
            && !(self.segment.foreign && self.segment.foreign_vip == 0)
    }

    /// Who has no API carries the VIP only while it hears most of the nodes, itself counted.
    fn hears_most(&self, host: usize) -> bool {
        let heard = |other: &usize| {
            let of = &self.hosts[*other];
            *other != host && of.up && of.own_address && self.hear_each_other(0, host, *other)
        };
        2 * ((0..self.hosts.len()).filter(heard).count() + 1) > self.hosts.len()
    }

    /// Since when somebody could.
    #[must_use]
    pub fn able_since(&self) -> Option<(usize, Nanos)> {
        let able = self.hosts.iter().enumerate().filter_map(|(n, h)| h.own.able.map(|since| (n, since)));
        able.min_by_key(|(_, since)| *since)
    }
}
