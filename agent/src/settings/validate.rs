//! Validates the gathered values, each by itself and all together.
#![expect(clippy::option_option, reason = "the outer None: an error is noted; the inner: the thing is off")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mooring_common::settings::{Gathered, Host, Origin, Warning};
use mooring_names::annotations::OURS;

use super::parse::{self, Problem};
use super::types::{
    Address, Announce, Api, ApiLoss, Credentials, DnsMode, Health, LeaseSettings, Leases, LogFormat, LogSettings,
    Placement, Prefix, Provisional, Services, ServicesInterface, Settings, Witness,
};
use crate::catalog::Classes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// What the fence keeps in hand: half a second of margin, and the kernel's timer may be a second late.
const FENCE_MARGIN: Duration = Duration::from_millis(1500);
/// The longest path of a Unix socket, in bytes.
const SOCKET_PATH: usize = 107;
/// The longest name of a node: that of its session's Lease begins with another 16 characters.
const LONGEST_NODE: usize = 237;

/// The settings, or None with errors in `g`. All fields are checked before validation gives up.
pub(super) fn validate(g: &mut Gathered, kube_vip: bool, host: &Host) -> Option<Settings> {
    let services = services(g, kube_vip);
    let addresses = addresses(g, matches!(services, Some(None)));
    let dns_mode = field(g, "dns-mode", |text| {
        let words =
            [("first", DnsMode::First), ("ipv4", DnsMode::Ipv4), ("ipv6", DnsMode::Ipv6), ("dual", DnsMode::Dual)];
        parse::one_of(text, &words)
    });
    let prefix = prefix(g, addresses.as_deref());
    let interface = optional(g, "interface", parse::interface);
    let port = field(g, "port", |text| parse::number(text, 1, 65_535)).and_then(|port| u16::try_from(port).ok());
    let node_name = node_name(g, host);
    let lease = lease(g);
    let api = api(g);
    let witness = witness(g);
    let api_loss =
        field(g, "api-loss", |text| parse::one_of(text, &[("hold", ApiLoss::Hold), ("release", ApiLoss::Release)]));
    let provisional = provisional(g, api_loss);
    let handover_grace = time(g, "handover-grace", Duration::ZERO, MINUTE);
    let health = health(g, port);
    let link_down_delay = time(g, "link-down-delay", Duration::ZERO, 10 * MINUTE);
    let announce = announce(g);
    let conflict_probe = field(g, "conflict-probe", parse::on_off);
    let metrics = field(g, "metrics", parse::listen);
    let run_dir = field(g, "run-dir", absolute);
    let status_socket = status_socket(g, run_dir.as_deref());
    let record = field(g, "record", |text| (!text.is_empty()).then(|| absolute(text)).transpose());
    let log = log(g);
    Some(Settings {
        services: services?,
        addresses: addresses?,
        dns_mode: dns_mode?,
        prefix: prefix?,
        interface: interface?,
        port: port?,
        node_name: node_name?,
        lease: lease?,
        api: api?,
        witness: witness?,
        api_loss: api_loss?,
        provisional: provisional?,
        handover_grace: handover_grace?,
        health: health?,
        link_down_delay: link_down_delay?,
        announce: announce?,
        conflict_probe: conflict_probe?,
        metrics: metrics?,
        run_dir: run_dir?,
        status_socket: status_socket?,
        record: record?,
        log: log?,
    })
}

/// One setting, without surrounding spaces. A problem becomes an error in `g`.
fn field<T>(g: &mut Gathered, name: &str, parse: impl FnOnce(&str) -> Result<T, Problem>) -> Option<T> {
    g.field(name, |text| parse(text.trim()))
}

/// One setting that may be empty.
fn optional<T>(g: &mut Gathered, name: &str, parse: impl FnOnce(&str) -> Result<T, Problem>) -> Option<Option<T>> {
    field(g, name, |text| if text.is_empty() { Ok(None) } else { parse(text).map(Some) })
}

