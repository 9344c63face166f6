//! Counts the requests to an API server, from its audit log.
//!
//! The audit log is used instead of the metrics because it records the user agent and the time of each request; the
//! metrics record neither. Start with `kube-apiserver --audit-log-path=FILE --audit-policy-file=POLICY`, with
//! [`POLICY`] as the policy.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use mooring_agent::core::time::Time;
use serde::Deserialize;

use super::{Error, wall};

/// An audit policy that records every request once, when the API server receives it: a watch counts when it begins.
pub const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
  - level: Metadata
";

/// The beginning of a line.
const BEGIN: &str = "{\"kind\":\"Event\"";

/// One request of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the API server received it, by its wall clock.
    pub at: SystemTime,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// The user: the name in the certificate or token.
    pub user: String,
    /// The user agent of the program.
    pub agent: String,
    /// The objects it is about; none: another path.
    pub object: Option<Object>,
    /// Whether the roles of the user do not allow it.
    pub refused: bool,
}

/// What a request is about. Empty: not said in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Object {
    /// The API group.
    pub api_group: String,
    /// `leases` for example.
    pub resource: String,
    /// `status` for example.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name; of a list or watch the only one that it selects.
    pub name: String,
}

impl Request {
    /// Whether the request asks for the state of the API server (`/readyz`, `/livez`, `/healthz`, `/version`), not for
    /// objects.
    #[must_use]
    pub fn is_health(&self) -> bool {
        ["/readyz", "/livez", "/healthz", "/version"].iter().any(|path| self.uri.starts_with(path))
    }

    /// Whether the request writes.
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
    object_ref: Option<Object>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// The requests of an audit log received between `from` and `to`; each appears once, however many stages the log has. A
/// half-written last line is left out.
///
/// # Errors
/// The file cannot be read, or a complete line is not an audit event.
pub fn requests(log: &Path, from: Time, to: Time) -> Result<Vec<Request>, Error> {
    let (from, to) = (wall(from), wall(to));
    let mut all = Tail::of(log).read()?;
    all.retain(|request| (from..to).contains(&request.at));
    Ok(all)
}

/// An audit log that is read as it grows.
#[derive(Debug)]
pub struct Tail {
    log: PathBuf,
    /// How much was read so far, in octets and lines.
    read: u64,
    lines: usize,
    seen: HashSet<String>,
}

impl Tail {
    /// From the beginning of the file.
    #[must_use]
    pub fn of(log: &Path) -> Self {
        Self { log: log.to_owned(), read: 0, lines: 0, seen: HashSet::new() }
    }

    /// The requests that arrived since the last call.
    ///
    /// # Errors
    /// As [`requests`].
    pub fn read(&mut self) -> Result<Vec<Request>, Error> {
        let path = self.log.display();
        let mut file = File::open(&self.log).map_err(Error::io(format!("open {path}")))?;
        file.seek(SeekFrom::Start(self.read)).map_err(Error::io(format!("read {path}")))?;
        let mut reader = BufReader::new(file);
        let (mut text, mut found) = (String::new(), Vec::new());
        loop {
            text.clear();
            let len = reader.read_line(&mut text).map_err(Error::io(format!("read {path}")))?;
            if len == 0 || !text.ends_with('\n') {
                return Ok(found);
            }
            self.lines += 1;
            self.read += len as u64;
            let line = serde_json::from_str(&text).or_else(|error| {
                // A killed API server stopped in the middle of a line, and the next one continued on that line.
                let whole = text.rfind(BEGIN).filter(|begin| *begin > 0).map(|begin| &text[begin..]);
                whole.map_or(Err(error), serde_json::from_str)
            });
            let line: Line =
                line.map_err(|e| Error::Audit { path: path.to_string(), line: self.lines, detail: e.to_string() })?;
            let at = SystemTime::from(line.request_received_timestamp);
            if self.seen.insert(line.id) {
                let (verb, uri, user, agent) = (line.verb, line.uri, line.user.username, line.user_agent);
                let refused = line.annotations.get("authorization.k8s.io/decision").is_some_and(|one| one == "forbid");
                found.push(Request { at, verb, uri, user, agent, object: line.object_ref, refused });
            }
        }
    }
}

/// The number of requests of each verb from programs whose user agent begins with `agent` (empty: from all programs),
/// without health requests.
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
        writeln!(log, "{{\"kind\":\"Event\",\"half{}", line(6, 5, "update", "/apis/x", "mooring-agent/0.1")).unwrap();
        write!(log, "{{\"half").unwrap();
        let minute = Duration::from_mins(1);
        let counts = count_requests(log.path(), now() - minute, now(), "mooring-agent").unwrap();
        assert_eq!(counts, [("get".to_owned(), 1), ("update".to_owned(), 2)].into());
        writeln!(log, "\n").unwrap();
        assert!(matches!(requests(log.path(), now() - minute, now()), Err(Error::Audit { line: 8, .. })));
    }
}
