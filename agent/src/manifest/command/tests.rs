use super::*;

mod carried;
mod nodes;
mod rows;
mod set_ups;

use crate::manifest::pod::IMAGE;
use crate::manifest::report::Verdict;
use crate::manifest::yaml::indented;
use crate::settings::spec::find;

/// As `kube-vip manifest pod` prints it.
const STATIC_POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: kube-vip
  namespace: kube-system
spec:
  containers:
  - args:
    - manager
    env:
    - {name: vip_arp, value: "true"}
    - {name: port, value: "6443"}
    - name: vip_nodename
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    - {name: vip_interface, value: ens192}
    - {name: vip_subnet, value: "32"}
    - {name: dns_mode, value: first}
    - {name: cp_enable, value: "true"}
    - {name: cp_namespace, value: kube-system}
    - {name: vip_leaderelection, value: "true"}
    - {name: vip_leasename, value: plndr-cp-lock}
    - {name: vip_leaseduration, value: "5"}
    - {name: vip_renewdeadline, value: "3"}
    - {name: vip_retryperiod, value: "1"}
    - {name: bgp_peerpass, value: hidden}
    - {name: address, value: 192.168.1.10}
    - {name: prometheus_server, value: ":2112"}
    image: example.org/kube-vip/kube-vip:v1.0.0
    name: kube-vip
    volumeMounts:
    - {mountPath: /etc/kubernetes/admin.conf, name: kubeconfig}
  hostNetwork: true
  volumes:
  - name: kubeconfig
    hostPath: {path: /etc/kubernetes/admin.conf}
"#;

fn options() -> Options {
    Options { image: IMAGE.to_owned(), in_cluster: false, taint: false, kept: Kept::default() }
}

fn read(text: &str) -> Result<Translated, ManifestError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Translated::read(file.path())
}

fn made(from: &Translated) -> Result<String, ManifestError> {
    Ok(manifest(None, &Given::default(), Some(from), options())?.0)
}

fn verdict(rows: &[Row], name: &str) -> Verdict {
    rows.iter().find(|row| row.setting == name).unwrap_or_else(|| panic!("{name} is not in the report")).verdict
}

#[test]
fn a_static_pod_of_kube_vips_becomes_one_of_ours_with_the_same_settings() {
    let from = read(STATIC_POD).unwrap();
    let text = made(&from).unwrap();
    let again = read(&text).unwrap();
    let (before, after) = (from.load(&Given::default()).unwrap(), again.load(&Given::default()).unwrap());
    assert_eq!(before.settings, after.settings, "{text}");
    assert!(text.contains("kind: Pod") && text.contains("{name: MOORING_LEASE_DURATION, value: 5s}"), "{text}");
    assert!(!text.contains("some-node"), "{text}");
    assert!(!text.contains("hidden"), "a password that Mooring does not need stays where it is: {text}");
}

#[test]
fn what_mooring_does_not_do_is_named_and_no_manifest_is_made() {
    let from =
        read(&STATIC_POD.replace("name: vip_arp, value: \"true\"", "name: bgp_enable, value: \"true\"")).unwrap();
    assert_eq!(verdict(&from.rows(&Given::default()), "bgp_enable"), Verdict::NotSupported);
    let error = made(&from).unwrap_err().to_string();
    assert!(error.contains("bgp_enable") && error.contains("BGP"), "{error}");
}

