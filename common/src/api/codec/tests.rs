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
    let (acquired, vips) = (view.record.acquired, vec![]);
    let declared = Declaration { holder: "cp2".into(), transitions: 3, acquired, macs: vec![mac], vips };
    let tenure = Tenure { declared, renewed: view.record.renewed, unheard: false };
    encode(&mut lease, &view.record, &Notes { tenure: Some(tenure), ..Notes::default() });
    let json = serde_json::to_value(&lease).unwrap();
    assert_eq!(json["spec"]["renewTime"], "2026-11-20T10:05:00.000000Z");
    assert_eq!(json["spec"]["acquireTime"], "2026-11-20T10:00:00.123456Z");
    assert_eq!(json["spec"]["holderIdentity"], "cp2");
    assert_eq!(json["metadata"]["annotations"]["example.org/ours"], "kept");
    assert_eq!(
        json["metadata"]["annotations"][TENURE],
        r#"{"holder":"cp2","transitions":3,"acquired":1795168800123456,"macs":["02:00:5e:00:53:01"],"renewed":1795169100000000}"#
    );
    assert!(decode(&lease).0.declaration().is_some());
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
    let (view, flaws) =
        decode(&lease(r#"{"metadata":{},"spec":{"leaseDurationSeconds":2147483647,"leaseTransitions":2147483647}}"#));
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
    let declared =
        Declaration { holder: "cp1".into(), transitions: 1 << 31, acquired: None, macs: vec![], vips: vec![] };
    let tenure = Tenure { declared, renewed: None, unheard: false };
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
        (LET_GO, r#"{"node":"a"}"#),
        (LET_GO, r#"{"node":"","at":7}"#),
    ] {
        let (view, flaws) = annotated(name, value);
        assert_eq!((view.notes, flaws.len()), (Notes::default(), 1), "{value}");
    }
    let huge = format!(r#"{{"{}":{{}}}}"#, "a".repeat(70_000));
    assert_eq!(annotated(PARTICIPANTS, &huge).1.len(), 1);
}

#[test]
fn group_addresses_are_no_hosts() {
    let declared = r#"{"holder":"a","transitions":1,"acquired":null,"macs":["ff:ff:ff:ff:ff:ff","02:00:00:00:00:01"]}"#;
    let (view, flaws) = annotated(TENURE, declared);
    assert_eq!(view.notes.tenure.unwrap().declared.macs, [Mac([2, 0, 0, 0, 0, 1])]);
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
        let node = Participant { macs: macs.clone(), addresses: vec![IpAddr::from((address | 1 << 24 & 0x7fff_ffff).to_be_bytes())], ..Participant::default() };
        let vips = node.addresses.iter().copied().take(nodes).collect();
        let notes = Notes {
            tenure: Some(Tenure {
                declared: Declaration { holder: record.holder.clone(), transitions, acquired, macs, vips },
                renewed,
                unheard: nodes > 1,
            }),
            handover: Some(Handover { from: "a".into(), to: "b".into(), transitions, acquired }),
            let_go: (nodes > 0).then(|| LetGo { node: "n0".into(), at: acquired.unwrap_or_default() }),
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
        assert_eq!(view.notes.let_go, notes.let_go);
        assert_eq!(view.notes.participants.len(), nodes);
    }

    #[test]
    fn no_annotation_is_fatal(name in 0..4_usize, value in ".{0,200}") {
        annotated([TENURE, HANDOVER, PARTICIPANTS, LET_GO][name], &value);
    }
}
