//! Counting what an API server was asked, from its audit log.
//!
//! The log is chosen over the metrics because it names the user agent and the time of each request: metrics have
//! neither. `kube-apiserver --audit-log-path=FILE --audit-policy-file=POLICY`, with [`POLICY`] as the policy.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use mooring_agent::core::time::Time;
use serde::Deserialize;

use super::{Error, wall};

/// An audit policy that records every request once, when it is received: a watch counts when it begins.
pub const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
  - level: Metadata
";

/// One request, as the audit log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the API server received it, by its wall clock.
    pub at: SystemTime,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// Who asked: the name in the certificate or token.
    pub user: String,
    /// The program's name for itself.
    pub agent: String,
}

impl Request {
    /// Whether it is for the state of the API server (`/readyz`, `/livez`, `/healthz`, `/version`), not for objects.
    #[must_use]
    pub fn is_health(&self) -> bool {
        ["/readyz", "/livez", "/healthz", "/version"].iter().any(|path| self.uri.starts_with(path))
    }

    /// Whether it writes.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "head")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    id: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// The requests of an audit log received between `from` and `to`, each once however many stages the log has. The last
/// line may be half written: it is left out then.
///
/// # Errors
/// When the file cannot be read, or a whole line of it is not an audit event.
pub fn requests(log: &Path, from: Time, to: Time) -> Result<Vec<Request>, Error> {
    let (from, to) = (wall(from), wall(to));
    let file = File::open(log).map_err(Error::io(format!("open {}", log.display())))?;
    let mut reader = BufReader::new(file);
    let (mut text, mut number) = (String::new(), 0);
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    loop {
        text.clear();
        let len = reader.read_line(&mut text).map_err(Error::io(format!("read {}", log.display())))?;
        if len == 0 || !text.ends_with('\n') {
            return Ok(found);
        }
        number += 1;
        let line: Line = serde_json::from_str(&text).map_err(|e| Error::Audit {
            path: log.display().to_string(),
            line: number,
            detail: e.to_string(),
        })?;
        let at = SystemTime::from(line.request_received_timestamp);
        if (from..to).contains(&at) && seen.insert(line.id) {
            let (verb, uri, user, agent) = (line.verb, line.uri, line.user.username, line.user_agent);
            found.push(Request { at, verb, uri, user, agent });
        }
    }
}

/// How many requests of each verb there were from programs whose user agent begins with `agent` (empty: from all), the
/// health requests aside.
///
/// # Errors
/// As [`requests`].
pub fn count_requests(log: &Path, from: Time, to: Time, agent: &str) -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = BTreeMap::new();
    for request in requests(log, from, to)?.into_iter().filter(|r| r.agent.starts_with(agent) && !r.is_health()) {
        *counts.entry(request.verb).or_default() += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::super::now;
    use super::*;

    fn line(id: u32, ago: u64, verb: &str, uri: &str, agent: &str) -> String {
        let at = Timestamp::try_from(SystemTime::now() - Duration::from_secs(ago)).unwrap();
        let user = r#"{"username":"kubernetes-admin"}"#;
        format!(
            r#"{{"kind":"Event","auditID":"{id}","stage":"RequestReceived","requestURI":"{uri}","verb":"{verb}","user":{user},"userAgent":"{agent}","requestReceivedTimestamp":"{at}","more":1}}"#
        )
    }

    #[test]
    fn counts_each_request_once_and_only_those_asked_for() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        for text in [
            line(1, 5, "get", "/api/v1/nodes/a", "mooring-agent/0.1"),
            line(1, 5, "get", "/api/v1/nodes/a", "mooring-agent/0.1"),
            line(2, 5, "get", "/readyz?verbose", "mooring-agent/0.1"),
            line(3, 5, "update", "/apis/x", "mooring-agent/0.1"),
            line(4, 5, "update", "/apis/x", "kubelet/1"),
            line(5, 500, "update", "/apis/x", "mooring-agent/0.1"),
        ] {
            writeln!(log, "{text}").unwrap();
        }
        write!(log, "{{\"half").unwrap();
        let minute = Duration::from_mins(1);
        let counts = count_requests(log.path(), now() - minute, now(), "mooring-agent").unwrap();
        assert_eq!(counts, [("get".to_owned(), 1), ("update".to_owned(), 1)].into());
        writeln!(log, "\n").unwrap();
        assert!(matches!(requests(log.path(), now() - minute, now()), Err(Error::Audit { line: 7, .. })));
    }
}
