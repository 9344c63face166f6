//! A store with one total order, like the API server's. The store checks uid and version, honours finalizers, and keeps all
//! events, so that watches can lag, break, and repeat events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::backend::Backend;
use crate::block::Block;
use crate::names::{ClaimKind, Key, PoolRef, Uid, Version};
use crate::pool::Network;
use crate::protocol::flaws::{Flaw, planted};
use crate::protocol::{Address, Attempt, Claim, Done, Event, Failure, Links, Object, Pool, Purpose, Target, Write};

#[derive(Default)]
pub(in crate::protocol) struct Store {
    pub(in crate::protocol) revision: u64,
    pub(in crate::protocol) claims: BTreeMap<Key, Claim>,
    /// By their own names.
    pub(in crate::protocol) addresses: BTreeMap<Key, Address>,
    pub(in crate::protocol) pools: BTreeMap<PoolRef, Pool>,
    /// The events of each watch, in order: claims, addresses, pools, claims and addresses of metal3's.
    pub(in crate::protocol) logs: [Vec<Event>; KINDS],
    pub(in crate::protocol) wall: u64,
    /// The uids of all objects that ever had a tombstone.
    pub(in crate::protocol) rested: BTreeSet<Uid>,
    /// Names taken by objects of other providers' pools. The watches do not show these objects.
    pub(in crate::protocol) foreign: BTreeSet<Key>,
    /// The uids of objects with somebody else's finalizer.
    pub(in crate::protocol) held: BTreeSet<Uid>,
    /// The uids of objects that people removed by force, and of the claims. A write under way may meet another object of
    /// the same name: this cannot be prevented, but it must be repaired.
    pub(in crate::protocol) forced: BTreeSet<Uid>,
    /// The blocks that bound claims lost by force, by the claims' uids. An allocator that saw it keeps the block for the claim
    /// while the claim exists, also if the claim has no condition yet that names it: so it is with claims that another provider
    /// left, and that were paused or deleted before they got one.
    pub(in crate::protocol) lost: BTreeMap<Uid, Block>,
    /// The blocks of objects that went while a claim of their name was there, by the claims' uids.
    pub(in crate::protocol) went: BTreeMap<Uid, BTreeSet<Block>>,
    /// The uids of objects whose owner the garbage collector removed, and of their claims.
    pub(in crate::protocol) ownerless: BTreeMap<Uid, Uid>,
    /// Pools that were gone or invalid at some time.
    pub(in crate::protocol) unclear: BTreeSet<PoolRef>,
    /// The uids of objects that another provider left; some may share an address.
    pub(in crate::protocol) old_duplicates: BTreeSet<Uid>,
    /// The claims that were moved or restored with their objects, since when nobody has touched either: uid, pool and address.
    pub(in crate::protocol) moved: BTreeMap<Key, (Uid, Arc<PoolRef>, IpAddr)>,
    /// The outside system.
    pub(in crate::protocol) backend: Backend,
}

pub(in crate::protocol) const CLAIMS: usize = 0;
pub(in crate::protocol) const ADDRESSES: usize = 1;
pub(in crate::protocol) const POOLS: usize = 2;
pub(in crate::protocol) const METAL3_CLAIMS: usize = 3;
pub(in crate::protocol) const METAL3_ADDRESSES: usize = 4;
pub(in crate::protocol) const KINDS: usize = 5;

/// The watch that shows a claim.
fn claims_of(key: &Key) -> usize {
    if key.claim_kind() == ClaimKind::Metal3 { METAL3_CLAIMS } else { CLAIMS }
}

/// The watch that shows an object.
pub(in crate::protocol) fn addresses_of(kind: ClaimKind) -> usize {
    if kind == ClaimKind::Metal3 { METAL3_ADDRESSES } else { ADDRESSES }
}

/// Under which name the store has an object.
pub(in crate::protocol) fn place(address: &Address) -> Key {
    match &address.object {
        Some(name) => Key::of_metal3(&address.key.namespace, name),
        None => address.key.clone(),
    }
}

/// The name of an object of metal3's.
pub(in crate::protocol) fn named_after(at: IpAddr) -> Arc<str> {
    format!("p1-{at}").into()
}

/// Whether the pools of two networks share one view of what is used.
pub(super) fn share(one: &Network, other: &Network) -> bool {
    let with_all = |a: &Network, b: &Network| *a == Network::Common && matches!(b, Network::Namespace(_));
    one == other || with_all(one, other) || with_all(other, one)
}

