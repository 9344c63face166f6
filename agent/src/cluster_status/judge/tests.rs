use serde_json::json;

use super::*;
use crate::api::sessions;

const NOW: WallTime = WallTime(1_000_000_000);

fn wall(seconds_ago: i64) -> String {
    let micros = NOW.0 - seconds_ago * 1_000_000;
    format!("1970-01-01T00:{:02}:{:02}.000000Z", micros / 60_000_000, micros / 1_000_000 % 60)
}

fn session(node: &str, holder: &str, renewed: i64) -> View {
    let declared = json!({"transitions": 3, "links": [{"name": "eth0", "macs": ["02:00:00:00:00:01"], "addresses": ["192.0.2.11"],
        "subnets": [{"network": "192.0.2.0", "length": 24}], "up": true}]});
    let lease = json!({"metadata": {"name": format!("node-{node}"), "namespace": "mooring-system", "uid": format!("u-{node}"),
            "resourceVersion": "5", "annotations": {"mooring.dev/session": declared.to_string()}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "renewTime": wall(renewed)}});
    let lease = rename(lease, node);
    sessions::view(&serde_json::from_value(lease).unwrap()).unwrap()
}

fn rename(mut lease: serde_json::Value, node: &str) -> serde_json::Value {
    lease["metadata"]["name"] = json!(format!("{}{node}", sessions::PREFIX));
    lease
}

fn address(name: &str, ip: &str, holder: Option<(&str, u32)>) -> IpAddress {
    let holder = holder.map(|(node, transitions)| {
        json!({"node": node, "session": {"uid": format!("u-{node}"), "transitions": transitions}}).to_string()
    });
    let mut object = json!({"metadata": {"name": name, "namespace": "web", "uid": name, "resourceVersion": "7",
        "labels": {"mooring.dev/advertise": "true"}, "annotations": {}}, "spec": {"address": ip}});
    if let Some(holder) = holder {
        object["metadata"]["annotations"]["mooring.dev/holder"] = json!(holder);
    }
    serde_json::from_value(object).unwrap()
}

fn cluster() -> Objects {
    Objects {
        sessions: vec![session("n1", "n1", 2), session("n2", "n2", 60), session("n3", "", 5), session("n4", "n4", 1)],
        addresses: vec![
            address("a", "192.0.2.101", Some(("n1", 3))),
            address("b", "192.0.2.102", Some(("n2", 3))),
            address("c", "192.0.2.103", Some(("n3", 3))),
            address("d", "192.0.2.104", Some(("n1", 2))),
            address("e", "192.0.2.105", None),
        ],
        ..Objects::default()
    }
}

#[test]
fn a_vip_is_carried_late_ended_or_free_as_its_record_and_the_session_say() {
    let status = judge(&cluster(), NOW);
    let found: Vec<_> = status.vips.iter().map(|vip| (vip.object.as_str(), vip.state)).collect();
    let expected = [
        ("web/a", VipState::Carried),
        ("web/b", VipState::HolderLate),
        ("web/c", VipState::HolderEnded),
        ("web/d", VipState::HolderEnded),
        ("web/e", VipState::Free),
    ];
    assert_eq!(found, expected, "the record of d names an earlier life of n1's session");
    let sessions: Vec<_> = status.nodes.iter().map(|node| (node.node.as_str(), node.session, node.vips)).collect();
    let expected =
        [("n1", Session::Live, 2), ("n2", Session::Late, 1), ("n3", Session::Ended, 1), ("n4", Session::Live, 0)];
    assert_eq!(sessions, expected);
}

#[test]
fn who_comes_next_is_a_live_node_and_not_the_holder() {
    let status = judge(&cluster(), NOW);
    let next = |object: &str| status.vips.iter().find(|vip| vip.object == object).unwrap().next.clone();
    let mut after = next("web/a");
    after.sort();
    assert_eq!(after, ["n2", "n4"], "n3 has ended");
    assert_eq!(next("web/e").len(), 3);
}

#[test]
fn a_clock_that_is_behind_shows_nobody_as_late_and_nothing_underflows() {
    let status = judge(&cluster(), WallTime(0));
    assert!(status.nodes.iter().all(|node| node.session != Session::Late && node.renewed_ago_ms == Some(0)));
}

#[test]
fn the_tables_name_what_could_not_be_read() {
    let mut objects = cluster();
    objects.unread.push("Nodes: not allowed to list nodes".into());
    let text = crate::ops::repeat::State::tables(&judge(&objects, NOW));
    assert!(text.contains("192.0.2.103") && text.contains("holder has ended"), "{text}");
    assert!(text.contains("not read: Nodes: not allowed"), "{text}");
    let none = crate::ops::repeat::State::tables(&ClusterStatus::default());
    assert!(none.contains("No Lease of a control plane's VIP"), "{none}");
}
