//! Validates the gathered values, each by itself and all together.
#![expect(clippy::option_option, reason = "the outer None: an error is noted; the inner: the thing is off")]

mod health;
mod lease;
mod services;
mod vips;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mooring_common::settings::{Gathered, Host, Origin};

use super::parse::{self, Problem};
use super::types::{Announce, Api, Credentials, DnsMode, LogFormat, LogSettings, Settings};
use health::{health, provisional, witness};
use lease::lease;
use services::services;
use vips::{addresses, prefix};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

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
    let api_loss = field(g, "api-loss", |text| parse::one_of(text, &health::API_LOSS));
    let provisional = provisional(g, api_loss);
    let handover_grace = time(g, "handover-grace", Duration::ZERO, MINUTE);
    let health = health(g);
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

/// One setting. A problem becomes an error in `g`.
fn field<T>(g: &mut Gathered, name: &str, parse: impl FnOnce(&str) -> Result<T, Problem>) -> Option<T> {
    g.field(name, parse)
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
