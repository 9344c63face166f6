//! A watch that shows nothing for a while: whether its API server is there, and whether the API counts on from the version with
//! which the watch began.

use kube::core::Request;
use kube::core::params::ListParams;
use serde::de::IgnoredAny;
use tokio::time::sleep;

use super::Verb;
use super::servers::Key;
use super::typed::Follow;
use crate::backoff::jitter;

/// What a look at the API server of a quiet watch has found.
pub(super) enum Found {
    /// It answers.
    There,
    /// It answers, and the API has reached the version from which the watch goes on.
    Counts,
    /// The API is at this version, which is lower.
    Lower(String),
    /// It does not answer.
    Gone,
}

/// Waits for [`Follow::quiet`], and then looks whether the API server is there. `doubted`: the version from which the watch
/// goes on, if the API may count from a lower one.
pub(super) async fn look(follow: &Follow, server: Option<&Key>, doubted: Option<&str>) -> Found {
    sleep(jitter(follow.quiet)).await;
    if let Some(key) = server
        && !follow.servers.is_there(key, follow.quiet).await
    {
        return Found::Gone;
    }
    let Some(from) = doubted else { return Found::There };
    match follow.version().await {
        Some(at) if is_lower(&at, from) => Found::Lower(at),
        Some(_) => Found::Counts,
        None => Found::There,
    }
}

/// Whether a version is lower than another. Versions are numbers, and one store counts them upwards (KEP-5504; the numbers
/// are etcd's revisions). Versions that are no numbers cannot be compared.
pub(super) fn is_lower(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
}

impl Follow {
    /// The version of the collection, by a consistent read. None: no API server says.
    async fn version(&self) -> Option<String> {
        let params = ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit: Some(1),
            ..ListParams::default()
        };
        let call = self.call(Verb::List, Request::new(self.path.clone()).list(&params)).ok()?;
        Some(self.servers.ask_for_list::<IgnoredAny>(&call, self.limits).await.ok()?.version)
    }
}