fn time(g: &mut Gathered, name: &str, low: Duration, high: Duration) -> Option<Duration> {
    field(g, name, |text| parse::duration_within(text, low, high, false))
}

/// A time; zero means off.
fn time_or_off(g: &mut Gathered, name: &str, low: Duration, high: Duration) -> Option<Option<Duration>> {
    field(g, name, |text| parse::duration_within(text, low, high, true)).map(|time| Some(time).filter(|t| !t.is_zero()))
}

fn small(g: &mut Gathered, name: &str, low: u32, high: u32) -> Option<u8> {
    field(g, name, |text| parse::number(text, low, high)).and_then(|n| u8::try_from(n).ok())
}

fn services(g: &mut Gathered, kube_vip: bool) -> Option<Option<Services>> {
    let on = field(g, "services", parse::on_off);
    let interface = field(g, "services-interface", |text| match text {
        "" => Ok(ServicesInterface::Same),
        "auto" => Ok(ServicesInterface::Auto),
        name => parse::interface(name).map(ServicesInterface::Named),
    });
    let sessions = field(g, "sessions-namespace", parse::subdomain);
    let placement = placement(g, on == Some(true), kube_vip);
    let (on, interface, sessions, placement) = (on?, interface?, sessions?, placement?);
    Some(on.then_some(Services { interface, sessions, placement }))
}

/// What decides which node has which VIP. If kube-vip's setting names switch Services on, other nodes may still run
/// kube-vip: then kube-vip's placement is used, and no VIP is on two nodes.
fn placement(g: &mut Gathered, on: bool, kube_vip: bool) -> Option<Placement> {
    let (own, name) = field(g, "services-lease-name", lease_name)?;
    // Before lease-name says of the other Lease where that is; whether it makes sense is asked there.
    let namespace = own.unwrap_or_else(|| g.get("namespace").0.trim().to_owned());
    let of_kube_vip = match g.get("services").1 {
        Origin::KubeVip(_) => true,
        // A flag of both.
        Origin::Flag(_) => kube_vip,
        _ => false,
    };
    let (given, source) = g.get("services-placement");
    if given.is_empty() {
        g.default("services-placement", if of_kube_vip { "global-lease" } else { "session" }.to_owned());
    }
    let words = [("session", None), ("global-lease", Some(false)), ("lease-per-service", Some(true))];
    let per_service = field(g, "services-placement", |text| parse::one_of(text, &words))?;
    let updates = field(g, "service-updates", parse::on_off)?;
    let classes = Classes {
        name: field(g, "lb-class-name", |text| parse::class(text.trim()))?,
        only: field(g, "lb-class-only", parse::on_off)?,
        legacy: field(g, "lb-class-legacy-handling", parse::on_off)?,
    };
    let Some(per_service) = per_service else { return Some(Placement::Sessions) };
    let theirs = match source {
        Origin::KubeVip(_) | Origin::Default => true,
        Origin::Flag(name) => name != "--services-placement",
        _ => false,
    };
    if on && theirs {
        let text = "VIPs of Services are placed as kube-vip places them, so that nodes can be moved one by one; when none \
                    is kube-vip's any more, MOORING_SERVICES_PLACEMENT=session on each lets Mooring place them";
        g.warnings.push(Warning { setting: "services-placement".into(), text: text.into() });
    }
    Some(Placement::Leases(Leases { namespace, name, per_service, updates, classes }))
}

/// `name`, or `namespace/name`.
fn lease_name(text: &str) -> Result<(Option<String>, String), Problem> {
    match text.split_once('/') {
        Some((namespace, name)) => Ok((Some(parse::subdomain(namespace)?), parse::subdomain(name)?)),
        None => Ok((None, parse::subdomain(text)?)),
    }
}

