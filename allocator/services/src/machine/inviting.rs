//! Sharing keys of other namespaces: who may use them. What the namespace says counts at once; what it does not say yet, or
//! no longer, takes from nobody what he has.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::families::place;
use crate::invitations::{Answer, Named};
use crate::objects::Service;
use crate::reason::Reason;
use crate::sharing::{self, Join, SharingKey};
use crate::words;

use super::Machine;
use super::join::Trouble;
use super::slots::{Held, Topic};

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

    /// What people can do so that a Service shares with one that has another key, or none.
    pub(super) fn how_to_share(&self, service: &Service) -> String {
        let lease = Named::by_lease(service).filter(|_| service.notes.sharing_key.is_none());
        match lease.filter(|named| self.seen.invited.answer(named, service, &self.seen.config) != Answer::Yes) {
            Some(Named { home, .. }) => format!(
                "have the owner of namespace {home} write {}={} on a Service with the same {}",
                words::SHARING_NAMESPACES,
                service.key.namespace,
                words::LEASE_NAME
            ),
            None => format!("give both Services the same annotation {}", words::SHARING_KEY),
        }
    }

    /// A Service that its key's namespace does not invite gives up the address that it has by that key; and, where it had another key
    /// before, the one that it shares by that.
    pub(super) fn leave_uninvited(&mut self, service: &Service) {
        let by_key = service.notes.sharing_key.is_some();
        let named = if by_key { Named::by_key(service) } else { Named::by_lease(service) };
        let Some(named) = named else { return };
        let answer = self.seen.invited.answer(&named, service, &self.seen.config);
        if answer == Answer::Yes {
            return;
        }
        let Some(slot) = self.services.get(&service.key) else { return };
        // What it shares without keys, or has for itself, is its own.
        let of_key = |claim: &Key| {
            let Some(slot) = self.claims.get(claim) else { return false };
            let by_this = |other: &Service| Named::all(other).any(|its| its.text == named.text);
            let by_another = |other: &Service| {
                let key = self.sharing_key(other).filter(|key| key.join != Join::May).map(|key| key.text);
                key.as_ref().is_some_and(|key| *key != named.text && slot.group.as_ref() == Some(key))
            };
            (answer == Answer::No && slot.across && self.others(service, claim).all(by_this))
                || (by_key && self.others(service, claim).any(by_another))
        };
        let of_key = |held: &Held| held.current.iter().chain(&held.next).any(of_key);
        for family in
            [Family::V4, Family::V6].into_iter().filter(|family| of_key(&slot.held[place(*family)])).collect::<Vec<_>>()
        {
            self.retire(&service.key, family);
        }
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
