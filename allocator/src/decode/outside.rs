//! Pools of outside systems: their plan, and what they say about their use.

use std::collections::BTreeSet;

use mooring_allocator_core::pool::{Network, Plan, SpecError};
use mooring_allocator_core::remote::{Drift, Orphans, RemoteSpec};
use mooring_api::pool::{DriftPolicy, NO_APP_ID, OrphanPolicy, PhpIpamIpPoolSpec, is_app_id};

/// Requests under way at a time, if the pool says nothing.
const CALLS: usize = 4;

/// The plan of a pool of phpIPAM.
///
/// # Errors
/// What is missing in the spec.
pub fn phpipam(
    spec: &PhpIpamIpPoolSpec,
    network: Network,
    allowed: Option<BTreeSet<String>>,
) -> Result<Plan, Vec<SpecError>> {
    let mut errors = Vec::new();
    let url = spec.url().unwrap_or_default();
    if !(url.starts_with("https://") || url.starts_with("http://")) || url.contains('@') {
        errors.push(SpecError::Legacy("endpoint is missing or no URL: write https://HOST/api"));
    }
    match spec.app() {
        None => errors.push(SpecError::Legacy("appId is missing: name the app of phpIPAM's API")),
        Some(app) if !is_app_id(app) => errors.push(SpecError::Legacy(NO_APP_ID)),
        Some(_) => {}
    }
    if spec.credentials_ref.is_none() && spec.credentials.as_ref().is_none_or(|inline| inline.password.is_empty()) {
        errors.push(SpecError::Legacy("credentialsRef is missing: name a Secret with username and password, or token"));
    }
    if spec.subnet_ids().is_empty() {
        errors.push(SpecError::Legacy("subnets is missing: list the numbers of the subnets in phpIPAM"));
    }
    if errors.is_empty() { Ok(Plan::of_outside(network, allowed)) } else { Err(errors) }
}

/// What a pool of phpIPAM says about its use.
#[must_use]
pub fn use_of(spec: &PhpIpamIpPoolSpec) -> RemoteSpec {
    let mut warnings = Vec::new();
    if spec.credentials.as_ref().is_some_and(|inline| !inline.password.is_empty()) {
        warnings
            .push("credentials stand in the pool, where everybody reads them: move them to a Secret (credentialsRef)");
    }
    if spec.url().is_some_and(|url| url.starts_with("http://")) {
        warnings.push("endpoint is http://: the password and the token are sent unencrypted");
    }
    RemoteSpec {
        calls: spec.concurrency.and_then(|calls| usize::try_from(calls).ok()).unwrap_or(CALLS).max(1),
        orphans: match spec.orphans.unwrap_or_default() {
            OrphanPolicy::Report => Orphans::Report,
            OrphanPolicy::Release => Orphans::Release,
        },
        drift: match spec.drift.unwrap_or_default() {
            DriftPolicy::PutBack => Drift::PutBack,
            DriftPolicy::Report => Drift::Report,
        },
        warning: warnings.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use mooring_api::pool::InlineCredentials;

    use super::*;

    #[test]
    fn an_app_of_the_old_form_must_be_a_name_too() {
        let inline =
            |app: &str| InlineCredentials { app_id: app.into(), password: "p".into(), ..InlineCredentials::default() };
        let spec = |app: &str| PhpIpamIpPoolSpec {
            endpoint: Some("https://ipam.example.com/api".into()),
            credentials: Some(inline(app)),
            subnetid: Some(1),
            ..PhpIpamIpPoolSpec::default()
        };
        assert!(phpipam(&spec("kube"), Network::Common, None).is_ok());
        let refused = phpipam(&spec("../admin?x="), Network::Common, None).unwrap_err();
        assert_eq!(refused, [SpecError::Legacy(NO_APP_ID)]);
    }
}
