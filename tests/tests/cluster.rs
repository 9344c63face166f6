//! The cluster of a lab: real API servers and etcd.

#![allow(clippy::expect_used, reason = "a test that cannot go on shall say where")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::ListParams;
use mooring_tests::cluster::ETCD;
use mooring_tests::fault::ApiCut;
use mooring_tests::host::helper;
use mooring_tests::{Lab, Shape, pki};

/// Who gives no answer within this time is silent.
const LIMIT: Duration = Duration::from_secs(3);
/// A loaded machine needs no longer for anything.
const PATIENCE: Duration = Duration::from_secs(30);

async fn answers(nodes: &Api<Node>) -> bool {
    tokio::time::timeout(LIMIT, nodes.list(&ListParams::default())).await.is_ok_and(|answer| answer.is_ok())
}

/// Asks until there is an answer.
async fn answers_in_the_end(nodes: &Api<Node>) -> bool {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !answers(nodes).await {
        if tokio::time::Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_api_server_stopped_frozen_slow_and_cut() {
    helper(env!("CARGO_BIN_EXE_lab"));
    let lab = Lab::up(Shape::api_servers(1).unbound().audited()).await.expect("a lab");
    let cluster = lab.cluster().expect("a cluster");
    let server = cluster.servers()[0].clone();
    let admin = cluster.pki().admin().expect("a certificate");
    let nodes = Api::<Node>::all(cluster.client(&admin, &server).await.expect("a client"));
    let refused = nodes.list(&ListParams::default()).await.expect_err("not bound yet");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    cluster.bind_admin().await.expect("bound");
    assert!(answers_in_the_end(&nodes).await, "the binding does not work");
    let audit = std::fs::read_to_string(lab.host("cp1").expect("cp1").dir().join("audit.log")).expect("an audit log");
    assert!(audit.contains("kubernetes-admin"));

    lab.freeze_api("cp1").expect("frozen");
    assert!(!answers(&nodes).await, "a frozen API server answers");
    lab.thaw_api("cp1").expect("thawed");
    assert!(answers_in_the_end(&nodes).await);
    lab.slow_api("cp1", Duration::from_millis(300)).expect("slow");
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        assert!(answers_in_the_end(&nodes).await, "a slow API server answers late, but it does");
    }
    assert!(start.elapsed() > Duration::from_millis(300), "not slow: {:?}", start.elapsed());
    lab.slow_api("cp1", Duration::ZERO).expect("fast again");

    // From the host itself, by its own address.
    let local = cluster.client_of(&lab.host("cp1").expect("cp1"), &admin, &server).await.expect("a client");
    let local = Api::<Node>::all(local);
    assert!(answers_in_the_end(&local).await);
    lab.cut_api("cp1", ApiCut::Everywhere).expect("cut");
    assert!(!answers(&local).await, "cut off, and an answer");
    assert!(answers_in_the_end(&nodes).await, "others still reach it");
    lab.cut_api("cp1", ApiCut::Others).expect("cut");
    assert!(answers_in_the_end(&local).await, "its own is open");
    lab.heal_api("cp1").expect("healed");

    lab.stop_api("cp1").expect("stopped");
    cluster.api("cp1").expect("a process").ended(PATIENCE).await.expect("its end");
    assert!(!answers(&nodes).await);
    lab.start_api("cp1").expect("started");
    cluster.api_ready(&lab.host("cp1").expect("cp1")).await.expect("ready");
    assert!(answers_in_the_end(&nodes).await);
    lab.down();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stacked_etcd_survives_the_crash_of_its_leader() {
    helper(env!("CARGO_BIN_EXE_lab"));
    let lab = Lab::up(Shape::stacked()).await.expect("a lab");
    let cluster = lab.cluster().expect("a cluster");
    cluster.move_etcd_leader("cp2").await.expect("moved");
    assert_eq!(cluster.etcd_leader().await.expect("a leader"), "cp2");
    lab.crash("cp2").expect("crashed");
    assert!(!lab.process("cp2", ETCD).expect("etcd").is_running());
    let server = pki::url(lab.host("cp1").expect("cp1").ip4().into());
    let user = cluster.pki().super_admin().expect("a certificate");
    let client = cluster.client(&user, &server).await.expect("a client");
    let namespaces = Api::<Namespace>::all(client);
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    // A consistent read needs etcd's leader.
    while !matches!(tokio::time::timeout(LIMIT, namespaces.get("kube-system")).await, Ok(Ok(_))) {
        assert!(tokio::time::Instant::now() < end, "no new leader");
    }
    let leader = cluster.etcd_leader().await.expect("a new leader");
    assert!(leader == "cp1" || leader == "cp3", "{leader}");
    lab.revive("cp2").expect("revived");
    cluster.ready().await.expect("all three again");
    lab.down();
}

#[test]
fn a_go_program_is_built_once() {
    let first = mooring_tests::assets::go_program("elector").expect("the elector");
    let built = std::fs::metadata(&first).and_then(|file| file.modified()).expect("the binary");
    let second = mooring_tests::assets::go_program("elector").expect("the elector");
    assert_eq!(first, second);
    assert_eq!(std::fs::metadata(&second).and_then(|file| file.modified()).expect("the binary"), built);
}
