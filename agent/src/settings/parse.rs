//! From text to values. Every error names valid values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) use mooring_common::values::{Problem, duration_within, listen, number, on_off, one_of, problem};

pub(super) use mooring_common::log::LOG_LEVELS;

use super::types::{Address, LogLevel, OBJECT};
use crate::api::objects::Key;

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
    if let Some(object) = text.strip_prefix(OBJECT) {
        return object_named(object);
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

fn object_named(text: &str) -> Result<Address, Problem> {
    let parts = text.split_once('/').filter(|(namespace, name)| is_label(namespace) && is_subdomain(name));
    parts.map_or_else(
        || problem("not the name of an IPAddress", "give its namespace and name, as in ipaddress:kube-system/api"),
        |(namespace, name)| Ok(Address::Object(Key { namespace: namespace.to_owned(), name: name.to_owned() })),
    )
}

/// A namespace's name: a subdomain without dots.
fn is_label(text: &str) -> bool {
    is_subdomain(text) && !text.contains('.') && text.len() <= 63
}

/// Whether a VIP may be this address.
///
/// # Errors
/// Why not, and what to do.
pub fn usable(ip: IpAddr) -> Result<IpAddr, Problem> {
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

/// What stands for no class, in the allocator's settings too.
pub(super) const NO_CLASS: &str = "none";

/// A class as `spec.loadBalancerClass` may name it, a label's key: `name`, or `example.com/name`. [`NO_CLASS`], or
/// nothing: Services without a class.
pub(super) fn class(text: &str) -> Result<String, Problem> {
    let text = if text == NO_CLASS { "" } else { text };
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let letters = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let ends = |name: &str| {
        let alphanumeric = |c: char| c.is_ascii_alphanumeric();
        name.starts_with(alphanumeric) && name.ends_with(alphanumeric)
    };
    if text.is_empty() || (prefix.is_none_or(is_subdomain) && letters(name) && ends(name) && name.len() <= 63) {
        Ok(text.to_owned())
    } else {
        problem(
            "not a spec.loadBalancerClass",
            "give name or example.com/name, of letters, digits, '-', '_' and '.', or none",
        )
    }
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

/// Whether the text is a host, or a host and a valid port: the parser takes any digits for a port, and drops a port
/// that is too large, so that the agent would use 443.
fn is_host_and_port(authority: &http::uri::Authority) -> bool {
    let (host, text) = (authority.host(), authority.as_str());
    let port = text.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
    !host.is_empty() && (text == host || port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)))
}