#[test]
fn kube_vips_placement_is_kept_when_its_settings_meant_it() {
    let text = "kind: DaemonSet\nmetadata: {namespace: vips}\nspec: {template: {spec: {containers: [{image: kube-vip, args: [manager], env: [{name: vip_arp, value: 'true'}, {name: svc_enable, value: 'true'}]}]}}}\n";
    let from = read(text).unwrap();
    let text = made(&from).unwrap();
    assert!(text.contains("{name: MOORING_SERVICES_PLACEMENT, value: global-lease}"), "{text}");
    assert!(text.contains("namespace: vips") && text.contains("serviceAccountName: mooring-agent"), "{text}");
    let again = read(&text).unwrap();
    let (before, after) = (from.load(&Given::default()).unwrap(), again.load(&Given::default()).unwrap());
    assert_eq!(before.settings.services, after.settings.services);
    let rbac = manifest(Some(What::Rbac), &Given::default(), Some(&from), options()).unwrap().0;
    assert!(rbac.contains("mooring-agent-kube-vip-placement") && !rbac.contains("namespace: kube-system"), "{rbac}");
}

#[test]
fn flags_beside_the_file_count_first() {
    let from = read(STATIC_POD).unwrap();
    let flags = Given([("address".to_owned(), "192.168.1.99".to_owned())].into());
    let (text, _) = manifest(None, &flags, Some(&from), options()).unwrap();
    assert!(text.contains("192.168.1.99") && !text.contains("192.168.1.10"), "{text}");
}

/// A `DaemonSet` for Services, with more of a pod's fields and of its variables.
fn daemon_set(spec: &str, env: &str) -> String {
    format!(
        "kind: DaemonSet\nmetadata: {{name: kube-vip, namespace: vips}}\nspec: {{template: {{spec: {{{spec}serviceAccountName: kube-vip, \
         containers: [{{image: kube-vip, args: [manager], env: [{{name: vip_arp, value: 'true'}}, {{name: svc_enable, value: 'true'}}{env}]}}]}}}}}}\n"
    )
}

#[test]
fn kube_vips_start_is_named() {
    let Err(error) = read(&STATIC_POD.replace("  - args:\n    - manager", "  - args: [start, -c, /vip.yaml]")) else {
        panic!("it is read")
    };
    assert!(error.to_string().contains("kube-vip 0.3"), "{error}");
}

#[test]
fn what_is_not_carried_over_is_said() {
    let source =
        "{image: kube-vip, args: [manager], env: [{name: svc_enable, value: 'true'}, {name: TOKEN, value: s3cret}]";
    let pod = |more: &str, container: &str| {
        let text =
            format!("kind: DaemonSet\nspec: {{template: {{spec: {{{more}containers: [{source}{container}}}]}}}}}}\n");
        read(&text).unwrap()
    };
    let from = pod("nodeSelector: {role: lb}, imagePullSecrets: [{name: pull}], ", "");
    let rows = from.rows(&Given::default());
    assert_eq!(
        (verdict(&rows, "nodeSelector"), verdict(&rows, "imagePullSecrets")),
        (Verdict::Same, Verdict::Different)
    );
    assert!(rows.iter().all(|row| !row.value.contains("s3cret")), "{rows:?}");
    made(&from).unwrap();
    let from = pod("", ", envFrom: [{configMapRef: {name: settings}}]");
    assert_eq!(verdict(&from.rows(&Given::default()), "envFrom"), Verdict::Invalid);
    let error = made(&from).unwrap_err().to_string();
    assert!(error.contains("envFrom is taken from configMapRef settings"), "{error}");
}

#[test]
fn admin_conf_takes_the_place_of_super_admin_conf() {
    let on_node = STATIC_POD.replace("{path: /etc/kubernetes/admin.conf}", "{path: /etc/kubernetes/super-admin.conf}");
    let everywhere = STATIC_POD.replace("/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf").replace(
        "{name: port,",
        "{name: k8s_config_file, value: /etc/kubernetes/super-admin.conf}\n    - {name: port,",
    );
    for (text, setting) in [(on_node, "hostPath"), (everywhere, "k8s_config_file")] {
        let from = read(&text).unwrap();
        assert_eq!(
            verdict(&from.rows(&Given::default()), setting),
            Verdict::Different,
            "{:?}",
            from.rows(&Given::default())
        );
        let made = made(&from).unwrap();
        assert!(made.contains("hostPath: {path: /etc/kubernetes/admin.conf"), "{made}");
        assert!(!made.contains("path: /etc/kubernetes/super-admin.conf"), "{made}");
    }
}

