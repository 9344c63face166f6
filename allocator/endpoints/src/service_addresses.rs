//! Addresses for the Services of a Cluster: the names of their claims, and the list that is written.

use std::net::IpAddr;
use std::sync::Arc;

/// The name of a claim, by its number.
#[must_use]
pub fn name(cluster: &str, number: u32) -> Arc<str> {
    format!("{cluster}-svc-lb-{number}").into()
}

/// The Cluster for whose Services a claim of this name is; None: for none.
#[must_use]
pub fn cluster(name: &str) -> Option<&str> {
    let (cluster, number) = name.rsplit_once("-svc-lb-")?;
    number.parse::<u32>().is_ok().then_some(cluster)
}

/// The number of a claim of this name; None: it is not for Services of the Cluster.
#[must_use]
pub fn number(cluster: &str, name: &str) -> Option<u32> {
    name.strip_prefix(cluster)?.strip_prefix("-svc-lb-")?.parse().ok()
}

/// The single addresses of a list, each once, in its order: those that stand alone, or as a prefix of their own, as [`put`] writes
/// them.
///
/// # Errors
/// Something else than addresses, prefixes and ranges stands there.
pub fn listed(text: &str) -> Result<Vec<IpAddr>, NoAddresses> {
    let mut all: Vec<IpAddr> = Vec::new();
    for ip in entries(text)?.into_iter().filter_map(alone) {
        if !all.contains(&ip) {
            all.push(ip);
        }
    }
    Ok(all)
}

/// The list as kube-vip's `cidr-global` has it: prefixes, comma separated. The addresses are appended to what stands there, in
/// order; None: all stand there. An address counts as there if it stands alone, or as a prefix of its own.
///
/// # Errors
/// Something else than addresses, prefixes and ranges stands there.
pub fn put(text: &str, addresses: &[IpAddr]) -> Result<Option<String>, NoAddresses> {
    let mut all: Vec<String> = entries(text)?.into_iter().map(str::to_owned).collect();
    let before = all.len();
    for ip in addresses {
        if !all.iter().any(|one| alone(one) == Some(*ip)) {
            all.push(format!("{ip}/{}", length(*ip)));
        }
    }
    Ok((all.len() != before).then(|| all.join(",")))
}

fn entries(text: &str) -> Result<Vec<&str>, NoAddresses> {
    let all: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if all.iter().all(|one| is_entry(one)) { Ok(all) } else { Err(NoAddresses) }
}

/// The length of a prefix that is one address.
const fn length(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The address of an entry that is one address.
fn alone(entry: &str) -> Option<IpAddr> {
    let Some((ip, bits)) = entry.split_once('/') else { return entry.parse().ok() };
    let ip = ip.trim().parse().ok()?;
    (bits.parse() == Ok(length(ip))).then_some(ip)
}

/// A text that is no list of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it holds something else than addresses, prefixes and ranges, and is left alone: name another place")]
pub struct NoAddresses;

/// Whether an entry of the list is an address, a prefix or a range.
fn is_entry(text: &str) -> bool {
    let is_ip = |text: &str| text.trim().parse::<IpAddr>().is_ok();
    match (text.split_once('/'), text.split_once('-')) {
        (Some((ip, length)), _) => is_ip(ip) && length.parse::<u8>().is_ok(),
        (None, Some((first, last))) => is_ip(first) && is_ip(last),
        (None, None) => is_ip(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_appended_if_absent() {
        let ips = ["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let new = |text| put(text, &ips).unwrap();
        assert_eq!(new("").as_deref(), Some("10.0.0.5/32,fd00::5/128"));
        assert_eq!(new(" 10.9.0.0/24, 10.0.0.5").as_deref(), Some("10.9.0.0/24,10.0.0.5,fd00::5/128"));
        assert_eq!(new("10.9.0.1-10.9.0.7").as_deref(), Some("10.9.0.1-10.9.0.7,10.0.0.5/32,fd00::5/128"));
        assert_eq!(new("fd00::5/128,10.0.0.5/32"), None);
        assert_eq!(put("", &[]), Ok(None));
    }

    #[test]
    fn single_addresses_are_told_from_prefixes_and_ranges() {
        let ips: Vec<IpAddr> = ["10.0.0.5", "fd00::5", "10.0.0.6"].map(|ip| ip.parse().unwrap()).into();
        let text = "10.9.0.0/24, 10.0.0.5, fd00::5/128,10.9.1.1-10.9.1.7,10.0.0.6/32,10.0.0.5/32,fd00:0::5,fd01::/32";
        assert_eq!(listed(text), Ok(ips));
        assert_eq!((listed(""), listed("a,b")), (Ok(Vec::new()), Err(NoAddresses)));
    }

    #[test]
    fn a_text_that_is_something_else_is_left_alone() {
        for text in ["server:\n  port: 80, 81", "a,b", "10.0.0.1/x", "10.0.0.1-", "10.0.0.0/24,x"] {
            assert_eq!(put(text, &["10.0.0.5".parse().unwrap()]), Err(NoAddresses), "{text}");
        }
    }

    #[test]
    fn a_claim_has_a_number() {
        assert_eq!((number("prod", &name("prod", 3)), cluster(&name("prod", 3))), (Some(3), Some("prod")));
        assert_eq!((cluster("prod-svc-lb-x"), cluster("prod")), (None, None));
        for name in ["prod", "prod-svc-lb-x", "other-svc-lb-3", "prod-svc-lb-"] {
            assert_eq!(number("prod", name), None, "{name}");
        }
    }
}
