use super::*;

fn parsed(text: &str) -> Result<Source, SourceError> {
    parse(Path::new("file.yaml"), text).map(|(source, _)| source)
}

const POD: &str = r#"
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: sidecar
    image: other:1
  - args: [manager, --prometheusHTTPServer, ""]
    env:
    - {name: vip_arp, value: "true"}
    - name: vip_nodename
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    image: example.org/kube-vip/kube-vip:v1.0.0
    volumeMounts:
    - {mountPath: /etc/kubernetes/admin.conf, name: kubeconfig}
  volumes:
  - {name: kubeconfig, hostPath: {path: /etc/rancher/k3s/k3s.yaml}}
"#;

#[test]
fn a_static_pods_container_is_found_among_others() {
    let source = parsed(POD).unwrap();
    assert_eq!((source.shape, source.kubeconfig), (Shape::Pod, Some("/etc/rancher/k3s/k3s.yaml".to_owned())));
    assert_eq!(source.args, ["manager", "--prometheusHTTPServer", ""]);
    assert_eq!(source.env["vip_arp"], Variable::Text("true".into()));
    assert!(source.env["vip_nodename"].is_node_name());
}

#[test]
fn a_daemon_set_is_found_beside_its_roles() {
    let text = "kind: ServiceAccount\n---\nkind: DaemonSet\nspec: {template: {spec: {containers: [{args: [manager], env: [{name: svc_enable, value: 'true'}]}]}}}\n";
    let source = parsed(text).unwrap();
    assert_eq!((source.shape, source.kubeconfig), (Shape::DaemonSet, None));
    assert_eq!(source.env["svc_enable"], Variable::Text("true".into()));
}

#[test]
fn values_of_the_chart_are_read_with_and_without_quotes() {
    let text = "config: {address: 192.0.2.1}\nenv: {vip_arp: true, lb_port: 6443, vip_interface: ''}\nextraArgs: {log: -4, servicesElection: null}\nenvValueFrom: {vip_nodename: {fieldRef: {fieldPath: spec.nodeName}}}\n";
    let source = parsed(text).unwrap();
    assert_eq!(source.shape, Shape::ChartValues);
    assert_eq!(source.args, ["manager", "--log=-4", "--servicesElection"]);
    assert_eq!(source.env["address"], Variable::Text("192.0.2.1".into()));
    assert_eq!(source.env["vip_arp"], Variable::Text("true".into()));
    assert_eq!(source.env["lb_port"], Variable::Text("6443".into()));
    assert!(source.env["vip_nodename"].is_node_name());
}

#[test]
fn a_chart_is_found_in_the_object_that_installs_it() {
    let values = "config: {address: 192.0.2.1}\n    env: {svc_enable: true}";
    let k3s = format!(
        "kind: HelmChart\nmetadata: {{name: vip}}\nspec:\n  chart: kube-vip\n  valuesContent: |\n    {values}\n"
    );
    let flux = "kind: HelmRelease\nmetadata: {name: kube-vip}\nspec: {values: {config: {address: 192.0.2.1}, env: {svc_enable: true}}}\n";
    for text in [k3s.as_str(), flux] {
        let source = parsed(text).unwrap();
        assert_eq!(source.shape, Shape::ChartValues);
        assert_eq!(source.env["address"], Variable::Text("192.0.2.1".into()));
        assert_eq!(source.env["svc_enable"], Variable::Text("true".into()));
    }
    assert!(parsed(&k3s.replace("kube-vip", "traefik")).is_err());
}

#[test]
fn a_list_is_its_items() {
    let pod = POD.trim_start_matches('\n').replace('\n', "\n  ");
    let text = format!("kind: List\nitems:\n- kind: ServiceAccount\n- {pod}\n");
    assert_eq!(parsed(&text).unwrap().shape, Shape::Pod);
}

#[test]
fn a_file_without_settings_is_refused_and_what_it_has_is_named() {
    let none = parsed("kind: ConfigMap\n---\nkind: Secret\n").unwrap_err().to_string();
    assert!(none.contains("it has ConfigMap, Secret"), "{none}");
    let several = parsed(&format!("{POD}\n---{POD}")).unwrap_err().to_string();
    assert!(several.contains("2 objects"), "{several}");
    assert!(matches!(parsed("a: [b"), Err(SourceError::NotYaml { .. })));
}
