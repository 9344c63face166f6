//! Where this node's API server is, and its health.
//!
//! One measure for all: a node asks its own API server at the address where the others ask it, the one of its addresses that the
//! `EndpointSlices` of `default/kubernetes` list, on any interface and any port. While none is listed, it asks loopback. A
//! node that has no API server is not judged by one.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use http::Uri;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::api::Servers;
use crate::core::control_plane::Input;
use crate::core::health::{Health, Listed, Verdict};
use crate::settings::{HealthAddress, Settings};

/// This node's API server, as far as it is found: one address a family. Empty: none is.
pub type Found = Vec<SocketAddr>;

/// What the search for this node's API server follows.
pub struct Sources {
    /// All API servers of the cluster, as `default/kubernetes` lists them.
    pub listed: watch::Receiver<Vec<SocketAddr>>,
    /// The VIPs: an API server that is listed at a VIP is no node's own.
    pub vips: watch::Receiver<Vec<IpAddr>>,
}

/// The URL of this node's own API server for a health probe. None: health is switched off.
pub fn own_url(settings: &Settings, found: &Found) -> Option<Uri> {
    match (&settings.health.address, found.first()) {
        (HealthAddress::Off, _) => None,
        (HealthAddress::At(url), _) => Some(url.clone()),
        (HealthAddress::Found, Some(server)) => format!("https://{server}").parse().ok(),
        (HealthAddress::Found, None) => settings.loopback(),
    }
}

/// Probes the local API server until the event loop ends, and follows where it is.
pub async fn follow(
    settings: Arc<Settings>,
    servers: Servers,
    sources: Sources,
    found: watch::Sender<Found>,
    answers: mpsc::Sender<Input>,
) {
    let health = Health::new(u32::from(settings.health.rise), u32::from(settings.health.fall));
    let mut follower = Follower { settings, servers, sources, found, answers, health, listed: Listed::Unknown };
    // An error of a step means that the event loop has ended: no receiver is left.
    let _ = follower.run().await;
}

struct Follower {
    settings: Arc<Settings>,
    servers: Servers,
    sources: Sources,
    found: watch::Sender<Found>,
    answers: mpsc::Sender<Input>,
    health: Health,
    listed: Listed,
}

impl Follower {
    async fn run(&mut self) -> Result<(), mpsc::error::SendError<Input>> {
        let off = self.settings.health.address == HealthAddress::Off;
        if off {
            tracing::info!("health-address is off: the health of API servers does not decide which node has the VIP");
            self.answers.send(Input::Health(Verdict::Healthy)).await?;
        }
        let mut tick = interval(self.settings.health.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    self.search().await?;
                    if !off {
                        self.probe().await?;
                    }
                }
                Ok(()) = self.sources.listed.changed() => self.search().await?,
            }
        }
    }

    /// Looks which of the listed API servers is this node's. One that was found counts until another is, or until the node
    /// no longer has its address: the other API servers take a dead one from the list after some seconds.
    async fn search(&mut self) -> Result<(), mpsc::error::SendError<Input>> {
        let vips = self.sources.vips.borrow().clone();
        let mut listed = self.sources.listed.borrow_and_update().clone();
        listed.retain(|server| !vips.contains(&server.ip()));
        let mut own = one_a_family(listed.iter().copied().filter(|server| is_own(server.ip())));
        if own.is_empty() {
            let before = self.found.borrow().clone();
            own = before.into_iter().filter(|server| !vips.contains(&server.ip()) && is_own(server.ip())).collect();
        }
        self.listed = match (own.is_empty(), listed.is_empty()) {
            (false, _) => Listed::Here,
            (true, false) => Listed::Elsewhere,
            (true, true) => Listed::Unknown,
        };
        if *self.found.borrow() == own {
            return Ok(());
        }
        tracing::info!(servers = ?own, "this node's API server, as default/kubernetes lists it");
        let addresses: Vec<IpAddr> = own.iter().map(SocketAddr::ip).collect();
        self.servers.set_own_addresses(addresses.clone());
        self.found.send_replace(own);
        if self.settings.health.address == HealthAddress::Off {
            return Ok(());
        }
        self.answers.send(Input::ApiServers(addresses)).await
    }

    async fn probe(&mut self) -> Result<(), mpsc::error::SendError<Input>> {
        let Some(url) = own_url(&self.settings, &self.found.borrow()) else { return Ok(()) };
        let result = self.servers.probe(&url, self.settings.health.timeout).await;
        let Some(verdict) = self.health.result(result.is_ok(), self.listed) else { return Ok(()) };
        tell(verdict, &against(result, self.settings.health.rise));
        self.servers.prefer_local(verdict == Verdict::Healthy);
        self.answers.send(Input::Health(verdict)).await
    }
}

/// What speaks against the API server. Its last probe may have been good, and too few before it.
fn against<E: ToString>(last: Result<(), E>, rise: u8) -> String {
    match last {
        Ok(()) => format!("it answers, but has not been ready {rise} times in a row since it last failed"),
        Err(error) => error.to_string(),
    }
}

fn tell(verdict: Verdict, error: &str) {
    match verdict {
        Verdict::Healthy => tracing::info!("the local API server is healthy"),
        Verdict::Unhealthy => tracing::warn!(error, "the local API server is not healthy"),
        Verdict::NoServer => tracing::info!(
            error,
            "this node has no API server: default/kubernetes lists only others; health does not keep it from the VIP unless another candidate has one"
        ),
    }
}

fn one_a_family(servers: impl Iterator<Item = SocketAddr>) -> Found {
    let mut all = Found::new();
    for server in servers {
        if all.iter().all(|known| known.is_ipv4() != server.is_ipv4()) {
            all.push(server);
        }
    }
    all
}

/// Whether the address is one of this node's, on any interface. The kernel reaches an own address from the same address; a
/// route to another host has another source. Connecting a UDP socket sends nothing. (Binding would not tell: with
/// `ip_nonlocal_bind`, common beside load balancers, any address can be bound.)
fn is_own(address: IpAddr) -> bool {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let source = UdpSocket::bind(any).and_then(|socket| {
        // Any port will do.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_told_from_others() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(is_own("::1".parse().unwrap()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
        assert!(!is_own("2001:db8::77".parse().unwrap()));
    }

    #[test]
    fn a_server_that_answers_and_is_not_healthy_yet_is_said_to_answer() {
        assert_eq!(against(Err("connection refused"), 2), "connection refused");
        assert!(against(Ok::<_, String>(()), 2).contains("answers, but has not been ready 2 times"));
    }

    #[test]
    fn one_address_of_each_family_is_declared() {
        let all = ["192.0.2.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443"].map(|text| text.parse().unwrap());
        assert_eq!(one_a_family(all.into_iter()), [all[0], all[2]]);
    }
}