impl Store {
    pub(in crate::protocol) fn version(&mut self) -> Version {
        self.revision += 1;
        Version(self.revision.to_string().into())
    }

    pub(in crate::protocol) fn uid(&mut self) -> Uid {
        self.revision += 1;
        // Uids are random: their order is not the order of creation.
        Uid(format!("{:016x}", crate::book::mix(self.revision)).into())
    }

    pub(in crate::protocol) fn list(&self, kind: usize, asked: Option<u64>) -> Event {
        let claims = || self.claims.values().filter(|one| claims_of(&one.key) == kind).cloned().collect();
        let its = |one: &&Address| addresses_of(one.key.claim_kind()) == kind;
        let addresses = || self.addresses.values().filter(its).cloned().collect();
        match kind {
            CLAIMS => Event::Claims(claims()),
            METAL3_CLAIMS => Event::Metal3Claims(claims()),
            ADDRESSES => Event::Addresses(addresses(), asked),
            METAL3_ADDRESSES => Event::Metal3Addresses(addresses(), asked),
            _ => Event::Pools(self.pools.values().cloned().collect()),
        }
    }

    pub(in crate::protocol) fn put_claim(&mut self, mut claim: Claim) -> Claim {
        claim.version = self.version();
        if claim.finalizer {
            self.backend.recorded.insert(claim.uid.clone());
        }
        let gone = claim.deleting && !claim.finalizer && !claim.others;
        if gone {
            self.claims.remove(&claim.key);
            if claim.pool.kind.is_remote() && !self.unclear.contains(&*claim.pool) {
                self.backend.claim_gone(&claim.uid);
            }
            self.logs[claims_of(&claim.key)].push(Event::ClaimGone(claim.key.clone(), claim.uid.clone()));
            // The garbage collector deletes the objects that the claim owned.
            let owned = self.addresses.values().filter(|a| a.owner.as_ref() == Some(&claim.uid)).cloned();
            for mut address in owned.collect::<Vec<_>>() {
                address.deleting = true;
                self.put_address(address);
            }
        } else {
            self.claims.insert(claim.key.clone(), claim.clone());
            self.logs[claims_of(&claim.key)].push(Event::Claim(claim.clone()));
        }
        claim
    }

    pub(in crate::protocol) fn put_address(&mut self, mut address: Address) -> Address {
        address.version = self.version();
        if address.deleting && !address.finalizer && !self.held.contains(&address.uid) {
            self.addresses.remove(&place(&address));
            let its = self.claims.get(&address.key).filter(|claim| claim.pool == address.pool);
            let kept = address.rest.is_none() && address.conflict.is_none();
            if let (Some(claim), Some(block)) = (its, self.block(&address).filter(|_| kept)) {
                self.went.entry(claim.uid.clone()).or_default().insert(block);
            }
            self.logs[addresses_of(address.key.claim_kind())].push(Event::AddressGone(address.uid.clone()));
        } else {
            self.addresses.insert(place(&address), address.clone());
            self.logs[addresses_of(address.key.claim_kind())].push(Event::Address(address.clone()));
        }
        address
    }

    pub(in crate::protocol) fn put_pool(&mut self, mut pool: Pool) {
        pool.version = self.version();
        if pool.deleting || pool.plan.is_err() {
            self.unclear.insert((*pool.reference).clone());
        }
        if pool.deleting && !pool.finalizer {
            self.pools.remove(&*pool.reference);
            self.logs[POOLS].push(Event::PoolGone(pool.reference.clone(), pool.uid.clone()));
            // The garbage collector deletes the objects that only the pool owned.
            let rests = self.addresses.values().filter(|a| a.rest.is_some() && a.pool == pool.reference).cloned();
            for address in rests.collect::<Vec<_>>() {
                self.put_address(Address { deleting: true, ..address });
            }
            return;
        }
        self.pools.insert((*pool.reference).clone(), pool.clone());
        self.logs[POOLS].push(Event::Pool(Box::new(pool)));
    }

    fn claim(&self, target: &Target) -> Result<Claim, Failure> {
        let claim = self.claims.get(&target.key).ok_or(Failure::NotFound)?;
        let same = claim.uid == target.uid && claim.version == target.version;
        if same || planted(Flaw::NoPreconditions) { Ok(claim.clone()) } else { Err(Failure::Conflict) }
    }

