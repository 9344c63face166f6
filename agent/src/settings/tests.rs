use std::time::Duration;

use super::*;

fn load(flags: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Loaded, SettingsErrors> {
    let own =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
    let host = Host { name: Some("CP1.Example".into()), pod_namespace: None };
    Settings::load(&Given(own(flags).into_iter().collect()), own(env), &host)
}

fn effective<'a>(loaded: &'a Loaded, name: &str) -> (&'a str, &'a Origin) {
    let found = loaded.effective.iter().find(|e| e.name == name).unwrap();
    (&found.value, &found.source)
}

fn warnings(loaded: &Loaded) -> String {
    loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_address_is_enough() {
    let loaded = load(&[("address", "192.0.2.10")], &[]).unwrap();
    assert!(loaded.warnings.is_empty());
    let s = loaded.settings;
    assert_eq!(s.addresses, [Address::Ip("192.0.2.10".parse().unwrap())]);
    assert_eq!((s.prefix, s.port, s.interface.as_ref()), (Prefix { v4: 32, v6: 128 }, 6443, None));
    assert_eq!(s.node_name, "cp1.example");
    assert_eq!((s.lease.namespace.as_str(), s.lease.name.as_str()), ("kube-system", "plndr-cp-lock"));
    let secs = Duration::from_secs;
    assert_eq!((s.lease.duration, s.lease.renew_deadline, s.lease.retry_period), (secs(15), secs(10), secs(2)));
    assert_eq!(s.witness, Some(Witness { interval: Duration::from_millis(100), misses: 3 }));
    assert_eq!(s.health.address, HealthAddress::Found);
    assert_eq!(s.loopback().unwrap().to_string(), "https://127.0.0.1:6443/");
    assert_eq!(s.metrics, Some(Listen::Any(2112)));
    assert_eq!(s.status_socket.to_str(), Some("/run/mooring/agent.sock"));
    assert_eq!(s.announce, Announce { refresh: Some(secs(30)), rate_limit: None });
    assert!(s.link_down_delay.is_zero() && s.conflict_probe && s.provisional.is_some());
}

#[test]
fn flags_win_over_environment_over_kube_vip_over_defaults() {
    let address = ("address", "192.0.2.1");
    let (ours, theirs) = (("MOORING_LEASE_DURATION", "20s"), ("vip_leaseduration", "25"));
    let source = |flags: &[(&str, &str)], env: &[(&str, &str)]| {
        let loaded = load(&[&[address], flags].concat(), env).unwrap();
        let (value, source) = effective(&loaded, "lease-duration");
        (value.to_owned(), source.clone(), loaded.settings.lease.duration.as_secs())
    };
    let flag = Origin::Flag("--lease-duration".into());
    assert_eq!(source(&[("lease-duration", "30s")], &[ours, theirs]), ("30s".into(), flag, 30));
    let flag = Origin::Flag("--leaseDuration".into());
    assert_eq!(source(&[("leaseDuration", "35")], &[ours, theirs]), ("35s".into(), flag, 35));
    assert_eq!(source(&[], &[ours, theirs]), ("20s".into(), Origin::Environment("MOORING_LEASE_DURATION".into()), 20));
    assert_eq!(source(&[], &[theirs]), ("25s".into(), Origin::KubeVip("vip_leaseduration".into()), 25));
    assert_eq!(source(&[], &[("MOORING_LEASE_DURATION", "")]), ("15s".into(), Origin::Default, 15));
}

/// What `kube-vip manifest pod --arp --controlplane --leaderElection --address ... --interface eth0` prints as
/// environment, with values that are not the defaults.
#[test]
fn kube_vips_own_static_pod_loads() {
    let env = [
        ("vip_arp", "true"),
        ("port", "6444"),
        ("vip_nodename", "CP2"),
        ("vip_interface", "eth0"),
        ("vip_subnet", "32"),
        ("dns_mode", "first"),
        ("dhcp_mode", "ipv4"),
        ("cp_enable", "true"),
        ("cp_namespace", "kube-system"),
        ("vip_leaderelection", "true"),
        ("vip_leasename", "plndr-cp-lock"),
        ("vip_leaseduration", "5"),
        ("vip_renewdeadline", "3"),
        ("vip_retryperiod", "1"),
        ("vip_loglevel", "-4"),
        ("address", "192.0.2.10"),
        ("prometheus_server", ":2113"),
        // What is always around.
        ("PATH", "/bin"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
    ];
    let loaded = load(&[], &env).unwrap();
    assert_eq!(warnings(&loaded), "");
    let s = loaded.settings;
    assert_eq!((s.node_name.as_str(), s.interface.as_deref(), s.port), ("cp2", Some("eth0"), 6444));
    assert_eq!(s.lease.duration, Duration::from_secs(5));
    assert_eq!(s.loopback().unwrap().to_string(), "https://127.0.0.1:6444/");
    assert_eq!((s.log.level, s.metrics), (LogLevel::Debug, Some(Listen::Any(2113))));
}

#[test]
#[expect(clippy::too_many_lines, reason = "most of them are one table")]
fn each_bad_value_is_named_with_what_would_do() {
    let cases: &[(&str, &str, &str)] = &[
        ("address", "", "no VIP is named"),
        ("address", "192.0.2.300", "neither an address nor a DNS name"),
        ("address", "192.0.2", "neither an address nor a DNS name"),
        ("address", "-x.example", "neither an address nor a DNS name"),
        ("address", "192.0.2.1/24", "with prefix"),
        ("address", "[2001:db8::1]:6443", "without zone, brackets or port"),
        ("address", "fe80::1%eth0", "without zone"),
        ("address", "fe80::1", "link-local"),
        ("address", "0.0.0.0", "unspecified"),
        ("address", "::", "unspecified"),
        ("address", "0.1.2.3", "0.0.0.0/8"),
        ("address", "127.0.0.1", "loopback"),
        ("address", "::1", "loopback"),
        ("address", "224.0.0.1", "multicast"),
        ("address", "ff02::1", "multicast"),
        ("address", "255.255.255.255", "broadcast"),
        ("address", "::ffff:192.0.2.1", "IPv6 clothes"),
        ("address", "192.0.2.1,192.0.2.1", "twice"),
        ("dns-mode", "both", "first, ipv4, ipv6, dual"),
        ("prefix", "33", "out of range"),
        ("prefix", "0", "out of range"),
        ("prefix", "24,129", "out of range"),
        ("prefix", "24,64,1", "more than two"),
        ("prefix", "auto", "Services only"),
        ("interface", "interface-too-long", "1 to 15"),
        ("interface", "a/b", "ip link"),
        ("interface", "lo", "on lo"),
        ("port", "0", "1 to 65535"),
        ("port", "65536", "1 to 65535"),
        ("node-name", "a_b", "lower-case letters"),
        ("control-plane", "maybe", "on or off"),
        ("control-plane", "off", "switch one of them on"),
        ("services", "maybe", "on or off"),
        ("services-interface", "a/b", "ip link"),
        ("services-placement", "both", "session, global-lease, lease-per-service"),
        ("services-lease-name", "a/b/c", "lower-case letters"),
        ("service-updates", "maybe", "on or off"),
        ("lb-class-name", "my class", "loadBalancerClass"),
        ("lb-class-only", "maybe", "on or off"),
        ("lb-class-legacy-handling", "maybe", "on or off"),
        ("sessions-namespace", "A", "lower-case letters"),
        ("namespace", "A", "lower-case letters"),
        ("lease-name", "a/b/c", "lower-case letters"),
        ("lease-name", "/x", "lower-case letters"),
        ("lease-duration", "15", "a number without a unit"),
        ("lease-duration", "2s", "3s to 1h"),
        ("lease-duration", "3500ms", "not whole seconds"),
        ("lease-duration", "99999999999999999999h", "below a day"),
        ("lease-duration", "15 s", "a number without a unit"),
        ("lease-duration", "-1s", "not a time"),
        ("renew-deadline", "15s", "not shorter than lease-duration"),
        ("retry-period", "9s", "1.2 times it is not shorter than renew-deadline"),
        ("lease-annotations", "a=b", "JSON object of strings"),
        ("lease-annotations", r#"{"a": 1}"#, "JSON object of strings"),
        ("lease-annotations", r#"{"mooring.dev/x": "1"}"#, "Mooring's own"),
        ("lease-annotations", r#"{"a b": "1"}"#, "not a key"),
        ("kubeconfig", "admin.conf", "not an absolute path"),
        ("credentials", "token", "auto, kubeconfig, in-cluster"),
        ("api-servers", "ftp://x", "https://HOST:PORT"),
        ("api-servers", "https://", "https://HOST:PORT"),
        ("witness-interval", "1ms", "or 0 for off"),
        ("witness-misses", "1", "2 to 20"),
        ("witness-misses", "21", "2 to 20"),
        ("api-loss", "drop", "hold, hold-alone, release"),
        ("provisional", "maybe", "on or off"),
        ("provisional-delay", "0", "10ms to 10s"),
        ("handover-grace", "61s", "0 to 1m"),
        ("link-down-delay", "11m", "out of range"),
        ("health-address", "https:///readyz", "address of a server"),
        ("health-interval", "0", "100ms to 1m"),
        ("health-timeout", "0", "50ms to 1m"),
        ("health-rise", "0", "1 to 100"),
        ("health-fall", "x", "1 to 100"),
        ("health-server-name", "a b", "lower-case letters"),
        ("announce-refresh", "10ms", "or 0 for off"),
        ("arp-rate-limit", "1001", "0 to 1000"),
        ("conflict-probe", "2", "on or off"),
        ("metrics", "2112", ":PORT"),
        ("metrics", ":0", ":PORT"),
        ("metrics", "nowhere:1", ":PORT"),
        ("run-dir", "run", "absolute"),
        ("record", "trace.jsonl", "/"),
        ("status-socket", &format!("/{}", "x".repeat(107)), "at most 107 bytes"),
        ("log-level", "loud", "error, warn, info, debug, trace"),
        ("log-format", "xml", "text, json"),
    ];
    for (name, value, wanted) in cases {
        let mut flags = vec![("address", "192.0.2.10")];
        flags.retain(|(flag, _)| flag != name);
        flags.push((name, value));
        let errors = load(&flags, &[]).expect_err(&format!("{name}={value}"));
        let text = errors.to_string();
        assert_eq!(errors.0.len(), 1, "{text}");
        assert!(
            text.contains(wanted) && text.contains(name) && text.contains(&format!("{value:?}")),
            "{name}={value}: {text}"
        );
        assert!(value.is_empty() || text.contains(&format!("flag --{name}")), "{text}");
    }
    for spec in spec::SETTINGS {
        assert!(cases.iter().any(|(name, ..)| *name == spec.name), "no bad value of {} is tried", spec.name);
    }
}

/// What `kube-vip manifest daemonset --arp --services --inCluster --servicesElection` prints as environment.
#[test]
fn kube_vips_own_daemonset_loads() {
    let env = [
        ("vip_arp", "true"),
        ("port", "6443"),
        ("vip_nodename", "w1"),
        ("vip_interface", "eth0"),
        ("vip_servicesinterface", "auto"),
        ("svc_enable", "true"),
        ("svc_leasename", "plndr-svcs-lock"),
        ("svc_election", "true"),
        ("prometheus_server", ":2112"),
    ];
    let loaded = load(&[], &env).unwrap();
    let warnings = warnings(&loaded);
    assert!(warnings.contains("MOORING_SERVICES_PLACEMENT=session") && warnings.lines().count() == 1, "{warnings}");
    let s = loaded.settings;
    let placement = Placement::Leases(Leases {
        namespace: "kube-system".into(),
        name: "plndr-svcs-lock".into(),
        per_service: true,
        updates: true,
        classes: crate::catalog::Classes::default(),
    });
    let services = Services { interface: ServicesInterface::Auto, sessions: "mooring-system".into(), placement };
    assert_eq!(
        (s.services.as_ref(), s.control_plane(), s.interface.as_deref()),
        (Some(&services), false, Some("eth0"))
    );
    // Both halves in one process.
    let both = load(&[("address", "192.0.2.1"), ("services", "on")], &[]).unwrap();
    assert!(both.settings.control_plane() && both.settings.services.is_some() && both.warnings.is_empty());
    // An address that nobody holds is no secret.
    let env = [("address", "192.0.2.1"), ("cp_enable", "false"), ("svc_enable", "true")];
    let loaded = load(&[], &env).unwrap();
    assert!(!loaded.settings.control_plane());
    assert!(super::tests::warnings(&loaded).contains("control-plane is off"));
}

/// The placement, and the warnings.
fn placed(flags: &[(&str, &str)], env: &[(&str, &str)]) -> (String, usize) {
    let loaded = load(flags, env).unwrap();
    let services = loaded.settings.services.clone().unwrap();
    let placement = match services.placement {
        Placement::Sessions => "session".to_owned(),
        Placement::Leases(Leases { namespace, name, per_service, .. }) => {
            format!("{}{namespace}/{name}", if per_service { "each " } else { "" })
        }
    };
    (placement, loaded.warnings.len())
}

#[test]
fn services_are_placed_as_kube_vip_says_where_it_is_kube_vips_names_that_ask_for_them() {
    let global = || "kube-system/plndr-svcs-lock".to_owned();
    let enable = ("svc_enable", "true");
    assert_eq!(placed(&[], &[enable]), (global(), 1));
    assert_eq!(placed(&[], &[enable, ("svc_election", "false")]), (global(), 1));
    assert_eq!(placed(&[("services", "on"), ("arp", "true")], &[]), (global(), 1), "kube-vip's flags");
    let flags = [("services", "on"), ("arp", "true"), ("servicesElection", "true")];
    assert_eq!(placed(&flags, &[]), (format!("each {}", global()), 1));
    assert_eq!(placed(&[], &[enable, ("svc_leasename", "vips/ours")]), ("vips/ours".to_owned(), 1));
    let elsewhere = [enable, ("cp_namespace", "vips"), ("vip_leasename", "other/cp"), ("svc_leasename", "ours")];
    assert_eq!(placed(&[], &elsewhere), ("vips/ours".to_owned(), 1), "it is the other Lease that is elsewhere");
    // Said in our own words.
    let ours = |placement| ("MOORING_SERVICES_PLACEMENT", placement);
    assert_eq!(placed(&[], &[("MOORING_SERVICES", "on")]), ("session".to_owned(), 0));
    assert_eq!(placed(&[("services", "on")], &[]), ("session".to_owned(), 0));
    assert_eq!(placed(&[], &[enable, ours("session")]), ("session".to_owned(), 0));
    assert_eq!(placed(&[], &[enable, ("svc_election", "true"), ours("session")]), ("session".to_owned(), 0));
    assert_eq!(placed(&[], &[("MOORING_SERVICES", "on"), ours("global-lease")]), (global(), 0));
    let quiet = load(&[], &[enable, ("disable_service_updates", "true")]).unwrap().settings.services.unwrap();
    assert!(matches!(quiet.placement, Placement::Leases(Leases { updates: false, .. })));
    let demand = ("per_service_election_on_demand", "true");
    let errors = load(&[], &[enable, demand]).unwrap_err();
    assert!(errors.to_string().contains("svc_election=false"), "{errors}");
}

#[test]
fn a_lease_too_short_for_its_fence_is_refused() {
    let errors = load(
        &[("address", "192.0.2.1"), ("lease-duration", "3s"), ("renew-deadline", "2s"), ("retry-period", "1s")],
        &[],
    )
    .unwrap_err();
    assert!(errors.to_string().contains("the kernel drops the VIP after 1s, between two renewals"), "{errors}");
    let fine =
        [("address", "192.0.2.1"), ("lease-duration", "3s"), ("renew-deadline", "2s"), ("retry-period", "500ms")];
    load(&fine, &[]).unwrap();
}

#[test]
fn who_gives_up_does_not_take_provisionally() {
    let release = ("api-loss", "release");
    let loaded = load(&[("address", "192.0.2.1"), release], &[]).unwrap();
    assert!(loaded.settings.provisional.is_none());
    assert_eq!(effective(&loaded, "provisional").0, "off");
    let errors = load(&[("address", "192.0.2.1"), release, ("provisional", "on")], &[]).unwrap_err();
    assert!(errors.to_string().contains("would be taken again without it"), "{errors}");
}

#[test]
fn all_errors_come_at_once() {
    let env = [("bgp_enable", "true"), ("vip_arp", "false"), ("MOORING_PORT", "x"), ("vip_retryperiod", "2s")];
    let errors = load(&[("address", "::")], &env).unwrap_err();
    let names: Vec<&str> = errors.0.iter().map(|e| e.setting.as_str()).collect();
    assert_eq!(names, ["vip_arp", "bgp_enable", "retry-period", "address", "port"], "{errors}");
}

#[test]
fn what_kube_vip_has_and_mooring_not_is_refused_by_name() {
    for entry in kube_vip::ENTRIES {
        let kube_vip::Meaning::Only(fine, advice) = entry.meaning else {
            continue;
        };
        // On a node that does both: there every setting counts.
        let (base, services) = (("address", "192.0.2.1"), ("svc_enable", "true"));
        let with = |value| {
            if entry.env.is_empty() {
                load(&[base, (entry.flag, value)], &[services])
            } else {
                load(&[base], &[services, (entry.env, value)])
            }
        };
        for value in fine {
            with(value).unwrap();
        }
        let bad = if fine.contains(&"true") { "0" } else { "True" };
        let text = with(bad).unwrap_err().to_string();
        assert!(text.contains(entry.name()) && text.contains(bad) && text.contains(advice), "{text}");
    }
}

#[test]
fn what_does_no_harm_is_a_warning_unless_it_says_nothing_new() {
    for entry in kube_vip::ENTRIES.iter().filter(|e| !e.env.is_empty()) {
        let kube_vip::Meaning::NoEffect(quiet, why) = entry.meaning else {
            continue;
        };
        let with = |value: &str| load(&[("address", "192.0.2.1")], &[(entry.env, value)]).unwrap();
        for value in quiet {
            assert_eq!(warnings(&with(value)), "", "{}={value}", entry.env);
        }
        if quiet.len() < 2 {
            let bad = if quiet.contains(&"true") { "false" } else { "true" };
            let text = warnings(&with(bad));
            assert!(text.contains(entry.env) && text.contains(why), "{}: {text}", entry.env);
        }
    }
}

#[test]
fn every_name_stands_in_the_tables_once() {
    let mut names: Vec<&str> = spec::SETTINGS.iter().map(|s| s.name).collect();
    names.extend(kube_vip::ENTRIES.iter().map(|e| e.flag).filter(|f| !f.is_empty()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let targets = kube_vip::ENTRIES.iter().filter_map(|e| match e.meaning {
        kube_vip::Meaning::Same(name)
        | kube_vip::Meaning::Seconds(name)
        | kube_vip::Meaning::SlogLevel(name)
        | kube_vip::Meaning::Either(name, _) => Some(name),
        kube_vip::Meaning::Only(..) | kube_vip::Meaning::NoEffect(..) => None,
    });
    for name in targets {
        assert!(spec::find(name).is_some(), "{name}");
    }
}

#[test]
fn a_mistyped_variable_of_kube_vips_is_named_and_its_value_is_not() {
    let base = [("address", "192.0.2.1")];
    let loaded =
        load(&base, &[("vip_interfac", "eth7"), ("vip_bicycle", "7"), ("hostname", "cp1"), ("home_dir", "/")]).unwrap();
    let said = warnings(&loaded);
    assert!(
        said.contains("environment vip_interfac: has no effect") && said.contains("did you mean vip_interface?"),
        "{said}"
    );
    assert!(said.contains("environment vip_bicycle: has no effect") && !said.contains("eth7"), "{said}");
    assert!(!said.contains("hostname") && !said.contains("home_dir"), "{said}");
    // It may be why there is an error.
    let text = load(&[], &[("vip_adress", "198.51.100.7")]).unwrap_err().to_string();
    assert!(text.contains("did you mean vip_address?") && !text.contains("198.51"), "{text}");
}

#[test]
fn a_mistyped_variable_is_refused_and_a_service_of_that_name_is_not() {
    let base = [("address", "192.0.2.1")];
    let text = load(&base, &[("MOORING_LEASE_DURATON", "5s")]).unwrap_err().to_string();
    assert!(text.contains("did you mean MOORING_LEASE_DURATION?"), "{text}");
    let text = load(&base, &[("MOORING_COLOUR_OF_THE_BIKE_SHED", "5s")]).unwrap_err().to_string();
    assert!(text.contains("remove it; `mooring-agent --help` lists"), "{text}");
    let service = [
        ("MOORING_SERVICE_HOST", "10.96.3.4"),
        ("MOORING_SERVICE_PORT", "80"),
        ("MOORING_SERVICE_PORT_METRICS", "80"),
        ("MOORING_PORT", "tcp://10.96.3.4:80"),
        ("MOORING_PORT_80_TCP", "tcp://10.96.3.4:80"),
        ("MOORING_PORT_80_TCP_ADDR", "10.96.3.4"),
        ("MOORING_PORT_80_TCP_PORT", "80"),
        ("MOORING_PORT_80_TCP_PROTO", "tcp"),
        ("MOORING_AGENT_PORT", "tcp://10.96.3.4:80"),
    ];
    let loaded = load(&base, &service).unwrap();
    assert_eq!(loaded.settings.port, 6443);
    assert!(warnings(&loaded).contains("enableServiceLinks"));
}

#[test]
fn the_lease_is_where_kube_vip_would_keep_it() {
    let host = Host { name: Some("cp1".into()), pod_namespace: Some("kube-vip".into()) };
    let namespace = |env: &[(&str, &str)]| {
        let env: Vec<_> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let loaded = Settings::load(&Given::default(), env, &host).unwrap();
        (effective(&loaded, "namespace").1.clone(), loaded.settings.lease.namespace)
    };
    assert_eq!(
        namespace(&[("address", "192.0.2.1"), ("cp_namespace", "kube-system")]),
        (Origin::PodNamespace, "kube-vip".into())
    );
    assert_eq!(namespace(&[("MOORING_ADDRESS", "192.0.2.1")]), (Origin::Default, "kube-system".into()));
    let ours = [("address", "192.0.2.1"), ("MOORING_NAMESPACE", "x")];
    assert_eq!(namespace(&ours), (Origin::Environment("MOORING_NAMESPACE".into()), "x".into()));
    let named = [("address", "192.0.2.1"), ("vip_leasename", "y/z")];
    assert_eq!(namespace(&named), (Origin::KubeVip("vip_leasename".into()), "y".into()));
}

#[test]
fn many_forms_of_the_same() {
    let loaded =
        load(&[("address", " 192.0.2.1, 2001:DB8::1,API.example.com.")], &[("vip_address", "192.0.2.9")]).unwrap();
    let shown: Vec<String> = loaded.settings.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["192.0.2.1", "2001:db8::1", "api.example.com"]);
    let object = load(&[("address", "ipaddress:kube-system/api.v4")], &[]).unwrap().settings;
    assert_eq!(
        (object.addresses[0].to_string().as_str(), object.control_plane()),
        ("ipaddress:kube-system/api.v4", true)
    );
    for bad in ["ipaddress:", "ipaddress:api", "ipaddress:a.b/api", "ipaddress:a/B", "ipaddress:a/b/c", "ipaddress:/b"]
    {
        let error = load(&[("address", bad)], &[]).unwrap_err().to_string();
        assert!(
            error.contains("not the name of an IPAddress") && error.contains("ipaddress:kube-system/api"),
            "{error}"
        );
    }
    let prefix = |address, prefix| load(&[("address", address), ("prefix", prefix)], &[]).unwrap().settings.prefix;
    assert_eq!(prefix("192.0.2.1", "24"), Prefix { v4: 24, v6: 128 });
    assert_eq!(prefix("2001:db8::1", "/24"), Prefix { v4: 32, v6: 24 });
    assert_eq!(prefix("192.0.2.1,2001:db8::1", "24,64"), Prefix { v4: 24, v6: 64 });
    let settings = |name, value| load(&[("address", "192.0.2.1"), (name, value)], &[]).unwrap().settings;
    assert_eq!(settings("witness-interval", "0").witness, None);
    assert_eq!(settings("witness-interval", "0.02s").witness.unwrap().interval, Duration::from_millis(20));
    assert_eq!(settings("announce-refresh", "1m30s").announce.refresh, Some(Duration::from_secs(90)));
    assert_eq!(settings("metrics", "").metrics, None);
    assert_eq!(settings("metrics", "localhost:1").metrics, Some(Listen::At("127.0.0.1:1".parse().unwrap())));
    assert_eq!(
        settings("api-servers", "192.0.2.2:6443,https://x:1").api.servers[0].to_string(),
        "https://192.0.2.2:6443/"
    );
    for bad in
        ["https://192.0.2.2:99999", "192.0.2.2:0", "https://x:", "https://me:secret@x:1", "https://[::1]6443", "x:-1"]
    {
        let error = load(&[("address", "192.0.2.1"), ("api-servers", bad)], &[]).unwrap_err().to_string();
        assert!(error.contains("not an address of a server"), "{bad}: {error}");
    }
    assert_eq!(load(&[("address", "192.0.2.1")], &[("MOORING_METRICS", "")]).unwrap().settings.metrics, None);
    let two = load(&[], &[("address", "192.0.2.1"), ("vip_address", "192.0.2.2")]).unwrap();
    assert!(
        warnings(&two).contains("vip_address: has no effect: kube-vip environment address says otherwise"),
        "{}",
        warnings(&two)
    );
}

#[test]
fn a_name_gives_the_addresses_of_its_mode() {
    let all = ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|a| a.parse().unwrap());
    assert_eq!(DnsMode::First.pick(&all), all[..1]);
    assert_eq!(DnsMode::Ipv6.pick(&all), all[1..2]);
    assert_eq!(DnsMode::Dual.pick(&all), all[..2]);
    assert_eq!(DnsMode::Ipv6.pick(&all[..1]), [] as [std::net::IpAddr; 0]);
    // What a setting may not say, a name may not say either, and it does not hide what comes after it.
    let lies = ["0.0.0.0", "0.1.2.3", "255.255.255.255", "127.0.0.1", "224.0.0.1", "::ffff:192.0.2.9", "fe80::1"];
    let lies = lies.map(|a| a.parse().unwrap());
    assert_eq!(DnsMode::First.pick(&[&lies[..], &all].concat()), all[..1]);
    assert_eq!(DnsMode::Dual.pick(&[&lies[..], &all].concat()), all[..2]);
    assert_eq!(DnsMode::Dual.pick(&lies), [] as [std::net::IpAddr; 0]);
}

/// The default values of kube-vip's Helm chart.
#[test]
fn the_default_values_of_kube_vips_chart_load() {
    let env = [
        ("vip_arp", "true"),
        ("lb_enable", "true"),
        ("lb_port", "6443"),
        ("vip_subnet", "32"),
        ("cp_enable", "false"),
        ("svc_enable", "true"),
        ("svc_election", "false"),
        ("vip_leaderelection", "false"),
    ];
    let loaded = load(&[], &env).unwrap();
    let warnings = warnings(&loaded);
    assert!(
        warnings.contains("kube-vip environment lb_enable: has no effect: Mooring has no load balancer"),
        "{warnings}"
    );
    assert_eq!(warnings.lines().count(), 2, "and that kube-vip's placement is used: {warnings}");
    assert!(loaded.settings.services.is_some() && !loaded.settings.control_plane());
}

#[test]
fn a_setting_is_refused_only_where_it_would_count() {
    let (address, services) = (("address", "192.0.2.1"), ("svc_enable", "true"));
    let of_services = [
        ("svc_namespace", "shop"),
        ("enable_service_security", "true"),
        ("per_service_election_on_demand", "true"),
        ("enable_upnp", "true"),
    ];
    for one in of_services {
        let loaded = load(&[], &[address, one]).unwrap();
        let expected = format!("kube-vip environment {}: has no effect: services is off on this node", one.0);
        assert_eq!(warnings(&loaded), expected);
        let errors = load(&[], &[services, one]).unwrap_err();
        assert_eq!((errors.0.len(), errors.0[0].setting.as_str()), (1, one.0));
    }
    let of_control_plane = ("vip_ddns", "true");
    let told = warnings(&load(&[], &[services, of_control_plane]).unwrap());
    assert!(told.contains("vip_ddns: has no effect: control-plane is off"), "{told}");
    let errors = load(&[], &[address, of_control_plane]).unwrap_err();
    assert_eq!((errors.0.len(), errors.0[0].setting.as_str()), (1, "vip_ddns"));
    // kube-vip knows this prefix length for Services. Mooring gives their VIPs host prefixes.
    let auto = ("vip_subnet", "auto");
    let loaded = load(&[], &[services, auto]).unwrap();
    assert!(warnings(&loaded).contains("kube-vip environment vip_subnet: has no effect"), "{}", warnings(&loaded));
    assert_eq!(loaded.settings.prefix, Prefix { v4: 32, v6: 128 });
    let errors = load(&[], &[address, services, auto]).unwrap_err();
    assert_eq!((errors.0.len(), errors.0[0].setting.as_str()), (1, "prefix"));
}

#[test]
fn a_load_balancer_on_a_port_of_its_own_is_refused() {
    let base = [("address", "192.0.2.1"), ("lb_enable", "true")];
    let refused = |more: &[(&str, &str)]| load(&[], &[&base[..], more].concat()).err().map(|errors| errors.to_string());
    let text = refused(&[("lb_port", "443")]).unwrap();
    assert!(text.contains("lb_port = \"443\"") && text.contains("no longer answer on port 443"), "{text}");
    let text = refused(&[("port", "8443")]).unwrap();
    assert!(text.contains("lb_port = \"6443\"") && text.contains("use port 8443"), "{text}");
    assert_eq!(refused(&[("lb_port", "6443")]), None);
    assert_eq!(refused(&[("lb_port", "8443"), ("port", "8443")]), None);
    // It is off, or for a VIP that is not here.
    load(&[], &[base[0], ("lb_enable", "false"), ("lb_port", "443")]).unwrap();
    load(&[], &[("svc_enable", "true"), base[1], ("lb_port", "443")]).unwrap();
}

#[test]
fn one_prefix_length_without_a_vip_is_for_no_family() {
    let prefix = |text| {
        let loaded = load(&[], &[("svc_enable", "true"), ("vip_subnet", text)]).unwrap();
        let told = warnings(&loaded).contains("vip_subnet: has no effect: VIPs of Services have");
        (effective(&loaded, "prefix").0.to_owned(), told)
    };
    for (text, told) in
        [("32", false), ("128", false), ("32,128", false), ("24", true), ("auto", true), ("auto,128", true)]
    {
        assert_eq!(prefix(text), ("32,128".to_owned(), told), "{text}");
    }
}

#[test]
fn a_level_of_an_older_kube_vip_is_named() {
    let told = |level| warnings(&load(&[("address", "192.0.2.1")], &[("vip_loglevel", level)]).unwrap());
    assert!(told("4").contains("4 means warn") && told("4").contains("MOORING_LOG_LEVEL=info"), "{}", told("4"));
    for level in ["0", "-4", "8"] {
        assert_eq!(told(level), "");
    }
}

#[test]
fn no_class_is_named_by_an_empty_variable_of_kube_vips_or_by_none() {
    let class = |env: &[(&str, &str)]| {
        let loaded = load(&[], &[&[("svc_enable", "true")], env].concat()).unwrap();
        let shown = effective(&loaded, "lb-class-name").0.to_owned();
        match loaded.settings.services.unwrap().placement {
            Placement::Leases(leases) => (leases.classes.name, shown),
            Placement::Sessions => panic!("not kube-vip's placement"),
        }
    };
    let usual = "kube-vip.io/kube-vip-class";
    assert_eq!(class(&[]), (usual.into(), usual.into()));
    // kube-vip looks whether the variable is there, not whether it says something.
    assert_eq!(class(&[("lb_class_name", "")]), (String::new(), "none".into()));
    assert_eq!(class(&[("lb_class_name", "my/class")]), ("my/class".into(), "my/class".into()));
    // The allocator's word.
    assert_eq!(class(&[("MOORING_LB_CLASS_NAME", "none")]), (String::new(), "none".into()));
    assert_eq!(class(&[("MOORING_LB_CLASS_NAME", "")]), (usual.into(), usual.into()));
}

#[test]
fn a_flag_that_kube_vips_environment_would_overrule_is_told() {
    let address = ("address", "192.0.2.1");
    let told = |flags: &[(&str, &str)], env: &[(&str, &str)]| {
        let loaded = load(&[&[address], flags].concat(), env).unwrap();
        warnings(&loaded)
    };
    let text = told(&[("port", "6443")], &[("port", "7443")]);
    let both = text.contains("kube-vip environment port: ") && text.contains("flag --port");
    assert!(both && text.contains("kube-vip itself"), "{text}");
    let text = told(&[("leaseDuration", "15")], &[("vip_leaseduration", "20")]);
    assert!(text.contains("kube-vip environment vip_leaseduration: ") && text.contains("--leaseDuration"), "{text}");
    // They agree, in whatever words.
    assert_eq!(
        told(&[("port", "6443"), ("leaseDuration", "15")], &[("port", "6443"), ("vip_leaseduration", "15")]),
        ""
    );
    assert_eq!(told(&[("services", "off")], &[("svc_enable", "false")]), "");
    // Our own variable before kube-vip's, and a flag before our own: as documented.
    assert_eq!(told(&[], &[("MOORING_PORT", "6443"), ("port", "7443")]), "");
    assert_eq!(told(&[("port", "6443")], &[("MOORING_PORT", "7443")]), "");
}

#[test]
fn on_and_off_are_understood_in_any_case_and_with_spaces() {
    for (text, on) in
        [("ON", true), ("Yes", true), ("T", true), (" true ", true), ("OFF", false), ("f", false), ("0", false)]
    {
        let loaded = load(&[("address", "192.0.2.1"), ("conflict-probe", text)], &[]).unwrap();
        assert_eq!(loaded.settings.conflict_probe, on, "{text:?}");
    }
}

#[test]
fn health_can_be_switched_off_and_asked_elsewhere() {
    let address = |flags: &[(&str, &str)], env: &[(&str, &str)]| {
        let flags: Vec<_> = [("address", "192.0.2.10")].iter().chain(flags).copied().collect();
        load(&flags, env).unwrap().settings.health.address
    };
    assert_eq!(address(&[("health-address", "off")], &[]), HealthAddress::Off);
    assert_eq!(address(&[], &[("MOORING_HEALTH_ADDRESS", "off")]), HealthAddress::Off);
    assert_eq!(address(&[], &[("MOORING_HEALTH_ADDRESS", "auto")]), HealthAddress::Found);
    let url = "http://127.0.0.1:8080/healthz";
    assert_eq!(address(&[("health-address", url)], &[]), HealthAddress::At(url.parse().unwrap()));
}

/// The settings that the chart gives by values of their own, or that the pod gives.
const NOT_IN_THE_CHART: [&str; 8] =
    ["address", "control-plane", "services", "credentials", "kubeconfig", "node-name", "metrics", "run-dir"];

#[test]
fn the_charts_schema_names_every_setting() {
    let chart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/mooring-agent");
    let text = std::fs::read_to_string(chart.join("values.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let settings = &schema["definitions"]["settings"];
    assert_eq!(settings["additionalProperties"], false);
    let named: std::collections::BTreeSet<&str> =
        settings["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let own = spec::SETTINGS.iter().map(|spec| spec.name).filter(|name| !NOT_IN_THE_CHART.contains(name));
    assert_eq!(named, own.collect::<std::collections::BTreeSet<&str>>());
    for name in NOT_IN_THE_CHART {
        assert!(spec::find(name).is_some(), "there is no setting {name}");
    }
}
