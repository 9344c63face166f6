use std::net::IpAddr;

use super::{Manifest, ManifestError, put};

const KUBE_VIP: &str = r#"# The VIP.
apiVersion: v1
kind: Pod
metadata: {name: kube-vip, namespace: kube-system}
spec:
  containers:
  - name: sidecar   # first, and not ours
    image: example.org/sidecar
    env:
    - name: address
      value: 192.0.2.99
  - args: [manager]
    env:
    - name: cp_enable
      value: "true"
    - value: 0.0.0.0 # to be filled in
      name: vip_address
    - name: address
      value: ''
    image: ghcr.io/kube-vip/kube-vip:v0.8.0
    name: kube-vip
  hostNetwork: true
"#;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn changed(text: &str, address: &str) -> String {
    match put(text, ip(address)) {
        Ok(Manifest::Changed { text: new, .. }) => {
            assert_eq!(put(&new, ip(address)), Ok(Manifest::Carries), "{new}");
            new
        }
        other => panic!("{other:?}\n{text}"),
    }
}

/// The lines that differ.
fn difference<'a>(before: &'a str, after: &'a str) -> Vec<(&'a str, &'a str)> {
    assert_eq!(before.lines().count(), after.lines().count());
    before.lines().zip(after.lines()).filter(|(one, other)| one != other).collect()
}

#[test]
fn only_the_values_change() {
    let new = changed(KUBE_VIP, "10.0.0.5");
    assert_eq!(
        difference(KUBE_VIP, &new),
        [
            ("    - value: 0.0.0.0 # to be filled in", "    - value: \"10.0.0.5\" # to be filled in"),
            ("      value: ''", "      value: \"10.0.0.5\""),
        ]
    );
    let again = changed(&new, "fd00::5");
    assert!(again.contains("value: \"fd00::5\" # to be filled in"), "{again}");
}

#[test]
fn the_static_pod_of_mooring_is_known() {
    let text = include_str!("../../../../static-pod/mooring-agent.yaml");
    let new = changed(text, "10.0.0.5");
    let line = "    - {name: MOORING_ADDRESS, value: 192.0.2.10}";
    assert_eq!(difference(text, &new), [(line, "    - {name: MOORING_ADDRESS, value: \"10.0.0.5\"}")]);
}

fn pod(container: &str) -> String {
    format!("kind: Pod\nspec:\n  containers:\n  - name: kube-vip\n{container}")
}

#[test]
fn a_value_that_is_missing_is_put_in() {
    for (container, expected) in [
        (
            "    env:\n    - name: vip_address\n    - name: x\n",
            "    - name: vip_address\n      value: \"10.0.0.5\"\n    - name: x\n",
        ),
        ("    env:\n    - name: vip_address # here\n", "    - name: vip_address # here\n      value: \"10.0.0.5\"\n"),
        ("    env:\n    - name: vip_address", "    - name: vip_address\n      value: \"10.0.0.5\""),
        (
            "    env:\n    - name: vip_address\n      value:\n    - name: x\n",
            "      value: \"10.0.0.5\"\n    - name: x\n",
        ),
        ("    env:\n    - value:   # none\n      name: vip_address\n", "    - value: \"10.0.0.5\"   # none\n"),
        ("    env: [{name: vip_address}, {name: x}]\n", "[{name: vip_address, \"value\": \"10.0.0.5\"}, {name: x}]"),
        (
            "    env: [{\"name\":\"vip_address\",\"value\":\"\"}]\n",
            "[{\"name\":\"vip_address\",\"value\":\"10.0.0.5\"}]",
        ),
        ("    env:\n    - {name: vip_address, value: }\n", "{name: vip_address, value: \"10.0.0.5\" }"),
    ] {
        let new = changed(&pod(container), "10.0.0.5");
        assert!(new.contains(expected), "{container}\n{new}");
    }
}

