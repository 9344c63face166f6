//! From text to values. Every error says what would do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::types::{Address, Listen, LogLevel};

/// What is wrong with a text, and what would do.
pub(super) type Problem = (String, String);

fn problem<T>(what: impl Into<String>, advice: impl Into<String>) -> Result<T, Problem> {
    Err((what.into(), advice.into()))
}

/// A time: `500ms`, `2s`, `1.5s`, `1m30s`, `0`.
pub(super) fn duration(text: &str) -> Result<Duration, Problem> {
    let advice = "give a number with a unit (ms, s, m, h), as in 500ms, 2s or 1m30s";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let scale: u64 = match unit {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if !number.is_empty() => return problem("a number without a unit", advice),
            _ => return problem("not a time", advice),
        };
        let Some(part) = scaled(number, scale) else {
            return problem("not a time below a day", advice);
        };
        sum += part;
        if tail.is_empty() {
            return Ok(sum);
        }
        rest = tail;
    }
}

/// `number` units of `scale` nanoseconds, if that is a day at most (which also keeps sums from overflowing).
fn scaled(number: &str, scale: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut scale = scale;
    for digit in fraction.chars() {
        scale /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?) * scale)?;
    }
    Some(Duration::from_nanos(nanos)).filter(|part| *part <= Duration::from_hours(24))
}

/// A time within bounds; `off` allows zero as well.
pub(super) fn duration_within(text: &str, low: Duration, high: Duration, off: bool) -> Result<Duration, Problem> {
    let value = duration(text)?;
    if (low..=high).contains(&value) || (off && value.is_zero()) {
        return Ok(value);
    }
    let zero = if off { ", or 0 for off" } else { "" };
    problem("out of range", format!("give {} to {}{zero}", shown(low), shown(high)))
}

/// A time as it could be given.
pub(super) fn shown(time: Duration) -> String {
    match time.as_secs() {
        _ if time.is_zero() => "0".into(),
        seconds if time.subsec_nanos() > 0 || !seconds.is_multiple_of(60) => format!("{time:?}"),
        seconds if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds => format!("{}m", seconds / 60),
    }
}

/// A whole number within bounds.
pub(super) fn number(text: &str, low: u32, high: u32) -> Result<u32, Problem> {
    let value = text.parse::<u32>().ok().filter(|n| (low..=high).contains(n));
    value.map_or_else(|| problem("not a number in range", format!("give {low} to {high}")), Ok)
}

/// `on` or `off`, or a boolean as Go knows it.
pub(super) fn on_off(text: &str) -> Result<bool, Problem> {
    match text {
        "on" | "yes" => Ok(true),
        "off" | "no" => Ok(false),
        _ => super::kube_vip::go_bool(text).map_or_else(|| problem("neither on nor off", "give on or off"), Ok),
    }
}

/// One of a few words.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let found = words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    found.map_or_else(
        || problem("not one of the choices", format!("give one of {}", all.join(", "))),
        |(_, value)| Ok(*value),
    )
}

/// The words for log levels.
pub(super) const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// The word for a log level.
pub(super) fn log_level_name(level: LogLevel) -> &'static str {
    LOG_LEVELS.iter().find(|(_, l)| *l == level).map_or("info", |(word, _)| word)
}

