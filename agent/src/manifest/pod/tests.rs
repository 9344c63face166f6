use std::path::Path;

use super::super::command::{What, manifest};
use super::*;
use crate::settings::Given;

fn options() -> Options {
    Options { image: IMAGE.to_owned(), in_cluster: false, taint: false, kept: Kept::default() }
}

fn given(settings: &[(&str, &str)]) -> Given {
    Given(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn made(kind: Kind, settings: &[(&str, &str)]) -> String {
    manifest(Some(What::Pod(kind)), &given(settings), None, options()).unwrap().0
}

/// Among the manifests are those that the commands in docs/src and static-pod print. `UPDATE_MANIFESTS=1` writes them anew.
#[test]
fn the_shipped_manifests_are_what_the_command_prints() {
    let address = ("address", "192.0.2.10");
    for (file, kind, settings) in [
        ("static-pod/mooring-agent.yaml", Kind::StaticPod, &[address][..]),
        ("manifests/agent/daemonset.yaml", Kind::DaemonSet, &[("services", "on")]),
        ("manifests/agent-control-plane/daemonset.yaml", Kind::DaemonSet, &[address]),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = made(kind, settings);
        if std::env::var_os("UPDATE_MANIFESTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let shipped = std::fs::read_to_string(&path).unwrap();
        assert!(shipped == text, "{file} is out of date: UPDATE_MANIFESTS=1 cargo test -p mooring-agent manifest");
    }
}

#[test]
fn a_static_pod_has_no_service_account() {
    let all = Options { in_cluster: true, ..options() };
    let error = manifest(Some(What::Pod(Kind::StaticPod)), &given(&[("address", "192.0.2.1")]), None, all);
    assert!(error.unwrap_err().to_string().contains("no service account"));
}

#[test]
fn files_are_in_the_folder_that_is_mounted() {
    let settings = given(&[("address", "192.0.2.1"), ("record", "/var/log/mooring.record")]);
    let error = manifest(Some(What::Pod(Kind::StaticPod)), &settings, None, options()).unwrap_err().to_string();
    assert!(error.contains("/var/log/mooring.record") && error.contains("/run/mooring"), "{error}");
    let text =
        made(Kind::StaticPod, &[("address", "192.0.2.1"), ("run-dir", "/run/vip"), ("record", "/run/vip/record")]);
    assert!(text.contains("- {name: run, mountPath: /run/vip}"), "{text}");
}

#[test]
fn a_pod_has_the_time_that_its_hand_over_takes() {
    let text = made(Kind::StaticPod, &[("address", "192.0.2.1"), ("handover-grace", "30s")]);
    assert!(text.contains("terminationGracePeriodSeconds: 45"), "{text}");
}

#[test]
fn without_metrics_there_is_nothing_to_probe() {
    let text = made(Kind::DaemonSet, &[("services", "on"), ("metrics", "off")]);
    assert!(!text.contains("Probe") && !text.contains("containerPort"), "{text}");
    let text = made(Kind::DaemonSet, &[("services", "on"), ("metrics", "127.0.0.1:9000")]);
    assert!(text.contains("httpGet: {host: 127.0.0.1, path: /livez, port: 9000}"), "{text}");
}

#[test]
fn a_daemon_set_with_a_kubeconfig_has_no_service_account() {
    let text = made(Kind::DaemonSet, &[("address", "192.0.2.1"), ("kubeconfig", "/etc/rancher/k3s/k3s.yaml")]);
    assert!(!text.contains("serviceAccountName"), "{text}");
    assert!(text.contains("hostPath: {path: /etc/rancher/k3s/k3s.yaml, type: FileOrCreate}"), "{text}");
}
