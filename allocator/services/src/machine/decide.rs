//! Evaluating a Service: what it should have, what it has, and what to report about it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::few::few;
use mooring_allocator_core::names::Key;

use crate::families::{Wanted, place, wanted};
use crate::invitations::Named;
use crate::objects::{Pool, Service};
use crate::ports::{Clash, clash};
use crate::reason::{Condition, Reason};
use crate::request::{RequestError, Wish, shows};
use crate::sharing::Join;
use crate::told;

use super::join::Trouble;
use super::place::Want;
use super::recorded::ComesBack;
use super::slots::{Held, Topic};
use super::{Machine, Report, Who};

/// After this time the machine stops waiting for addresses from before that nobody can claim.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);

/// What a Service has of one family.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The line's `IPAddress`.
    pub(super) object: Key,
    pub(super) ip: IpAddr,
    pub(super) holder: Option<Arc<str>>,
}

/// The results of evaluating a Service.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) wanted: Wanted,
    pub(super) wish: Result<Wish, RequestError>,
    /// The addresses of the Service, in the order of its families.
    pub(super) lines: Vec<Line>,
    /// The Service will have another address soon.
    pub(super) moving: bool,
    /// There is no trouble.
    pub(super) content: bool,
    /// By family: the Service is about to get the address of its record again.
    pub(super) comes_back: [bool; 2],
}

impl Machine {
    /// Evaluates a Service again.
    pub(super) fn look_at_service(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(key) else { return };
        slot.freshen(now);
        let service = slot.service.clone();
        self.wait_no_more(key);
        if !self.ours(&service) {
            if self.accepts(&service) {
                // Whether the Service is served depends on the pools.
                self.wait(key, Topic::Pools);
            }
            self.release(&service);
            return self.note_unclaimed(&service);
        }
        if service.deleting {
            // A Service keeps its address until it is gone: as long as the Service exists, nodes pass its traffic on.
            // But nobody waits for the Service to claim an address any more.
            self.forget_wishes(key);
            self.clean_up(&service);
            return self.note_unclaimed(&service);
        }
        self.leave_uninvited(&service);
        self.seen.endpoints.wanted |= service.local && self.sharing_key(&service).is_some();
        let wanted = wanted(&service);
        let wish = self.wish(&service);
        let mut troubles: Vec<Trouble> = Vec::new();
        // An invalid request takes no address away: what the Service had before is claimed.
        let settles = match &wish {
            Ok(wish) => Some(wish.clone()),
            Err(error) => {
                troubles.push(Trouble::new(Reason::InvalidRequest, error.to_string(), []));
                self.had_before(&service)
            }
        };
        self.forget_kept(key, settles.as_ref());
        if settles.is_none() {
            self.drop_unbound(key);
        }
        for family in [Family::V4, Family::V6] {
            if !wanted.families.contains(&family) {
                self.retire(key, family);
            }
        }
        let mut lines = Vec::new();
        let (mut moving, mut comes_back) = (false, [false; 2]);
        // Addresses that the Service had, and addresses that it asks for.
        let mut claiming = (false, false);
        for &family in &wanted.families {
            let recorded = self.recorded(&service, family).filter(|_| wish.is_ok());
            let settled = match &settles {
                // Without a valid request, no further address is given.
                Some(settles) if wish.is_err() && settles.addresses[place(family)].is_none() => Ok(()),
                Some(settles) => {
                    self.settle(&service, Want { family, requested: settles.addresses[place(family)], recorded })
                }
                None => Ok(()),
            };
            self.switch(&service, family);
            let state = self.state(&service, family);
            let passes = |trouble: &Trouble| trouble.reason == Reason::Allocating;
            let asked = settles.as_ref().and_then(|settles| settles.addresses[place(family)]);
            let troubles_now = [settled.as_ref().err(), state.as_ref().err()];
            let comes =
                wish.as_ref().map_or(ComesBack::No, |_| self.coming_back(&service, family, asked, troubles_now));
            self.note_coming_back(key, family, comes);
            comes_back[place(family)] = comes != ComesBack::No;
            let waits = settled.as_ref().err().is_some_and(|trouble| passes(trouble) || comes != ComesBack::No);
            if waits || state.as_ref().err().is_some_and(passes) {
                claiming.0 |= asked.or(recorded).is_some_and(|ip| self.had(&service, ip));
                claiming.1 |= asked.is_some();
            }
            moving |= self.services.get(key).is_some_and(|slot| slot.held[place(family)].next.is_some());
            match (settled, state) {
                (Ok(()), Ok(line)) => lines.extend(line),
                (Ok(()), Err(trouble)) => troubles.push(trouble),
                (Err(trouble), state) => {
                    lines.extend(state.ok().flatten());
                    troubles.push(trouble);
                }
            }
        }
        for trouble in &troubles {
            for topic in &trouble.until {
                self.wait(key, topic.clone());
            }
        }
        if let Some(group) = self.sharing_key(&service).filter(|group| group.join == Join::Must) {
            self.wait(key, Topic::Group(group.text));
        }
        for named in Named::all(&service) {
            self.wait(key, Topic::Group(named.text));
        }
        if service.notes.pool.is_some() && lines.iter().any(|line| self.is_kept(key, line)) {
            // The pool that it names may get the address.
            self.wait(key, Topic::Pools);
        }
        self.settled(key, claiming);
        self.retire_old(&service);
        self.note_unclaimed(&service);
        // The content of the Service's claims follows the Service's wishes.
        let slot = self.services.get(key);
        let held: Vec<Key> = slot.into_iter().flat_map(|slot| slot.held.iter().flat_map(Held::all)).cloned().collect();
        for claim in &held {
            self.enqueue_claim(claim);
        }
        let condition = self.condition(&service, &wanted, &lines, &troubles);
        self.judge(key, condition);
        self.end_wait(key, &troubles);
        self.publish(&service, &Findings { wanted, wish, lines, moving, content: troubles.is_empty(), comes_back });
    }

