//! Converts between the Lease as the API has it and the Lease as the core sees it.
//!
//! Other programs write Leases too. A wrong, absurd or too long value is left out and reported. It is never an error.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
pub use mooring_names::sessions::{HANDOVER, LET_GO, PARTICIPANTS, TENURE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use mooring_lease::lease::{
    Declaration, Handover, LeaseView, LetGo, MOST_PARTICIPANTS, Notes, Participant, Record, Tenure,
};
use mooring_lease::mac::Mac;
use mooring_lease::time::WallTime;

use crate::text::cut;

/// Longest annotation that is read, in bytes; the API allows 256 KiB for all annotations of an object.
const LONGEST: usize = 64 << 10;
/// At most this many MAC addresses are read of one node.
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
        tenure: read(annotations, TENURE, &mut flaw).map(|mut tenure: Tenure| {
            macs(&mut tenure.declared.macs, TENURE, &mut flaw);
            tenure
        }),
        handover: read::<Handover>(annotations, HANDOVER, &mut flaw),
        participants: participants(annotations, &mut flaw),
        let_go: let_go(annotations, &mut flaw),
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
    let tenure = notes.tenure.clone().map(|Tenure { declared, renewed, unheard }| Tenure {
        declared: Declaration { transitions: most(declared.transitions), ..declared },
        renewed,
        unheard,
    });
    let handover = notes.handover.clone().map(|h| Handover { transitions: most(h.transitions), ..h });
    let annotations = lease.metadata.annotations.get_or_insert_default();
    write(annotations, TENURE, tenure.as_ref());
    write(annotations, HANDOVER, handover.as_ref());
    write(annotations, LET_GO, notes.let_go.as_ref());
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

fn let_go(annotations: &Annotations, flaw: &mut impl FnMut(&'static str, String)) -> Option<LetGo> {
    let said = read::<LetGo>(annotations, LET_GO, flaw)?;
    let length = said.node.len();
    if said.node.is_empty() || length > LONGEST_NAME {
        flaw(LET_GO, format!("has a node whose name has {length} bytes: ignored"));
        return None;
    }
    Some(said)
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
                addresses(&mut node.api_servers, flaw);
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
