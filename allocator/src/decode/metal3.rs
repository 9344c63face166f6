//! metal3's own `IPAddress` objects, as far as they keep addresses from claims of Cluster API.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{PoolKind, PoolRef, Uid};
use serde::Deserialize;

use super::meta::{Meta, NameJson};
use super::names::Names;
use super::text::Text;

/// An `IPAddress` of metal3's group, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metal3AddressJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow)]
    claim: NameJson<'a>,
    #[serde(borrow)]
    pool: NameJson<'a>,
    #[serde(borrow)]
    address: Text<'a>,
}

/// An address that an `IPClaim` has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The pool.
    pub pool: Arc<PoolRef>,
    /// The name of the `IPClaim`.
    pub claim: Box<str>,
    /// The address.
    pub address: IpAddr,
}

impl Metal3AddressJson<'_> {
    /// The object's uid.
    #[must_use]
    pub fn uid(&self) -> Uid {
        Uid::from(&*self.metadata.uid)
    }

    /// What the object keeps from others; None: its address cannot be read. (metal3 knows the pool by its name alone, in the
    /// object's own namespace.)
    pub fn taken(&self, names: &mut Names) -> Option<Taken> {
        let address: IpAddr = self.spec.address.parse().ok()?;
        let pool = names.pool(PoolKind::Metal3IPPool, &self.metadata.namespace, &self.spec.pool.name);
        Some(Taken { pool, claim: Box::from(&*self.spec.claim.name), address: address.to_canonical() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whatever_its_form() {
        let text = r#"{"metadata":{"name":"p-fd00--1","namespace":"n","uid":"u"},"spec":{"address":"FD00::0001",
            "claim":{"name":"c","namespace":"n"},"pool":{"name":"p","namespace":"n"},"prefix":64}}"#;
        let json: Metal3AddressJson<'_> = serde_json::from_str(text).unwrap();
        let taken = json.taken(&mut Names::default()).unwrap();
        assert_eq!((&*taken.claim, &*taken.pool.name, &*taken.pool.namespace), ("c", "p", "n"));
        assert_eq!(taken.address, "fd00::1".parse::<IpAddr>().unwrap());
    }
}