    /// The address that a Service has of a family, if any; or the reason why its claim waits.
    fn state(&self, service: &Service, family: Family) -> Result<Option<Line>, Trouble> {
        let held = self.services.get(&service.key).and_then(|slot| slot.held[place(family)].current.as_ref());
        held.filter(|claim| self.claims.contains_key(claim)).map(|claim| self.state_of(service, claim)).transpose()
    }

    /// The address of a Service's claim; or the reason why the claim waits.
    pub(super) fn state_of(&self, service: &Service, claim: &Key) -> Result<Line, Trouble> {
        // The name of one that Services of several namespaces share says for which of them it was made.
        let own = claim.namespace == service.key.namespace;
        let told = if own { format!("claim {claim}") } else { "its claim".to_owned() };
        let Some(slot) = self.claims.get(claim) else {
            return Err(Trouble::new(Reason::Allocating, format!("{told} is gone"), []));
        };
        let until = [Topic::Claim(claim.clone())];
        if let Some(pool) = self.seen.pools.get(&slot.pool).filter(|pool| pool.is_apart()) {
            return Err(Trouble::new(
                Reason::PoolNotUsable,
                pool.told_apart(),
                [Topic::Claim(claim.clone()), Topic::Pools],
            ));
        }
        if let (true, Some(address)) =
            (slot.belongs_to(&(service.key.clone(), service.uid.clone())), self.address_of(claim))
            && let Some(ip) = address.address
        {
            // If the Service shows the address already, any node may report the address as its own: it held the VIP for us.
            if !shows(service, ip)
                && !self.is_of_holder(ip, address.holder.as_deref())
                && (!slot.has_given_way() || !self.is_only_awaited(ip))
                && let Some(trouble) = self.reserved_for(service, ip)
            {
                if self.by_chance(claim, ip) {
                    let message = format!("{}; it gets another, if there is one", trouble.message);
                    return Err(Trouble::new(Reason::Allocating, message, until));
                }
                return Err(trouble);
            }
            return Ok(Line { object: address.key.clone(), ip, holder: address.holder.clone() });
        }
        let refused = slot.seen.as_ref().and_then(|claim| claim.refused());
        if let Some((reason, message)) = refused.filter(|_| !slot.going()) {
            let reason = Reason::of_claim(reason);
            let pool = slot.seen.as_ref().and_then(|claim| self.seen.pools.get(&claim.pool));
            let made = pool.and_then(|pool| pool.made.as_ref()).filter(|_| reason == Reason::PoolExhausted);
            let entry = made.and_then(|made| made.source.scope.entry());
            let entry = entry.map(|entry| format!("; its addresses are those of {entry}")).unwrap_or_default();
            let message = told::about(claim, message, &service.key.namespace);
            let mut trouble = Trouble::new(reason, format!("{told}: {message}{entry}"), until);
            if reason == Reason::PoolExhausted {
                // Another pool of the same rank may have free addresses.
                trouble.until.push(Topic::Pools);
            }
            return Err(trouble);
        }
        if let Some(why) = &slot.refused.as_ref().filter(|_| slot.seen.is_none()) {
            let why = told::about(claim, why, &service.key.namespace);
            return Err(Trouble::new(Reason::AllocationFailed, format!("{told} cannot be made: {why}"), until));
        }
        Err(Trouble::new(Reason::Allocating, format!("{told} waits for its address"), until))
    }

