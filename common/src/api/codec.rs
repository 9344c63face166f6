//! Converts between the Lease as the API has it and the Lease as the core sees it.
//!
//! Other programs write Leases too. A wrong, absurd or too long value is left out and reported. It is never an error.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
pub use mooring_names::sessions::{HANDOVER, PARTICIPANTS, TENURE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use mooring_lease::lease::{Declaration, Handover, LeaseView, Notes, Participant, Record};
use mooring_lease::mac::Mac;
use mooring_lease::time::WallTime;

use crate::text::cut;

/// Longest annotation that is read, in bytes; the API allows 256 KiB for all annotations of an object.
const LONGEST: usize = 64 << 10;
/// Most nodes that take part.
const MOST_PARTICIPANTS: usize = 64;
/// Most MAC addresses of one node on the segment.
const MOST_MACS: usize = 16;
/// Longest name of a node or holder (a DNS subdomain; client-go's own identities are shorter).
const LONGEST_NAME: usize = 253;
/// The year 1, in microseconds since 1970: Go's zero time, and the first that RFC 3339 and all libraries can write.
const FIRST: i64 = -62_135_596_800_000_000;
/// A longer Lease is reported: no node would take over in time.
const LONG: Duration = Duration::from_hours(1);

/// A flaw of a Lease: the value was left out or changed in the view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} of the Lease {what}")]
pub struct Flaw {
    /// The field or annotation.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

/// The content of the Lease, and its flaws.
#[must_use]
pub fn decode(lease: &Lease) -> (LeaseView, Vec<Flaw>) {
    let mut flaws = Vec::new();
    let mut flaw = |field, what: String| flaws.push(Flaw { field, what });
    let nothing = LeaseSpec::default();
    let spec = lease.spec.as_ref().unwrap_or(&nothing);
    let seconds = spec.lease_duration_seconds.unwrap_or(0);
    if seconds < 0 {
        flaw("leaseDurationSeconds", format!("is negative ({seconds}): counts as 0"));
    }
    let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    if duration > LONG {
        flaw("leaseDurationSeconds", format!("is {seconds}: if its holder dies, nobody takes over for so long"));
    }
    let transitions = spec.lease_transitions.unwrap_or(0);
    if transitions < 0 {
        flaw("leaseTransitions", format!("is negative ({transitions}): counts as 0"));
    }
    let holder = spec.holder_identity.clone().unwrap_or_default();
    if holder.len() > LONGEST_NAME {
        flaw("holderIdentity", format!("has {} bytes", holder.len()));
    }
    let wall = |time: &Option<MicroTime>| time.as_ref().map(|t| WallTime(t.0.as_microsecond().max(FIRST)));
    let record = Record {
        holder,
        duration,
        acquired: wall(&spec.acquire_time),
        renewed: wall(&spec.renew_time),
        transitions: u32::try_from(transitions).unwrap_or(0),
    };
    let none = BTreeMap::new();
    let annotations = lease.metadata.annotations.as_ref().unwrap_or(&none);
    let notes = Notes {
        tenure: read(annotations, TENURE, &mut flaw).map(|mut d: Declaration| {
            macs(&mut d.macs, TENURE, &mut flaw);
            d
        }),
        handover: read::<Handover>(annotations, HANDOVER, &mut flaw),
        participants: participants(annotations, &mut flaw),
    };
    let version = lease.metadata.resource_version.clone().unwrap_or_default();
    (LeaseView { version, record, notes }, flaws)
}

/// Writes the record and the notes into a Lease; everything else in the Lease stays. A number that is too large for the API is
/// cut in the record and in the declaration alike: a declaration with another number would be void at once.
pub fn encode(lease: &mut Lease, record: &Record, notes: &Notes) {
    let known = lease.spec.take().unwrap_or_default();
    let ours = encode_spec(record);
    lease.spec = Some(LeaseSpec { strategy: known.strategy, preferred_holder: known.preferred_holder, ..ours });
    let most = |transitions: u32| transitions.min(i32::MAX.unsigned_abs());
    let tenure = notes.tenure.clone().map(|d| Declaration { transitions: most(d.transitions), ..d });
    let handover = notes.handover.clone().map(|h| Handover { transitions: most(h.transitions), ..h });
    let annotations = lease.metadata.annotations.get_or_insert_default();
    write(annotations, TENURE, tenure.as_ref());
    write(annotations, HANDOVER, handover.as_ref());
    write(annotations, PARTICIPANTS, Some(&notes.participants).filter(|p| !p.is_empty()));
    if annotations.is_empty() {
        lease.metadata.annotations = None;
    }
}

/// The record as a Lease's spec.
#[must_use]
pub fn encode_spec(record: &Record) -> LeaseSpec {
    let wall = |time: Option<WallTime>| time.map(|t| MicroTime(timestamp(t)));
    // What the API accepts: whole seconds, at least one.
    let seconds = record.duration.as_secs().saturating_add(u64::from(record.duration.subsec_nanos() > 0));
    LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: Some(i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)),
        acquire_time: wall(record.acquired),
        renew_time: wall(record.renewed),
        lease_transitions: Some(i32::try_from(record.transitions).unwrap_or(i32::MAX)),
        ..LeaseSpec::default()
    }
}

