//! The addresses that a Service asks for, and the source of the request.
//!
//! [`words::ADDRESSES`](crate::words::ADDRESSES) is read *and* written, as kube-vip's users expect. The record tells
//! the two uses apart: if the annotation equals the record, nobody has edited the annotation, and the request is in
//! [`words::REQUESTED`](crate::words::REQUESTED).

use std::net::IpAddr;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::text;

use crate::families::place;
use crate::objects::Service;
use crate::record;

/// The request of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The addresses by family; see [`place`].
    pub addresses: [Option<IpAddr>; 2],
    /// The source of the request.
    pub origin: Origin,
}

/// The source of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// There is no request.
    #[default]
    Nothing,
    /// The annotation, written since the last record.
    Annotation,
    /// The annotation, written earlier and recorded.
    Earlier,
    /// `spec.loadBalancerIP`.
    Field,
    /// kube-vip's cloud provider chose the address: nobody asked for it, but it is in use.
    TakenOver,
}

/// An invalid request. It affects only the Service that made it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not an address.
    #[error(
        "{place} asks for {text:?}, which is not an address: write one address for each family, 10.0.0.5,fd00::5 say"
    )]
    NotAnAddress {
        /// The source of the text.
        place: &'static str,
        /// The text.
        text: String,
    },
    /// `0.0.0.0` or `::`.
    #[error(
        "{place} asks for {text}, which is DHCP to kube-vip: Mooring gives addresses out of pools only; take it away"
    )]
    Dhcp {
        /// The source of the text.
        place: &'static str,
        /// The text.
        text: String,
    },
    /// Two addresses of one family.
    #[error("{place} asks for {first} and {second}: a Service has one {family} address; leave one of them")]
    Two {
        /// The source of the text.
        place: &'static str,
        /// The family.
        family: Family,
        /// The first address.
        first: IpAddr,
        /// The second address.
        second: IpAddr,
    },
    /// A family that the Service does not have.
    #[error(
        "{place} asks for {ip}, but the Service has no {family}: change spec.ipFamilies and spec.ipFamilyPolicy, or ask for another"
    )]
    OtherFamily {
        /// The source of the text.
        place: &'static str,
        /// The address.
        ip: IpAddr,
        /// The address's family.
        family: Family,
    },
}

const ANNOTATION: &str = "the annotation kube-vip.io/loadbalancerIPs";
const FIELD: &str = "spec.loadBalancerIP";

/// Reads a list. Spaces around the commas are allowed.
fn list(text: &str, place: &'static str) -> Result<Vec<IpAddr>, RequestError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match text::address(part) {
            Ok(ip) if ip.is_unspecified() => Err(RequestError::Dhcp { place, text: part.to_owned() }),
            Ok(ip) => Ok(ip),
            Err(_) => Err(RequestError::NotAnAddress { place, text: part.to_owned() }),
        })
        .collect()
}

fn by_family(ips: &[IpAddr], wanted: &[Family], place_of: &'static str) -> Result<[Option<IpAddr>; 2], RequestError> {
    let mut pair = [None; 2];
    for &ip in ips {
        let family = Family::of(ip);
        if !wanted.contains(&family) {
            return Err(RequestError::OtherFamily { place: place_of, ip, family });
        }
        if let Some(first) = pair[place(family)].replace(ip).filter(|&first| first != ip) {
            return Err(RequestError::Two { place: place_of, family, first, second: ip });
        }
    }
    Ok(pair)
}

/// The request of a Service. `wanted`: the families the Service wants. `adopts`: the addresses in the status count even
/// without a sign of kube-vip.
///
/// # Errors
/// The request is invalid.
pub fn wish(service: &Service, wanted: &[Family], adopts: bool) -> Result<Wish, RequestError> {
    let notes = &service.notes;
    let has: Vec<IpAddr> = record::read(notes.record.as_deref()).iter().map(|&(_, ip)| ip).collect();
    if let Some(written) = &notes.addresses {
        let asked = list(written, ANNOTATION)?;
        if asked != has || has.is_empty() {
            if has.is_empty() && chosen(service, &asked) {
                let of_it: Vec<IpAddr> = asked.into_iter().filter(|&ip| wanted.contains(&Family::of(ip))).collect();
                return Ok(Wish { addresses: by_family(&of_it, wanted, ANNOTATION)?, origin: Origin::TakenOver });
            }
            return Ok(Wish { addresses: by_family(&asked, wanted, ANNOTATION)?, origin: Origin::Annotation });
        }
        if let Some(earlier) = &notes.requested {
            // Drop requests for families that the Service no longer has.
            let asked = list(earlier, ANNOTATION)?.into_iter().filter(|&ip| wanted.contains(&Family::of(ip)));
            let asked: Vec<IpAddr> = asked.collect();
            return Ok(Wish { addresses: by_family(&asked, wanted, ANNOTATION)?, origin: Origin::Earlier });
        }
    }
    if let Some(ip) = &service.load_balancer_ip {
        let addresses = by_family(&list(ip, FIELD)?, wanted, FIELD)?;
        return Ok(Wish { addresses, origin: Origin::Field });
    }
    // kube-vip uses the status if no other field names the Service's addresses.
    Ok(shown(service, wanted, adopts))
}

/// All addresses that the annotation and the field name, although the request may be invalid.
#[must_use]
pub fn named(service: &Service) -> Vec<IpAddr> {
    let texts = service.notes.addresses.iter().chain(&service.load_balancer_ip);
    texts.flat_map(|text| text.split(',')).filter_map(|part| text::address(part.trim()).ok()).collect()
}

