//! One allocator (writer), and the network between the writer and the store.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::foreign_finalizers::{FinalizersAt, ForeignFinalizers};
use crate::names::{ClaimKind, Key, Uid};
use crate::protocol::{Action, Address, Event, Failure, Machine, Moment, Write};
use crate::providers::Providers;
use crate::remote::{self, What};
use crate::retained_meta::Finalizers;

use super::Dice;
use super::backend::lies;
use super::store::{ADDRESSES, KINDS, METAL3_ADDRESSES, METAL3_CLAIMS, POOLS, Store, addresses_of, place};

/// A call that is under way.
#[derive(Debug)]
enum Call {
    Write {
        id: u64,
        write: Write,
    },
    List {
        of: ClaimKind,
        id: u64,
    },
    Read {
        id: u64,
        key: Key,
    },
    Outside {
        id: u64,
        what: What,
    },
    /// An answer that has not arrived yet.
    Answer(Event),
}

#[derive(Debug)]
pub(super) struct Writer {
    machine: Machine<Providers>,
    foreign: ForeignFinalizers,
    /// Those of objects of metal3's.
    foreign_of_metal3: ForeignFinalizers,
    /// The position of each watch in the store's log; None: the watch is broken.
    watches: [Option<usize>; KINDS],
    /// The list of each kind whose last page has not come yet.
    lists: [Option<Listing>; KINDS],
    /// The kinds that were listed since the start.
    listed: [bool; KINDS],
    /// The number of writes, lists and reads that the machine asked for.
    asked: usize,
    calls: Vec<Call>,
    /// Writes whose answer nobody awaits: they may take effect at any time, or never.
    strays: Vec<Write>,
    /// Calls to the outside system of which the same holds.
    outside: Vec<What>,
    /// The claims for which an address was asked without an answer, and that were not searched for since.
    unsure: BTreeSet<Uid>,
    frozen: bool,
    /// The writer leads until this time.
    leads: Duration,
    seed: u64,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        let machine = Machine::new(Providers::new(seed), seed);
        Self {
            machine,
            foreign: ForeignFinalizers::default(),
            foreign_of_metal3: ForeignFinalizers::default(),
            watches: [None; KINDS],
            lists: [const { None }; KINDS],
            listed: [false; KINDS],
            asked: 0,
            calls: Vec::new(),
            strays: Vec::new(),
            outside: Vec::new(),
            unsure: BTreeSet::new(),
            frozen: false,
            leads: Duration::ZERO,
            seed,
        }
    }

    pub(super) fn recover(&mut self) {
        self.frozen = false;
    }

    /// Whether no call is under way and the watches have shown everything.
    pub(super) fn is_quiet(&self, store: &Store) -> bool {
        let shown = (0..KINDS).all(|k| self.watches[k] == Some(store.logs[k].len()));
        let listed = self.lists.iter().all(Option::is_none);
        shown && listed && self.calls.is_empty() && self.strays.is_empty() && self.outside.is_empty()
    }

    fn crash(&mut self) {
        for call in self.calls.drain(..) {
            match call {
                Call::Write { write, .. } => self.strays.push(write),
                Call::Outside { what, .. } => self.outside.push(what),
                _ => {}
            }
        }
        self.seed += 1_000_003;
        self.machine = Machine::new(Providers::new(self.seed), self.seed);
        self.foreign = ForeignFinalizers::default();
        self.foreign_of_metal3 = ForeignFinalizers::default();
        self.watches = [None; KINDS];
        self.lists = [const { None }; KINDS];
        self.listed = [false; KINDS];
        self.leads = Duration::ZERO;
    }

    /// Starts as the allocator of another cluster: no write of the old cluster is under way.
    pub(super) fn begin_anew(&mut self) {
        self.crash();
        self.strays.clear();
        self.outside.clear();
        self.unsure.clear();
    }

    const fn foreign(&mut self, of: ClaimKind) -> &mut ForeignFinalizers {
        match of {
            ClaimKind::ClusterApi => &mut self.foreign,
            ClaimKind::Metal3 => &mut self.foreign_of_metal3,
        }
    }

    fn note_finalizers(&mut self, event: &Event) {
        match event {
            Event::Address(Address { key, uid, version, .. }) => {
                self.foreign(key.claim_kind()).shown(uid, version, others(uid));
            }
            Event::AddressGone(uid) => {
                self.foreign.gone(uid);
                self.foreign_of_metal3.gone(uid);
            }
            Event::Addresses(all, _) | Event::Metal3Addresses(all, _) => {
                let of_metal3 = matches!(event, Event::Metal3Addresses(..));
                let foreign = self.foreign(if of_metal3 { ClaimKind::Metal3 } else { ClaimKind::ClusterApi });
                // The first page came before: the rest of the list.
                for Address { uid, version, .. } in all.iter().skip(all.len() / 2) {
                    foreign.listed(uid, version, others(uid));
                }
                foreign.list_ends();
            }
            _ => {}
        }
    }

    /// The first page of a list comes. The watch of the kind is closed until the last page has come.
    fn begin_list(&mut self, kind: usize, store: &Store, asked: Option<u64>) {
        let event = store.list(kind, asked);
        let listed = match &event {
            Event::Addresses(all, _) => Some((ClaimKind::ClusterApi, all)),
            Event::Metal3Addresses(all, _) => Some((ClaimKind::Metal3, all)),
            _ => None,
        };
        if let Some((of, all)) = listed {
            let foreign = self.foreign(of);
            foreign.list_begins();
            for Address { uid, version, .. } in all.iter().take(all.len() / 2) {
                foreign.listed(uid, version, others(uid));
            }
        }
        self.lists[kind] = Some(Listing { event, at: store.logs[kind].len() });
    }

    /// The number of writes, lists and reads so far.
    pub(super) const fn asked(&self) -> usize {
        self.asked
    }

    fn step(&mut self, now: Duration, store: &Store, event: Event) {
        self.note_finalizers(&event);
        let actions = self.machine.step(Moment { now, wall: store.wall }, event);
        self.asked += actions.iter().filter(|action| !matches!(action, Action::Report(_))).count();
        for action in actions {
            match action {
                Action::Write { id, write } => self.calls.push(Call::Write { id, write }),
                Action::ListAddresses { of, id } => self.calls.push(Call::List { of, id }),
                Action::ReadClaim { id, key, .. } => self.calls.push(Call::Read { id, key }),
                Action::Remote(remote::Call { id, what, .. }) => self.calls.push(Call::Outside { id, what }),
                Action::Report(_) => {}
            }
        }
    }

    pub(super) fn happen(
        &mut self,
        dice: &mut Dice,
        store: &mut Store,
        now: Duration,
        quiesce: bool,
        trace: &mut Vec<String>,
    ) -> Result<(), String> {
        if !quiesce {
            match dice.roll(400) {
                0..2 => self.crash(),
                2..6 => self.frozen = true,
                6..16 => {
                    let kind = dice.pick(KINDS);
                    self.watches[kind] = None;
                    // A list that was asked for is asked for again.
                    match self.lists[kind].take().map(|listing| listing.event) {
                        Some(Event::Addresses(_, Some(id))) => {
                            self.calls.push(Call::List { of: ClaimKind::ClusterApi, id });
                        }
                        Some(Event::Metal3Addresses(_, Some(id))) => {
                            self.calls.push(Call::List { of: ClaimKind::Metal3, id });
                        }
                        _ => {}
                    }
                }
                16..26 => {
                    let kind = dice.pick(KINDS);
                    let back = usize::try_from(dice.roll(6)).unwrap();
                    self.watches[kind] = self.watches[kind].map(|at| at.saturating_sub(back));
                }
                _ => {}
            }
        }
        if !self.strays.is_empty() && (quiesce || dice.one_in(10)) {
            let stray = usize::try_from(dice.roll(self.strays.len() as u64)).unwrap();
            let write = self.strays.swap_remove(stray);
            if !quiesce || dice.one_in(2) {
                let _ = apply(store, &write, trace, "stray")?;
            }
        }
        if !self.outside.is_empty() && (quiesce || dice.one_in(10)) {
            let stray = dice.pick(self.outside.len());
            let what = self.outside.swap_remove(stray);
            if !quiesce || dice.one_in(2) {
                store.stray_outside(&what, trace)?;
            }
        }
        if self.frozen {
            self.frozen = !dice.one_in(25);
            return Ok(());
        }
        if quiesce && self.leads != Duration::MAX {
            self.leads = Duration::MAX;
            self.step(now, store, Event::Leading(Some(self.leads)));
        } else if !quiesce && (now >= self.leads && dice.one_in(8) || dice.one_in(60)) {
            // The lead is renewed in time, or gained anew.
            self.leads = now + Duration::from_millis(50 + dice.roll(4000));
            self.step(now, store, Event::Leading(Some(self.leads)));
        } else if !quiesce && dice.one_in(300) {
            self.leads = Duration::ZERO;
            self.step(now, store, Event::Leading(None));
        }
        if self.machine.next_tick().is_some_and(|at| at <= now) {
            self.step(now, store, Event::Tick);
        }
        match dice.roll(10) {
            0..5 => {
                let kind = dice.pick(KINDS);
                self.watch(kind, dice, store, now);
            }
            5 => self.watch(if dice.one_in(3) { METAL3_ADDRESSES } else { ADDRESSES }, dice, store, now),
            _ => self.call(dice, store, now, quiesce, trace)?,
        }
        Ok(())
    }

    /// A second in which all that was asked for is done.
    pub(super) fn let_pass(
        &mut self,
        dice: &mut Dice,
        store: &mut Store,
        now: Duration,
        trace: &mut Vec<String>,
    ) -> Result<(), String> {
        self.step(now, store, Event::Tick);
        for _ in 0..8 {
            for kind in 0..KINDS {
                self.watch(kind, dice, store, now);
            }
            self.call(dice, store, now, true, trace)?;
        }
        Ok(())
    }

    fn watch(&mut self, kind: usize, dice: &mut Dice, store: &Store, now: Duration) {
        if let Some(Listing { event, at }) = self.lists[kind].take_if(|_| dice.one_in(2)) {
            self.watches[kind] = Some(at);
            self.step(now, store, event);
            self.listed[kind] = true;
            if [POOLS, METAL3_CLAIMS, METAL3_ADDRESSES].iter().all(|&one| self.listed[one]) {
                self.step(now, store, Event::Metal3Listed);
            }
            return;
        }
        if self.lists[kind].is_some() {
            return;
        }
        let Some(at) = self.watches[kind] else { return self.begin_list(kind, store, None) };
        let many = if dice.one_in(4) { 8 } else { 1 };
        for event in store.logs[kind].iter().skip(at).take(many) {
            self.watches[kind] = self.watches[kind].map(|at| at + 1);
            self.step(now, store, event.clone());
        }
    }

    /// The patch that removes our finalizer writes the whole list, so the list must contain the other finalizers.
    fn keeps_the_others(&self, write: &Write, store: &Store) -> Result<(), String> {
        let Write::RemoveAddressFinalizer(target) = write else { return Ok(()) };
        let other = |address: &Address| address.uid != target.uid || address.version != target.version;
        if store.target(target).is_none_or(other) {
            return Ok(());
        }
        let foreign = match target.key.claim_kind() {
            ClaimKind::ClusterApi => &self.foreign,
            ClaimKind::Metal3 => &self.foreign_of_metal3,
        };
        match (foreign.at(target), others(&target.uid)) {
            (FinalizersAt::Unknown, _) | (FinalizersAt::OursAlone, None) => Ok(()),
            (FinalizersAt::All(all), Some(others)) if all == others => Ok(()),
            (at, others) => Err(format!("{target:?} has {others:?}, and {at:?} is written")),
        }
    }

    fn call(
        &mut self,
        dice: &mut Dice,
        store: &mut Store,
        now: Duration,
        quiesce: bool,
        trace: &mut Vec<String>,
    ) -> Result<(), String> {
        if self.calls.is_empty() {
            return Ok(());
        }
        let chosen = self.calls.swap_remove(usize::try_from(dice.roll(self.calls.len() as u64)).unwrap());
        match chosen {
            Call::Answer(event) => self.step(now, store, event),
            Call::List { of, id } => {
                let kind = addresses_of(of);
                if self.watches[kind].is_none() || self.lists[kind].is_some() || !quiesce && dice.one_in(10) {
                    self.calls.push(Call::List { of, id });
                    return Ok(());
                }
                self.begin_list(kind, store, Some(id));
            }
            Call::Read { id, key } => {
                let lost = !quiesce && dice.one_in(5);
                let result = if lost { Err(Failure::Unknown) } else { Ok(store.claims.get(&key).cloned()) };
                self.calls.push(Call::Answer(Event::ClaimRead { id, result }));
            }
            Call::Outside { id, what } => {
                if let What::Find(mark) = &what {
                    self.unsure.remove(&mark.claim);
                }
                let asks = if let What::Allocate(mark, _) = &what { Some(mark.claim.clone()) } else { None };
                if asks.as_ref().is_some_and(|claim| self.unsure.contains(claim)) {
                    return Err(format!("after a lost answer it is asked again without a search: {what:?}"));
                }
                let lost = || Err(remote::Failure::Lost("no answer".into()));
                let lies = !quiesce && lies(dice);
                let result = match if quiesce { 99 } else { dice.roll(100) } {
                    _ if now >= self.leads => Err(remote::Failure::NotSent),
                    0..5 => lost(),
                    5..12 => {
                        let _ = store.call_outside(&what, lies, trace)?;
                        lost()
                    }
                    12..18 => {
                        self.outside.push(what);
                        lost()
                    }
                    18..24 => Err(remote::Failure::Refused("500".into())),
                    // It hangs.
                    24..34 => {
                        self.calls.push(Call::Outside { id, what });
                        return Ok(());
                    }
                    _ => store.call_outside(&what, lies, trace)?,
                };
                if matches!(result, Err(remote::Failure::Lost(_))) {
                    self.unsure.extend(asks);
                }
                self.calls.push(Call::Answer(Event::Remote { id, result }));
            }
            Call::Write { id, write } => {
                self.keeps_the_others(&write, store)?;
                let fault = if quiesce { 99 } else { dice.roll(100) };
                let result = match fault {
                    // The call is lost before its effect, its answer is lost, or the call takes effect late.
                    0..4 => Err(Failure::Unknown),
                    4..8 => {
                        let _ = apply(store, &write, trace, "write")?;
                        Err(Failure::Unknown)
                    }
                    8..13 => {
                        self.strays.push(write);
                        Err(Failure::Unknown)
                    }
                    13 => Err(Failure::Refused("a policy says no".into())),
                    _ => apply(store, &write, trace, "write")?,
                };
                self.calls.push(Call::Answer(Event::Answer { id, result }));
            }
        }
        Ok(())
    }
}

