//! The nodes, and the service account, of a translated manifest.

use super::*;

/// The parts of a printed manifest's pod that say where it runs.
fn nodes(text: &str) -> [serde_json::Value; 3] {
    let object: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let spec = if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
    ["nodeSelector", "affinity", "tolerations"].map(|field| spec[field].clone())
}

const ON_CONTROL_PLANES: &str = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [\
    {matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}, \
    {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]}]}}}, \
    tolerations: [{effect: NoSchedule, operator: Exists}], ";

#[test]
fn an_agent_runs_on_the_nodes_where_kube_vip_ran() {
    for nodes_of in [ON_CONTROL_PLANES, "nodeSelector: {role: lb}, ", "tolerations: [{operator: Exists}], ", ""] {
        let text = daemon_set(nodes_of, "");
        let from = read(&text).unwrap();
        let printed = made(&from).unwrap();
        assert_eq!(nodes(&printed), nodes(&text), "{printed}");
        assert_eq!(nodes(&made(&read(&printed).unwrap()).unwrap()), nodes(&text));
    }
    let from = read(&daemon_set(ON_CONTROL_PLANES, "")).unwrap();
    assert_eq!(verdict(&from.rows(&Given::default()), "affinity"), Verdict::Same);
    // Whoever asks for control-plane nodes has them.
    let from = read(&daemon_set("nodeSelector: {role: lb}, ", "")).unwrap();
    let (text, _) = manifest(None, &Given::default(), Some(&from), Options { taint: true, ..options() }).unwrap();
    assert!(text.contains("control-plane, operator: Exists") && !text.contains("role: lb"), "{text}");
    // The chart's own tolerations.
    let text = made(&read("env: {vip_arp: true, svc_enable: true}\n").unwrap()).unwrap();
    let [selector, affinity, tolerations] = nodes(&text);
    assert!(selector.is_null() && affinity.is_null(), "{text}");
    assert_eq!(tolerations[0]["key"], "node-role.kubernetes.io/control-plane");
}

#[test]
fn the_control_planes_vip_stays_on_control_plane_nodes() {
    let control_plane = ", {name: cp_enable, value: 'true'}, {name: address, value: 192.0.2.1}";
    let from = read(&daemon_set("", control_plane)).unwrap();
    let text = made(&from).unwrap();
    assert!(text.contains("control-plane, operator: Exists") && text.contains("- {operator: Exists}"), "{text}");
    assert_eq!(verdict(&from.rows(&Given::default()), "affinity"), Verdict::Different);
    let chosen = daemon_set("nodeSelector: {node-role.kubernetes.io/master: 'true'}, ", control_plane);
    assert_eq!(nodes(&made(&read(&chosen).unwrap()).unwrap()), nodes(&chosen));
}

#[test]
fn a_pod_with_a_service_account_goes_on_with_it() {
    let mounted = "mountPath: /etc/kubernetes/admin.conf";
    let api = STATIC_POD
        .replace(mounted, "mountPath: /etc/rancher/rke2/rke2.yaml")
        .replace("  hostNetwork", "  serviceAccountName: kube-vip\n  nodeSelector: {a: b}\n  hostNetwork");
    let from = read(&api).unwrap();
    let text = made(&from).unwrap();
    let pod: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(
        (&pod["kind"], &pod["spec"]["serviceAccountName"]),
        (&"Pod".into(), &"mooring-agent-control-plane".into())
    );
    assert!(text.contains("{name: MOORING_CREDENTIALS, value: in-cluster}") && !text.contains("admin.conf"), "{text}");
    assert_eq!(nodes(&text), nodes(&api));
    let rbac = manifest(Some(What::Rbac), &Given::default(), Some(&from), options()).unwrap().0;
    assert!(rbac.contains("name: mooring-agent-control-plane"), "{rbac}");
    // Ours is read again as what it is.
    assert_eq!(made(&read(&text).unwrap()).unwrap(), text);
    // Nobody says what it uses.
    let from = read(&api.replace("  serviceAccountName: kube-vip\n", "")).unwrap();
    let told = |flags: &[(&str, &str)]| {
        let flags = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (text, loaded) = manifest(None, &Given(flags), Some(&from), options()).unwrap();
        (text, loaded.warnings.iter().any(|warning| warning.setting == "kubeconfig"))
    };
    assert!(told(&[]).1);
    let (text, is_told) = told(&[("kubeconfig", "/etc/rancher/rke2/rke2.yaml")]);
    assert!(!is_told && text.contains("hostPath: {path: /etc/rancher/rke2/rke2.yaml,"), "{text}");
    // With a kubeconfig where kube-vip looks for it, the pod uses that.
    let text = made(&read(&api.replace("mountPath: /etc/rancher/rke2/rke2.yaml", mounted)).unwrap()).unwrap();
    assert!(text.contains("hostPath: {path: /etc/kubernetes/admin.conf") && !text.contains("serviceAccount"), "{text}");
}
