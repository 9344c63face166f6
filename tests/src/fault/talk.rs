//! ARP that nobody asked for: what a gateway and the kernels of other hosts say all day.

use std::net::Ipv4Addr;
use std::time::Duration;

use mooring_agent::core::mac::Mac;
use pnet::datalink::{self, Channel, Config};

use super::Error;
use crate::host::Netns;
use crate::lab::Lab;
use crate::observe::worker::Worker;
use crate::observe::{self, inside};
use crate::segment::{BRIDGE, GATEWAY, GATEWAY_NAME, ip4, mac};

/// An address that nobody has: nobody answers.
const NOBODY: Ipv4Addr = ip4(253);

/// Somebody asks; ends when dropped.
#[derive(Debug)]
pub struct Talk {
    _worker: Worker,
}

impl Lab {
    /// A host, or `gateway`, asks everybody for an address that nobody has, now and each time after such a pause,
    /// until what this returns is dropped.
    ///
    /// # Errors
    /// There is no such host, or no packet socket is available.
    pub fn talk(&self, who: &str, every: Duration) -> Result<Talk, Error> {
        let (netns, interface, number) = if who == GATEWAY_NAME {
            (self.0.segment.switch().clone(), BRIDGE, GATEWAY)
        } else {
            let host = self.host(who)?;
            (host.netns().clone(), "eth0", host.number())
        };
        let mut sender = sender(&netns, interface)?;
        let frame = question(mac(number), ip4(number), NOBODY);
        let worker = Worker::start("talk", move |until| {
            loop {
                // The interface may be away for a while.
                drop(sender.send_to(&frame, None));
                if until.over_within(every) {
                    return Ok(());
                }
            }
        })?;
        Ok(Talk { _worker: worker })
    }
}

/// Sends frames from an interface.
pub(super) fn sender(netns: &Netns, interface: &str) -> Result<Box<dyn datalink::DataLinkSender>, Error> {
    let name = interface.to_owned();
    let opened = inside(netns, move || {
        let nic = datalink::interfaces().into_iter().find(|nic| nic.name == name);
        let no = || observe::Error::NoInterface { name: name.clone(), errno: nix::errno::Errno::ENODEV };
        let config = Config { promiscuous: false, ..Config::default() };
        match datalink::channel(&nic.ok_or_else(no)?, config).map_err(observe::Error::io(format!("open {name}")))? {
            Channel::Ethernet(sender, _) => Ok(sender),
            _ => Err(no()),
        }
    })?;
    Ok(opened)
}

/// An ARP request to everybody.
fn question(mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    [&Mac::BROADCAST.0[..], &mac.0, &head, &mac.0, &sender.octets(), &[0; 6], &target.octets()].concat()
}
