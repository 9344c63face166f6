//! The classes of faults, and how each is drawn.

use std::time::Duration;

use serde::Serialize;

use super::draw::Role;

/// A class of faults. Its name in reports is the variant's name in kebab-case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    Crash,
    Isolated,
    PortDown,
    InterfaceRecreated,
    Cut,
    CutOneWay,
    CutGateway,
    Loss,
    AgentFrozen,
    HostFrozen,
    AgentStarved,
    AgentKilled,
    AgentRestarted,
    AgentsUpgraded,
    ApiCut,
    ApiCutOthers,
    ApiStopped,
    ApiFrozen,
    ApiSlow,
    ApisStopped,
    ApisFrozen,
    EtcdFrozen,
    AddressDeleted,
    Claimed,
    Stranger,
}

/// A part that a fault affects: two faults at the same time never affect the same part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The agent of a host.
    Agent(Role),
    /// The API server of a host, or the host's way to it.
    Api(Role),
    /// The cable of a host, and the frames on it.
    Cable(Role),
    /// etcd.
    Etcd,
    /// The VIP itself.
    Vip,
}

/// How a class is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The name of the class.
    pub name: &'static str,
    /// What happens, for readers of a report.
    pub what: &'static str,
    /// How many cards of this class are in the deck.
    pub cards: usize,
    /// The shortest and the longest duration, in milliseconds; both zero: the fault is over at once.
    pub lasts: (u64, u64),
    /// Whether one fault of six lasts longer than the Lease: 16 to 19 s.
    pub long: bool,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Self; 25] = [
        Self::Crash,
        Self::Isolated,
        Self::PortDown,
        Self::InterfaceRecreated,
        Self::Cut,
        Self::CutOneWay,
        Self::CutGateway,
        Self::Loss,
        Self::AgentFrozen,
        Self::HostFrozen,
        Self::AgentStarved,
        Self::AgentKilled,
        Self::AgentRestarted,
        Self::AgentsUpgraded,
        Self::ApiCut,
        Self::ApiCutOthers,
        Self::ApiStopped,
        Self::ApiFrozen,
        Self::ApiSlow,
        Self::ApisStopped,
        Self::ApisFrozen,
        Self::EtcdFrozen,
        Self::AddressDeleted,
        Self::Claimed,
        Self::Stranger,
    ];

    /// How the class is drawn.
    #[must_use]
    pub const fn about(self) -> About {
        const fn about(name: &'static str, cards: usize, lasts: (u64, u64), long: bool, what: &'static str) -> About {
            About { name, what, cards, lasts, long }
        }
        match self {
            Self::Crash => about("crash", 3, (500, 5_000), false, "power failure of a host, and power back"),
            Self::Isolated => about("isolated", 2, (300, 6_000), true, "a host is cut off everybody, both ways"),
            Self::PortDown => about("port-down", 2, (200, 5_000), false, "a host's cable is pulled"),
            Self::InterfaceRecreated => {
                about("interface-recreated", 1, (200, 4_000), false, "a host's eth0 is deleted, and made again")
            }
            Self::Cut => about("cut", 2, (300, 6_000), false, "two control planes are cut off each other"),
            Self::CutOneWay => about("cut-one-way", 2, (300, 6_000), false, "frames of one to another are dropped"),
            Self::CutGateway => about("cut-gateway", 1, (300, 5_000), false, "a host is cut off the gateway"),
            Self::Loss => about("loss", 1, (1_000, 5_000), false, "5 to 25 % of a host's frames are lost, each way"),
            Self::AgentFrozen => about("agent-frozen", 2, (200, 6_000), true, "SIGSTOP of an agent, and SIGCONT"),
            Self::HostFrozen => about("host-frozen", 2, (200, 6_000), true, "SIGSTOP of everything on a host, SIGCONT"),
            Self::AgentStarved => about("agent-starved", 1, (1_000, 5_000), false, "an agent runs 20 ms, then stands"),
            Self::AgentKilled => about("agent-killed", 2, (0, 5_000), true, "SIGKILL of an agent, started again"),
            Self::AgentRestarted => about("agent-restarted", 3, (0, 3_000), false, "SIGTERM, started again"),
            Self::AgentsUpgraded => about("agents-upgraded", 1, (0, 0), false, "all agents restarted, one by one"),
            Self::ApiCut => about("api-cut", 2, (500, 5_000), true, "a host's programs are cut off all API servers"),
            Self::ApiCutOthers => about("api-cut-others", 1, (500, 5_000), false, "off those of other hosts"),
            Self::ApiStopped => about("api-stopped", 1, (500, 5_000), false, "the local API server is killed"),
            Self::ApiFrozen => about("api-frozen", 1, (500, 6_000), false, "the local API server hangs"),
            Self::ApiSlow => about("api-slow", 1, (1_000, 5_000), false, "the local API server answers late"),
            Self::ApisStopped => about("apis-stopped", 1, (500, 5_000), true, "all API servers are killed"),
            Self::ApisFrozen => about("apis-frozen", 1, (500, 6_000), true, "all API servers hang"),
            Self::EtcdFrozen => about("etcd-frozen", 1, (500, 6_000), true, "etcd hangs"),
            Self::AddressDeleted => about("address-deleted", 2, (0, 0), false, "the VIP is deleted by hand"),
            Self::Claimed => about("claimed", 2, (0, 0), false, "another host announces the VIP, once"),
            Self::Stranger => {
                about("stranger", 1, (500, 3_000), false, "another host has the VIP as well, and says so")
            }
        }
    }

    /// The name of the class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether the fault affects one host. The others affect the segment or the API.
    #[must_use]
    pub const fn has_host(self) -> bool {
        !matches!(
            self,
            Self::AgentsUpgraded
                | Self::ApisStopped
                | Self::ApisFrozen
                | Self::EtcdFrozen
                | Self::Claimed
                | Self::Stranger
        )
    }

    /// Whether the fault is between two control planes.
    #[must_use]
    pub const fn has_peer(self) -> bool {
        matches!(self, Self::Cut | Self::CutOneWay)
    }

    /// Whether the affected host may be no candidate during the fault.
    #[must_use]
    pub const fn disables(self) -> bool {
        self.has_host() && !self.has_peer() && !matches!(self, Self::CutGateway | Self::Loss | Self::AddressDeleted)
    }

    /// Whether the fault keeps frames from arriving.
    #[must_use]
    pub const fn is_of_the_segment(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::Isolated
                | Self::PortDown
                | Self::InterfaceRecreated
                | Self::Cut
                | Self::CutOneWay
                | Self::Loss
        )
    }

    /// Whether the agent of the host cannot act during the fault.
    #[must_use]
    pub const fn stops_the_agent(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::AgentFrozen
                | Self::HostFrozen
                | Self::AgentStarved
                | Self::AgentKilled
                | Self::AgentRestarted
        )
    }

    /// The parts that the fault affects.
    #[must_use]
    pub fn parts(self, on: Role, peer: Option<Role>) -> Vec<Part> {
        let all = |part: fn(Role) -> Part| Role::ALL.map(part);
        match self {
            Self::Crash => vec![Part::Agent(on), Part::Api(on), Part::Cable(on)],
            Self::HostFrozen => vec![Part::Agent(on), Part::Api(on)],
            Self::Isolated
            | Self::PortDown
            | Self::InterfaceRecreated
            | Self::Cut
            | Self::CutOneWay
            | Self::CutGateway
            | Self::Loss => [on].into_iter().chain(peer).map(Part::Cable).collect(),
            Self::AgentFrozen | Self::AgentStarved | Self::AgentKilled | Self::AgentRestarted => vec![Part::Agent(on)],
            Self::AgentsUpgraded => {
                let parts = [all(Part::Agent), all(Part::Api), all(Part::Cable)].concat();
                [parts, vec![Part::Etcd, Part::Vip]].concat()
            }
            Self::ApiCut | Self::ApiCutOthers | Self::ApiStopped | Self::ApiFrozen | Self::ApiSlow => {
                vec![Part::Api(on)]
            }
            Self::ApisStopped | Self::ApisFrozen => [all(Part::Api).to_vec(), vec![Part::Etcd]].concat(),
            Self::EtcdFrozen => vec![Part::Etcd],
            // The address must be there to be deleted: the host keeps its cable and its agent.
            Self::AddressDeleted => vec![Part::Vip, Part::Agent(on), Part::Cable(on)],
            Self::Claimed | Self::Stranger => vec![Part::Vip],
        }
    }
}

/// How long a fault lasts if it lasts longer than the Lease.
pub const LONG: (u64, u64) = (16_000, 19_000);

/// A fault of this length or more outlives the fence of a holder that can no longer renew.
pub const OUTLIVES: Duration = Duration::from_secs(9);
