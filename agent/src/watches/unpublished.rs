//! The sessions whose nodes have no member object: their agents are of before. They are watched while one of them is live, and looked
//! for now and then otherwise.
//!
//! The API server hands each renewal in a namespace to each watch of the namespace's Leases, and only there looks at labels
//! (`Cacher.dispatchEvent`). So a watch in each agent would cost it the square of the nodes, though it shows nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mooring_common::backoff::Backoff;
use tokio::sync::mpsc;

use super::{Message, SESSIONS, tell};
use crate::api::raw::Raw;
use crate::api::sessions;
use crate::api::typed::{Follow, Followed};
use crate::core::session::View;
use crate::core::session_vips::Input;

/// How often the agent looks for sessions without a member object while none of them is live: at first, and at last.
const SELDOM: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(4));

/// Follows them until the receiver is gone.
pub(super) async fn follow_unpublished(follow: Follow, told: mpsc::Sender<Message>) {
    let mut pause = Backoff::new(SELDOM.0, SELDOM.1);
    let found = Arc::new(AtomicBool::new(false));
    while !told.is_closed() {
        follow.clone().run(while_any_lives(found.clone(), told.clone())).await;
        if found.swap(false, Ordering::Relaxed) {
            pause.reset();
        }
        tokio::time::sleep(pause.wait()).await;
    }
}

/// Reports what the watch of such sessions shows. It ends when none of them is live (any more). `found`: one was.
fn while_any_lives(
    found: Arc<AtomicBool>,
    told: mpsc::Sender<Message>,
) -> impl FnMut(Followed<Raw>) -> BoxFuture<'static, bool> + Send + 'static {
    let mut live: BTreeSet<String> = BTreeSet::new();
    move |followed| {
        let news = match followed {
            Followed::Listed(all) => {
                let views: Vec<View> = all.iter().filter_map(sessions::view).collect();
                live = views.iter().filter(|view| view.is_live()).map(|view| view.node.clone()).collect();
                Ok(Some(Input::Sessions { id: None, result: Ok(views) }))
            }
            Followed::Applied(raw) => Ok(sessions::view(&raw).map(|view| {
                if view.is_live() {
                    live.insert(view.node.clone());
                } else {
                    live.remove(&view.node);
                }
                Input::Session(view)
            })),
            Followed::Deleted(raw) => Ok(sessions::view(&raw).map(|view| {
                live.remove(&view.node);
                Input::NotUnpublished(view.node)
            })),
            Followed::Alive => Ok(None),
            Followed::Lost(error) => Err(error),
        };
        let goes_on = news.is_err() || !live.is_empty();
        found.fetch_or(!live.is_empty(), Ordering::Relaxed);
        let told = told.clone();
        async move {
            let name = (SESSIONS, 0);
            let is_heard = tell(told.clone(), name, news).await;
            if is_heard && !goes_on {
                // It does not end because it failed.
                tell(told, name, Ok(None)).await;
            }
            is_heard && goes_on
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ApiError;

    fn lease(node: &str, holder: &str) -> Raw {
        let name = format!("{}{node}", sessions::PREFIX);
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0});
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec})).unwrap()
    }

    #[tokio::test]
    async fn sessions_without_a_member_object_are_watched_while_one_of_them_is_live() {
        let found = Arc::new(AtomicBool::new(false));
        let (told, mut news) = mpsc::channel(64);
        let mut watch = while_any_lives(found.clone(), told.clone());
        assert!(!watch(Followed::Listed(vec![lease("gone", "")])).await, "it has ended");
        assert!(matches!(news.recv().await, Some(Message::Input(Input::Sessions { id: None, .. }))));
        assert!(matches!(news.recv().await, Some(Message::Watch { wrong: None, .. })), "it was no failure");
        assert!(!found.load(Ordering::Relaxed));

        let mut watch = while_any_lives(found.clone(), told);
        assert!(watch(Followed::Lost(ApiError::NotFound { what: "w".into(), message: "m".into() })).await);
        assert!(watch(Followed::Listed(vec![lease("gone", ""), lease("a", "a")])).await);
        assert!(found.load(Ordering::Relaxed));
        assert!(watch(Followed::Alive).await);
        assert!(watch(Followed::Applied(lease("b", "b"))).await);
        assert!(watch(Followed::Deleted(lease("a", "a"))).await, "b lives");
        assert!(!watch(Followed::Applied(lease("b", ""))).await, "it has ended");
    }
}