    fn address(&self, target: &Target) -> Result<Address, Failure> {
        let address = self.target(target).ok_or(Failure::NotFound)?;
        let same = address.uid == target.uid && address.version == target.version;
        if same { Ok(address.clone()) } else { Err(Failure::Conflict) }
    }

    /// The object at which a write aims. (An allocator finds the name of an object of metal3's by its uid.)
    pub(in crate::protocol) fn target(&self, target: &Target) -> Option<&Address> {
        match target.key.claim_kind() {
            ClaimKind::ClusterApi => self.addresses.get(&target.key),
            ClaimKind::Metal3 => self.addresses.values().find(|one| one.uid == target.uid),
        }
    }

    /// The objects that claims of this key look at.
    pub(in crate::protocol) fn named<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a Address> {
        self.addresses.values().filter(move |one| one.key == *key)
    }

    pub(in crate::protocol) fn apply(&mut self, write: &Write) -> Result<Done, Failure> {
        match write {
            Write::AddFinalizer(target, given) => {
                let claim = self.claim(target)?;
                if claim.deleting {
                    return Err(Failure::Refused("it is being deleted".into()));
                }
                Ok(Done::There(Object::Claim(self.put_claim(Claim {
                    finalizer: true,
                    had: given.map(Box::new).or_else(|| claim.had.clone()),
                    ..claim
                }))))
            }
            Write::RemoveFinalizer(target) => {
                let claim = self.put_claim(Claim { finalizer: false, ..self.claim(target)? });
                Ok(if self.claims.contains_key(&claim.key) { Done::There(Object::Claim(claim)) } else { Done::Gone })
            }
            Write::Void(target, voided) => {
                let claim = self.claim(target)?;
                Ok(Done::There(Object::Claim(self.put_claim(Claim { voided: *voided, ..claim }))))
            }
            Write::Bind(target, name, condition) => {
                let (bound, condition) = (Some(Arc::clone(name)), Some(condition.clone()));
                let claim = self.claim(target)?;
                Ok(Done::There(Object::Claim(self.put_claim(Claim { bound, condition, ..claim }))))
            }
            Write::Unbind(target, condition) => {
                let claim = self.claim(target)?;
                let condition = Some(condition.clone());
                Ok(Done::There(Object::Claim(self.put_claim(Claim { bound: None, condition, ..claim }))))
            }
            Write::Condition(target, condition) => {
                let claim = self.claim(target)?;
                Ok(Done::There(Object::Claim(self.put_claim(Claim { condition: Some(condition.clone()), ..claim }))))
            }
            Write::Create(new) => {
                let object = (new.key.claim_kind() == ClaimKind::Metal3).then(|| named_after(new.address));
                let named =
                    object.as_ref().map_or_else(|| new.key.clone(), |name| Key::of_metal3(&new.key.namespace, name));
                if self.addresses.contains_key(&named) || self.foreign.contains(&new.key) {
                    return Err(Failure::Exists);
                }
                if let Purpose::Rest(rest) = &new.purpose {
                    self.rested.insert(rest.of.clone());
                }
                let (attempt, rest) = match &new.purpose {
                    Purpose::Claim(attempt) => (Some(attempt.clone()), None),
                    Purpose::Rest(rest) => (None, Some(rest.clone())),
                };
                let address = Address {
                    key: new.key.clone(),
                    object,
                    uid: self.uid(),
                    version: Version("".into()),
                    pool: new.pool.clone(),
                    address: Some(new.address),
                    prefix: new.prefix,
                    claim: new.key.name.clone(),
                    owner: attempt.as_ref().map(|m| m.claim.clone()),
                    deleting: false,
                    finalizer: attempt.is_some(),
                    attempt,
                    rest,
                    conflict: None,
                    holder: None,
                    hints: None,
                    links: self.links(&new.pool),
                };
                Ok(Done::There(Object::Address(self.put_address(address))))
            }
            Write::Adopt(target, attempt) => self.adopt(target, attempt),
            Write::RemoveAddressFinalizer(target) => {
                let address = self.put_address(Address { finalizer: false, ..self.address(target)? });
                Ok(if self.addresses.contains_key(&place(&address)) {
                    Done::There(Object::Address(address))
                } else {
                    Done::Gone
                })
            }
            Write::DeleteAddress(target) => {
                let address = self.put_address(Address { deleting: true, ..self.address(target)? });
                Ok(if self.addresses.contains_key(&place(&address)) {
                    Done::There(Object::Address(address))
                } else {
                    Done::Gone
                })
            }
            Write::AddPoolFinalizer(t) | Write::RemovePoolFinalizer(t) | Write::PoolStatus(t, _) => {
                let mut pool = self.pools.get(&*t.reference).cloned().ok_or(Failure::NotFound)?;
                if pool.uid != t.uid || pool.version != t.version {
                    return Err(Failure::Conflict);
                }
                match write {
                    Write::PoolStatus(_, status) => pool.status = Some(status.clone()),
                    Write::AddPoolFinalizer(_) => pool.finalizer = true,
                    _ => pool.finalizer = false,
                }
                self.put_pool(pool);
                Ok(Done::There(Object::NotShown))
            }
        }
    }

