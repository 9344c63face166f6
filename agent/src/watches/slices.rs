//! The watch of `EndpointSlice` objects, of only those Services that need a local endpoint. Other Services begin another watch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Message, follow_objects};
use crate::api::objects::{Key, Slice};
use crate::api::typed::Follow;
use crate::catalog::{Change, Seen};

/// The Services whose slices are watched.
pub type Services = Arc<BTreeSet<Key>>;

/// Up to this many Services are named one by one in a selector.
const NAMED: usize = 40;
/// A watch lasts this long at least: many Services that come one by one do not cause a list each ...
const ANEW: Duration = Duration::from_millis(500);
/// ... and a watch lasts until its list has arrived, if the list arrives within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the slices of these Services until the event loop or the sender is gone.
pub async fn follow_slices(follow: Follow, mut wanted: watch::Receiver<Services>, told: mpsc::Sender<Message>) {
    loop {
        let services = wanted.borrow_and_update().clone();
        if services.is_empty() {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let follow = Follow { labels: Some(selector(&services)), ..follow.clone() };
        let (listed, is_listed) = watch::channel(false);
        let covers = services.clone();
        let seen = move |change: Change<Slice>| {
            listed.send_replace(true);
            Seen::Slices(covers.clone(), change)
        };
        tokio::select! {
            () = follow_objects(follow, "EndpointSlices", told.clone(), seen) => return,
            others = others_wanted(&services, &mut wanted, is_listed) => if !others { return },
        }
    }
}

fn selector(services: &BTreeSet<Key>) -> String {
    let names: BTreeSet<&str> = services.iter().map(|key| key.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let label = "kubernetes.io/service-name";
    if names.len() > NAMED { label.to_owned() } else { format!("{label} in ({})", names.join(",")) }
}

/// Waits until another watch is to begin, because other Services than these are wanted. False: nobody wants any.
async fn others_wanted(
    services: &Services,
    wanted: &mut watch::Receiver<Services>,
    mut is_listed: watch::Receiver<bool>,
) -> bool {
    let began = Instant::now();
    loop {
        if wanted.wait_for(|wanted| wanted != services).await.is_err() {
            return false;
        }
        tokio::time::sleep_until(began + ANEW).await;
        // Either way the watch has lasted long enough.
        let _ = tokio::time::timeout_at(began + PATIENCE, is_listed.wait_for(|listed| *listed)).await;
        if *wanted.borrow() != *services {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Watches};
    use super::*;
    use crate::api::testing::{Answer, Cluster, Server, answer};

    /// Long enough that nothing but a hang meets it.
    const LONG: Duration = Duration::from_secs(30);

    fn services(names: &[&str]) -> BTreeSet<Key> {
        names.iter().map(|name| Key { namespace: "shop".into(), name: (*name).into() }).collect()
    }

    fn empty() -> Answer {
        answer(200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#)
    }

    /// A server that has no objects.
    async fn server(cluster: &Cluster) -> Server {
        cluster
            .serve(|request| async move {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                if is_watch { std::future::pending().await } else { empty() }
            })
            .await
    }

    /// Waits until the slices of these Services are there.
    async fn covered(inbox: &mut mpsc::Receiver<Message>, services: &BTreeSet<Key>) {
        let told = async {
            loop {
                if let Message::Seen(seen) = inbox.recv().await.unwrap()
                    && let Seen::Slices(of, Change::All(_)) = *seen
                    && *of == *services
                {
                    return;
                }
            }
        };
        tokio::time::timeout(LONG, told).await.expect("these slices were never listed");
    }

    #[tokio::test]
    async fn services_that_come_one_after_the_other_are_all_followed() {
        let cluster = Cluster::new();
        let server = server(&cluster).await;
        let (told, mut inbox) = mpsc::channel(64);
        let watches = Watches::start(cluster.servers(vec![server.url()]), None, told);
        let (one, both) = (services(&["a"]), services(&["a", "b"]));
        watches.slices_of(&one);
        covered(&mut inbox, &one).await;
        // The watch has just begun, and nothing else happens in the cluster.
        watches.slices_of(&both);
        covered(&mut inbox, &both).await;
        // A Service that is no longer wanted, and wanted again at once, changes nothing.
        watches.slices_of(&one);
        watches.slices_of(&both);
        let three = services(&["a", "b", "c"]);
        watches.slices_of(&three);
        covered(&mut inbox, &three).await;
    }
}
