//! Which Services Mooring serves.
//!
//! Other controllers may serve Services of the same kind and class: `MetalLB` and cloud providers take Services without a
//! class too. So nothing is written on a Service before there is something to give it, nor on a Service that another
//! controller serves.

use std::net::IpAddr;

use mooring_allocator_core::block::Family;

use crate::families::wanted;
use crate::objects::Service;
use crate::request::{self, RequestError, Wish};

use super::Machine;
use super::flaws::{Flaw, planted};

impl Machine {
    /// Whether the rules on types and classes accept a Service.
    pub(super) fn accepts(&self, service: &Service) -> bool {
        service.load_balancer && !service.notes.ignore && self.settings.classes.accept(service.class.as_deref())
    }

    /// Whether Mooring serves a Service.
    pub(super) fn ours(&self, service: &Service) -> bool {
        if !self.accepts(service) {
            return false;
        }
        let slot = self.services.get(&service.key);
        if slot.is_some_and(|slot| slot.contest.is_left(self.work.now())) {
            return false;
        }
        let holds = slot.is_some_and(|slot| slot.held.iter().any(|held| held.all().next().is_some()));
        let called = slot.is_some_and(|slot| slot.contest.is_called());
        holds || service.notes.record.is_some() || (self.offers(service) && (called || !self.of_another(service)))
    }

    /// Whether there is something to give the Service: its class is Mooring's alone, an annotation of Mooring's asks, there is
    /// kube-vip's `ConfigMap`, or a pool for Services serves the Service's namespace.
    fn offers(&self, service: &Service) -> bool {
        let notes = &service.notes;
        service.class.is_some()
            || notes.pool.is_some()
            || notes.sharing_key.is_some()
            || self.seen.has_config
            || planted(Flaw::ServesAll)
            || self.seen.pools.offer(service, &self.seen.config)
    }

    /// Whether the status shows that another controller serves the Service: there is no sign of Mooring or of kube-vip on the
    /// Service, and the status has a host name, or an address that no pool for Services has. A class of Mooring's own is a
    /// sign.
    fn of_another(&self, service: &Service) -> bool {
        let marked = service.class.is_some() || service.notes.record.is_some() || request::by_kube_vip(service);
        request::shows_anything(service) && !marked && !self.adopts(service)
    }

    /// Whether the addresses in the status of a Service are Mooring's to give, although another controller gave them, for
    /// example `MetalLB`, before people moved its addresses into a pool for Services.
    fn adopts(&self, service: &Service) -> bool {
        let gives = |ip: IpAddr| {
            let (namespace, _) = self.namespace(service);
            self.seen.pools.offer_this(service, &namespace, ip, &self.seen.config) || self.coming(ip, &namespace)
        };
        service.notes.record.is_none() && !service.ingress.is_empty() && service.ingress.iter().all(|one| gives(one.ip))
    }

    /// The request of a Service.
    pub(super) fn wish(&self, service: &Service) -> Result<Wish, RequestError> {
        request::wish(service, &wanted(service).families, self.adopts(service))
    }

    /// The addresses that the Service had before Mooring came, if it had any. Used if its request is invalid: an invalid
    /// request takes no address away.
    pub(super) fn had_before(&self, service: &Service) -> Option<Wish> {
        let families: Vec<Family> = wanted(service).families;
        let had = request::shown(service, &families, self.adopts(service));
        (had.addresses != [None; 2]).then_some(had)
    }

    /// Whether the finalizer [`crate::words::CLEANUP`] was left by kube-vip's cloud provider: other controllers use the
    /// same finalizer, and remove it themselves once they have cleaned up.
    pub(super) fn may_strip(&self, service: &Service) -> bool {
        let theirs = service.implementation || service.class.is_some() || self.seen.has_config;
        service.cleanup && (theirs || planted(Flaw::StripsEveryFinalizer))
    }
}
