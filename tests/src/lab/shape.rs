//! What a lab consists of.

use std::net::IpAddr;

use crate::agents::AgentBinary;
use crate::segment;

/// What a lab consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The cluster on it.
    pub topology: Topology,
    /// Hosts in addition to the control planes and the client: name and last part of the addresses (2 to 254, except 11
    /// to 19, 20, 50 and 100).
    pub more_hosts: Vec<(String, u8)>,
    /// The control-plane VIPs that certificates name; the first is the server in kubeconfigs.
    pub vips: Vec<IpAddr>,
    /// Whether the user of admin.conf has all rights from the start. If not, the API refuses the user (403), as in the
    /// first seconds of `kubeadm init`, until [`bind_admin`](crate::cluster::Cluster::bind_admin).
    pub bind_admin: bool,
    /// Whether API servers write an audit log: `audit.log` in their host's folder, level Metadata.
    pub audit: bool,
    /// Which build of the agent runs; it is built at the first start.
    pub agent: AgentBinary,
}

/// The cluster of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// No cluster: a switch, and the hosts.
    Segment,
    /// This many control planes (1 to 9), each with its API server; one etcd on the host `etcd`.
    External(u8),
    /// This many control planes (1 to 9), each with its API server and an etcd member of its own, as kubeadm does it.
    Stacked(u8),
}

impl Shape {
    /// Three control planes and a separate etcd: the cheapest cluster.
    #[must_use]
    pub fn external() -> Self {
        Self::of(Topology::External(3))
    }

    /// Three control planes with stacked etcd.
    #[must_use]
    pub fn stacked() -> Self {
        Self::of(Topology::Stacked(3))
    }

    /// This many control planes and a separate etcd.
    #[must_use]
    pub fn api_servers(count: u8) -> Self {
        Self::of(Topology::External(count))
    }

    /// No cluster: `cp1` to `cp3` and the client on a switch.
    #[must_use]
    pub fn segment() -> Self {
        Self::of(Topology::Segment)
    }

    /// A lab of this topology with defaults: VIPs 10.77.0.100 and `fd77::100`, the admin bound, the agent's dev build.
    #[must_use]
    pub fn of(topology: Topology) -> Self {
        Self {
            topology,
            more_hosts: Vec::new(),
            vips: vec![segment::ip4(100).into(), segment::ip6(100).into()],
            bind_admin: true,
            audit: false,
            agent: AgentBinary::default(),
        }
    }

    /// Adds a host `name` at `10.77.0.number` and `fd77::number`.
    #[must_use]
    pub fn with_host(mut self, name: &str, number: u8) -> Self {
        self.more_hosts.push((name.to_owned(), number));
        self
    }

    /// Chooses the agent's build.
    #[must_use]
    pub fn with_agent(mut self, agent: AgentBinary) -> Self {
        self.agent = agent;
        self
    }

    /// Makes the API servers write audit logs.
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.audit = true;
        self
    }

    /// Leaves admin.conf's user without rights until [`bind_admin`](crate::cluster::Cluster::bind_admin).
    #[must_use]
    pub fn unbound(mut self) -> Self {
        self.bind_admin = false;
        self
    }

    pub(super) fn control_planes(&self) -> u8 {
        match self.topology {
            Topology::Segment => 3,
            Topology::External(count) | Topology::Stacked(count) => count.clamp(1, 9),
        }
    }

    pub(crate) fn hosts(&self) -> Vec<(String, u8)> {
        let mut hosts: Vec<_> = (1..=self.control_planes()).map(|n| (format!("cp{n}"), 10 + n)).collect();
        if matches!(self.topology, Topology::External(_)) {
            hosts.push(("etcd".into(), 20));
        }
        hosts.push(("client".into(), 50));
        hosts.extend(self.more_hosts.iter().cloned());
        hosts
    }
}