#[test]
fn arguments_are_changed_too() {
    for (container, expected) in [
        (
            "    args: [manager, --address, 0.0.0.0, --port, \"6443\"]\n",
            "[manager, --address, \"10.0.0.5\", --port, \"6443\"]",
        ),
        ("    args:\n    - --vip=  \n    - --arp\n", "    - \"--vip=10.0.0.5\"  \n    - --arp\n"),
        ("    command: [kube-vip, '--address=1.1.1.1']\n", "[kube-vip, \"--address=10.0.0.5\"]"),
    ] {
        let new = changed(&pod(container), "10.0.0.5");
        assert!(new.contains(expected), "{container}\n{new}");
    }
}

#[test]
fn json_is_yaml() {
    let text = r#"{"kind":"Pod","spec":{"containers":[{"name":"kube-vip","env":[{"name":"vip_address","value":"0.0.0.0"}]}]}}"#;
    assert_eq!(changed(text, "10.0.0.5"), text.replace("0.0.0.0", "10.0.0.5"));
}

#[test]
fn others_files_are_left_alone() {
    for text in [
        "",
        "kind: Pod",
        "- a\n- b\n",
        "kind: Pod\nspec: {containers: [{name: etcd, env: [{name: address, value: x}]}]}\n",
        "kind: ConfigMap\ndata: {kube-vip: yes}\n",
        "#!/bin/sh\nip route show | awk '{print $1\n",
        "kind: Pod\nmetadata: {name: kube-vip-helper}\nspec: {containers: [{name: etcd}]}\n",
    ] {
        assert_eq!(put(text, ip("10.0.0.5")), Ok(Manifest::NotOurs), "{text}");
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let why = |text: &str| put(text, ip("10.0.0.5")).unwrap_err();
    assert!(matches!(why("kind: Pod # kube-vip\nspec: {{ .Values }\n"), ManifestError::Unreadable(_)));
    assert!(matches!(why(&pod("    env: []\n")), ManifestError::NoPlace { container } if container == "kube-vip"));
    for container in [
        "    env:\n    - name: vip_address\n      valueFrom: {fieldRef: {fieldPath: status.hostIP}}\n",
        "    env:\n    - name: vip_address\n      value: |\n        10.0.0.1\n",
        "    env:\n    - &a {name: x, value: y}\n    - name: vip_address\n      value: *a\n",
        "    args: [--address]\n",
    ] {
        assert!(matches!(why(&pod(container)), ManifestError::NotWritable { .. }), "{container}");
    }
    let long = format!("kind: Pod\nspec: {{containers: [{{name: kube-vip-{}}}]}}", "x".repeat(40_000));
    assert!(why(&long).to_string().len() < 300);
    let deep = pod(&format!("    env: {}{}\n", "[".repeat(5_000), "]".repeat(5_000)));
    assert!(matches!(why(&deep), ManifestError::Unreadable(_)));
}

/// Whatever stands around it: the rest is the same, byte for byte.
#[test]
fn line_ends_tabs_and_letters_of_other_scripts_stay() {
    let text = KUBE_VIP.replace("# The VIP.", "# Die Adresse für „später“ 🚢").replace('\n', "\r\n");
    let new = changed(&text, "10.0.0.5");
    assert_eq!(difference(&text, &new).len(), 2);
    assert_eq!(new.matches("\r\n").count(), text.matches("\r\n").count());
}

/// What an alias names stands elsewhere too, and a tag says what a value must be.
#[test]
fn what_would_change_something_else_is_left() {
    for (env, error) in [
        ("[{name: vip_address, value: &a 0.0.0.0}, {name: other, value: *a}]", "plainer form"),
        ("[{name: other, value: &a 0.0.0.0}, {name: vip_address, value: *a}]", "cannot be written"),
        ("[{name: vip_address, value: !!int 1}]", "cannot be written"),
    ] {
        let said = put(&pod(&format!("    env: {env}\n")), ip("10.0.0.5"));
        assert!(said.as_ref().is_err_and(|said| said.to_string().contains(error)), "{env}: {said:?}");
    }
    // Nobody names it.
    let new = changed(&pod("    env: [{name: vip_address, value: &a 0.0.0.0}]\n"), "10.0.0.5");
    assert!(new.contains("value: &a \"10.0.0.5\""), "{new}");
}