/// The control plane's VIPs; none, if this node does not hold them. `alone`: the node has no other task.
fn addresses(g: &mut Gathered, alone: bool) -> Option<Vec<Address>> {
    let (text, from) = g.get("address");
    if g.get("control-plane").0.is_empty() {
        g.default("control-plane", if alone || !text.is_empty() { "on" } else { "off" }.to_owned());
    }
    if !field(g, "control-plane", parse::on_off)? {
        if alone {
            g.refuse("control-plane", "off, and services is off too", "switch one of them on: there is nothing to do");
            return None;
        }
        if !text.is_empty() {
            let text = "has no effect: control-plane is off".to_owned();
            g.warnings.push(Warning { setting: from.to_string(), text });
        }
        let (record, from) = g.get("record");
        if !record.is_empty() {
            let text = "has no effect: it is the control plane's VIPs that are recorded".to_owned();
            g.warnings.push(Warning { setting: from.to_string(), text });
        }
        return Some(Vec::new());
    }
    let mut all = Vec::new();
    let mut sound = true;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match parse::vip(part) {
            Ok(address) if all.contains(&address) => {
                g.refuse("address", format!("{part} is there twice"), "name each VIP once");
                sound = false;
            }
            Ok(address) => all.push(address),
            Err((problem, advice)) => {
                g.refuse("address", format!("{part:?} is {problem}"), advice);
                sound = false;
            }
        }
    }
    if all.is_empty() && sound {
        g.refuse(
            "address",
            "no VIP is named",
            "give --address, MOORING_ADDRESS or kube-vip's address, as in 192.0.2.10",
        );
        return None;
    }
    sound.then_some(all)
}

/// `24`, `64`, `/32`, `32,128`. One number that only IPv6 can have, or with IPv6 VIPs alone, is for IPv6.
fn prefix(g: &mut Gathered, addresses: Option<&[Address]>) -> Option<Prefix> {
    let host = Prefix { v4: 32, v6: 128 };
    let only_v6 = addresses.is_some_and(|all| all.iter().all(|a| matches!(a, Address::Ip(ip) if ip.is_ipv6())));
    let any_v4 = addresses.is_some_and(|all| all.iter().any(|a| matches!(a, Address::Ip(ip) if ip.is_ipv4())));
    let advice = "give 1 to 32 for IPv4, 1 to 128 for IPv6, both as in 32,128";
    let bits = |text: &str, high| {
        let text = text.trim();
        let number = text.strip_prefix('/').unwrap_or(text).parse::<u8>().ok().filter(|n| (1..=high).contains(n));
        number.ok_or_else(|| (format!("{text:?} is out of range"), advice.to_owned()))
    };
    let value = field(g, "prefix", |text| {
        match text.split(',').collect::<Vec<_>>().as_slice() {
            [""] => Ok(host),
            ["auto"] => Err((
                "not supported for this VIP".into(),
                "kube-vip knows auto for Services only; give a number".into(),
            )),
            [one] if only_v6 => Ok(Prefix { v6: bits(one, 128)?, ..host }),
            [one] if any_v4 => Ok(Prefix { v4: bits(one, 32)?, ..host }),
            // Only DNS names, whose family is not known yet.
            [one] => {
                Ok(bits(one, 128).map(|n| if n > 32 { Prefix { v6: n, ..host } } else { Prefix { v4: n, ..host } })?)
            }
            [v4, v6] => Ok(Prefix { v4: bits(v4, 32)?, v6: bits(v6, 128)? }),
            _ => Err(("more than two numbers".into(), advice.into())),
        }
    })?;
    g.show("prefix", &format!("{},{}", value.v4, value.v6));
    Some(value)
}

fn node_name(g: &mut Gathered, host: &Host) -> Option<String> {
    if g.get("node-name").0.is_empty() {
        g.default("node-name", host.name.clone().unwrap_or_default());
    }
    let lower = field(g, "node-name", |text| {
        if text.is_empty() {
            return Err((
                "this host has no name".into(),
                "give --node-name, or the pod spec.nodeName as MOORING_NODE_NAME".into(),
            ));
        }
        let name = parse::subdomain(&text.to_lowercase())?;
        if name.len() > LONGEST_NODE {
            return Err((format!("{} characters long", name.len()), format!("give one of at most {LONGEST_NODE}")));
        }
        Ok(name)
    })?;
    g.show("node-name", &lower);
    Some(lower)
}

