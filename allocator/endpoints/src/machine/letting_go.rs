//! When the address of a claim that somebody deletes may go, although its Cluster lives.
//!
//! The pool gives the address to somebody else at once. So it goes only if nothing of the Cluster has it: neither the host, nor a
//! place from which machines get it. Machines that run already cannot be looked into: the address of a Cluster whose control
//! plane is initialised stays until people say that nobody announces it, by taking the finalizer off.

use std::net::IpAddr;

use mooring_allocator_core::few::few;

use crate::objects::{Claim, Companion, Place};
use crate::reason::Reason;
use crate::words;

use super::Write;
use super::flaws::{Flaw, planted};
use super::view::{Step, Stop, View, claim_target, wait};

/// Lets the address of a claim that is being deleted go, if nothing of the Cluster has it. `Ok`: it is the endpoint, and stays.
///
/// # Errors
/// What is to be done, or waited for.
pub(super) fn let_go(view: &View<'_>, claim: &Claim, wants: &mut Vec<Companion>) -> Result<(), Stop> {
    let Some(ip) = claim.address else { return Ok(()) };
    let Some(host) = settled_host(view).filter(|host| host.parse() != Ok(ip)) else { return Ok(()) };
    let name = &claim.key.name;
    if !planted(Flaw::LetsGoOfWhatStands) {
        if view.unsure {
            return Err(wait(Reason::Writing, "a write is under way"));
        }
        let places = carrying(view, ip, wants)?;
        let why = match (places.is_empty(), view.initialised()) {
            (true, false) => None,
            (true, true) => Some("the control plane is initialised, and its machines may announce it".to_owned()),
            (false, _) => Some(format!("it stands in {}, from where machines get it", few(&places))),
        };
        if let Some(why) = why {
            let message = format!(
                "the host is {host}; claim {name} is being deleted, and {ip} stays taken: {why}. Empty the host to get {ip}; or \
                 write {host} wherever {ip} stands, and when no machine announces {ip} any more, take the finalizer {} off the claim",
                words::IN_USE
            );
            return Err(wait(Reason::EndpointDiffers, message));
        }
    }
    if claim.in_use() {
        return Err(Write::ReleaseClaim(claim_target(claim)).into());
    }
    Err(wait(Reason::Allocating, format!("claim {name} is being deleted; then another is made")))
}

/// The host, if one stands for certain. An empty one is not certain: a write of the host may be under way, by this allocator or
/// by one that led before, and takes effect if nothing else has changed. Where a host stands, it cannot.
fn settled_host<'a>(view: &View<'a>) -> Option<&'a str> {
    let cluster = view.cluster;
    if planted(Flaw::EmptyHostIsSettled) && view.infrastructure.is_some_and(|one| one.host.is_none()) {
        return Some("none");
    }
    let written_here = cluster.infrastructure.is_some() && cluster.variables.is_none();
    let host = if written_here { view.infrastructure.and_then(|one| one.host.as_ref()) } else { cluster.host.as_ref() };
    host.map(|host| &**host)
}

/// The known places in which the address stands.
fn carrying(view: &View<'_>, ip: IpAddr, wants: &mut Vec<Companion>) -> Result<Vec<String>, Stop> {
    let mut places = Vec::new();
    if view.cluster.variables.iter().flatten().any(|one| mentions(&one.to_string(), ip)) {
        places.push("the variables of the topology".to_owned());
    }
    let Some(one) = view.control_plane else {
        return match &view.cluster.control_plane {
            // Its files say which `Secret`s machines get. One that comes again may name what has the address still.
            Some(reference) if crate::machine::CONTROL_PLANES.contains(&&*reference.kind) => {
                let message = format!(
                    "claim {} is being deleted, and {ip} stays taken: there is no {reference} that says where machines get it from",
                    view.cluster.key.name
                );
                Err(wait(Reason::WaitingForControlPlane, message))
            }
            _ => Ok(places),
        };
    };
    let in_files = match &one.place {
        Place::Files(files) => files.iter().filter_map(|file| file.content.as_ref()).any(|text| mentions(text, ip)),
        Place::ServiceAddress(text) => text.as_ref().is_some_and(|text| mentions(text, ip)),
    };
    if in_files || one.sans.iter().any(|san| mentions(san, ip)) {
        places.push(one.reference.to_string());
    }
    for (_, secret) in one.secrets() {
        wants.push(secret.clone());
        match (view.read)(&secret) {
            None => return Err(Stop::Step(Box::new(Step::Read(secret)))),
            Some(reading) => {
                if reading.and_then(|reading| reading.text).is_some_and(|text| mentions(&text, ip)) {
                    places.push(secret.to_string());
                }
            }
        }
    }
    Ok(places)
}

/// Whether an address stands anywhere in a text, in whatever form, with a port or without.
fn mentions(text: &str, ip: IpAddr) -> bool {
    let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != '.' && c != ':');
    let host = |word: &str| -> Option<IpAddr> {
        let with_port = |word: &str| word.rsplit_once(':').and_then(|(host, _)| host.parse().ok());
        word.parse().ok().or_else(|| with_port(word))
    };
    words.map(|word| word.trim_end_matches(['.', ':'])).any(|word| host(word) == Some(ip))
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn an_address_is_found_in_any_form_and_a_longer_one_is_another() {
        for (text, found) in [
            ("value: \"10.0.0.1\"", true),
            ("--address=10.0.0.1", true),
            ("https://10.0.0.1:6443/x", true),
            ("see 10.0.0.1.", true),
            ("10.0.0.10 110.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(mentions(text, "10.0.0.1".parse().unwrap()), found, "{text}");
        }
        for (text, found) in [("[fd00:0::5]:6443", true), ("a,fd00::5/128", true), ("fd00::51", false)] {
            assert_eq!(mentions(text, "fd00::5".parse().unwrap()), found, "{text}");
        }
    }
}
