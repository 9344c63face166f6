//! The Lease in JSON: what client-go writes and reads.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use mooring_core::lease::{LeaseView, Notes, Record};
use mooring_core::time::WallTime;
use serde::Deserialize;
use serde_json::{Value, json};

/// A Lease as it comes. A time in it that is none is left out: it says nothing that counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseJson {
    metadata: MetaJson,
    spec: SpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaJson {
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecJson {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<Value>,
    renew_time: Option<Value>,
    lease_transitions: Option<i64>,
}

fn time(value: Option<&Value>) -> Option<WallTime> {
    let at: Timestamp = value?.as_str()?.parse().ok()?;
    Some(WallTime(at.as_microsecond()))
}

/// As client-go's parser wants it: with all six digits.
fn text(time: Option<WallTime>) -> Value {
    let at = time.and_then(|time| Timestamp::from_microsecond(time.0).ok());
    at.map_or(Value::Null, |at| at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into())
}

/// Reads a Lease.
///
/// # Errors
/// It is none.
pub fn read(bytes: &[u8]) -> Result<LeaseView, serde_json::Error> {
    let LeaseJson { metadata, spec } = serde_json::from_slice(bytes)?;
    let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    let transitions = spec.lease_transitions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let record = Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(duration),
        acquired: time(spec.acquire_time.as_ref()),
        renewed: time(spec.renew_time.as_ref()),
        transitions,
    };
    Ok(LeaseView { version: metadata.resource_version, record, notes: Notes::default() })
}

/// What is sent: a whole new Lease, or, of one at that version, a patch of what is the elector's.
#[must_use]
pub fn write(namespace: &str, name: &str, base: Option<&str>, record: &Record) -> Value {
    let spec = json!({
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration.as_secs(),
        "acquireTime": text(record.acquired),
        "renewTime": text(record.renewed),
        "leaseTransitions": record.transitions.min(i32::MAX.unsigned_abs()),
    });
    match base {
        None => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        }),
        Some(version) => json!({"metadata": {"resourceVersion": version}, "spec": spec}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_is_client_gos() {
        let record = Record {
            holder: "pod-1_a".into(),
            duration: Duration::from_secs(15),
            acquired: Some(WallTime(1_795_168_800_000_000)),
            renewed: Some(WallTime(1_795_168_800_123_456)),
            transitions: 3,
        };
        let mut lease = write("n", "l", None, &record);
        assert_eq!(lease["spec"]["acquireTime"], "2026-11-20T10:00:00.000000Z");
        assert_eq!(lease["spec"]["renewTime"], "2026-11-20T10:00:00.123456Z");
        lease["metadata"]["resourceVersion"] = "7".into();
        let view = read(lease.to_string().as_bytes()).unwrap();
        assert_eq!((view.version.as_str(), view.record.clone()), ("7", record.clone()));
        let patch = write("n", "l", Some("7"), &record);
        assert_eq!((&patch["metadata"]["resourceVersion"], patch.get("kind")), (&Value::from("7"), None));
    }

    #[test]
    fn absurd_leases_are_read_as_far_as_they_go() {
        let text = br#"{"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"x","leaseDurationSeconds":-1,
            "acquireTime":"yesterday","renewTime":17,"leaseTransitions":-4}}"#;
        let view = read(text).unwrap();
        assert_eq!((view.record.duration, view.record.transitions), (Duration::ZERO, 0));
        assert_eq!((view.record.acquired, view.record.renewed), (None, None));
        assert_eq!(read(b"{}").unwrap().record, Record::default());
    }
}
