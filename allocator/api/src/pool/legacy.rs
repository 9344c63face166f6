//! The old form `subnet`, `start`, `end` and the new one, `addresses`, as one.
//!
//! Source: the conversion in `api/v1alpha1` of cluster-api-ipam-provider-in-cluster.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;

use super::IpPoolSpec;

/// A pool's addresses in the new form, whichever it was written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Single addresses, ranges first-last, CIDRs; not looked at yet.
    pub addresses: Cow<'a, [String]>,
    /// The length of the network's prefix, as it was written or as `subnet` has it.
    pub prefix: Option<i64>,
}

/// The old form makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegacyError {
    /// `subnet` is not a network.
    #[error("spec.subnet is {0:?}, and should be a CIDR, 10.0.0.0/24 for example")]
    Subnet(String),
    /// `start` or `end` alone.
    #[error("spec.start and spec.end go together; one of them alone needs spec.subnet")]
    Half,
    /// The network is too small to leave out its first and last address.
    #[error("spec.subnet is {0}, which has no addresses besides its first and last: write spec.addresses")]
    Small(IpNet),
}

impl IpPoolSpec {
    /// The addresses of both forms as one list.
    ///
    /// # Errors
    /// The old form makes no sense. (The entries of the list are for the pool arithmetic to judge.)
    pub fn listed(&self) -> Result<Listed<'_>, LegacyError> {
        let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let (mut first, mut last, mut prefix) = (given(&self.start), given(&self.end), self.prefix);
        if let Some(subnet) = given(&self.subnet) {
            let net: IpNet = subnet.parse().map_err(|_| LegacyError::Subnet(subnet))?;
            if prefix.is_none_or(|prefix| prefix == 0) {
                prefix = Some(net.prefix_len().into());
            }
            if first.is_none() || last.is_none() {
                let inner = inner(net)?;
                first = first.or_else(|| Some(inner.0.to_string()));
                last = last.or_else(|| Some(inner.1.to_string()));
            }
        }
        let addresses = match (first, last) {
            (None, None) => Cow::Borrowed(&self.addresses[..]),
            (Some(first), Some(last)) => {
                // The provider stored the old form as a range among the addresses. Who then writes a narrower range in the old
                // form, as `kubectl apply` of an edited v1alpha1 manifest does, means that one.
                let wider = |entry: &&String| range(entry).is_some_and(|all| contains(all, &first, &last));
                let mut all: Vec<String> = self.addresses.iter().filter(|entry| !wider(entry)).cloned().collect();
                all.push(format!("{first}-{last}"));
                Cow::Owned(all)
            }
            _ => return Err(LegacyError::Half),
        };
        Ok(Listed { addresses, prefix })
    }
}

/// An entry `first-last`; None: any other form.
fn range(entry: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = entry.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// Whether a range contains the addresses from `first` to `last`.
fn contains((from, to): (IpAddr, IpAddr), first: &str, last: &str) -> bool {
    let (Ok(first), Ok(last)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else { return false };
    // Addresses of different families are ordered by family.
    from <= first && last <= to && from.is_ipv4() == first.is_ipv4() && to.is_ipv4() == last.is_ipv4()
}

/// The second and the last but one of a network; no network and broadcast address, that is.
fn inner(net: IpNet) -> Result<(IpAddr, IpAddr), LegacyError> {
    let inner = match net {
        IpNet::V4(net) => {
            let (first, last) = (net.network().to_bits().checked_add(1), net.broadcast().to_bits().checked_sub(1));
            first
                .zip(last)
                .filter(|(first, last)| first <= last)
                .map(|(a, b)| (IpAddr::V4(a.into()), IpAddr::V4(b.into())))
        }
        IpNet::V6(net) => {
            let (first, last) = (net.network().to_bits().checked_add(1), net.broadcast().to_bits().checked_sub(1));
            first
                .zip(last)
                .filter(|(first, last)| first <= last)
                .map(|(a, b)| (IpAddr::V6(a.into()), IpAddr::V6(b.into())))
        }
    };
    inner.ok_or(LegacyError::Small(net))
}

#[cfg(test)]
mod tests {
    use super::{IpPoolSpec, LegacyError};

    fn listed(spec: serde_json::Value) -> Result<(Vec<String>, Option<i64>), LegacyError> {
        let spec: IpPoolSpec = serde_json::from_value(spec).expect("a spec");
        spec.listed().map(|all| (all.addresses.into_owned(), all.prefix))
    }

    fn is(addresses: &[&str], prefix: i64) -> (Vec<String>, Option<i64>) {
        (addresses.iter().map(|&one| one.to_owned()).collect(), Some(prefix))
    }

    #[test]
    fn both_forms_are_one() {
        for (spec, addresses, prefix) in [
            (serde_json::json!({"subnet": "1.1.1.0/24"}), &["1.1.1.1-1.1.1.254"][..], 24),
            (serde_json::json!({"subnet": "1.1.1.7/24", "prefix": 0}), &["1.1.1.1-1.1.1.254"], 24),
            (serde_json::json!({"subnet": "1.1.1.0/24", "prefix": 16, "start": "1.1.1.9"}), &["1.1.1.9-1.1.1.254"], 16),
            (serde_json::json!({"start": "1.1.1.9", "end": "1.1.1.10", "prefix": 28}), &["1.1.1.9-1.1.1.10"], 28),
            (serde_json::json!({"addresses": ["fd::1"], "prefix": 64, "subnet": ""}), &["fd::1"], 64),
            (
                serde_json::json!({"addresses": ["fd::1"], "start": "fd::5", "end": "fd::7", "prefix": 64}),
                &["fd::1", "fd::5-fd::7"],
                64,
            ),
            // As the provider stored it, and then narrowed.
            (
                serde_json::json!({"addresses": ["10.0.0.1-10.0.0.254"], "prefix": 24, "start": "10.0.0.9", "end": "10.0.0.12"}),
                &["10.0.0.9-10.0.0.12"],
                24,
            ),
            (
                serde_json::json!({"addresses": ["10.0.0.1-10.0.0.10", "10.0.1.7"], "subnet": "10.0.0.0/28", "start": "10.0.0.9"}),
                &["10.0.0.1-10.0.0.10", "10.0.1.7", "10.0.0.9-10.0.0.14"],
                28,
            ),
            (serde_json::json!({"subnet": "::/0"}), &["::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"], 0),
            (serde_json::json!({"subnet": "10.0.0.0/30"}), &["10.0.0.1-10.0.0.2"], 30),
        ] {
            assert_eq!(listed(spec.clone()), Ok(is(addresses, prefix)), "{spec}");
        }
    }

    #[test]
    fn nonsense_is_told() {
        assert_eq!(listed(serde_json::json!({"subnet": "x"})), Err(LegacyError::Subnet("x".to_owned())));
        assert_eq!(listed(serde_json::json!({"start": "10.0.0.1"})), Err(LegacyError::Half));
        for small in
            ["0.0.0.0/32", "255.255.255.255/32", "10.0.0.0/31", "::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127"]
        {
            let net = small.parse().expect("a network");
            assert_eq!(listed(serde_json::json!({"subnet": small})), Err(LegacyError::Small(net)));
        }
    }
}
