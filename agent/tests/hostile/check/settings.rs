//! Settings: lines of `NAME=VALUE` (environment), `--NAME=VALUE` (flags), `POD=NAMESPACE` (of the pod).

use std::collections::BTreeMap;
use std::time::Duration;

use mooring_agent::core::elector::Elector;
use mooring_agent::core::event::{Event, Moment};
use mooring_agent::rules::rules;
use mooring_agent::settings::kube_vip::ENTRIES;
use mooring_agent::settings::spec::{SETTINGS, find};
use mooring_agent::settings::{Address, Given, HealthAddress, Host, Loaded, Settings};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut host = Host { name: Some("CP1.example".into()), pod_namespace: None };
    let (mut given, mut env) = (Given::default(), BTreeMap::new());
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match name.strip_prefix("--") {
            Some(flag) if is_flag(flag) => drop(given.0.insert(flag.to_owned(), value.to_owned())),
            Some(_) => {}
            None if name == "POD" => host.pod_namespace = Some(value.to_owned()),
            None => drop(env.insert(name.to_owned(), value.to_owned())),
        }
    }
    match Settings::load(&given, env, &host) {
        Ok(loaded) => {
            sound(&loaded.settings);
            said_again(&loaded);
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            for error in &errors.0 {
                assert!(!error.setting.is_empty() && !error.problem.is_empty() && !error.advice.is_empty(), "{error}");
                assert!(errors.to_string().contains(&error.setting));
            }
        }
    }
}

/// clap lets no others through.
fn is_flag(name: &str) -> bool {
    !name.is_empty() && (find(name).is_some() || ENTRIES.iter().any(|entry| entry.flag == name))
}

/// What the rest of the agent relies on.
fn sound(s: &Settings) {
    let within = |time: Duration, low: u64, high: u64| {
        (Duration::from_millis(low)..=Duration::from_millis(high)).contains(&time)
    };
    let others = |a: &Address| s.addresses.iter().filter(|b| *b == a).count();
    assert!(!s.addresses.is_empty() && s.addresses.iter().all(|a| others(a) == 1));
    assert!(s.addresses.iter().all(|a| !matches!(a, Address::Name(name) if !is_name(name))));
    assert!((1..=32).contains(&s.prefix.v4) && (1..=128).contains(&s.prefix.v6) && s.port > 0);
    assert!(s.interface.as_ref().is_none_or(|name| (1..=15).contains(&name.len()) && !name.contains(['/', ':', '\0'])));
    assert!([&s.node_name, &s.lease.namespace, &s.lease.name].into_iter().all(|name| is_name(name)));
    let lease = &s.lease;
    assert!(within(lease.duration, 3_000, 3_600_000) && lease.duration.subsec_nanos() == 0);
    assert!(lease.renew_deadline < lease.duration && lease.retry_period * 6 / 5 < lease.renew_deadline);
    assert!(within(lease.retry_period, 50, 3_600_000));
    assert!(lease.annotations.keys().all(|key| !key.starts_with("mooring.dev/") && !key.is_empty()));
    assert!(s.witness.is_none_or(|w| within(w.interval, 5, 5_000) && (2..=20).contains(&w.misses)));
    assert!(s.provisional.is_none_or(|p| within(p.delay, 10, 10_000)));
    assert!(within(s.handover_grace, 0, 60_000) && within(s.link_down_delay, 0, 600_000));
    assert!(within(s.health.interval, 100, 60_000) && within(s.health.timeout, 50, 60_000));
    assert!((1..=100).contains(&s.health.rise) && (1..=100).contains(&s.health.fall));
    assert!(s.announce.refresh.is_none_or(|time| within(time, 1_000, 3_600_000)));
    assert!(s.announce.rate_limit.is_none_or(|frames| (1..=1000).contains(&frames)));
    assert!(s.run_dir.is_absolute() && s.status_socket.is_absolute() && s.api.kubeconfig.is_absolute());
    let asked = if let HealthAddress::At(url) = &s.health.address { Some(url) } else { None };
    for url in s.api.servers.iter().chain(asked) {
        let authority = url.authority().unwrap().as_str();
        assert!(matches!(url.scheme_str(), Some("http" | "https")) && !authority.contains('@'), "{url}");
        let port = authority.rsplit_once(']').map_or(authority, |(_, tail)| tail).split_once(':');
        assert!(port.is_none() || url.port_u16().is_some_and(|port| port > 0), "{url}");
    }
    // The core takes them as they are.
    Elector::new(rules(s)).step(Moment::default(), Event::Tick);
}

/// A DNS subdomain (RFC 1123).
fn is_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let ends = label.bytes().next().zip(label.bytes().last());
        ends.is_some_and(|(first, last)| letter(first) && letter(last))
            && label.len() <= 63
            && label.bytes().all(|b| letter(b) || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// The effective settings, given as our own environment, mean the same.
fn said_again(loaded: &Loaded) {
    assert_eq!(loaded.effective.len(), SETTINGS.len());
    let env = loaded.effective.iter().map(|one| (find(one.name).unwrap().env(), one.value.clone()));
    let nobody = Host { name: None, pod_namespace: None };
    match Settings::load(&Given::default(), env, &nobody) {
        Ok(again) => assert_eq!(again.settings, loaded.settings),
        Err(errors) => panic!("{errors}"),
    }
}