    fn adopt(&mut self, target: &Target, attempt: &Attempt) -> Result<Done, Failure> {
        let address = self.address(target)?;
        let (owner, attempt) = (Some(attempt.claim.clone()), Some(attempt.clone()));
        let links = self.links(&address.pool);
        let adopted = Address { owner, attempt, finalizer: true, links, ..address };
        Ok(Done::There(Object::Address(self.put_address(adopted))))
    }

    /// The owner references that the allocator writes.
    fn links(&self, pool: &PoolRef) -> Links {
        Links { pool: self.pools.get(pool).map(|pool| pool.uid.clone()), outdated: false }
    }

    /// The object to which a claim is bound, if the object exists.
    pub(in crate::protocol) fn own(&self, claim: &Claim) -> Option<&Address> {
        let name = claim.bound.as_ref()?;
        let named = match claim.key.claim_kind() {
            ClaimKind::ClusterApi => Key::new(&claim.key.namespace, name),
            ClaimKind::Metal3 => Key::of_metal3(&claim.key.namespace, name),
        };
        let address = self.addresses.get(&named).filter(|one| one.object.is_none() || one.key == claim.key)?;
        // Somebody may have removed the owner.
        address.owner.as_ref().is_none_or(|owner| *owner == claim.uid).then_some(address)
    }

    #[expect(clippy::unused_self, reason = "called like the other methods")]
    pub(in crate::protocol) fn block(&self, address: &Address) -> Option<Block> {
        let at = address.address?;
        if address.pool.kind.of_prefixes() { Block::prefix(at, address.prefix) } else { Some(Block::host(at)) }
    }

    fn network(&self, address: &Address) -> Option<Network> {
        Some(self.pools.get(&*address.pool)?.plan.as_ref().ok()?.network.clone())
    }

    /// The checks after each write.
    pub(in crate::protocol) fn check(&self) -> Result<(), String> {
        self.check_but(|claim| self.forced.contains(&claim.uid))
    }

    /// The same checks, without some claims.
    pub(in crate::protocol) fn check_but(&self, spared: impl Fn(&Claim) -> bool) -> Result<(), String> {
        let mut bound: Vec<(Network, Block, &Claim, &Uid)> = Vec::new();
        // A claim that is being deleted and has no other finalizers has no machine, so it uses no address.
        let using = self.claims.values().filter(|c| c.bound.is_some() && (!c.deleting || c.others));
        for claim in using.filter(|c| !spared(c)) {
            let Some(address) = self.own(claim) else {
                return Err(format!("{} is bound, and its object is gone", claim.key));
            };
            let (Some(network), Some(block)) = (self.network(address), self.block(address)) else { continue };
            let same = |(n, b, other, uid): &&(Network, Block, &Claim, &Uid)| {
                // While a pool is gone or invalid, nobody knows its network: pools of other namespaces do not see its addresses.
                let apart = claim.key.namespace != other.key.namespace
                    && [&other.pool, &claim.pool].into_iter().any(|pool| self.unclear.contains(&**pool));
                let old = self.old_duplicates.contains::<Uid>(uid) && self.old_duplicates.contains(&address.uid);
                share(n, &network) && b.overlaps(block) && !old && !(apart && *n != network)
            };
            if let Some(other) = bound.iter().find(same) {
                return Err(format!("{block} is bound twice: {} and {}", other.2.key, claim.key));
            }
            bound.push((network, block, claim, &address.uid));
        }
        Ok(())
    }
}