fn lease(g: &mut Gathered) -> Option<LeaseSettings> {
    let namespace = field(g, "namespace", parse::subdomain);
    let name = field(g, "lease-name", lease_name);
    let duration = field(g, "lease-duration", |text| {
        let value = parse::duration_within(text, 3 * SECOND, HOUR, false)?;
        if value.subsec_nanos() == 0 {
            Ok(value)
        } else {
            Err(("not whole seconds".into(), "a Lease counts in seconds: give 3s to 1h".into()))
        }
    });
    let renew_deadline = time(g, "renew-deadline", 100 * MS, HOUR);
    let retry_period = time(g, "retry-period", 50 * MS, HOUR);
    let annotations = field(g, "lease-annotations", annotations);
    if let (Some(duration), Some(renew), Some(retry)) = (duration, renew_deadline, retry_period) {
        timing(g, duration, renew, retry);
    }
    let (own, name) = name?;
    if let Some(own) = &own {
        g.overrule("namespace", own, "lease-name");
    }
    Some(LeaseSettings {
        namespace: own.or(namespace)?,
        name,
        duration: duration?,
        renew_deadline: renew_deadline?,
        retry_period: retry_period?,
        annotations: annotations?,
    })
}

/// Checks the three times against each other.
fn timing(g: &mut Gathered, duration: Duration, renew: Duration, retry: Duration) {
    // client-go spreads retries by a factor of up to 1.2.
    let spread = retry * 6 / 5;
    if renew >= duration {
        g.refuse(
            "renew-deadline",
            format!("not shorter than lease-duration ({duration:?})"),
            "a holder must give up before others may take over: give two thirds of it, as in 10s of 15s",
        );
    }
    if spread >= renew {
        g.refuse(
            "retry-period",
            format!("1.2 times it is not shorter than renew-deadline ({renew:?})"),
            "give a fifth of renew-deadline, as in 2s of 10s",
        );
    }
    // The kernel gets whole seconds.
    let fence = Duration::from_secs(duration.saturating_sub(FENCE_MARGIN).as_secs());
    if spread >= fence && renew < duration && spread < renew {
        let problem =
            format!("with lease-duration {duration:?} the kernel drops the VIP after {fence:?}, between two renewals");
        g.refuse("retry-period", problem, "give a shorter one, or a longer lease-duration");
    }
}

fn annotations(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let advice = r#"give a JSON object of strings, as in {"example.com/owner": "network team"}"#;
    let text = if text.is_empty() { "{}" } else { text };
    let all: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|error| (format!("not a JSON object of strings ({error})"), advice.to_owned()))?;
    for key in all.keys() {
        if key.starts_with(OURS) {
            return Err((format!("{key:?} is Mooring's own"), format!("leave out keys that begin with {OURS}")));
        }
        let (prefix, name) = key.rsplit_once('/').map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
        let inner = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        let named = inner && name.len() <= 63 && ends(name.bytes().next()) && ends(name.bytes().last());
        if !named || prefix.is_some_and(|prefix| parse::subdomain(prefix).is_err()) {
            return Err((format!("{key:?} is not a key of an annotation"), advice.into()));
        }
    }
    Ok(all)
}

fn api(g: &mut Gathered) -> Option<Api> {
    let kubeconfig = field(g, "kubeconfig", absolute);
    let credentials = field(g, "credentials", |text| {
        let words = [
            ("auto", Credentials::Auto),
            ("kubeconfig", Credentials::Kubeconfig),
            ("in-cluster", Credentials::InCluster),
        ];
        parse::one_of(text, &words)
    });
    let servers = field(g, "api-servers", |text| {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse::url).collect::<Result<Vec<_>, _>>()
    });
    Some(Api { kubeconfig: kubeconfig?, credentials: credentials?, servers: servers? })
}

