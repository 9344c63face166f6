use std::path::Path;

use super::*;
use crate::manifest::source::{Variable, read as read_file};

const POD: &str = "\
# The VIP.
apiVersion: v1
kind: Pod
metadata: {name: kube-vip}
spec:
  containers:
  - name: kube-vip
    image: kube-vip:1
    args: [manager]
    env:
    - {name: address, value: 192.0.2.1}
";

const OURS: &str = "kind: Pod\nmetadata:\n  name: ours\n\n# A line with \"quotes\": and a colon\n";

fn found(text: &str) -> Result<Way, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let (source, way) = read_file(file.path()).map_err(|error| error.to_string())?;
    assert_eq!(source.env["address"], Variable::Text("192.0.2.1".into()));
    Ok(way)
}

fn put(text: &str) -> String {
    found(text).unwrap().put(OURS).unwrap()
}

/// The text, each line after so many spaces, but for empty ones.
fn under(text: &str, indent: usize) -> String {
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("{:indent$}{line}", "") };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// A file of a machine, at the depth of each kind.
fn control_plane(head: &str, depth: usize, content: &str, more: &str) -> String {
    let file = format!(
        "files:\n# The VIP's pod.\n- content: {content}\n  owner: root:root\n  path: /etc/kubernetes/manifests/kube-vip.yaml{more}\n- {{content: 'a: b', path: /x}}\n"
    );
    format!("kind: Cluster # first\n---\n{head}{}---\nkind: Other\nspec: {{x: ${{Y}}}}\n", under(&file, depth))
}

#[test]
fn the_file_of_a_control_plane_is_found_and_put_back() {
    let kinds = [
        ("kind: KubeadmControlPlane\nspec:\n  kubeadmConfigSpec:\n", 4),
        ("kind: KubeadmControlPlaneTemplate\nspec:\n  template:\n    spec:\n      kubeadmConfigSpec:\n", 8),
        ("kind: RKE2ControlPlane\nspec:\n", 2),
        ("kind: KThreesControlPlane\nspec:\n  kthreesConfigSpec:\n", 4),
    ];
    for (head, depth) in kinds {
        let of = |text: &str| control_plane(head, depth, &format!("|\n{}", under(text, 4).trim_end()), "");
        assert_eq!(put(&of(POD)), of(OURS), "all else stays to the letter");
        let quoted = |text: &str| control_plane(head, depth, &Value::from(text).to_string(), "");
        assert_eq!(put(&quoted(POD)), of(OURS));
        let coded = |text: &str| control_plane(head, depth, &Coding::Base64.encoded(text), "\n  encoding: base64");
        let back = put(&coded(POD));
        assert_eq!(
            back,
            coded(OURS).replace(&Coding::Base64.encoded(OURS), &Value::from(Coding::Base64.encoded(OURS)).to_string())
        );
    }
}

#[test]
fn placeholders_that_are_no_yaml_stay() {
    let of = |pod: &str| {
        let keys = "  sshAuthorizedKeys: [${KEYS}, \"${ONE:=a}\"]\n  # ${ and }\n";
        let files = format!("  files:\n  - path: /x\n    content: |\n{}", under(&format!("{pod}# ${{LATER}}\n"), 6));
        format!("kind: RKE2ControlPlane\nspec:\n{keys}{files}  version: ${{VERSION}}\n")
    };
    let expected = of("").replace("      # ${LATER}\n", &under(OURS, 6));
    assert_eq!(put(&of(POD)), expected);
}

#[test]
fn a_packed_file_is_named() {
    let text = control_plane("kind: RKE2ControlPlane\nspec:\n", 2, "H4sI", "\n  encoding: gzip+base64");
    let error = found(&text).unwrap_err();
    assert!(
        error.contains("the file /etc/kubernetes/manifests/kube-vip.yaml with the encoding gzip+base64"),
        "{error}"
    );
}

#[test]
fn a_key_of_a_secret_or_a_config_map_is_found_and_put_back() {
    let all = |text: &str| format!("kind: ServiceAccount\n---\n{text}---\nkind: Role\n");
    let literal = |text: &str| format!("|\n{}", under(&all(text), 4));
    let of = |kind: &str, field: &str, value: &str| {
        format!("# Mine\nkind: {kind}\n{field}:\n  other: x\n  vip.yaml: {value}")
    };
    for (kind, field) in [("ConfigMap", "data"), ("Secret", "stringData")] {
        let ours = format!("\n{OURS}");
        let expected = all("").replacen("---\n", &format!("---{ours}"), 1);
        assert_eq!(put(&of(kind, field, &literal(POD))), of(kind, field, &format!("|\n{}", under(&expected, 4))));
    }
    let coded = of("Secret", "data", &(Coding::Base64.encoded(&all(POD)) + "\n"));
    let back: Value = serde_saphyr::from_str(&put(&coded)).unwrap();
    let text = Coding::Base64.decoded(back["data"]["vip.yaml"].as_str().unwrap()).unwrap();
    assert!(
        text.contains("name: ours") && text.starts_with("kind: ServiceAccount") && text.ends_with("kind: Role\n"),
        "{text}"
    );
}