    fn condition(&self, service: &Service, wanted: &Wanted, lines: &[Line], troubles: &[Trouble]) -> (Condition, bool) {
        let has = lines.iter().map(|line| line.ip.to_string()).collect::<Vec<_>>().join(",");
        // One family is enough for a Service that only prefers both.
        let does_without = |trouble: &&Trouble| !wanted.all && !lines.is_empty() && trouble.reason.lacks();
        let (without, troubles): (Vec<_>, Vec<_>) = troubles.iter().partition(does_without);
        let worst = troubles.iter().find(|trouble| !trouble.reason.passes()).or_else(|| troubles.first());
        let mut but: Vec<String> = without.iter().map(|trouble| trouble.message.clone()).collect();
        but.extend(self.strays(service, lines));
        but.extend(self.clashes(service));
        let condition = |ready, reason: Reason, message: String| Condition {
            ready,
            reason: reason.name().into(),
            message: message.into(),
        };
        if let Some(trouble) = worst {
            let keeps = if has.is_empty() { String::new() } else { format!(" (it keeps {has})") };
            return (condition(false, trouble.reason, format!("{}{keeps}", trouble.message)), !trouble.reason.passes());
        }
        // One that is shown, and has never had a holder, is carried by programs that record none.
        let may_be_carried = |line: &Line| shows(service, line.ip) && !self.seen.addresses.was_held(&line.object);
        let dark = lines.iter().filter(|line| line.holder.is_none() && !may_be_carried(line));
        let dark: Vec<String> = dark.map(|line| self.not_advertised(line, shows(service, line.ip))).collect();
        if lines.is_empty() || !dark.is_empty() {
            return (condition(false, Reason::WaitingForNode, dark.join("; ")), false);
        }
        but.extend(self.held_up(service));
        let message = if but.is_empty() { has } else { format!("{has}; {}", few(&but)) };
        (condition(true, Reason::Advertised, message), !but.is_empty())
    }

    /// Ports that the Service has in common with Services that share its address: somebody has edited them. Nobody loses an
    /// address that carries traffic; but which of the Services answers is not defined.
    fn clashes(&self, service: &Service) -> BTreeSet<String> {
        let Some(slot) = self.services.get(&service.key) else { return BTreeSet::new() };
        let others = slot.held.iter().filter_map(|held| held.current.as_ref());
        let others = others.flat_map(|claim| self.others(service, claim));
        let told = |other: &Service| other.key.told_in(&service.key.namespace, "Service");
        let said = others.filter_map(|other| {
            let whose = match clash(&service.ports, &other.ports)? {
                Clash::Port(port) => format!("{} has port {port} too", told(other)),
                Clash::Whole => format!("{} has the address too, and one of the two has no ports", told(other)),
            };
            Some(format!("{whose}, and which of the two answers is not defined: change the port of one"))
        });
        said.collect()
    }

