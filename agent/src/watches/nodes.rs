//! The watch of all Nodes, for nothing but their addresses. Kubelets write the status of their Nodes every five minutes, and whenever
//! something changes: what changes no address is not passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use futures::FutureExt;
use tokio::sync::mpsc;

use super::Message;
use crate::api::ApiError;
use crate::api::objects::NodeAddresses;
use crate::api::typed::{Follow, Followed};
use crate::catalog::{Change, Seen};

/// The name of this watch.
pub const NODES: &str = "addresses of Nodes";

/// Follows the addresses of all Nodes until the loop is gone.
pub async fn follow_nodes(follow: Follow, told: mpsc::Sender<Message>) {
    let mut known = Known::default();
    follow
        .run(move |followed: Followed<NodeAddresses>| {
            let messages = known.take(followed);
            let told = told.clone();
            async move {
                for message in messages {
                    if told.send(message).await.is_err() {
                        return false;
                    }
                }
                true
            }
            .boxed()
        })
        .await;
}

/// What was passed on.
#[derive(Default)]
struct Known {
    listed: bool,
    nodes: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Known {
    fn take(&mut self, followed: Followed<NodeAddresses>) -> Vec<Message> {
        let seen = |seen: Seen| Message::Seen(Box::new(seen));
        let watch = |wrong: Option<String>| Message::Watch { name: (NODES, 0), wrong };
        match followed {
            Followed::Listed(all) => {
                self.listed = true;
                self.nodes = all.iter().map(|one| (one.metadata.name.clone(), one.addresses())).collect();
                vec![seen(Seen::NodeAddresses(Change::All(all))), watch(None)]
            }
            Followed::Applied(one) => {
                let (name, now) = (one.metadata.name.clone(), one.addresses());
                if self.nodes.get(&name) == Some(&now) {
                    return vec![];
                }
                self.nodes.insert(name, now);
                vec![seen(Seen::NodeAddresses(Change::One(one)))]
            }
            Followed::Deleted(one) => {
                self.nodes.remove(&one.metadata.name);
                vec![seen(Seen::NodeAddresses(Change::Gone(one)))]
            }
            Followed::Alive => vec![watch(None)],
            Followed::Lost(error) => {
                let denied = matches!(error, ApiError::Forbidden { .. }) && !self.listed;
                let lost = watch(Some(error.to_string()));
                if denied { vec![lost, seen(Seen::NodesDenied)] } else { vec![lost] }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, address: &str, version: &str) -> NodeAddresses {
        serde_json::from_value(json!({
            "metadata": {"name": name, "resourceVersion": version},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_changes_no_address_is_not_passed_on() {
        let mut known = Known::default();
        assert_eq!(known.take(Followed::Listed(vec![node("a", "10.0.0.1", "1")])).len(), 2);
        assert_eq!(known.take(Followed::Applied(node("a", "10.0.0.1", "2"))).len(), 0);
        assert_eq!(known.take(Followed::Applied(node("a", "10.0.0.2", "3"))).len(), 1);
        assert_eq!(known.take(Followed::Applied(node("b", "10.0.0.3", "4"))).len(), 1);
        assert_eq!(known.take(Followed::Deleted(node("b", "10.0.0.3", "5"))).len(), 1);
        assert_eq!(known.take(Followed::Applied(node("b", "10.0.0.3", "6"))).len(), 1, "it is another one");
    }
}
