//! The program's commands, as somebody types them.

// A test says what is wrong by panicking; clippy's own exception is for functions marked as tests only.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

/// A part of what `kube-vip manifest pod` prints.
const KUBE_VIP: &str = "
apiVersion: v1
kind: Pod
metadata: {name: kube-vip, namespace: kube-system}
spec:
  containers:
  - name: kube-vip
    image: example.org/kube-vip/kube-vip:v1.0.0
    args: [manager]
    env:
    - {name: address, value: 192.168.1.10}
    - {name: cp_enable, value: 'true'}
    - {name: vip_interface, value: eth0}
";

fn manifest(from: &str, stdin: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mooring-agent"));
    program.args(["manifest", "--from", from]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    // A program that reads no standard input may have ended.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{from}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_manifest_is_read_from_standard_input() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KUBE_VIP).unwrap();
    let of_file = manifest(file.path().to_str().unwrap(), "");
    assert!(of_file.contains("192.168.1.10"), "{of_file}");
    assert_eq!(manifest("-", KUBE_VIP), of_file);
}