fn witness(g: &mut Gathered) -> Option<Option<Witness>> {
    let interval = time_or_off(g, "witness-interval", 5 * MS, 5 * SECOND);
    let misses = small(g, "witness-misses", 2, 20);
    let (interval, misses) = (interval?, misses?);
    Some(interval.map(|interval| Witness { interval, misses }))
}

/// A node that gives a VIP up when the API is away does not take the VIP either: by default, `release` switches it off.
fn provisional(g: &mut Gathered, api_loss: Option<ApiLoss>) -> Option<Option<Provisional>> {
    if api_loss == Some(ApiLoss::Release) {
        g.default("provisional", "off".into());
    }
    let on = field(g, "provisional", parse::on_off);
    let delay = time(g, "provisional-delay", 10 * MS, 10 * SECOND);
    let (on, delay) = (on?, delay?);
    if on && api_loss == Some(ApiLoss::Release) {
        g.refuse(
            "provisional",
            "on, while api-loss is release",
            "a VIP that is given up while the API is away would be taken again without it: leave provisional out, or set api-loss to hold",
        );
    }
    Some(on.then_some(Provisional { delay }))
}

fn health(g: &mut Gathered, port: Option<u16>) -> Option<Health> {
    if let (true, Some(port)) = (g.get("health-address").0.is_empty(), port) {
        g.default("health-address", format!("https://127.0.0.1:{port}/readyz"));
    }
    // Without a port the default is unknown, and the port has its own error.
    let address = if port.is_none() && g.get("health-address").1 == Origin::Default {
        None
    } else {
        field(g, "health-address", parse::url)
    };
    let interval = time(g, "health-interval", 100 * MS, MINUTE);
    let timeout = time(g, "health-timeout", 50 * MS, MINUTE);
    let rise = small(g, "health-rise", 1, 100);
    let fall = small(g, "health-fall", 1, 100);
    let server_name = field(g, "health-server-name", |text| match text.parse::<std::net::IpAddr>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => parse::subdomain(text),
    });
    Some(Health {
        address: address?,
        interval: interval?,
        timeout: timeout?,
        rise: rise?,
        fall: fall?,
        server_name: server_name?,
    })
}

fn announce(g: &mut Gathered) -> Option<Announce> {
    let refresh = time_or_off(g, "announce-refresh", SECOND, HOUR);
    let rate_limit =
        field(g, "arp-rate-limit", |text| parse::number(text, 0, 1000)).map(|n| Some(n).filter(|n| *n > 0));
    Some(Announce { refresh: refresh?, rate_limit: rate_limit? })
}

fn absolute(text: &str) -> Result<PathBuf, Problem> {
    let path = Path::new(text);
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        Err(("not an absolute path".into(), "give one that begins with /".into()))
    }
}

fn status_socket(g: &mut Gathered, run_dir: Option<&Path>) -> Option<PathBuf> {
    if let (true, Some(run_dir)) = (g.get("status-socket").0.is_empty(), run_dir) {
        g.default("status-socket", run_dir.join("agent.sock").display().to_string());
    }
    if run_dir.is_none() && g.get("status-socket").1 == Origin::Default {
        return None;
    }
    field(g, "status-socket", |text| {
        let path = absolute(text)?;
        if text.len() > SOCKET_PATH {
            return Err(("too long for a socket".into(), format!("give a path of at most {SOCKET_PATH} bytes")));
        }
        Ok(path)
    })
}

fn log(g: &mut Gathered) -> Option<LogSettings> {
    let level = field(g, "log-level", |text| parse::one_of(text, parse::LOG_LEVELS));
    let format =
        field(g, "log-format", |text| parse::one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)]));
    Some(LogSettings { level: level?, format: format? })
}