/// The addresses that the status shows and that Mooring did not give: they are in use, though nobody asked for them.
#[must_use]
pub fn shown(service: &Service, wanted: &[Family], adopts: bool) -> Wish {
    let mut shown = [None; 2];
    if record::read(service.notes.record.as_deref()).is_empty() && (adopts || by_kube_vip(service)) {
        for ip in service.ingress.iter().map(|i| i.ip).filter(|&ip| wanted.contains(&Family::of(ip))) {
            shown[place(Family::of(ip))].get_or_insert(ip);
        }
    }
    let origin = if shown == [None; 2] { Origin::Nothing } else { Origin::TakenOver };
    Wish { addresses: shown, origin }
}

/// Whether kube-vip or its cloud provider left a sign on the Service.
#[must_use]
pub fn by_kube_vip(service: &Service) -> bool {
    service.implementation || service.notes.host.is_some()
}

/// Whether kube-vip's cloud provider chose the addresses. The cloud provider then writes the label, the annotation, and
/// the first address into `spec.loadBalancerIP`. If people wrote the annotation, it writes only the label. If people
/// wrote the field, it writes no label.
fn chosen(service: &Service, asked: &[IpAddr]) -> bool {
    let field = service.load_balancer_ip.as_deref().and_then(|ip| text::address(ip).ok());
    service.implementation && field.is_some() && field == asked.first().copied()
}

/// Whether the annotation still has the value that Mooring wrote.
#[must_use]
pub fn untouched(service: &Service) -> bool {
    let has: Vec<IpAddr> = record::read(service.notes.record.as_deref()).iter().map(|&(_, ip)| ip).collect();
    let says = service.notes.addresses.as_deref().and_then(|text| list(text, ANNOTATION).ok());
    !has.is_empty() && says == Some(has)
}

/// Whether the Service's status shows any address or name.
#[must_use]
pub fn shows_anything(service: &Service) -> bool {
    !service.ingress.is_empty() || !service.names.is_empty()
}

/// Whether the Service's status shows an address: the address carries traffic.
#[must_use]
pub fn shows(service: &Service, ip: IpAddr) -> bool {
    service.ingress.iter().any(|ingress| ingress.ip == ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::service;

    const BOTH: [Family; 2] = [Family::V4, Family::V6];

    fn asks(annotation: &str) -> Result<Wish, RequestError> {
        let mut one = service("a", "web");
        one.notes.addresses = Some(annotation.into());
        wish(&one, &BOTH, false)
    }

    #[test]
    fn addresses_in_any_order_with_spaces() {
        let v4: Option<IpAddr> = "10.0.0.5".parse().ok();
        let v6: Option<IpAddr> = "fd00::5".parse().ok();
        for text in ["10.0.0.5,fd00::5", "fd00::5, 10.0.0.5", "10.0.0.5 ,fd00:0::5,"] {
            assert_eq!(asks(text).unwrap(), Wish { addresses: [v4, v6], origin: Origin::Annotation }, "{text}");
        }
        assert_eq!(asks("10.0.0.5").unwrap().addresses, [v4, None]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, word) in [
            ("lb.example.com", "not an address"),
            ("10.0.0.5/32", "not an address"),
            ("::ffff:10.0.0.5", "not an address"),
            ("0.0.0.0", "DHCP"),
            ("::", "DHCP"),
            ("10.0.0.5,10.0.0.6", "one IPv4 address"),
        ] {
            assert!(asks(text).unwrap_err().to_string().contains(word), "{text}");
        }
        let mut one = service("a", "web");
        one.load_balancer_ip = Some("fd00::5".into());
        let error = wish(&one, &[Family::V4], false).unwrap_err().to_string();
        assert!(error.starts_with("spec.loadBalancerIP asks for fd00::5, but the Service has no IPv6"), "{error}");
    }

    #[test]
    fn what_we_wrote_is_no_request() {
        let mut one = service("a", "web");
        one.notes.addresses = Some("10.0.0.5".into());
        one.notes.record = Some("a/web-1=10.0.0.5".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap(), Wish::default());
        one.notes.requested = Some("10.0.0.5".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::Earlier);
        // Somebody edits it.
        one.notes.addresses = Some("10.0.0.6".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap().addresses[0], "10.0.0.6".parse().ok());
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::Annotation);
        // Somebody takes it away.
        one.notes.addresses = None;
        assert_eq!(wish(&one, &BOTH, false).unwrap(), Wish::default());
    }

    #[test]
    fn who_chose_before_us() {
        let mut one = service("a", "web");
        one.ingress = vec![crate::objects::Ingress { ip: "10.0.0.9".parse().unwrap(), vip: true }];
        assert_eq!(wish(&one, &BOTH, false).unwrap(), Wish::default());
        one.notes.host = Some("node-a".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::TakenOver);
        one.ingress.clear();
        one.notes.addresses = Some("10.0.0.5".into());
        one.implementation = true;
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::Annotation);
        one.load_balancer_ip = Some("10.0.0.5".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::TakenOver);
        one.implementation = false;
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::Annotation);
        // A record of ours: the field is people's.
        one.notes.record = Some("a/web-1=10.0.0.5".into());
        assert_eq!(wish(&one, &BOTH, false).unwrap().origin, Origin::Field);
    }
}