/// Within the years that RFC 3339 can write.
fn timestamp(time: WallTime) -> Timestamp {
    Timestamp::from_microsecond(time.0.max(FIRST)).unwrap_or(Timestamp::MAX)
}

type Annotations = BTreeMap<String, String>;

fn read<T: DeserializeOwned>(
    annotations: &Annotations,
    name: &'static str,
    flaw: &mut impl FnMut(&'static str, String),
) -> Option<T> {
    let text = annotations.get(name)?;
    if text.len() > LONGEST {
        flaw(name, format!("has {} bytes: ignored", text.len()));
        return None;
    }
    serde_json::from_str(text).map_err(|error| flaw(name, format!("is ignored: {}", cut(&error.to_string(), 120)))).ok()
}

fn write<T: Serialize>(annotations: &mut Annotations, name: &str, value: Option<&T>) {
    // These types always have a JSON form; without one the value counts as not declared.
    match value.and_then(|value| serde_json::to_string(value).ok()) {
        Some(text) => annotations.insert(name.to_owned(), text),
        None => annotations.remove(name),
    };
}

/// Keeps the addresses that one host may have, up to a limit.
fn macs(all: &mut Vec<Mac>, name: &'static str, flaw: &mut impl FnMut(&'static str, String)) {
    let before = all.len();
    all.retain(|mac| mac.is_host());
    all.truncate(MOST_MACS);
    if all.len() < before {
        flaw(name, format!("has {} MAC addresses too many, or of no host", before - all.len()));
    }
}

