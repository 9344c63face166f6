//! The VIPs that are given as DNS names. The agent follows changed answers and keeps the last good answer. This module
//! also joins all kinds of VIPs into one list.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::answers::Answers;
use crate::datapath::clock;
use crate::settings::{Address, DnsMode};

/// The time between two look-ups of a name that resolves.
const FOLLOW: Duration = Duration::from_secs(30);
/// The time between two look-ups while a name does not resolve.
const RETRY: Duration = Duration::from_secs(2);
/// The time limit of one look-up.
const WITHIN: Duration = Duration::from_secs(10);

/// The control plane's VIPs as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The VIPs.
    pub vips: Vec<IpAddr>,
    /// Whether every name and every object has said its addresses.
    pub all: bool,
}

/// The VIPs that are known at once.
#[must_use]
pub fn at_start(addresses: &[Address]) -> Known {
    Known { vips: fixed(addresses), all: addresses.iter().all(|a| matches!(a, Address::Ip(_))) }
}

/// The VIPs that are given as addresses.
fn fixed(addresses: &[Address]) -> Vec<IpAddr> {
    let fixed = addresses.iter().filter_map(|a| match a {
        Address::Ip(ip) => Some(*ip),
        Address::Name(_) | Address::Object(_) => None,
    });
    fixed.collect()
}

/// Sends all VIPs whenever the answer for a name or the addresses of `objects` have changed; ends at once without names
/// and objects.
pub async fn follow(
    addresses: Vec<Address>,
    mode: DnsMode,
    mut objects: watch::Receiver<Vec<IpAddr>>,
    changed: mpsc::Sender<Known>,
) {
    let names: Vec<&str> =
        addresses.iter().filter_map(|a| if let Address::Name(n) = a { Some(&**n) } else { None }).collect();
    if addresses.iter().all(|a| matches!(a, Address::Ip(_))) {
        return;
    }
    let mut answers: Vec<Vec<IpAddr>> = vec![vec![]; names.len()];
    let mut families: Vec<Answers> = names.iter().map(|_| Answers::default()).collect();
    let mut sent = at_start(&addresses);
    let by_object = addresses.iter().filter(|a| matches!(a, Address::Object(_))).count();
    // The error of each name at its last look-up: reported when it changes, not every time.
    let mut told: Vec<Option<String>> = vec![None; names.len()];
    loop {
        for (((name, answer), told), families) in names.iter().zip(&mut answers).zip(&mut told).zip(&mut families) {
            let wrong = match look_up(name).await {
                Ok(found) => {
                    let found = families.take(&found, clock::boottime());
                    let picked = mode.pick(&found);
                    let usable = !picked.is_empty();
                    if usable {
                        *answer = picked;
                    }
                    (!usable).then(|| format!("none of its addresses could be a VIP: {found:?}"))
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(wrong) = wrong.as_ref().filter(|wrong| told.as_ref() != Some(wrong)) {
                tracing::warn!(name, wrong, "DNS name of the VIP does not resolve; keeping the last answer, retrying");
            }
            *told = wrong;
        }
        let mut all = fixed(&addresses);
        all.extend(answers.iter().flatten());
        let of_objects = objects.borrow_and_update().clone();
        all.extend(&of_objects);
        all.sort_unstable();
        all.dedup();
        let all_known = answers.iter().all(|a| !a.is_empty());
        let known = Known { vips: all, all: all_known && of_objects.len() >= by_object };
        if known != sent {
            tracing::info!(addresses = ?known.vips, "addresses of the VIPs that are given by name");
            sent.clone_from(&known);
            if changed.send(known).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(if all_known { FOLLOW } else { RETRY }) => {}
            // Without objects this branch never runs.
            Ok(()) = objects.changed() => {}
        }
    }
}

async fn look_up(name: &str) -> std::io::Result<Vec<IpAddr>> {
    let found = tokio::time::timeout(WITHIN, tokio::net::lookup_host((name, 0))).await;
    let mut addresses: Vec<IpAddr> = found.map_err(|_| std::io::ErrorKind::TimedOut)??.map(|a| a.ip()).collect();
    // A resolver may rotate the answers; the order must not make the VIP move.
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}