/// A VIP: an address that a host may carry, or a DNS name.
pub(super) fn vip(text: &str) -> Result<Address, Problem> {
    let text = text.trim();
    if let Ok(ip) = text.parse::<IpAddr>() {
        return usable(ip).map(Address::Ip);
    }
    if text.contains('/') {
        return problem("an address with a prefix length", "give the address alone, and its length with prefix");
    }
    if text.contains('%') || text.contains(':') {
        return problem("not an address", "give an IPv6 address without zone, brackets or port, as in 2001:db8::10");
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    // A name whose last label is a number is a mistyped address (and no public name ends so).
    let numeric = name.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    if numeric || !is_subdomain(&name) {
        return problem(
            "neither an address nor a DNS name",
            "give an address as in 192.0.2.10 or 2001:db8::10, or a name as in api.example.com",
        );
    }
    Ok(Address::Name(name))
}

/// Whether a VIP may be this address.
pub(super) fn usable(ip: IpAddr) -> Result<IpAddr, Problem> {
    let advice = "give a free unicast address of the segment";
    let v4 = |ip: Ipv4Addr| match ip {
        _ if ip.is_unspecified() => Some("the unspecified address"),
        _ if ip.octets()[0] == 0 => Some("an address of 0.0.0.0/8, which no host can have"),
        _ if ip.is_loopback() => Some("a loopback address"),
        _ if ip.is_multicast() => Some("a multicast address"),
        _ if ip.is_broadcast() => Some("the broadcast address"),
        _ => None,
    };
    let v6 = |ip: Ipv6Addr| match ip {
        _ if ip.is_unspecified() => Some("the unspecified address"),
        _ if ip.is_loopback() => Some("a loopback address"),
        _ if ip.is_multicast() => Some("a multicast address"),
        _ if ip.is_unicast_link_local() => Some("a link-local address, which a client can use only with a zone"),
        _ if ip.to_ipv4_mapped().is_some() => Some("an IPv4 address in IPv6 clothes"),
        _ => None,
    };
    let bad = match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => v6(ip),
    };
    bad.map_or(Ok(ip), |what| problem(what, advice))
}

/// An interface's name as the kernel takes it.
pub(super) fn interface(text: &str) -> Result<String, Problem> {
    let bad = text.is_empty() || text.len() > 15 || text == "." || text == "..";
    if bad || text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control()) {
        return problem("not a name of an interface", "give one as `ip link` shows it, 1 to 15 characters");
    }
    if text == "lo" {
        return problem("nobody on the segment sees an address on lo", "give the interface of the segment");
    }
    Ok(text.to_owned())
}

/// A Kubernetes name: an RFC 1123 subdomain.
pub(super) fn subdomain(text: &str) -> Result<String, Problem> {
    if is_subdomain(text) {
        return Ok(text.to_owned());
    }
    problem("not a Kubernetes name", "give lower-case letters, digits, '-' and '.', at most 253")
}

fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let inner = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inner && !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// An API server or an address to ask: a URL, or HOST:PORT, which gets https.
pub(super) fn url(text: &str) -> Result<http::Uri, Problem> {
    let advice = "give https://HOST:PORT, with brackets around an IPv6 address";
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let uri = full.parse::<http::Uri>().ok();
    let sound = uri.filter(|u| {
        let scheme = matches!(u.scheme_str(), Some("https" | "http"));
        scheme && u.authority().is_some_and(is_host_and_port)
    });
    sound.map_or_else(|| problem("not an address of a server", advice), Ok)
}

/// Whether it is a host, or a host and a port that there is: the parser takes any digits for one, and drops what is too
/// large, so that 443 would be asked.
fn is_host_and_port(authority: &http::uri::Authority) -> bool {
    let (host, text) = (authority.host(), authority.as_str());
    let port = text.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
    !host.is_empty() && (text == host || port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)))
}

/// Where to listen: `:2112`, `127.0.0.1:2112`, `[::1]:2112`, `localhost:2112`; empty or `off`: nowhere.
pub(super) fn listen(text: &str) -> Result<Option<Listen>, Problem> {
    if text.is_empty() || text == "off" {
        return Ok(None);
    }
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port != 0) {
        return Ok(Some(Listen::Any(port)));
    }
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    address.map_or_else(
        || {
            problem(
                "not an address to listen at",
                "give :PORT or ADDRESS:PORT, with brackets around an IPv6 address; empty for nowhere",
            )
        },
        |address| Ok(Some(Listen::At(address))),
    )
}

/// The name that is nearest to a mistyped one, if any is near.
pub(super) fn nearest(wrong: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = (wrong.len() / 3).min(6);
    // What is much longer or shorter is not near, and need not be compared.
    let scored = names.filter(|name| name.len().abs_diff(wrong.len()) <= near);
    let scored = scored.map(|name| (distance(wrong, &name), name));
    scored.min().filter(|(distance, _)| *distance <= near).map(|(_, name)| name)
}

/// Levenshtein's distance, in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (corner + usize::from(x != y)).min(left + 1).min(*slot + 1);
            corner = std::mem::replace(slot, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}
