//! The floor: how fast an address can move at all here. It is taken off one host, put on another and announced once, by
//! hand, with nobody to decide anything.

use std::net::SocketAddr;
use std::time::Duration;

use crate::observe::echo::Echo;
use crate::observe::frames::announce_here;
use crate::observe::netlink::{add_address, remove_address};
use crate::observe::prober::Prober;
use crate::observe::{Error, Place, inside, now};

/// Longer than any move by hand takes.
const LIMIT: Duration = Duration::from_secs(5);

/// A host of a segment, as the benches see it.
#[derive(Debug)]
pub struct Host<'a, P> {
    /// Its name: what its echo server answers.
    pub name: &'a str,
    /// Its namespace.
    pub place: &'a P,
    /// Its interface on the segment.
    pub interface: &'a str,
    /// Its port in the switch's namespace.
    pub port: &'a str,
}

/// Moves the VIP (address and UDP port) to and fro between two hosts and measures each time from the removal to the
/// first answer of the other that `client` receives. The VIP must be free, and is free again afterwards.
///
/// # Errors
/// When a host refuses the address, or the client does not hear the VIP again within 5 s.
pub async fn floor<P: Place>(
    hosts: [&Host<'_, P>; 2],
    client: &P,
    vip: SocketAddr,
    runs: usize,
) -> Result<Vec<Duration>, Error> {
    let echoes = [Echo::start(hosts[0].place, hosts[0].name, vip)?, Echo::start(hosts[1].place, hosts[1].name, vip)?];
    let mut holder = 0;
    add(hosts[holder], vip)?;
    let moves = async {
        let prober = Prober::start(client, vip)?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            prober.answer_after(now(), Some(hosts[holder].name), LIMIT).await?;
            // A little traffic in between, at no fixed phase of the prober's pace.
            tokio::time::sleep(Duration::from_micros(50_300)).await;
            let next = 1 - holder;
            let before = now();
            remove(hosts[holder], vip)?;
            holder = next;
            add(hosts[holder], vip)?;
            let (heard, _) = prober.answer_after(before, Some(hosts[holder].name), LIMIT).await?;
            times.push(heard.since(before));
        }
        prober.finish()?;
        Ok(times)
    }
    .await;
    let cleared = remove(hosts[holder], vip);
    for echo in echoes {
        echo.stop()?;
    }
    let times = moves?;
    cleared.map(|()| times)
}

fn add<P: Place>(host: &Host<'_, P>, vip: SocketAddr) -> Result<(), Error> {
    let interface = host.interface.to_owned();
    inside(host.place, move || {
        add_address(&interface, vip.ip())?;
        announce_here(&interface, vip.ip())
    })
}

fn remove<P: Place>(host: &Host<'_, P>, vip: SocketAddr) -> Result<(), Error> {
    let interface = host.interface.to_owned();
    inside(host.place, move || remove_address(&interface, vip.ip()))
}