#[test]
fn a_container_is_known_by_its_name_too() {
    let from = read(&STATIC_POD.replace("image: example.org/kube-vip/kube-vip:v1.0.0", "image: mirror/vip:1"));
    made(&from.unwrap()).unwrap();
}

#[test]
fn daemonsets_for_other_nodes_have_other_names() {
    let of = |taint| {
        let flags = Given([("services".to_owned(), "on".to_owned())].into());
        manifest(Some(What::Pod(Kind::DaemonSet)), &flags, None, Options { taint, ..options() }).unwrap().0
    };
    let (workers, control_planes) = (of(false), of(true));
    assert!(
        workers.contains("  name: mooring-agent\n") && workers.contains("mooring.dev/vips: services}"),
        "{workers}"
    );
    let name = "services-on-control-planes";
    assert!(control_planes.contains(&format!("  name: mooring-agent-{name}\n")), "{control_planes}");
    assert!(control_planes.contains(&format!("mooring.dev/vips: {name}}}")), "{control_planes}");
    assert!(control_planes.contains("serviceAccountName: mooring-agent\n"), "{control_planes}");
}

#[test]
fn the_rights_follow_the_settings() {
    let rbac = |flags: &[(&str, &str)]| {
        let flags = Given(flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        manifest(Some(What::Rbac), &flags, None, options()).unwrap().0
    };
    let text = rbac(&[("address", "ipaddress:team/api"), ("control-plane", "on")]);
    assert!(text.contains("resources: [ipaddresses, ipaddressclaims]"), "{text}");
    let text = rbac(&[("services", "on"), ("sessions-namespace", "team"), ("namespace", "vips")]);
    assert!(text.contains("namespace: team") && text.contains("metadata.name: team"), "{text}");
    assert!(text.contains("system:serviceaccount:vips:mooring-agent'"), "{text}");
    assert!(!text.contains("namespace: mooring-system") && !text.contains("kube-system:"), "{text}");
    assert!(!text.contains("ipaddressclaims"), "{text}");
    let shared = [("services", "on"), ("services-placement", "global-lease"), ("services-lease-name", "team/vips")];
    let text = rbac(&shared);
    assert!(text.contains("resourceNames: [vips]") && text.contains("namespace: team\n"), "{text}");
    assert!(
        text.contains("name: mooring-agent-service-updates") && !text.contains("[get, list, watch, create, update]")
    );
    let each = [("services", "on"), ("services-placement", "lease-per-service"), ("service-updates", "off")];
    let text = rbac(&each);
    assert!(text.contains("[get, list, watch, create, update]") && !text.contains("service-updates"), "{text}");
}

#[test]
fn every_setting_survives_its_way_through_a_manifest() {
    let flags = Given(
        [
            ("address", "192.0.2.1,fd00::1"),
            ("prefix", "32,128"),
            ("control-plane", "on"),
            ("services", "on"),
            ("lease-annotations", "{\"a\":\"b: c\"}"),
            ("log-format", "json"),
            ("health-address", "off"),
            ("api-servers", "https://192.0.2.2:6443"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    );
    assert!(flags.0.keys().all(|name| find(name).is_some()));
    let (text, loaded) = manifest(Some(What::Pod(super::Kind::StaticPod)), &flags, None, options()).unwrap();
    let again = read(&text).unwrap().load(&Given::default()).unwrap();
    assert_eq!(loaded.settings, again.settings, "{text}");
}

#[test]
fn without_a_kind_there_must_be_a_file() {
    let flags = Given([("address".to_owned(), "192.0.2.1".to_owned())].into());
    assert!(matches!(manifest(None, &flags, None, options()), Err(ManifestError::NoKind)));
}
