use super::*;

fn parsed(args: &[&str]) -> Action {
    parse(std::iter::once("mooring-agent").chain(args.iter().copied()).map(OsString::from), |_| None).unwrap()
}

#[test]
fn clap_finds_nothing_wrong_with_the_tables() {
    command().debug_assert();
}

#[test]
fn run_is_the_default_and_kube_vips_manager_is_run() {
    let given = Given([("address".to_owned(), "192.0.2.1".to_owned())].into());
    assert_eq!(parsed(&["--address", "192.0.2.1"]), Action::Run(given.clone()));
    assert_eq!(parsed(&["run", "--address=192.0.2.1"]), Action::Run(given.clone()));
    assert_eq!(parsed(&["manager", "--address", "192.0.2.1"]), Action::Run(given));
    assert_eq!(parsed(&[]), Action::Run(Given::default()));
}

#[test]
fn kube_vips_flags_are_understood() {
    let flags = ["manager", "--arp", "--controlplane=true", "--leaseDuration", "5", "--log", "-4", "-n", "kube-system"];
    let Action::Run(given) = parsed(&flags) else { panic!("not run") };
    let expect = [
        ("arp", "true"),
        ("controlplane", "true"),
        ("leaseDuration", "5"),
        ("log", "-4"),
        ("namespace", "kube-system"),
    ];
    assert_eq!(given.0, expect.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
}

#[test]
fn kube_vips_flags_for_zebra_are_understood() {
    let Action::Run(given) = parsed(&["manager", "--zebra", "--zebraUrl", "unix:/z", "--zebraVersion", "6"]) else {
        panic!("not run")
    };
    assert_eq!(given.0.keys().collect::<Vec<_>>(), ["zebra", "zebraUrl", "zebraVersion"]);
}

#[test]
fn kube_vips_other_subcommands_are_refused_by_name() {
    for args in [&["kubeadm", "init"][..], &["sample"], &["service", "-c", "x"], &["start", "-c", "x"]] {
        let Action::Refuse(text) = parsed(args) else { panic!("{args:?} is not refused") };
        assert!(text.contains(&format!("kube-vip's subcommand {}", args[0])), "{text}");
    }
}

#[test]
fn status_finds_the_socket_by_flag_environment_and_directory() {
    let socket = |action| {
        if let Action::Status { socket, .. } = action { socket } else { panic!("not status") }
    };
    assert_eq!(socket(parsed(&["status"])), Path::new("/run/mooring/agent.sock"));
    assert_eq!(socket(parsed(&["status", "--run-dir", "/x"])), Path::new("/x/agent.sock"));
    let env = |name: &str| (name == "MOORING_STATUS_SOCKET").then(|| "/y/s".to_owned());
    let args = || ["mooring-agent", "status", "--run-dir", "/x"].map(OsString::from);
    assert_eq!(socket(parse(args(), env).unwrap()), Path::new("/y/s"));
}

#[test]
fn the_help_names_every_setting_and_none_of_kube_vips() {
    let help = command().render_help().to_string();
    for spec in SETTINGS {
        assert!(help.contains(&format!("--{}", spec.name)), "{}", spec.name);
    }
    assert!(!help.contains("leaseRenewDuration"));
}

#[test]
fn a_manifest_may_be_asked_for_as_kube_vip_does() {
    let args =
        ["manifest", "daemonset", "--interface", "eth0", "--address", "192.0.2.1", "--inCluster", "--taint", "--arp"];
    let Action::Manifest { what, from, given, options } = parsed(&args) else { panic!("no manifest") };
    assert_eq!((what, from), (Some(What::Pod(Kind::DaemonSet)), None));
    assert_eq!(given.0.keys().collect::<Vec<_>>(), ["address", "arp", "interface"]);
    assert!(options.in_cluster && options.taint && options.image == IMAGE);
    let Action::Manifest { what, .. } = parsed(&["manifest", "pod", "--address", "192.0.2.1"]) else {
        panic!("no manifest")
    };
    assert_eq!(what, Some(What::Pod(Kind::StaticPod)));
}