    /// Whether an address of the Service is of a pool made for addresses that Services had before.
    fn is_kept(&self, key: &Key, line: &Line) -> bool {
        let slot = self.services.get(key);
        let claims = slot.into_iter().flat_map(|slot| slot.held.iter().filter_map(|held| held.current.as_ref()));
        let mut claims =
            claims.filter(|claim| self.address_of(claim).is_some_and(|address| address.key == line.object));
        let pool = |claim: &Key| self.seen.pools.get(&self.claims.get(claim)?.pool);
        claims.any(|claim| pool(claim).is_some_and(Pool::keeps))
    }

    /// Addresses of the Service that its pool no longer has, or that it had before and that the pool it names does not
    /// have: they stay, and are reported.
    fn strays(&self, service: &Service, lines: &[Line]) -> Vec<String> {
        let held = self
            .services
            .get(&service.key)
            .into_iter()
            .flat_map(|slot| slot.held.iter().filter_map(|h| h.current.as_ref()));
        held.filter_map(|claim| {
            let address = self.address_of(claim)?;
            let line = lines.iter().find(|line| line.object == address.key)?;
            let reference = &self.claims.get(claim)?.pool;
            let pool = self.seen.pools.get(reference);
            if pool.is_some_and(Pool::keeps)
                && let Some(named) = self.seen.pools.named_without(service, line.ip)
            {
                return Some(format!(
                    "{} is from before, and not in {named}, which the Service names; it stays: add it to that pool, or, to \
                     give it up, take away the request for it, if any, and set the annotation {}",
                    line.ip,
                    crate::words::REALLOCATE
                ));
            }
            if pool.is_some_and(|pool| pool.lists(line.ip) || pool.plan.is_err()) {
                return None;
            }
            let reference = reference.told_in(&service.key.namespace);
            Some(format!(
                "{} is no longer in {reference}; it stays: to give it up, take away the request for it, if any, and set the annotation {}",
                line.ip,
                crate::words::REALLOCATE
            ))
        })
        .collect()
    }

    /// Records the verdict and reports it to people. A verdict that may pass by itself is reported only when it lasts.
    fn judge(&mut self, key: &Key, (condition, warning): (Condition, bool)) {
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(key) else { return };
        let since = match &slot.verdict {
            Some((before, since)) if before.reason == condition.reason => *since,
            before => {
                if before.as_ref().is_some_and(|(before, _)| crate::reason::passes(&before.reason)) {
                    self.passing.one_got_on(now);
                }
                now
            }
        };
        slot.verdict = Some((condition.clone(), since));
        let passes = !condition.ready && !warning;
        let told_at = self.passing.told_at(since);
        if passes && told_at > now {
            self.work.mark_at(told_at, Who::Service(key.clone()));
        } else if slot.reported.as_ref() != Some(&condition) {
            slot.reported = Some(condition.clone());
            // After a restart the condition is not new.
            if slot.service.condition.as_ref() != Some(&condition) {
                self.report(Report::ConditionChanged { service: key.clone(), condition, warning: warning || passes });
            }
        }
    }

    /// Notes whether the addresses that the Service had, or asks for, are being claimed. Otherwise they are claimed, or never
    /// will be: then other Services may get addresses.
    fn settled(&mut self, key: &Key, (had, asked): (bool, bool)) {
        let now = self.work.now();
        let takeover = &mut self.takeover;
        if takeover.unsettled.is_empty() && takeover.asking.is_empty() {
            return;
        }
        let open = (had && takeover.unsettled.contains(key)) || (asked && takeover.asking.contains(key));
        let over = *takeover.settles_by.get_or_insert(now + SETTLES_WITHIN) <= now;
        if !open || over {
            if takeover.settle(key) {
                // A pool that nobody claimed from may go.
                self.work.mark(Who::Pools);
                self.wake(&Topic::Settled);
            }
        } else if let Some(by) = takeover.settles_by {
            self.work.mark_at(by, Who::Service(key.clone()));
        }
    }
}
