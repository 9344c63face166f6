//! Which third parties are asked beside a node that does not answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::node_watch::Peer;
use super::output::Places;
use crate::mac::Mac;
use crate::parties::{Party, at_most};

/// At most so many third parties on an interface: a gateway, the nodes heard last, and one more, another each `turn`.
pub(super) fn parties(
    peers: &BTreeMap<String, Peer>,
    macs: &BTreeMap<IpAddr, Mac>,
    watched: &str,
    interface: u32,
    places: &Places,
    most: usize,
    turn: usize,
) -> Vec<Party> {
    let link = places.interfaces.iter().find(|one| one.index == interface);
    let gateway = link.and_then(|link| link.gateways.first());
    let gateway = gateway.map(|address| Party { address: *address, mac: macs.get(address).copied() });
    let others = peers.iter().filter(|(name, peer)| *name != watched && peer.interface == interface);
    let mut others: Vec<&Peer> = others.map(|(_, peer)| peer).collect();
    others.sort_by_key(|peer| (Reverse(peer.heard), peer.address));
    at_most(gateway.into_iter().chain(others.iter().map(|peer| peer.party())).collect(), most, turn)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::core::Interface;
    use crate::parties::PARTIES;
    use crate::session::{Link, Subnet};
    use crate::time::Time;

    fn addresses(parties: Vec<Party>) -> Vec<IpAddr> {
        parties.into_iter().map(|party| party.address).collect()
    }

    #[test]
    fn third_parties_are_on_the_interface_and_change() {
        let at = |n: u8, heard| Peer { address: IpAddr::from([192, 0, 2, n]), mac: None, interface: 2, heard };
        let long_ago = Time::default();
        let lately = long_ago + Duration::from_mins(1);
        let mut peers: BTreeMap<String, Peer> = (1..=9).map(|n| (format!("w{n}"), at(n, long_ago))).collect();
        peers.insert("w7".into(), at(7, lately));
        peers.insert("w8".into(), Peer { interface: 3, ..at(8, lately) });
        let gateway = IpAddr::from([192, 0, 2, 254]);
        let subnets = vec![Subnet::of(gateway, 24)];
        let link = Link {
            name: "eth0".into(),
            altnames: vec![],
            macs: vec![],
            addresses: vec![],
            subnets,
            up: true,
            unheard: false,
        };
        let mut places = Places::default();
        places.interfaces = vec![Interface { index: 2, link, gateways: vec![gateway] }];
        let mut asked = BTreeSet::new();
        for turn in 0..10 {
            let these = addresses(parties(&peers, &BTreeMap::new(), "w2", 2, &places, PARTIES, turn));
            assert_eq!(these.get(..2), Some(&[gateway, IpAddr::from([192, 0, 2, 7])][..]));
            assert_eq!(these.len(), PARTIES);
            asked.extend(these);
        }
        assert_eq!(asked.len(), 8, "all but the watched node and the one on another interface: {asked:?}");
        let one = |turn| addresses(parties(&peers, &BTreeMap::new(), "w2", 2, &places, 1, turn));
        assert_eq!([one(0), one(1)], [[gateway], [IpAddr::from([192, 0, 2, 7])]]);
        assert_eq!((0..8).flat_map(one).collect::<BTreeSet<_>>(), asked, "one at a time, and all of them in turn");
        assert!(parties(&peers, &BTreeMap::new(), "w2", 2, &places, 0, 0).is_empty());
        assert!(parties(&BTreeMap::new(), &BTreeMap::new(), "w2", 2, &Places::default(), PARTIES, 3).is_empty());
    }
}
