//! The classes of faults, and how each is drawn.

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use super::draw::Role;
use crate::agents::AGENT;
use crate::cluster::{API_SERVER, ETCD};
use crate::fault::{ApiCut, Fault, Way};
use crate::segment::GATEWAY_NAME;

/// The host that announces an address it does not have.
pub const INTRUDER: (&str, u8) = ("intruder", 66);

/// What the faults of a class act on, besides the host and its peer.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The VIP.
    pub vip: IpAddr,
    /// The hosts with an API server.
    pub control_planes: Vec<String>,
    /// The hosts with an etcd member that runs.
    pub etcds: Vec<String>,
}

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

    /// The faults that a fault of this class consists of; they begin one after another, at once. `amount`: see
    /// [`super::draw::Order`]. None: all agents are restarted, in an order that only the running lab shows.
    #[must_use]
    pub fn faults(self, on: &Stage, host: &str, peer: &str, amount: u8) -> Vec<Fault> {
        let (vip, from, to) = (on.vip, host.to_owned(), peer.to_owned());
        let host = host.to_owned();
        let process = |name: &str| name.to_owned();
        let all = |hosts: &[String], fault: fn(String) -> Fault| hosts.iter().cloned().map(fault).collect();
        let pause = |least: u64| least + 20 * u64::from(amount);
        vec![match self {
            Self::Crash => Fault::Crash { host },
            Self::Isolated => Fault::Isolate { host },
            Self::PortDown => Fault::PortDown { host },
            Self::InterfaceRecreated => Fault::DeleteInterface { host },
            Self::Cut => Fault::Cut { from, to, way: Way::Both },
            Self::CutOneWay => Fault::Cut { from, to, way: Way::One },
            Self::CutGateway => Fault::Cut { from, to: GATEWAY_NAME.to_owned(), way: Way::Both },
            Self::Loss => Fault::Loss { host, percent: amount },
            Self::AgentFrozen => Fault::Freeze { host, process: Some(process(AGENT)) },
            Self::HostFrozen => Fault::Freeze { host, process: None },
            Self::AgentStarved => Fault::SlowProcess { host, process: process(AGENT), pause_ms: pause(200) },
            Self::AgentKilled => Fault::Kill { host, process: process(AGENT) },
            Self::AgentRestarted => Fault::Terminate { host, process: process(AGENT) },
            Self::ApiCut => Fault::CutApi { host, cut: ApiCut::Everywhere },
            Self::ApiCutOthers => Fault::CutApi { host, cut: ApiCut::Others },
            Self::ApiStopped => Fault::Kill { host, process: process(API_SERVER) },
            Self::ApiFrozen => Fault::Freeze { host, process: Some(process(API_SERVER)) },
            Self::ApiSlow => Fault::SlowApi { host, pause_ms: pause(50) },
            Self::AddressDeleted => Fault::DeleteAddress { host, address: vip },
            Self::Claimed => Fault::Announce { host: INTRUDER.0.to_owned(), address: vip },
            Self::Stranger => Fault::Stranger { address: vip, silent: false },
            Self::ApisStopped => {
                return all(&on.control_planes, |host| Fault::Kill { host, process: API_SERVER.to_owned() });
            }
            Self::ApisFrozen => {
                return all(&on.control_planes, |host| Fault::Freeze { host, process: Some(API_SERVER.to_owned()) });
            }
            Self::EtcdFrozen => return all(&on.etcds, |host| Fault::Freeze { host, process: Some(ETCD.to_owned()) }),
            Self::AgentsUpgraded => return Vec::new(),
        }]
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

    /// Whether the fault ends the agent of the host, and its end starts the agent again.
    #[must_use]
    pub const fn ends_the_agent(self) -> bool {
        matches!(self, Self::Crash | Self::AgentKilled | Self::AgentRestarted)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_lasts_has_an_end() {
        let hosts = vec!["a".to_owned(), "b".to_owned()];
        let on = Stage { vip: IpAddr::from([10, 0, 0, 1]), control_planes: hosts.clone(), etcds: hosts };
        for class in Class::ALL {
            let faults = class.faults(&on, "a", "b", 5);
            assert_eq!(faults.is_empty(), class == Class::AgentsUpgraded, "{class:?}");
            for fault in faults {
                let opposite = fault.opposite();
                assert_eq!(opposite.is_some(), class.about().lasts.1 > 0, "{fault:?}");
                assert_eq!(opposite.and_then(|end| end.opposite()), None, "the end of a fault has no end");
            }
        }
    }
}
