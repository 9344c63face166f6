//! Faults of the segment, of interfaces and of addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_agent::core::time::Time;
use serde::{Deserialize, Serialize};

use super::rules::{self, Rule};
use super::{Error, lock};
use crate::clock;
use crate::host::{self, Host};
use crate::lab::{self, Lab};
use crate::segment::{self, GATEWAY_NAME, Nic, prefix};

/// The host that answers for an address that is not its own.
const STRANGER: (&str, u8) = ("stranger", 99);

/// Which frames are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Way {
    /// Those of the first to the second.
    One,
    /// Both ways.
    Both,
}

impl Way {
    fn cuts(self, a: &str, b: &str) -> Vec<Rule> {
        let cut = |from: &str, to: &str| Rule::Cut { from: from.to_owned(), to: to.to_owned() };
        match self {
            Self::One => vec![cut(a, b)],
            Self::Both => vec![cut(a, b), cut(b, a)],
        }
    }
}

impl Lab {
    /// Cuts `from` off from `to`: hosts, or `gateway`. ARP and NDP as well. Needs nft.
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn cut(&self, from: &str, to: &str, way: Way) -> Result<Time, Error> {
        self.partition(&[from], &[to], way)
    }

    /// Cuts every host on the left off from every host on the right, all at the same moment.
    ///
    /// # Errors
    /// As [`Lab::cut`].
    pub fn partition(&self, left: &[&str], right: &[&str], way: Way) -> Result<Time, Error> {
        for name in left.iter().chain(right).filter(|name| **name != GATEWAY_NAME) {
            self.host(name)?;
        }
        if let Some(both) = left.iter().find(|name| right.contains(name)) {
            return Err(Error::Itself((*both).to_owned()));
        }
        let cuts = left.iter().flat_map(|a| right.iter().flat_map(|b| way.cuts(a, b)));
        self.rules(|rules| rules.extend(cuts))
    }

    /// Cuts a host off all other hosts and off the gateway, both ways, at the same moment.
    ///
    /// # Errors
    /// As [`Lab::cut`].
    pub fn isolate(&self, host: &str) -> Result<Time, Error> {
        let others = self.all_but(host);
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        self.partition(&[host], &others, Way::Both)
    }

    /// Ends [`Lab::isolate`], and all other cuts of the host.
    ///
    /// # Errors
    /// nft is missing.
    pub fn rejoin(&self, host: &str) -> Result<Time, Error> {
        let healed: Vec<Rule> = self.all_but(host).iter().flat_map(|other| Way::Both.cuts(host, other)).collect();
        self.rules(|rules| rules.retain(|rule| !healed.contains(rule)))
    }

    /// The other hosts, and the gateway.
    fn all_but(&self, host: &str) -> Vec<String> {
        let hosts = self.hosts().into_iter().map(|one| one.name().to_owned()).filter(|name| name != host);
        hosts.chain([GATEWAY_NAME.to_owned()]).collect()
    }

    /// Ends the cuts between these two, in both directions.
    ///
    /// # Errors
    /// nft is missing.
    pub fn heal(&self, a: &str, b: &str) -> Result<Time, Error> {
        let healed = Way::Both.cuts(a, b);
        self.rules(|rules| rules.retain(|rule| !healed.contains(rule)))
    }

    /// Ends all cuts, all loss and all that is done to ARP, including cuts from the API.
    ///
    /// # Errors
    /// nft is missing.
    pub fn heal_all(&self) -> Result<Time, Error> {
        *lock(&self.0.faults.suppression) = None;
        let cut: Vec<_> = lock(&self.0.faults.api_cuts).iter().cloned().collect();
        for host in cut {
            self.heal_api(&host)?;
        }
        self.rules(BTreeSet::clear)
    }

    /// Drops this share of the frames from and to a host (in each direction); 0 ends the loss.
    ///
    /// # Errors
    /// There is no such host, it is no percentage, or nft is missing.
    pub fn loss(&self, host: &str, percent: u8) -> Result<Time, Error> {
        let port = self.host(host)?.name().to_owned();
        if percent > 100 {
            return Err(Error::Percent(percent));
        }
        self.rules(|rules| {
            rules.retain(|rule| !matches!(rule, Rule::Loss { port: known, .. } if *known == port));
            if percent > 0 {
                rules.insert(Rule::Loss { port, percent });
            }
        })
    }

    /// Pulls a host's cable: its `eth0` loses the carrier.
    ///
    /// # Errors
    /// There is no such host, or it has no interface.
    pub fn port_down(&self, host: &str) -> Result<Time, Error> {
        self.port(host, false)
    }

