//! The watches of `EndpointSlice` objects, of only those Services that need a local endpoint.
//!
//! A watch names its Services in a selector: other Services begin another watch, with a list. So that one more Service does not
//! make every node list the slices of all, the Services are dealt out to several watches by their names, and only the watch of a
//! Service that comes or goes begins anew. Few Services need one watch. Each doubling of the watches deals the Services out anew:
//! that is rare. A node has [`MOST`] watches at most: API servers compare each change of a slice with the selectors of all
//! watches of all nodes.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mooring_names::labels::SERVICE_NAME;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Message, follow_objects};
use crate::api::objects::{Key, Slice};
use crate::api::typed::Follow;
use crate::catalog::{Change, Dealt, Seen};

/// The Services whose slices are watched.
pub type Services = Arc<BTreeSet<Key>>;

/// The name of these watches.
pub const SLICES: &str = "EndpointSlices";

/// Services for each watch, on average. With more there are twice as many watches, with a quarter half as many.
const EACH: usize = 40;
/// Watches at most.
const MOST: usize = 16;
/// Up to this many Services are named one by one in a selector: a name has up to 63 characters, and some proxies take no more
/// than 8 KiB for a request line. A watch of more Services shows all slices.
const NAMED: usize = 110;
/// A watch lasts this long at least: many Services that come one by one do not cause a list each ...
const ANEW: Duration = Duration::from_millis(500);
/// ... and a watch lasts until its list has arrived, if the list arrives within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many watches there are to be for so many Services; `now`: how many there are. A power of two. Beyond what [`MOST`] watches
/// can name there is one, which shows all slices: several would show all slices several times.
fn watches(now: usize, services: usize) -> usize {
    if services > EACH * MOST {
        return if now == MOST && services <= 2 * EACH * MOST { MOST } else { 1 };
    }
    let wanted = services.div_ceil(EACH).next_power_of_two();
    let fewer = services * 4 <= now * EACH;
    if wanted > now || fewer { wanted } else { now }
}

/// Which watch has the Services of that name, of so many watches.
fn watch_of(name: &str, watches: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    usize::try_from(hasher.finish() % u64::try_from(watches).unwrap_or(1)).unwrap_or(0)
}

/// Deals the Services out to so many watches.
fn deal(services: &BTreeSet<Key>, watches: usize) -> Vec<BTreeSet<Key>> {
    let mut all = vec![BTreeSet::new(); watches];
    for service in services {
        all[watch_of(&service.name, watches)].insert(service.clone());
    }
    all
}

/// Follows the slices of these Services until the event loop or the sender is gone.
pub async fn follow_slices(follow: Follow, mut wanted: watch::Receiver<Services>, told: mpsc::Sender<Message>) {
    let mut all: Vec<watch::Sender<Dealt>> = vec![];
    // They end with this future.
    let mut tasks = JoinSet::new();
    let mut now = 1;
    for number in 1.. {
        let services = wanted.borrow_and_update().clone();
        now = watches(now, services.len());
        let mut dealt = deal(&services, now);
        for nth in all.len()..now {
            let (of, wanted) = watch::channel(Dealt { watch: nth, ..Dealt::default() });
            all.push(of);
            tasks.spawn(follow_some(follow.clone(), wanted, told.clone()));
        }
        dealt.resize(all.len(), BTreeSet::new());
        for (of, services) in all.iter().zip(dealt) {
            of.send_if_modified(|wanted| {
                let others = *wanted.services != services;
                if others {
                    wanted.deal = number;
                    wanted.services = Arc::new(services);
                }
                others
            });
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = told.closed() => return,
        }
    }
}

/// One of the watches.
async fn follow_some(follow: Follow, mut wanted: watch::Receiver<Dealt>, told: mpsc::Sender<Message>) {
    loop {
        let dealt = wanted.borrow_and_update().clone();
        let name = (SLICES, dealt.watch);
        if dealt.services.is_empty() {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let follow = Follow { labels: Some(selector(&dealt.services)), ..follow.clone() };
        let (listed, is_listed) = watch::channel(false);
        let covers = dealt.clone();
        let seen = move |change: Change<Slice>| {
            listed.send_replace(true);
            Seen::Slices(covers.clone(), change)
        };
        tokio::select! {
            () = follow_objects(follow, name, told.clone(), seen) => return,
            others = others_wanted(&dealt, &mut wanted, is_listed) => if !others { return },
        }
        let next = wanted.borrow().clone();
        if next.services.is_empty() {
            // Nothing more is shown of the last ones, and a watch that is not needed is not lost.
            let none = Seen::Slices(next, Change::All(vec![]));
            for message in [Message::Seen(Box::new(none)), Message::Watch { name, wrong: None }] {
                if told.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn selector(services: &BTreeSet<Key>) -> String {
    let names: BTreeSet<&str> = services.iter().map(|key| key.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.len() > NAMED { SERVICE_NAME.to_owned() } else { format!("{SERVICE_NAME} in ({})", names.join(",")) }
}

/// Waits until another watch is to begin, because other Services than these are wanted. So it is with the same Services in a
/// later deal: another watch had some of them for a while, and may have listed them. False: nobody wants any.
async fn others_wanted(
    dealt: &Dealt,
    wanted: &mut watch::Receiver<Dealt>,
    mut is_listed: watch::Receiver<bool>,
) -> bool {
    let began = Instant::now();
    loop {
        if wanted.wait_for(|wanted| wanted != dealt).await.is_err() {
            return false;
        }
        tokio::time::sleep_until(began + ANEW).await;
        // Either way the watch has lasted long enough.
        let _ = tokio::time::timeout_at(began + PATIENCE, is_listed.wait_for(|listed| *listed)).await;
        if *wanted.borrow() != *dealt {
            return true;
        }
    }
}
