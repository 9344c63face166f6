//! An outside system of addresses: it fails as such systems do, and people change its entries.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::block::Block;
use crate::names::Uid;
use crate::protocol::{Address, Claim};
use crate::remote::{Answer, Entry, Failure, Mark, What};

use super::Dice;
use super::store::Store;
use super::world::World;

/// How many addresses it has.
const SIZE: u64 = 5;

#[derive(Default)]
pub(in crate::protocol) struct Backend {
    entries: Vec<Entry>,
    ids: u64,
    /// Claims that ever had our finalizer.
    pub(in crate::protocol) recorded: BTreeSet<Uid>,
    /// Addresses that it gave twice, or that people took from a claim: nothing can be proved about these.
    spoiled: BTreeSet<IpAddr>,
    /// One allocator alone calls it.
    pub(in crate::protocol) alone: bool,
    /// The claims for which a request had its effect after nobody awaited its answer any more.
    strayed: BTreeSet<Uid>,
    /// The claims for which a request had its effect when they were gone.
    late: BTreeSet<Uid>,
    /// The entries of claims that were let go.
    left: Vec<Entry>,
}

fn address(number: u64) -> IpAddr {
    format!("10.0.9.{number}").parse().unwrap()
}

impl Backend {
    fn add(&mut self, mark: &Mark, address: IpAddr) -> Entry {
        self.ids += 1;
        let entry = Entry {
            id: self.ids.to_string().into(),
            address,
            prefix: 24,
            gateway: None,
            claim: Some(mark.claim.clone()),
            ours: true,
            host: mark.host().into(),
        };
        self.entries.push(entry.clone());
        entry
    }

    /// A claim of an outside pool is gone. Nothing of it may be left, but what came late.
    pub(in crate::protocol) fn claim_gone(&mut self, claim: &Uid) {
        let its = self.entries.iter().filter(|entry| entry.claim.as_ref() == Some(claim));
        if self.alone && !self.strayed.contains(claim) {
            self.left.extend(its.cloned());
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|entry| entry.address == address)
    }

    fn free(&self) -> Option<IpAddr> {
        (1..=SIZE).map(address).find(|one| !self.has(*one))
    }

    fn apply(&mut self, what: &What, lies: bool) -> Result<Answer, Failure> {
        match what {
            What::Find(mark) => {
                let fits =
                    |entry: &&Entry| entry.claim.as_ref() == Some(&mark.claim) || Some(entry.address) == mark.address;
                Ok(Answer::Entries(self.entries.iter().filter(fits).cloned().collect()))
            }
            What::Allocate(mark, None) if lies && !self.entries.is_empty() => {
                let taken = self.entries[0].address;
                self.spoiled.insert(taken);
                Ok(Answer::Entry(self.add(mark, taken)))
            }
            What::Allocate(mark, None) => {
                let free = self.free().ok_or_else(|| Failure::Full("no free addresses found".into()))?;
                Ok(Answer::Entry(self.add(mark, free)))
            }
            What::Allocate(mark, Some(wanted)) => {
                if self.has(*wanted) || !(1..=SIZE).any(|number| address(number) == *wanted) {
                    return Err(Failure::Unfit("it exists".into()));
                }
                Ok(Answer::Entry(self.add(mark, *wanted)))
            }
            What::Release(entry) => {
                self.entries.retain(|one| one.id != entry.id || one.address != entry.address);
                Ok(Answer::Done)
            }
            What::PutBack(mark) => {
                let wanted = mark.address.unwrap();
                if self.has(wanted) {
                    return Err(Failure::Unfit("it exists".into()));
                }
                self.add(mark, wanted);
                Ok(Answer::Done)
            }
            What::Rewrite(entry, mark) => {
                if let Some(one) = self.entries.iter_mut().find(|one| one.id == entry.id) {
                    one.claim = Some(mark.claim.clone());
                }
                Ok(Answer::Done)
            }
            What::List => Ok(Answer::Listing(self.entries.clone(), Some(SIZE))),
        }
    }
}

impl Store {
    /// Whether a claim's machine may be using an address.
    fn uses(&self, claim: &Claim, address: IpAddr) -> bool {
        let using = claim.bound.is_some() && (!claim.deleting || claim.others) && !self.forced.contains(&claim.uid);
        using && self.own(claim).is_some_and(|own| own.address == Some(address) && !self.forced.contains(&own.uid))
    }

    /// A call to the outside system has its effect.
    pub(super) fn call_outside(
        &mut self,
        what: &What,
        lies: bool,
        trace: &mut Vec<String>,
    ) -> Result<Result<Answer, Failure>, String> {
        if let What::Release(entry) = what
            && !self.backend.spoiled.contains(&entry.address)
            && self.backend.entries.iter().any(|one| one.id == entry.id)
            && let Some(claim) = self.claims.values().find(|claim| self.uses(claim, entry.address))
            // One that another claim got after people deleted the claim's own is that other one's.
            && (entry.claim.as_ref() == Some(&claim.uid) || entry.names().as_ref() == Some(&claim.key))
        {
            return Err(format!("the entry of {} is deleted, and {} uses it", entry.address, claim.key));
        }
        if let What::Allocate(mark, _) = what
            && !self.backend.recorded.contains(&mark.claim)
        {
            return Err(format!("an address is asked for {}, of which nothing is recorded", mark.name));
        }
        if let What::Allocate(mark, _) | What::PutBack(mark) = what
            && !self.claims.values().any(|claim| claim.uid == mark.claim)
        {
            self.backend.late.insert(mark.claim.clone());
        }
        let result = self.backend.apply(what, lies);
        trace.push(format!("outside {what:?} -> {result:?}"));
        Ok(result)
    }

