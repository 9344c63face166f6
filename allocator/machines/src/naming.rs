//! The names of claims: `MACHINE-DEVICE` as the adapter named them, and `MACHINE-DEVICE-v6` for a device's IPv6 address.

use std::sync::Arc;

use mooring_allocator_core::block::Family;

/// The name of the claim for a device's address of a family. `device`: its place in `spec.network.devices`.
#[must_use]
pub fn claim(machine: &str, device: usize, family: Family) -> Arc<str> {
    match family {
        Family::V4 => format!("{machine}-{device}"),
        Family::V6 => format!("{machine}-{device}-v6"),
    }
    .into()
}

/// The machine whose claim has this name; None: it is no name of a claim.
#[must_use]
pub fn machine(claim: &str) -> Option<&str> {
    let (machine, device) = claim.strip_suffix("-v6").unwrap_or(claim).rsplit_once('-')?;
    let is_place = !device.is_empty() && device.bytes().all(|byte| byte.is_ascii_digit());
    (is_place && !machine.is_empty()).then_some(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_machine() {
        for name in ["prod-md-0-x7k2p", "m"] {
            for family in [Family::V4, Family::V6] {
                assert_eq!(machine(&claim(name, 12, family)), Some(name));
            }
        }
        assert_eq!((&*claim("m", 0, Family::V4), &*claim("m", 1, Family::V6)), ("m-0", "m-1-v6"));
        for name in ["m", "m-", "-0", "m-x", "m-v6", ""] {
            assert_eq!(machine(name), None, "{name}");
        }
    }
}
