use super::*;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 10));

fn lines(metrics: &Metrics, now: Time) -> Vec<String> {
    metrics.page(now).unwrap().lines().map(str::to_owned).collect()
}

/// A value of each metric.
fn filled() -> Metrics {
    let metrics = Metrics::new("cp1");
    metrics.held(VIP, true);
    metrics.lease_held(true);
    metrics.transition(Transition::Taken);
    metrics.takeover(Takeover::Witness);
    metrics.fence(VIP, Some(Time::from_nanos(12_500_000_000)));
    metrics.announced(Form::ArpReply, 6);
    metrics.conflict(VIP);
    metrics.probe_missed();
    metrics.api_request(Verb::Update, "conflict", Duration::from_millis(4));
    metrics.netlink_error(Netlink::Refresh);
    metrics.services(3, 1);
    metrics.services_of_other_program(1);
    metrics.lease_of_other_program(true);
    metrics
}

#[test]
fn the_alerts_and_the_dashboard_ask_for_metrics_that_exist() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/monitoring");
    let lines = lines(&filled(), Time::default());
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    let exist: std::collections::BTreeSet<String> = lines.iter().map(|line| name(line)).collect();
    for (file, least) in [("agent-rules.yaml", 10), ("mooring.json", 10)] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // Those of the allocator have a test there.
        let asked = words.filter(|word| word.starts_with("mooring_") && !word.starts_with("mooring_allocator_"));
        let asked: std::collections::BTreeSet<&str> = asked.collect();
        assert!(asked.len() >= least, "{file}: {asked:?}");
        let unknown: Vec<&&str> = asked.iter().filter(|word| !exist.contains(**word)).collect();
        assert!(unknown.is_empty(), "{file} asks for what the agent does not have: {unknown:?}");
    }
}

#[test]
fn the_book_names_every_metric() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/operating.md");
    let book = std::fs::read_to_string(page).unwrap();
    let lines = lines(&filled(), Time::default());
    let types = lines.iter().filter_map(|line| line.strip_prefix("# TYPE mooring_")?.rsplit_once(' '));
    let names: Vec<String> = types
        .map(|(name, kind)| match kind {
            "counter" => format!("`{name}_total"),
            "info" => format!("`{name}_info"),
            _ => format!("`{name}"),
        })
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let is_explained = book.contains(&format!("{name}`")) || book.contains(&format!("{name}{{"));
        assert!(is_explained, "docs/src/operating.md does not explain {name}");
    }
}

#[test]
fn the_page_can_be_read_and_every_metric_is_explained() {
    let metrics = filled();
    let lines = lines(&metrics, Time::from_nanos(2_000_000_000));
    for wanted in [
        r#"mooring_vip_held{address="192.0.2.10"} 1"#,
        "mooring_lease_held 1",
        "mooring_lease_held_by_other_program 1",
        "mooring_services_vips_of_other_program 1",
        r#"mooring_transitions_total{cause="taken"} 1"#,
        r#"mooring_takeovers_total{cause="witness"} 1"#,
        r#"mooring_fence_left_seconds{address="192.0.2.10"} 10.5"#,
        r#"mooring_announcements_total{form="arp_reply"} 6"#,
        r#"mooring_conflicts_total{address="192.0.2.10"} 1"#,
        "mooring_probe_misses_total 1",
        r#"mooring_api_requests_seconds_count{verb="update"} 1"#,
        r#"mooring_api_errors_total{verb="update",category="conflict"} 1"#,
        r#"mooring_netlink_errors_total{operation="refresh"} 1"#,
        concat!(r#"mooring_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#"",node="cp1"} 1"#),
        "# EOF",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} is not in {lines:#?}");
    }
    // Every sample belongs to a family with a type and a help that is a sentence.
    let mut family = String::new();
    for line in lines.iter().filter(|line| *line != "# EOF") {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(
                text.ends_with('.') && text.split(' ').count() > 3 && text.starts_with(char::is_uppercase),
                "{line}"
            );
            name.clone_into(&mut family);
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&family), "{line}");
            value.parse::<f64>().unwrap();
        }
    }
}

#[test]
fn a_fence_runs_down_and_an_address_can_be_forgotten() {
    let metrics = Metrics::new("cp1");
    metrics.fence(VIP, Some(Time::from_nanos(1)));
    let late = Time::from_nanos(5);
    assert!(lines(&metrics, late).contains(&r#"mooring_fence_left_seconds{address="192.0.2.10"} 0.0"#.to_owned()));
    metrics.forget(VIP);
    assert!(!metrics.page(late).unwrap().contains("192.0.2.10"));
}