/// An invalid participant does not invalidate the others.
fn participants(
    annotations: &Annotations,
    flaw: &mut impl FnMut(&'static str, String),
) -> BTreeMap<String, Participant> {
    let all: BTreeMap<String, serde_json::Value> = read(annotations, PARTICIPANTS, flaw).unwrap_or_default();
    if all.len() > MOST_PARTICIPANTS {
        flaw(PARTICIPANTS, format!("has {} nodes: cut to {MOST_PARTICIPANTS}", all.len()));
    }
    let mut good = BTreeMap::new();
    for (name, value) in all.into_iter().take(MOST_PARTICIPANTS) {
        if name.is_empty() || name.len() > LONGEST_NAME {
            flaw(PARTICIPANTS, format!("has a node whose name has {} bytes: ignored", name.len()));
            continue;
        }
        match serde_json::from_value::<Participant>(value) {
            Ok(mut node) => {
                macs(&mut node.macs, PARTICIPANTS, flaw);
                addresses(&mut node.addresses, flaw);
                good.insert(name, node);
            }
            Err(error) => flaw(PARTICIPANTS, format!("has a wrong entry for {name}: {}", cut(&error.to_string(), 120))),
        }
    }
    good
}

/// Keeps at most one address a family that a host may have.
fn addresses(all: &mut Vec<IpAddr>, flaw: &mut impl FnMut(&'static str, String)) {
    let before = all.len();
    let (mut four, mut six) = (false, false);
    all.retain(|address| {
        let had = if address.is_ipv4() { &mut four } else { &mut six };
        let fine = !*had && !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
        *had |= fine;
        fine
    });
    if all.len() < before {
        flaw(PARTICIPANTS, format!("has {} addresses too many, or of no host", before - all.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, proptest};
    use proptest::{collection, option};

    fn lease(text: &str) -> Lease {
        serde_json::from_str(text).unwrap()
    }

    fn annotated(name: &str, value: &str) -> (LeaseView, Vec<Flaw>) {
        let mut lease = Lease::default();
        lease.metadata.annotations = Some([(name.to_owned(), value.to_owned())].into());
        decode(&lease)
    }

    /// As kube-vip 1.2 (client-go 0.36) left it on a kubeadm cluster.
    const KUBE_VIP: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"creationTimestamp":"2026-11-20T10:00:00Z",
        "name":"plndr-cp-lock","namespace":"kube-system","resourceVersion":"4711","uid":"0e1c6d1c-1111-4222-8333-444455556666",
        "annotations":{"example.org/ours":"kept"}},"spec":{"acquireTime":"2026-11-20T10:00:00.123456Z","holderIdentity":"cp1",
        "leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":"2026-11-20T10:05:00.000001Z"}}"#;

    #[test]
    fn reads_what_kube_vip_writes() {
        let (view, flaws) = decode(&lease(KUBE_VIP));
        assert_eq!(flaws, []);
        assert_eq!((view.version.as_str(), view.record.holder.as_str()), ("4711", "cp1"));
        assert_eq!(view.record.duration, Duration::from_secs(15));
        assert_eq!(view.record.acquired, Some(WallTime(1_795_168_800_123_456)));
        assert_eq!(view.record.renewed, Some(WallTime(1_795_169_100_000_001)));
        assert_eq!((view.record.transitions, view.notes), (3, Notes::default()));
    }

    #[test]
    fn reads_what_client_go_releases() {
        let (view, flaws) = decode(&lease(
            r#"{"metadata":{"resourceVersion":"9"},"spec":{"acquireTime":"2026-11-20T10:00:00.000000Z","holderIdentity":"",
               "leaseDurationSeconds":1,"leaseTransitions":4,"renewTime":"2026-11-20T10:00:00.000000Z"}}"#,
        ));
        assert_eq!((view.record.holder.as_str(), view.record.duration.as_secs(), flaws.len()), ("", 1, 0));
    }

    #[test]
    fn writes_as_client_go_does_and_keeps_what_is_not_its_own() {
        let mut lease = lease(KUBE_VIP);
        let (mut view, _) = decode(&lease);
        view.record.holder = "cp2".into();
        // A whole second: client-go's parser wants all six digits.
        view.record.renewed = Some(WallTime(1_795_169_100_000_000));
        let mac = Mac([2, 0, 0x5e, 0, 0x53, 1]);
        let tenure =
            Declaration { holder: "cp2".into(), transitions: 3, acquired: view.record.acquired, macs: vec![mac] };
        encode(&mut lease, &view.record, &Notes { tenure: Some(tenure), ..Notes::default() });
        let json = serde_json::to_value(&lease).unwrap();
        assert_eq!(json["spec"]["renewTime"], "2026-11-20T10:05:00.000000Z");
        assert_eq!(json["spec"]["acquireTime"], "2026-11-20T10:00:00.123456Z");
        assert_eq!(json["spec"]["holderIdentity"], "cp2");
        assert_eq!(json["metadata"]["annotations"]["example.org/ours"], "kept");
        assert_eq!(
            json["metadata"]["annotations"][TENURE],
            r#"{"holder":"cp2","transitions":3,"acquired":1795168800123456,"macs":["02:00:5e:00:53:01"]}"#
        );
        assert_eq!(json["metadata"]["uid"], "0e1c6d1c-1111-4222-8333-444455556666");
    }

    #[test]
    fn a_lease_without_anything_is_free() {
        let (view, flaws) = decode(&Lease::default());
        assert_eq!(
            (view, flaws),
            (LeaseView { version: String::new(), record: Record::default(), notes: Notes::default() }, vec![])
        );
    }

    #[test]
    fn absurd_numbers_are_bounded_and_told() {
        let (view, flaws) =
            decode(&lease(r#"{"metadata":{},"spec":{"leaseDurationSeconds":-5,"leaseTransitions":-2147483648}}"#));
        assert_eq!((view.record.duration, view.record.transitions, flaws.len()), (Duration::ZERO, 0, 2));
        let (view, flaws) = decode(&lease(
            r#"{"metadata":{},"spec":{"leaseDurationSeconds":2147483647,"leaseTransitions":2147483647}}"#,
        ));
        assert_eq!((view.record.transitions, flaws.len()), (2_147_483_647, 1));
        let record = Record {
            duration: Duration::MAX,
            transitions: u32::MAX,
            acquired: Some(WallTime(i64::MIN)),
            renewed: Some(WallTime(i64::MAX)),
            ..Record::default()
        };
        let mut lease = Lease::default();
        encode(&mut lease, &record, &Notes::default());
        let json = serde_json::to_value(&lease).unwrap();
        assert_eq!(json["spec"]["acquireTime"], "0001-01-01T00:00:00.000000Z");
        assert!(json["spec"]["renewTime"].as_str().unwrap().starts_with("9999-12-3"));
        assert_eq!(json["spec"]["leaseTransitions"], i32::MAX);
    }

    #[test]
    fn the_most_transitions_that_the_api_holds_do_not_void_a_declaration() {
        let record = Record { holder: "cp1".into(), transitions: 1 << 31, ..Record::default() };
        let tenure = Declaration { holder: "cp1".into(), transitions: 1 << 31, acquired: None, macs: vec![] };
        let mut lease = Lease::default();
        encode(&mut lease, &record, &Notes { tenure: Some(tenure), ..Notes::default() });
        assert!(decode(&lease).0.declaration().is_some());
    }

    #[test]
    fn annotations_that_lie_are_ignored_and_told() {
        for (name, value) in [
            (TENURE, "{"),
            (TENURE, "[]"),
            (TENURE, r#"{"holder":"a","transitions":-1,"acquired":null,"macs":[]}"#),
            (TENURE, r#"{"holder":"a","transitions":1,"acquired":null,"macs":["zz"]}"#),
            (HANDOVER, "null-ish"),
            (PARTICIPANTS, "[1,2]"),
        ] {
            let (view, flaws) = annotated(name, value);
            assert_eq!((view.notes, flaws.len()), (Notes::default(), 1), "{value}");
        }
        let huge = format!(r#"{{"{}":{{}}}}"#, "a".repeat(70_000));
        assert_eq!(annotated(PARTICIPANTS, &huge).1.len(), 1);
    }

    #[test]
    fn group_addresses_are_no_hosts() {
        let declared =
            r#"{"holder":"a","transitions":1,"acquired":null,"macs":["ff:ff:ff:ff:ff:ff","02:00:00:00:00:01"]}"#;
        let (view, flaws) = annotated(TENURE, declared);
        assert_eq!(view.notes.tenure.unwrap().macs, [Mac([2, 0, 0, 0, 0, 1])]);
        assert_eq!(flaws.len(), 1);
    }

    #[test]
    fn one_wrong_participant_does_not_hide_the_others() {
        let (view, flaws) = annotated(
            PARTICIPANTS,
            r#"{"a":{"macs":["02:00:00:00:00:01"],"addresses":["192.0.2.1","192.0.2.2","2001:db8::1"]},"b":7}"#,
        );
        assert_eq!(view.notes.participants["a"].addresses.len(), 2);
        assert_eq!((view.notes.participants.len(), flaws.len()), (1, 2));
        let many: BTreeMap<String, Participant> = (0..100).map(|n| (format!("n{n}"), Participant::default())).collect();
        let (view, flaws) = annotated(PARTICIPANTS, &serde_json::to_string(&many).unwrap());
        assert_eq!((view.notes.participants.len(), flaws.len()), (64, 1));
    }

    fn times() -> impl Strategy<Value = Option<WallTime>> {
        option::of((0..253_000_000_000_000_000_i64).prop_map(WallTime))
    }

    fn some_macs() -> impl Strategy<Value = Vec<Mac>> {
        collection::vec(any::<[u8; 5]>().prop_map(|[a, b, c, d, e]| Mac([2, a, b, c, d, e])), 0..4)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            holder in "[a-z0-9.-]{0,40}", seconds in 1..3600_u64, transitions in 0..=i32::MAX.unsigned_abs(),
            acquired in times(), renewed in times(), macs in some_macs(), address in any::<u32>(), nodes in 0..5_usize,
        ) {
            let record = Record { holder, duration: Duration::from_secs(seconds), acquired, renewed, transitions };
            let node = Participant { macs: macs.clone(), addresses: vec![IpAddr::from((address | 1 << 24 & 0x7fff_ffff).to_be_bytes())] };
            let notes = Notes {
                tenure: Some(Declaration { holder: record.holder.clone(), transitions, acquired, macs }),
                handover: Some(Handover { from: "a".into(), to: "b".into(), transitions, acquired }),
                participants: (0..nodes).map(|n| (format!("n{n}"), node.clone())).collect(),
            };
            let mut lease = Lease::default();
            lease.metadata.resource_version = Some("1".into());
            encode(&mut lease, &record, &notes);
            let text = serde_json::to_string(&lease).unwrap();
            let (view, _) = decode(&serde_json::from_str(&text).unwrap());
            assert_eq!(view.record, record);
            assert_eq!(view.notes.tenure, notes.tenure);
            assert_eq!(view.notes.handover, notes.handover);
            assert_eq!(view.notes.participants.len(), nodes);
        }

        #[test]
        fn no_annotation_is_fatal(name in 0..3_usize, value in ".{0,200}") {
            annotated([TENURE, HANDOVER, PARTICIPANTS][name], &value);
        }
    }
}
