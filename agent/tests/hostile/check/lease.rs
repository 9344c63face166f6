//! The Lease and its annotations. The bytes are a Lease in JSON; or a digit that chooses an annotation, and its text.

use k8s_openapi::api::coordination::v1::Lease;
use mooring_agent::api::codec::{HANDOVER, LET_GO, PARTICIPANTS, TENURE, decode, encode};
use mooring_agent::api::raw::Raw;
use mooring_agent::core::lease::{Declaration, LeaseView, Tenure};

use super::bytes::Bytes;

pub fn check(data: &[u8]) {
    if let Ok(raw) = serde_json::from_slice::<Raw>(data) {
        let (view, told) = raw.show();
        let (same, flaws) = decode(&raw.lease);
        assert_eq!(view, same);
        assert!(told.ends_with(&flaws) && told.len() <= flaws.len() + 2, "{told:?}");
        assert!(told.iter().all(|flaw| flaw.to_string().len() < 1024), "{told:?}");
        shown(&raw.lease);
    }
    let mut rest = Bytes(data);
    let name = rest.pick(&[TENURE, HANDOVER, PARTICIPANTS, LET_GO]);
    if let Ok(text) = std::str::from_utf8(rest.0) {
        let mut lease = Lease::default();
        lease.metadata.annotations = Some([(name.to_owned(), text.to_owned())].into());
        shown(&lease);
    }
}

fn shown(lease: &Lease) {
    let (view, flaws) = decode(lease);
    bounded(&view);
    assert!(flaws.len() <= 300, "{} flaws", flaws.len());
    for flaw in &flaws {
        let text = flaw.to_string();
        assert!(text.len() < 1024 && text.starts_with(flaw.field), "{text}");
    }
    means_what_it_says(&view);
    written_again(lease, &view);
}

/// Whatever others have written, this is all that is kept of it.
fn bounded(view: &LeaseView) {
    let notes = &view.notes;
    assert!(view.record.duration.as_secs() <= i32::MAX.unsigned_abs().into() && notes.participants.len() <= 64);
    let tenures = notes.tenure.iter().map(|tenure| &tenure.declared.macs);
    for macs in tenures.chain(notes.participants.values().map(|node| &node.macs)) {
        assert!(macs.len() <= 16 && macs.iter().all(|mac| mac.is_host()));
    }
    assert!(notes.let_go.iter().all(|said| (1..=253).contains(&said.node.len())));
    for (name, node) in &notes.participants {
        assert!((1..=253).contains(&name.len()));
        let fours = node.addresses.iter().filter(|ip| ip.is_ipv4()).count();
        assert!(fours <= 1 && node.addresses.len() - fours <= 1);
        assert!(node.addresses.iter().all(|ip| !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback()));
    }
}

/// A declaration is of the tenure that the record shows, or void.
fn means_what_it_says(view: &LeaseView) {
    let record = &view.record;
    if let Some(said) = view.declaration() {
        assert!(!record.holder.is_empty() && said.holder == record.holder);
        assert_eq!(view.notes.tenure.as_ref().map(|tenure| tenure.renewed), Some(record.renewed));
        assert_eq!((said.transitions, said.acquired), (record.transitions, record.acquired));
        assert!(said.macs.iter().all(|mac| view.participant_with(*mac).is_some()));
    }
    if let Some(said) = view.handover() {
        assert!(record.holder.is_empty());
        assert_eq!((said.transitions, said.acquired), (record.transitions, record.acquired));
    }
}

/// What was read is written so that it reads the same, and nothing of others is touched. A holder that takes over from
/// this record is understood too.
fn written_again(lease: &Lease, view: &LeaseView) {
    let mut again = lease.clone();
    encode(&mut again, &view.record, &view.notes);
    let text = serde_json::to_string(&again).unwrap();
    let read = serde_json::from_str::<Lease>(&text).unwrap();
    let (mut expected, (seen, flaws)) = (view.clone(), decode(&read));
    // The API takes no Lease of 0 s.
    expected.record.duration = expected.record.duration.max(std::time::Duration::from_secs(1));
    assert_eq!(seen, expected, "{text}");
    assert!(flaws.iter().all(|flaw| !flaw.field.starts_with("mooring.dev")), "{flaws:?}");
    let foreign = |lease: &Lease| {
        let mut rest = lease.metadata.annotations.clone().unwrap_or_default();
        rest.retain(|name, _| ![TENURE, HANDOVER, PARTICIPANTS, LET_GO].contains(&name.as_str()));
        (rest, lease.metadata.uid.clone(), lease.metadata.labels.clone(), lease.metadata.finalizers.clone())
    };
    assert_eq!(foreign(&read), foreign(lease));

    let mut record = view.record.clone();
    record.holder = "taker".into();
    record.transitions = record.transitions.saturating_add(1);
    let mut notes = view.notes.clone();
    notes.handover = None;
    let declared = Declaration {
        holder: record.holder.clone(),
        transitions: record.transitions,
        acquired: record.acquired,
        macs: vec![],
        vips: vec![],
    };
    notes.tenure = Some(Tenure { declared, renewed: record.renewed, unheard: false });
    encode(&mut again, &record, &notes);
    assert!(decode(&again).0.declaration().is_some(), "a take-over is not understood");
}
