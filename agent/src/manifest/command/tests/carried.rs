//! Values that the manifest does not have, and what stands around it.

use super::*;

#[test]
fn a_value_that_is_not_in_the_file_is_asked_for() {
    let from = "{name: cp_enable, valueFrom: {configMapKeyRef: {name: vip, key: enabled}}}";
    let from = read(&STATIC_POD.replace("{name: cp_enable, value: \"true\"}", from)).unwrap();
    let error = made(&from).unwrap_err().to_string();
    assert!(
        error.contains("cp_enable is taken from configMapKeyRef vip/enabled") && error.contains("--control-plane"),
        "{error}"
    );
    assert_eq!(verdict(&from.rows(&Given::default()), "cp_enable"), Verdict::Invalid);
    // The advice works.
    let flags = Given([("control-plane".to_owned(), "on".to_owned())].into());
    let (text, _) = manifest(None, &flags, Some(&from), options()).unwrap();
    assert!(text.contains("{name: MOORING_CONTROL_PLANE, value: \"on\"}"), "{text}");
    assert_eq!(verdict(&from.rows(&flags), "cp_enable"), Verdict::NoEffect);
}

#[test]
fn a_value_of_a_config_map_in_the_file_is_read_and_another_one_is_carried_over() {
    let reference = "configMapKeyRef: {name: vip, key: interface-global, optional: true}";
    let text = daemon_set("", &format!(", {{name: vip_interface, valueFrom: {{{reference}}}}}"));
    let map = "---\nkind: ConfigMap\nmetadata: {name: vip}\ndata: {interface-global: eth7}\n";
    let with_map = made(&read(&format!("{text}{map}")).unwrap()).unwrap();
    assert!(with_map.contains("{name: MOORING_INTERFACE, value: eth7}"), "{with_map}");
    let without_key = made(&read(&format!("{text}{}", map.replace("interface-global", "other"))).unwrap()).unwrap();
    assert!(!without_key.contains("MOORING_INTERFACE"), "{without_key}");
    let from = read(&text).unwrap();
    let alone = made(&from).unwrap();
    let spec: serde_json::Value = serde_saphyr::from_str(&alone).unwrap();
    let env = spec["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
    let interface = env.iter().find(|one| one["name"] == "MOORING_INTERFACE").unwrap();
    let reference: serde_json::Value = serde_saphyr::from_str(&format!("{{{reference}}}")).unwrap();
    assert_eq!(interface["valueFrom"], reference, "{alone}");
    assert_eq!(verdict(&from.rows(&Given::default()), "vip_interface"), Verdict::Same);
    // A flag counts before it.
    let flags = Given([("interface".to_owned(), "eth9".to_owned())].into());
    let (flagged, _) = manifest(None, &flags, Some(&from), options()).unwrap();
    assert!(flagged.contains("{name: MOORING_INTERFACE, value: eth9}") && !flagged.contains("KeyRef"), "{flagged}");
    // No static pod can read it.
    let error = manifest(Some(What::Pod(Kind::StaticPod)), &Given::default(), Some(&from), options()).unwrap_err();
    assert!(error.to_string().contains("no static pod can read"), "{error}");
    let all = daemon_set("", "").replace("env: [", "envFrom: [{configMapRef: {name: vip}, prefix: vip_}], env: [");
    let all = made(&read(&format!("{all}{}", map.replace("interface-global", "interface"))).unwrap()).unwrap();
    assert!(all.contains("{name: MOORING_INTERFACE, value: eth7}"), "{all}");
}

#[test]
fn a_pods_own_fields_are_known_or_carried_over() {
    let field = |name: &str, path: &str| format!(", {{name: {name}, valueFrom: {{fieldRef: {{fieldPath: {path}}}}}}}");
    let text = daemon_set(
        "",
        &(field("cp_namespace", "metadata.namespace")
            + &field("vip_nodename", "spec.nodeName")
            + &field("kubernetes_addr", "status.hostIP")),
    );
    let made_of = made(&read(&text).unwrap()).unwrap();
    assert!(made_of.contains("{name: MOORING_NAMESPACE, value: vips}"), "{made_of}");
    assert!(
        made_of.contains("- name: MOORING_API_SERVERS\n          valueFrom: {fieldRef: {fieldPath: status.hostIP}}"),
        "{made_of}"
    );
    assert_eq!(made_of.matches("spec.nodeName").count(), 1, "{made_of}");
    // Whoever applies it says where.
    let from = read(&text.replace(", namespace: vips", "")).unwrap();
    let error = made(&from).unwrap_err().to_string();
    assert!(
        error.contains("cp_namespace is taken from metadata.namespace") && error.contains("--namespace"),
        "{error}"
    );
    let flags = Given([("namespace".to_owned(), "team".to_owned())].into());
    assert!(manifest(None, &flags, Some(&from), options()).unwrap().0.contains("namespace: team"));
    let by_ours = read(
        &text.replace(", namespace: vips", "").replace("env: [", "env: [{name: MOORING_NAMESPACE, value: team}, "),
    );
    assert!(made(&by_ours.unwrap()).unwrap().contains("namespace: team"));
}

#[test]
fn placeholders_of_a_template_stay() {
    let text = STATIC_POD
        .replace("value: 192.168.1.10}", "value: \"${CONTROL_PLANE_ENDPOINT_IP}\"}")
        .replace("{name: vip_interface, value: ens192}", "name: vip_interface\n      value: ${VIP_INTERFACE=\"\"}")
        .replace("{name: vip_leaseduration, value: \"5\"}", "{name: vip_leaseduration, value: \"${LEASE}\"}");
    let from = read(&text).unwrap();
    let text = made(&from).unwrap();
    for line in [
        "- name: MOORING_ADDRESS\n      value: \"${CONTROL_PLANE_ENDPOINT_IP}\"\n",
        "- name: MOORING_INTERFACE\n      value: ${VIP_INTERFACE=\"\"}\n",
        "- name: vip_leaseduration\n      value: \"${LEASE}\"\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("some-vip") && !text.contains("MOORING_LEASE_DURATION"), "{text}");
    read(&text).unwrap().load(&Given::default()).unwrap();
}

#[test]
fn a_placeholders_default_counts_where_the_value_must_be_known() {
    let of = |value: &str| {
        let more = format!("- {{name: svc_enable, value: \"{value}\"}}\n    - {{name: vip_arp,");
        read(&STATIC_POD.replace("- {name: vip_arp,", &more)).unwrap()
    };
    for value in ["${SVC=false}", "${SVC:=false}", "${SVC:-false}"] {
        let from = of(value);
        let text = made(&from).unwrap();
        assert!(text.contains("{name: MOORING_SERVICES, value: \"false\"}"), "{text}");
        assert_eq!(verdict(&from.rows(&Given::default()), "svc_enable"), Verdict::Different);
        let flags = Given([("services".to_owned(), "on".to_owned())].into());
        let (text, _) = manifest(None, &flags, Some(&from), options()).unwrap();
        assert!(text.contains("{name: MOORING_SERVICES, value: \"on\"}"), "{text}");
    }
    let error = made(&of("${SVC}")).unwrap_err().to_string();
    assert!(error.contains("give --services"), "{error}");
}

#[test]
fn a_manifest_in_an_object_stays_in_it() {
    let object = |pod: &str| {
        let pod = indented(pod, 8);
        format!(
            "# Mine\nkind: KubeadmControlPlane\nspec:\n  kubeadmConfigSpec:\n    files:\n    - path: /x # here\n      content: |\n{pod}"
        )
    };
    let from = read(&object(STATIC_POD.trim_start())).unwrap();
    let alone = made(&read(STATIC_POD).unwrap()).unwrap();
    let (before, mark) = ("# Mine\nkind: KubeadmControlPlane\n", "path: /x # here\n");
    let text = made(&from).unwrap();
    assert_eq!(text, object(&alone));
    assert!(text.starts_with(before) && text.contains(mark), "{text}");
    // In a list of objects too.
    let list = |text: &str| format!("kind: List\nitems:\n- kind: Cluster\n- {}", indented(text, 2).trim_start());
    assert_eq!(made(&read(&list(&object(STATIC_POD.trim_start()))).unwrap()).unwrap(), list(&object(&alone)));
    // What is another kind of object, or of rights, stands alone.
    let (set, _) = manifest(Some(What::Pod(Kind::DaemonSet)), &Given::default(), Some(&from), options()).unwrap();
    assert!(set.contains("kind: DaemonSet") && !set.contains("KubeadmControlPlane"), "{set}");
    // An address that is written later.
    let empty = STATIC_POD.replace("value: 192.168.1.10}", "value: \"\"}");
    let text = made(&read(&object(empty.trim_start())).unwrap()).unwrap();
    assert!(text.contains("- name: MOORING_ADDRESS\n              value: \"\"\n"), "{text}");
    assert!(made(&read(&empty).unwrap()).unwrap_err().to_string().contains("no VIP is named"));
}