    /// A call of which nobody awaits the answer has its effect.
    pub(super) fn stray_outside(&mut self, what: &What, trace: &mut Vec<String>) -> Result<(), String> {
        if let What::Allocate(mark, _) | What::PutBack(mark) | What::Rewrite(_, mark) = what {
            self.backend.strayed.insert(mark.claim.clone());
        }
        self.call_outside(what, false, trace).map(drop)
    }

    /// At the end nothing is left in the outside system that belongs to nobody, and every claim has at most one entry.
    pub(super) fn check_outside(&self) -> Result<(), String> {
        if let Some(entry) = self.backend.left.first() {
            return Err(format!("a claim was let go that has an entry: {entry:?}"));
        }
        for entry in &self.backend.entries {
            let Some(uid) = &entry.claim else { continue };
            let claim = self.claims.values().find(|claim| claim.uid == *uid);
            let shown = self.addresses.values().any(|a| a.address == Some(entry.address) && a.pool.kind.is_remote());
            // A request of another allocator that came after the last look of a pool that is gone: nobody looks there any more.
            let pool_went = self.unclear.iter().any(|pool| pool.kind.is_remote());
            if claim.is_none() && !shown && !(pool_went && self.backend.late.contains(uid)) {
                return Err(format!("an entry is leaked: {entry:?}"));
            }
            // An entry that keeps the address of somebody else's object from being handed out stays.
            let others = |one: &&Entry| {
                let its = |a: &&Address| a.address == Some(one.address) && a.owner.as_ref() != Some(uid);
                self.addresses.values().any(|a| its(&a))
            };
            let its = self.backend.entries.iter().filter(|one| one.claim.as_ref() == Some(uid) && !others(one));
            let bound = claim.is_some_and(|claim| claim.bound.is_some() && self.own(claim).is_some());
            if bound && its.count() > 1 && !self.backend.spoiled.contains(&entry.address) {
                return Err(format!("a claim has several entries: {entry:?}"));
            }
        }
        for claim in self.claims.values().filter(|claim| claim.pool.kind.is_remote()) {
            let own = self.own(claim).and_then(|own| own.address).filter(|address| self.uses(claim, *address));
            if let Some(address) = own.filter(|address| !self.backend.spoiled.contains(address))
                && self.addresses.get(&claim.key).is_some_and(|own| !own.deleting)
                && !self.backend.has(address)
            {
                return Err(format!("{} uses {address}, which has no entry", claim.key));
            }
        }
        Ok(())
    }

    /// Whether a bound claim, whose object is gone, had this address.
    fn waits_for(&self, claim: &Claim, address: IpAddr) -> bool {
        let said = claim.condition.as_ref().filter(|one| one.ready).and_then(|one| Block::read(&one.message));
        let lost = self.lost.get(&claim.uid).copied();
        let had = said.into_iter().chain(lost).any(|block| block.overlaps(Block::host(address)));
        claim.bound.is_some() && self.own(claim).is_none() && had
    }

    /// Whether what a claim of an outside pool says of its wait may be so.
    pub(super) fn refuses_rightly(&self, claim: &Claim, full: bool) -> bool {
        let its = |entry: &&Entry| entry.claim.as_ref() == Some(&claim.uid);
        // A claim that lost its object by force gets its address again.
        let lost = |address| self.claims.values().any(|c| self.waits_for(c, address));
        let taken =
            |entry: &Entry| self.addresses.values().any(|a| a.address == Some(entry.address)) || lost(entry.address);
        if full {
            return self.backend.free().is_none();
        }
        claim.requested.is_some()
            || self.backend.entries.iter().filter(its).any(taken)
            || !self.backend.spoiled.is_empty()
    }
}

impl World {
    /// People change what an entry says: its mark, its host name, or both, which makes it another host's.
    pub(super) fn editors(&mut self) {
        let backend = &mut self.store.backend;
        if backend.entries.is_empty() {
            return;
        }
        let chosen = self.dice.pick(backend.entries.len());
        let (mark, host) = (self.dice.roll(3) != 0, self.dice.roll(3) != 0);
        let entry = &mut backend.entries[chosen];
        if mark {
            (entry.claim, entry.ours) = (None, false);
        }
        if host {
            entry.host = format!("renamed-{}", entry.host).into();
        }
        if mark && host {
            backend.spoiled.insert(entry.address);
        }
        self.trace.push(format!("an editor leaves {entry:?}"));
    }

    /// People delete and add entries.
    pub(super) fn administrators(&mut self) {
        let backend = &mut self.store.backend;
        if self.dice.one_in(2) && !backend.entries.is_empty() {
            let chosen = self.dice.pick(backend.entries.len());
            let gone = backend.entries.swap_remove(chosen);
            self.trace.push(format!("an administrator deletes {gone:?}"));
        } else if self.dice.one_in(3)
            && let Some(free) = backend.free()
        {
            backend.ids += 1;
            let id = backend.ids.to_string().into();
            backend.spoiled.insert(free);
            let (prefix, host) = (24, "printer".into());
            backend.entries.push(Entry { id, address: free, prefix, gateway: None, claim: None, ours: false, host });
            self.trace.push(format!("an administrator adds {free}"));
        } else if self.dice.one_in(2) {
            backend.entries.retain(|entry| entry.claim.is_some());
        }
    }
}

/// A call may lie.
pub(super) fn lies(dice: &mut Dice) -> bool {
    dice.one_in(60)
}
