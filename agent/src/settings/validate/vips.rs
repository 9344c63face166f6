//! The control plane's VIPs and their prefix lengths.

use mooring_common::settings::{Gathered, Warning};

use super::super::gather::holds_control_plane;
use super::super::parse;
use super::super::types::{Address, Prefix};
use super::field;

/// The control plane's VIPs; none, if this node does not hold them. `alone`: the node has no other task.
pub(super) fn addresses(g: &mut Gathered, alone: bool) -> Option<Vec<Address>> {
    let (text, from) = g.get("address");
    if g.get("control-plane").0.is_empty() {
        let on = holds_control_plane(g);
        g.default("control-plane", if on { "on" } else { "off" }.to_owned());
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
pub(super) fn prefix(g: &mut Gathered, addresses: Option<&[Address]>) -> Option<Prefix> {
    let host = Prefix { v4: 32, v6: 128 };
    let (text, from) = g.get("prefix");
    let alone = addresses.is_some_and(<[Address]>::is_empty);
    let only_v6 =
        !alone && addresses.is_some_and(|all| all.iter().all(|a| matches!(a, Address::Ip(ip) if ip.is_ipv6())));
    let any_v4 = addresses.is_some_and(|all| all.iter().any(|a| matches!(a, Address::Ip(ip) if ip.is_ipv4())));
    let advice = "give 1 to 32 for IPv4, 1 to 128 for IPv6, both as in 32,128";
    let bits = |text: &str, high| {
        let text = text.trim();
        if text == "auto" && alone {
            return Ok(high);
        }
        let number = text.strip_prefix('/').unwrap_or(text).parse::<u8>().ok().filter(|n| (1..=high).contains(n));
        number.ok_or_else(|| (format!("{text:?} is out of range"), advice.to_owned()))
    };
    let value = field(g, "prefix", |text| {
        match text.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
            [""] => Ok(host),
            parts if !alone && parts.contains(&"auto") => Err((
                "not supported for this VIP".into(),
                "kube-vip knows auto for Services only; give a number".into(),
            )),
            [one] if only_v6 => Ok(Prefix { v6: bits(one, 128)?, ..host }),
            [one] if any_v4 => Ok(Prefix { v4: bits(one, 32)?, ..host }),
            ["auto"] => Ok(host),
            // Only DNS names, whose family is not known yet, or no VIPs of the control plane's.
            [one] => {
                Ok(bits(one, 128).map(|n| if n > 32 { Prefix { v6: n, ..host } } else { Prefix { v4: n, ..host } })?)
            }
            [v4, v6] => Ok(Prefix { v4: bits(v4, 32)?, v6: bits(v6, 128)? }),
            _ => Err(("more than two numbers".into(), advice.into())),
        }
    })?;
    if alone && (value != host || text.contains("auto")) {
        let text = "has no effect: VIPs of Services have the prefix lengths 32 and 128".to_owned();
        g.warnings.push(Warning { setting: from.to_string(), text });
    }
    let value = if alone { host } else { value };
    g.show("prefix", &format!("{},{}", value.v4, value.v6));
    Some(value)
}
