//! Each event brings its own copies of texts. The kept state shares texts that are known already: a claim's name, for
//! example, is stored once, not once for each place that uses the name.

use std::collections::HashSet;
use std::sync::Arc;

use crate::names::{Key, PoolRef, Uid};
use crate::provider::Provider;

use super::super::objects::{Address, Claim};
use super::Machine;

/// Texts that many objects share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    namespaces: HashSet<Arc<str>>,
    pools: HashSet<Arc<PoolRef>>,
}

impl Shared {
    fn namespace(&mut self, namespace: &mut Arc<str>) {
        match self.namespaces.get(namespace) {
            Some(known) => *namespace = known.clone(),
            None => {
                self.namespaces.insert(namespace.clone());
            }
        }
    }

    fn pool(&mut self, pool: &mut Arc<PoolRef>) {
        match self.pools.get(pool) {
            Some(known) => *pool = known.clone(),
            None => {
                self.pools.insert(pool.clone());
            }
        }
    }
}

fn share(text: &mut Arc<str>, known: &Arc<str>) {
    if *text == *known {
        *text = known.clone();
    }
}

fn share_key(key: &mut Key, known: &Key) {
    share(&mut key.namespace, &known.namespace);
    share(&mut key.name, &known.name);
}

fn share_uid(uid: &mut Uid, known: &Uid) {
    share(&mut uid.0, &known.0);
}

impl<P: Provider> Machine<P> {
    pub(super) fn share_claim(&mut self, mut claim: Claim) -> Claim {
        self.shared.namespace(&mut claim.key.namespace);
        self.shared.pool(&mut claim.pool);
        if let Some(known) = self.claims.find(&claim.key).and_then(|slot| self.claims.get(slot)) {
            share_key(&mut claim.key, &known.claim.key);
            share_uid(&mut claim.uid, &known.claim.uid);
        } else if let Some(known) = self.addresses.named(&claim.key).first().and_then(|&slot| self.addresses.get(slot))
        {
            share_key(&mut claim.key, &known.address.key);
            if let Some(owner) = &known.address.owner {
                share_uid(&mut claim.uid, owner);
            }
        }
        if let Some(bound) = &mut claim.bound {
            share(bound, &claim.key.name);
        }
        claim
    }

    pub(super) fn share_address(&mut self, mut address: Address) -> Address {
        self.shared.namespace(&mut address.key.namespace);
        self.shared.pool(&mut address.pool);
        if let Some(known) = self.addresses.find(&address.uid).and_then(|slot| self.addresses.get(slot)) {
            share_key(&mut address.key, &known.address.key);
            share_uid(&mut address.uid, &known.address.uid);
            if let (Some(owner), Some(known)) = (&mut address.owner, &known.address.owner) {
                share_uid(owner, known);
            }
        }
        if let Some(known) = self.claims.find(&address.key).and_then(|slot| self.claims.get(slot)) {
            share_key(&mut address.key, &known.claim.key);
            if let Some(owner) = &mut address.owner {
                share_uid(owner, &known.claim.uid);
            }
        }
        share(&mut address.claim, &address.key.name);
        if let (Some(mark), Some(owner)) = (&mut address.attempt, &address.owner) {
            share_uid(&mut mark.claim, owner);
        }
        address
    }
}
