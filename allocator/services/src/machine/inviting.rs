//! Sharing keys of other namespaces: who may use them. What the namespace says counts at once; what it does not say yet, or
//! no longer, takes from nobody what he has.

use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::families::place;
use crate::invitations::{Answer, Named};
use crate::objects::Service;
use crate::reason::Reason;
use crate::sharing::{self, Join, SharingKey};
use crate::words;

use super::join::Trouble;
use super::slots::{Held, Topic};
use super::{Machine, Who};

/// How long a Service keeps an address that it shares by a key which it no longer has, while nobody has said whether it may use its new
/// key: people edit one Service after the other.
const PARTED: Duration = Duration::from_secs(30);

impl Machine {
    /// The key by which a Service shares.
    pub(super) fn sharing_key(&self, service: &Service) -> Option<SharingKey> {
        sharing::key(service, &self.seen.config, &self.seen.invited)
    }

    /// Why a Service may not use the sharing key that it has.
    pub(super) fn uninvited(&self, service: &Service) -> Option<Trouble> {
        let named = Named::by_key(service)?;
        if self.seen.invited.answer(&named, service, &self.seen.config) == Answer::Yes {
            return None;
        }
        let (Named { text, name, home }, namespace) = (named, &service.key.namespace);
        let message = format!(
            "the sharing key {name} is of namespace {home}, which has not let namespace {namespace} use it: a Service of {home} with \
             the same key needs the annotation {}={namespace}; or take the key off",
            words::SHARING_NAMESPACES
        );
        Some(Trouble::new(Reason::SharingNotAllowed, message, [Topic::Group(text)]))
    }

    /// What people can do so that a Service shares with another one, which has another key, or none.
    pub(super) fn how_to_share(&self, service: &Service, other: &Service) -> String {
        let lease = Named::by_lease(service).filter(|_| service.notes.sharing_key.is_none());
        match lease.filter(|named| self.seen.invited.answer(named, service, &self.seen.config) != Answer::Yes) {
            Some(Named { home, .. }) => format!(
                "have the owner of namespace {home} write {}={} on a Service with the same {}",
                words::SHARING_NAMESPACES,
                service.key.namespace,
                words::LEASE_NAME
            ),
            None if service.key.namespace == other.key.namespace => {
                format!("give both Services the same annotation {}", words::SHARING_KEY)
            }
            None => format!(
                "give both Services the same annotation {}, NAMESPACE/NAME with the namespace of the other one, which names yours in its \
                 annotation {}",
                words::SHARING_KEY,
                words::SHARING_NAMESPACES
            ),
        }
    }

    /// A Service that its key's namespace does not invite gives up the address that it has by that key; and, where it had another key
    /// before, the one that it shares by that. If nobody has said anything yet, it may be invited in a moment.
    pub(super) fn leave_uninvited(&mut self, service: &Service) {
        let now = self.work.now();
        let by_key = service.notes.sharing_key.is_some();
        let named = if by_key { Named::by_key(service) } else { Named::by_lease(service) };
        let answer = named.as_ref().map(|named| self.seen.invited.answer(named, service, &self.seen.config));
        let (Some(named), Some(answer @ (Answer::No | Answer::Nobody))) = (named, answer) else {
            return self.is_not_parted(&service.key);
        };
        let families = [Family::V4, Family::V6].into_iter();
        if answer == Answer::No {
            for family in
                families.clone().filter(|family| self.has_by_key(service, *family, &named)).collect::<Vec<_>>()
            {
                self.retire(&service.key, family);
            }
        }
        let parted: Vec<Family> =
            families.filter(|family| by_key && self.has_by_another_key(service, *family, &named)).collect();
        if parted.is_empty() {
            return self.is_not_parted(&service.key);
        }
        let Some(slot) = self.services.get_mut(&service.key) else { return };
        let leaves_at = *slot.parted.get_or_insert(now) + PARTED;
        if answer == Answer::Nobody && now < leaves_at {
            return self.work.mark_at(leaves_at, Who::Service(service.key.clone()));
        }
        for family in parted {
            self.retire(&service.key, family);
        }
    }

    fn is_not_parted(&mut self, service: &Key) {
        if let Some(slot) = self.services.get_mut(service) {
            slot.parted = None;
        }
    }

    /// Whether all who share a Service's address of a family, if any, have this key, and share across namespaces.
    fn has_by_key(&self, service: &Service, family: Family, named: &Named) -> bool {
        let of_key = |claim: &Key| {
            let across = self.claims.get(claim).is_some_and(|slot| slot.across);
            across && self.others(service, claim).all(|other| Named::all(other).any(|its| its.text == named.text))
        };
        self.has_or_gets(service, family, of_key)
    }

    /// Whether the claim that a Service has of a family, or the one that it moves to, is such a one.
    fn has_or_gets(&self, service: &Service, family: Family, is_one: impl Fn(&Key) -> bool) -> bool {
        let held = self.services.get(&service.key).map(|slot| &slot.held[place(family)]);
        held.is_some_and(|held| held.current.iter().chain(&held.next).any(is_one))
    }

    /// Whether a Service shares its address of a family with others by a key of theirs, which it no longer has. What it shares without keys,
    /// or has for itself, is its own.
    fn has_by_another_key(&self, service: &Service, family: Family, named: &Named) -> bool {
        let of_another = |claim: &Key| {
            let group = self.claims.get(claim).and_then(|slot| slot.group.as_ref());
            let key = |other: &Service| self.sharing_key(other).filter(|key| key.join != Join::May).map(|key| key.text);
            let is_group = |text: Arc<str>| text != named.text && group == Some(&text);
            self.others(service, claim).filter_map(key).any(is_group)
        };
        self.has_or_gets(service, family, of_another)
    }

    /// What may be answered about these keys has changed.
    pub(super) fn answers_changed(&mut self, texts: &[Arc<str>]) {
        for text in texts {
            let topic = Topic::Group(text.clone());
            let waiting: Vec<Key> = self.waiting.get(&topic).into_iter().flatten().cloned().collect();
            for service in &waiting {
                let held = self.services.get(service).into_iter().flat_map(|slot| slot.held.iter().flat_map(Held::all));
                for claim in held.cloned().collect::<Vec<_>>() {
                    self.regroup(&claim);
                }
            }
            self.wake(&topic);
        }
    }
}