/// A list that was begun.
#[derive(Debug)]
struct Listing {
    event: Event,
    /// Where the watch continues.
    at: usize,
}

/// The finalizers of an address that has others besides ours: every third address does.
fn others(uid: &Uid) -> Option<Finalizers> {
    let sum = uid.0.bytes().fold(0u32, |sum, byte| sum + u32::from(byte));
    sum.is_multiple_of(3).then(|| [Box::from("theirs"), Box::from("ours")].into())
}

type Applied = Result<crate::protocol::Done, Failure>;

fn apply(store: &mut Store, write: &Write, trace: &mut Vec<String>, how: &str) -> Result<Applied, String> {
    // An address that was bound must rest if its pool asks for it. An object whose address cannot be read has none: a claim is
    // bound to such a one only if people put it in the place of one that they took away by force.
    let ends = match write {
        Write::RemoveAddressFinalizer(t) | Write::DeleteAddress(t) => store.target(t).cloned(),
        _ => None,
    };
    let bound = ends.as_ref().is_some_and(|a| {
        let owners = store.claims.values();
        let used = a.conflict.is_some() || owners.filter_map(|c| store.own(c)).any(|own| own.uid == a.uid);
        used && store.block(a).is_some()
    });
    let result = store.apply(write);
    trace.push(format!("{how} {write:?} -> {result:?}"));
    store.check()?;
    if let Some(address) = ends.filter(|a| bound && store.addresses.get(&place(a)).is_none_or(|b| b.uid != a.uid)) {
        let plan = store.pools.get(&*address.pool).and_then(|p| p.plan.as_ref().ok());
        // The rest counts from the time when the machine was gone, so it may end before the object is gone.
        let rests = store.rested.contains(&address.uid);
        // Every plan of pool p1 asks for a rest. A pool that was gone or invalid at some time proves nothing.
        let known = !store.unclear.contains(&*address.pool);
        let conflict = address.conflict.is_some() && address.attempt.as_ref().is_some_and(|m| !m.adopted);
        if known
            && !address.pool.kind.is_remote()
            && plan.is_some_and(|p| conflict || p.quarantine > Duration::from_secs(2))
            && !rests
        {
            return Err(format!("{} was released without a rest", address.key));
        }
    }
    Ok(result)
}
