//! What a Service says in the words of another load balancer, and does not get here: its user is told once, and what to write
//! instead.

use mooring_names::metallb::{Ask, MetalLb};

use crate::objects::Service;

use super::{Machine, Report};

impl Machine {
    /// Tells the user of a Service that Mooring serves which annotations of `MetalLB`'s have no effect. Who says the same in
    /// Mooring's words needs no telling. After a restart nothing is new: a Service with a record was told before.
    pub(super) fn advise(&mut self, service: &Service) {
        let notes = &service.notes;
        let (mut asks, recorded) = (notes.metallb, notes.record.is_some());
        // Once Mooring has served the Service, the annotation is Mooring's as well.
        let asked = if recorded { notes.requested.is_some() } else { notes.addresses.is_some() };
        let said = [
            (Ask::Address, asked || service.load_balancer_ip.is_some()),
            (Ask::Pool, notes.pool.is_some()),
            (Ask::Sharing, notes.sharing_key.is_some()),
        ];
        for (ask, _) in said.into_iter().filter(|(_, said)| *said) {
            asks = asks.without(ask);
        }
        let Some(slot) = self.services.get_mut(&service.key) else { return };
        let known = slot.advised.unwrap_or_else(|| if recorded { asks } else { MetalLb::default() });
        slot.advised = Some(asks);
        if !asks.are_among(known) {
            self.report(Report::NotHonoured { service: service.key.clone(), text: asks.words() });
        }
    }
}
