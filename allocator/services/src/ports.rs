//! Ports: two Services share an address only if their ports are disjoint.

use std::collections::BTreeSet;
use std::fmt;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

/// A port of a Service. 53/TCP and 53/UDP are two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// `port`.
    pub number: u16,
    /// `protocol`.
    pub protocol: Protocol,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        write!(f, "{}/{protocol}", self.number)
    }
}

/// Why the ports of two Services prevent sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both Services have this port.
    Port(Port),
    /// One Service has no ports: it uses the whole address.
    Whole,
}

/// Whether two Services' ports clash.
#[must_use]
pub fn clash(one: &BTreeSet<Port>, other: &BTreeSet<Port>) -> Option<Clash> {
    if one.is_empty() || other.is_empty() {
        return Some(Clash::Whole);
    }
    one.intersection(other).next().copied().map(Clash::Port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_counts() {
        let ports =
            |list: &[(u16, Protocol)]| list.iter().map(|&(number, protocol)| Port { number, protocol }).collect();
        let (tcp, udp): (BTreeSet<Port>, BTreeSet<Port>) =
            (ports(&[(53, Protocol::Tcp)]), ports(&[(53, Protocol::Udp)]));
        let both: BTreeSet<Port> = tcp.union(&udp).copied().collect();
        assert_eq!(clash(&tcp, &udp), None);
        assert_eq!(clash(&both, &udp), Some(Clash::Port(Port { number: 53, protocol: Protocol::Udp })));
        assert_eq!(clash(&tcp, &BTreeSet::new()), Some(Clash::Whole));
        assert_eq!(both.first().map(ToString::to_string).as_deref(), Some("53/TCP"));
    }
}