    /// Plugs it in again.
    ///
    /// # Errors
    /// There is no such host, or it has no interface.
    pub fn port_up(&self, host: &str) -> Result<Time, Error> {
        self.port(host, true)
    }

    /// Adds an address on a host's `eth0` by hand, for ever, with the prefix length of a host (/32, /128).
    ///
    /// # Errors
    /// There is no such host, or it has the address.
    pub fn add_address(&self, host: &str, address: IpAddr) -> Result<Time, Error> {
        let prefix_len = if address.is_ipv4() { 32 } else { 128 };
        self.host(host)?.netns().add_address("eth0", address, prefix_len)?;
        Ok(clock::now())
    }

    /// Deletes an address from a host's `eth0` by hand, whatever program added it.
    ///
    /// # Errors
    /// There is no such host, or it does not have the address.
    pub fn delete_address(&self, host: &str, address: IpAddr) -> Result<Time, Error> {
        self.host(host)?.netns().delete_address("eth0", address)?;
        Ok(clock::now())
    }

    /// Announces an address at a host's MAC address once, whether or not the host has it.
    ///
    /// # Errors
    /// There is no such host, or it has no `eth0`.
    pub fn announce(&self, host: &str, address: IpAddr) -> Result<Time, Error> {
        let host = self.host(host)?;
        Ok(segment::announce(host.netns(), "eth0", host.mac(), address)?)
    }

    /// A foreign host (`stranger`, .99, booted at the first call) takes an address and answers for it from now on.
    /// `aloud`: the host also announces the address once.
    ///
    /// # Errors
    /// It has the address already.
    pub fn stranger(&self, address: IpAddr, aloud: bool) -> Result<Time, Error> {
        let (name, number) = STRANGER;
        let host = match self.host(name) {
            Ok(host) => host,
            Err(_) => self.add_host(name, number).map_err(|error| match error {
                lab::Error::Host(error) => Error::Host(error),
                other => Error::Host(host::Error::Init { host: name.into(), detail: other.to_string() }),
            })?,
        };
        host.netns().add_address("eth0", address, prefix(address))?;
        if aloud { self.announce(name, address) } else { Ok(clock::now()) }
    }

    /// The foreign host gives an address up, without an announcement.
    ///
    /// # Errors
    /// It does not have it.
    pub fn stranger_leaves(&self, address: IpAddr) -> Result<Time, Error> {
        let gone = |_: host::Error| Error::NoStranger(address);
        self.host(STRANGER.0).and_then(|host| host.netns().delete_address("eth0", address)).map_err(gone)?;
        Ok(clock::now())
    }

    /// Deletes a host's `eth0`, with its port.
    ///
    /// # Errors
    /// There is no such host, or no such interface.
    pub fn delete_interface(&self, host: &str) -> Result<Time, Error> {
        self.wear(host);
        let host = self.host(host)?;
        Nic::first(&host).unplug(host.netns())?;
        Ok(clock::now())
    }

    /// Makes a host's `eth0` again as it was at boot: the same MAC address, a new index.
    ///
    /// # Errors
    /// There is no such host, or it has an `eth0`.
    pub fn create_interface(&self, host: &str) -> Result<Time, Error> {
        let host = self.host(host)?;
        self.plug_all(&host, "eth0")?;
        Ok(clock::now())
    }

    /// Plugs in the interfaces of a host that begin with `which`.
    pub(super) fn plug_all(&self, host: &Host, which: &str) -> Result<(), Error> {
        let nics = lock(&self.0.nics).get(host.name()).cloned().unwrap_or_default();
        for nic in nics.iter().filter(|nic| nic.interface.starts_with(which)) {
            nic.plug(host.netns(), &self.0.segment)?;
        }
        Ok(())
    }

    fn port(&self, host: &str, up: bool) -> Result<Time, Error> {
        self.wear(host);
        self.0.segment.set_port(self.host(host)?.name(), up)?;
        Ok(clock::now())
    }

    /// Changes what the switch drops; does nothing where that changes nothing.
    pub(super) fn rules(&self, change: impl FnOnce(&mut BTreeSet<Rule>)) -> Result<Time, Error> {
        let mut rules = lock(&self.0.faults.rules);
        let mut changed = rules.clone();
        change(&mut changed);
        if *rules != changed {
            rules::apply(self.0.segment.switch(), &changed)?;
            *rules = changed;
        }
        Ok(clock::now())
    }
}
