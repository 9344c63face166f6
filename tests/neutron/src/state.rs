//! What the stand-in has.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::NETWORK;
use crate::fault::{Fault, Rule};

/// A floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its id.
    pub id: String,
    /// Its project.
    pub project: String,
    /// The address.
    pub address: Ipv4Addr,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The port that has it.
    pub port: Option<String>,
    /// Its revision.
    pub revision: u64,
}

impl FloatingIp {
    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id, "project_id": self.project, "tenant_id": self.project,
            "floating_ip_address": self.address, "floating_network_id": NETWORK, "router_id": null,
            "port_id": self.port, "fixed_ip_address": null, "status": "DOWN", "description": self.description,
            "tags": self.tags, "revision_number": self.revision,
        })
    }
}

/// An error: status, type, message.
pub(crate) type Refused = (u16, &'static str, String);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) neutron: String,
    addresses: Vec<Ipv4Addr>,
    floating_ips: BTreeMap<String, FloatingIp>,
    /// How long a change of a floating IP takes.
    pub(crate) change_takes: std::time::Duration,
    pub(crate) quota: Option<usize>,
    /// Tokens, and the project of each.
    pub(crate) tokens: BTreeMap<String, String>,
    pub(crate) token_seconds: u64,
    pub(crate) locked_out: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) chance: Option<(u64, u64)>,
    /// Requests: method and path.
    pub(crate) asked: Vec<(String, String)>,
    /// How many connections are open.
    pub(crate) connections: usize,
    numbers: u64,
}

impl State {
    pub(crate) fn new(addresses: &[Ipv4Addr], neutron: &str) -> Self {
        Self {
            neutron: neutron.to_owned(),
            addresses: addresses.to_vec(),
            floating_ips: BTreeMap::new(),
            quota: None,
            change_takes: std::time::Duration::ZERO,
            tokens: BTreeMap::new(),
            token_seconds: 3_600,
            locked_out: false,
            rules: Vec::new(),
            chance: None,
            asked: Vec::new(),
            connections: 0,
            numbers: 0,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// What goes wrong with a request.
    pub(crate) fn fault(&mut self, method: &str, path: &str) -> Option<Fault> {
        if let Some(rule) = self.rules.iter_mut().find_map(|rule| rule.hits(method, path).then_some(rule.fault)) {
            return Some(rule);
        }
        let (seed, per_mille) = self.chance.as_mut().filter(|_| path.starts_with("/v2.0"))?;
        // xorshift64*
        *seed ^= *seed >> 12;
        *seed ^= *seed << 25;
        *seed ^= *seed >> 27;
        let random = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        if random % 1_000 >= *per_mille {
            return None;
        }
        Some(match (random / 1_000) % 5 {
            0 | 1 => Fault::Lost,
            2 => Fault::Half,
            3 => Fault::Away,
            _ => Fault::Status(500),
        })
    }

    pub(crate) fn all(&self, project: &str) -> Vec<FloatingIp> {
        self.floating_ips.values().filter(|one| project.is_empty() || one.project == project).cloned().collect()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&FloatingIp> {
        self.floating_ips.get(id)
    }

    pub(crate) fn create(
        &mut self,
        project: &str,
        description: &str,
        wanted: Option<Ipv4Addr>,
    ) -> Result<FloatingIp, Refused> {
        if self.quota.is_some_and(|most| self.all(project).len() >= most) {
            return Err((409, "OverQuota", "Quota exceeded for resources: ['floatingip'].".into()));
        }
        let taken = |address: &Ipv4Addr| self.floating_ips.values().any(|one| one.address == *address);
        let address = match wanted {
            Some(address) if taken(&address) => {
                let text = format!("IP address {address} already allocated in subnet.");
                return Err((409, "IpAddressAlreadyAllocated", text));
            }
            Some(address) => address,
            None => {
                let free: Vec<Ipv4Addr> = self.addresses.iter().filter(|one| !taken(one)).copied().collect();
                let Some(last) = free.len().checked_sub(1) else {
                    let text = format!("No more IP addresses available on network {NETWORK}.");
                    return Err((409, "IpAddressGenerationFailure", text));
                };
                // In no order, as Neutron does.
                free[usize::try_from(self.numbers).unwrap_or(0).wrapping_mul(7) % (last + 1)]
            }
        };
        let number = self.number();
        let one = FloatingIp {
            id: format!("00000000-0000-4000-8000-{number:012}"),
            project: project.to_owned(),
            address,
            description: description.to_owned(),
            tags: Vec::new(),
            port: None,
            revision: 0,
        };
        self.floating_ips.insert(one.id.clone(), one.clone());
        Ok(one)
    }

    pub(crate) fn delete(&mut self, id: &str) -> bool {
        self.floating_ips.remove(id).is_some()
    }

    pub(crate) fn change(&mut self, id: &str, change: impl FnOnce(&mut FloatingIp)) -> Option<FloatingIp> {
        let one = self.floating_ips.get_mut(id)?;
        change(one);
        one.revision += 1;
        Some(one.clone())
    }
}
