//! A kubeconfig: perhaps half written, perhaps not one. Its keys are in no error.

use std::path::Path;

use futures::FutureExt;
use mooring_agent::api::ConfigError;
use mooring_agent::api::kubeconfig::{connect, parse};

/// Where no file is: a file that the bytes name is looked for there, unless they give an absolute name.
const PATH: &str = "/nonexistent/admin.conf";
/// Stands for a key in the corpus.
const SECRET: &str = "c2VjcmV0";

pub fn check(data: &[u8]) {
    let file = match parse(data, Path::new(PATH)) {
        Ok(file) => file,
        Err(error) => return named(&error),
    };
    let users = file.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let clusters = file.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let mut files: Vec<String> = clusters.filter_map(|cluster| cluster.certificate_authority.clone()).collect();
    files.extend(users.flat_map(|u| [&u.client_certificate, &u.client_key, &u.token_file]).flatten().cloned());
    assert!(files.iter().all(|name| Path::new(name).is_absolute()), "{files:?}");
    if files.iter().any(|name| !name.starts_with("/nonexistent/")) {
        return;
    }
    match connect(file, Path::new(PATH)).now_or_never().expect("it waits for nothing") {
        Ok((config, files)) => {
            assert_eq!(files, [] as [&Path; 0], "of none of these there is one");
            assert!(config.cluster_url.host().is_some_and(|host| !host.is_empty()));
            assert!(config.auth_info.exec.is_none() && config.auth_info.auth_provider.is_none());
            assert!(config.proxy_url.is_none());
        }
        Err(error) => named(&error),
    }
}

/// The reason is one that a person can do something about, and gives nothing away.
fn named(error: &ConfigError) {
    let text = error.to_string();
    assert!(text.len() < 600 + 4 * PATH.len() || matches!(error, ConfigError::Unreadable { .. }), "{text}");
    let names_something = text.contains(SECRET) && (text.contains("is not among") || text.contains("/nonexistent/"));
    assert!(!text.contains(SECRET) || names_something, "{text}");
}