#[test]
fn a_text_in_a_text_is_found_and_put_back() {
    let machine = |pod: &str| {
        control_plane("kind: RKE2ControlPlane\nspec:\n", 2, &format!("|\n{}", under(pod, 4).trim_end()), "")
    };
    let map = |pod: &str| format!("kind: ConfigMap\ndata:\n  cluster: |\n{}", under(&machine(pod), 4));
    assert_eq!(put(&map(POD)), map(OURS));
    let variable = |pod: &str| {
        format!(
            "kind: Cluster\nspec:\n  topology:\n    variables:\n    - {{name: a, value: 3}}\n    - name: pod\n      value: |\n{}    class: x\n",
            under(pod, 8)
        )
    };
    assert_eq!(put(&variable(POD)), variable(OURS));
    let class = |pod: &str| {
        let file = format!("owner: root\npath: /x # {{{{ .here }}}}\ncontent: |\n{}", under(pod, 2));
        let patches = "kind: ClusterClass\nspec:\n  patches:\n  - definitions:\n    - jsonPatches:\n      - op: add\n        valueFrom:\n          template: |\n";
        format!("{patches}{}", under(&file, 12))
    };
    assert_eq!(put(&class(POD)), class(OURS));
    // In braces there is no text on several lines.
    let braces = put(&format!("{{\"kind\": \"ConfigMap\", \"data\": {{\"a\": {}}}}}", Value::from(POD)));
    assert_eq!(serde_json::from_str::<Value>(&braces).unwrap()["data"]["a"], OURS);
}

#[test]
fn a_text_that_stands_elsewhere_too_is_left_alone() {
    let text = format!("kind: ConfigMap\ndata:\n  a: &text |\n{}b: *text\n", under(POD, 4));
    let error = found(&text).unwrap().put(OURS).unwrap_err();
    assert!(error.to_string().contains("file of its own"), "{error}");
}

#[test]
fn the_values_of_a_release_are_found() {
    let values = "config: {address: 192.0.2.1}\nenv: {svc_enable: true}\n";
    let part = |name: &str| format!("enabled: true\n{name}:\n{}", under(values, 2));
    let k3s = |kind: &str, name: &str, values: &str| {
        format!("kind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  valuesContent: |\n{}", under(values, 4))
    };
    let argo = |field: &str, chart: &str, values: &str| {
        format!(
            "kind: Application\nmetadata: {{name: vip}}\nspec:\n  source:\n    chart: {chart}\n    helm:\n      {field}\n{}",
            under(values, 8)
        )
    };
    let sources = "kind: Application\nspec: {sources: [{chart: kube-vip, helm: {parameters: [{name: config.address, value: 192.0.2.1}]}}]}\n";
    let set_of = "kind: ApplicationSet\nspec: {template: {spec: {source: {chart: kube-vip, helm: {valuesObject: {config: {address: 192.0.2.1}}}}}}}\n";
    let flux =
        "kind: HelmRelease\nmetadata: {name: harvester}\nspec: {values: {kube-vip: {config: {address: 192.0.2.1}}}}\n";
    let set = "kind: HelmChart\nspec: {chart: kube-vip, set: {config.address: 192.0.2.1}}\n";
    for text in [
        values.to_owned(),
        part("kube-vip"),
        k3s("HelmChart", "kube-vip", values),
        k3s("HelmChartConfig", "kube-vip", values),
        k3s("HelmChartConfig", "harvester", &part("kube-vip")),
        argo("values: |", "kube-vip", values),
        argo("valuesObject:", "kube-vip", values),
        argo("valuesObject:", "harvester", &part("kube-vip")),
        sources.to_owned(),
        set_of.to_owned(),
        flux.to_owned(),
        set.to_owned(),
    ] {
        found(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert!(found(&k3s("HelmChart", "traefik", values)).is_err());
    assert!(found(&format!("kind: ConfigMap\ndata:\n  x: |\n{}", under(values, 4))).is_err(), "values of anything");
}

#[test]
fn values_that_stand_elsewhere_are_asked_for() {
    let text = "kind: HelmRelease\nmetadata: {name: kube-vip}\nspec: {valuesFrom: [{kind: ConfigMap, name: mine}], values: {env: {svc_enable: true}}}\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let (source, _) = read_file(Path::new(file.path())).unwrap();
    assert_eq!(source.elsewhere, [("values", "ConfigMap mine".to_owned())]);
}
