//! The writes to a Service.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;

use crate::families::place;
use crate::objects::{Ingress, Service};
use crate::request::{self, Origin, shows};
use crate::{record, words};

use super::decide::{Findings, Line};
use super::{Machine, Notice, Report, Status, Write};

impl Machine {
    pub(super) fn publish(&mut self, service: &Arc<Service>, findings: &Findings) {
        self.advise(service);
        let had = record::read(service.notes.record.as_deref());
        let Findings { wanted, lines, .. } = findings;
        // Publish both families or nothing; but an address that the Service had stays.
        let whole = !wanted.all || lines.len() == wanted.families.len();
        let before = |line: &Line| had.iter().any(|(object, ip)| *object == line.object || *ip == line.ip);
        let lines: Vec<&Line> = lines.iter().filter(|line| whole || before(line)).collect();
        let mut status = self.status(service, findings, &had, &lines);
        // The line of a family that comes back stays until the Service has the address, or will not get it. The other family does not
        // wait for it.
        let comes = |ip: IpAddr| {
            findings.comes_back[place(Family::of(ip))] && lines.iter().all(|line| Family::of(line.ip) != Family::of(ip))
        };
        let rank = |ip: IpAddr| wanted.families.iter().position(|family| *family == Family::of(ip));
        let waits = lines.is_empty() && findings.comes_back.contains(&true);
        match &mut status.ingress {
            ingress if waits => *ingress = None,
            Some(ingress) => {
                let stays = |one: &&Ingress| comes(one.ip) && ingress.iter().all(|other| other.ip != one.ip);
                let stay: Vec<Ingress> = service.ingress.iter().filter(stays).copied().collect();
                if !stay.is_empty() {
                    ingress.extend(stay);
                    ingress.sort_by_key(|one| rank(one.ip));
                }
            }
            None => {}
        }
        let mut now: Vec<record::Line> = lines.iter().map(|line| (line.object.clone(), line.ip)).collect();
        now.extend(had.iter().filter(|(_, ip)| comes(*ip)).cloned());
        now.sort_by_key(|(_, ip)| rank(*ip));
        let same = status.ingress.as_ref().is_none_or(|ingress| *ingress == service.ingress)
            && status.condition == service.condition;
        let mut notice = if waits { Notice::default() } else { self.notice(service, findings, &lines, &now) };
        // One write for both.
        status.host = if same { None } else { notice.take_host() };
        // A lost address leaves the status before the record: an address in the status without a record would count as
        // one from before. If the request is invalid, so would one that the request names. One that the Service moves away
        // from stays in the status until the record names its new address: the old claim tells meanwhile whose it is.
        let held = self.held_addresses(&service.key);
        let replaced = |ip: IpAddr| lines.iter().any(|line| Family::of(line.ip) == Family::of(ip));
        let moves = |ip: IpAddr| findings.wish.is_ok() && replaced(ip) && held.contains(&ip);
        let lost =
            |ip: IpAddr| shows(service, ip) && lines.iter().all(|line| line.ip != ip) && !moves(ip) && !comes(ip);
        let lost = lines.is_empty() || had.iter().any(|(_, ip)| lost(*ip));
        if lost && !had.is_empty() && !same && !waits {
            return self.publish_status(service, &had, &lines, status);
        }
        if notice != Notice::default() {
            let (addresses, before) = (record::addresses(&now), record::addresses(&had));
            let kept = notice.annotations.contains(&(words::REALLOCATE, None));
            if self.service_write_done(service, |target| Write::Annotate(target, Box::new(notice))) {
                self.report_addresses(service, addresses, before, kept);
            }
            return;
        }
        if same {
            self.service_settled(service);
        } else {
            self.publish_status(service, &had, &lines, status);
        }
    }

    /// Reports what a Service has now, and had before. `kept`: it was to get another address.
    fn report_addresses(&mut self, service: &Service, addresses: String, before: String, kept: bool) {
        let key = service.key.clone();
        let report = match (addresses == before, addresses.is_empty()) {
            (true, false) if kept => Report::Kept { service: key, addresses },
            (true, _) => return,
            (false, true) => Report::Released { service: key, addresses: before },
            (false, false) => Report::Assigned { service: key, addresses, before },
        };
        self.report(report);
    }

    /// Writes the status. If another controller replaces Mooring's addresses by its own again and again, the Service is left
    /// to that controller.
    fn publish_status(&mut self, service: &Arc<Service>, had: &[record::Line], lines: &[&Line], status: Status) {
        // An address that the Service moves away from is Mooring's too.
        let held = self.held_addresses(&service.key);
        let ours = |ip: IpAddr| {
            held.contains(&ip) || had.iter().any(|(_, one)| *one == ip) || lines.iter().any(|line| line.ip == ip)
        };
        let others: Vec<String> =
            service.ingress.iter().filter(|one| !ours(one.ip)).map(|one| one.ip.to_string()).collect();
        // Nobody else serves a class of Mooring's own.
        let contested = service.class.is_none()
            && !others.is_empty()
            && !had.is_empty()
            && status.ingress.as_ref().is_some_and(|ingress| *ingress != service.ingress);
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(&service.key) else { return };
        // While a write is under way, the status that is known may be the one that this write replaces.
        if contested && slot.contest.is_lost(now) && slot.writes.knows(&service.version) {
            slot.contest.leave();
            self.enqueue_service(&service.key);
            return self.report(Report::Contested { service: service.key.clone(), addresses: others.join(",") });
        }
        let wrote = self.service_write_done(service, |target| Write::Status(target, Box::new(status)));
        if let Some(slot) = self.services.get_mut(&service.key).filter(|_| wrote && contested) {
            slot.replaces = slot.writes.pending;
        }
    }

    /// The annotations that must change. `record`: the lines, and those of before that stay.
    fn notice(&self, service: &Service, findings: &Findings, lines: &[&Line], record: &[record::Line]) -> Notice {
        let notes = &service.notes;
        let mut says: Vec<(&'static str, Option<String>)> = Vec::new();
        let mut notice = Notice::default();
        if notes.left {
            says.push((words::LEFT, None));
        }
        if lines.is_empty() {
            if notes.record.is_some() {
                says.extend([words::RECORD, words::MOVING, words::VIP_HOST].map(|name| (name, None)));
                if request::untouched(service) {
                    // If the annotation has no request, keep the earlier request.
                    says.push((words::ADDRESSES, notes.requested.as_deref().map(str::to_owned)));
                }
            }
        } else {
            says.push((words::RECORD, Some(record::write(record))));
            let moving = self.moving_lines(service, lines);
            says.push((words::MOVING, (!moving.is_empty()).then(|| record::write(&moving))));
            let has = |ip: IpAddr| record.iter().any(|(_, one)| *one == ip);
            if let Some(wish) = findings.wish.as_ref().ok().filter(|wish| wish.addresses.into_iter().flatten().all(has))
            {
                says.push((words::ADDRESSES, Some(record::addresses(record))));
                let asked: Vec<String> = wish.addresses.iter().flatten().map(ToString::to_string).collect();
                let requested = match wish.origin {
                    Origin::Annotation => Some(asked.join(",")),
                    Origin::Earlier => notes.requested.as_deref().map(str::to_owned),
                    Origin::Nothing | Origin::Field | Origin::TakenOver => None,
                };
                says.push((words::REQUESTED, requested));
                notice.clear_ip = Self::wrote_field(service, wish);
            } else if request::untouched(service) {
                // What Mooring wrote must not turn into a request because the record changes.
                says.push((words::ADDRESSES, Some(record::addresses(record))));
            }
            // Between two holders, the annotation names the previous one.
            if let Some(holder) = lines.iter().find_map(|line| line.holder.as_deref()) {
                says.push((words::VIP_HOST, Some(holder.to_owned())));
            }
            let given = self.seen.config.interface(&service.key.namespace);
            if notes.interface.is_none() || notes.interface == notes.given_interface {
                says.push((words::INTERFACE, given.map(ToString::to_string)));
                says.push((words::GIVEN_INTERFACE, given.map(ToString::to_string)));
            }
            if notes.reallocate && findings.content && !findings.moving {
                says.push((words::REALLOCATE, None));
            }
            notice.implementation = (!service.implementation).then_some(true);
        }
        says.retain(|(name, text)| notes.written(name) != text.as_deref());
        notice.annotations = says;
        notice
    }

    /// The status that a Service should have. An address enters the status once a node advertises it, and stays:
    /// between two holders, nodes must not forget the Service.
    fn status(&self, service: &Service, findings: &Findings, had: &[record::Line], lines: &[&Line]) -> Status {
        let now = self.work.now();
        let shown = lines.iter().filter(|line| line.holder.is_some() || shows(service, line.ip));
        let mut shown: Vec<Ingress> = shown.map(|line| Ingress { ip: line.ip, vip: true }).collect();
        if findings.wish.is_err() {
            // The Service may have had more addresses than Mooring can claim for it: nobody loses an address that the request
            // names before people have corrected the request.
            let named = request::named(service);
            let held = self.held_addresses(&service.key).into_iter();
            let given: Vec<IpAddr> =
                held.chain(had.iter().map(|(_, ip)| *ip)).chain(shown.iter().map(|s| s.ip)).collect();
            let stays = |ip: IpAddr| named.contains(&ip) && !given.contains(&ip);
            let more: Vec<Ingress> = service.ingress.iter().filter(|one| stays(one.ip)).copied().collect();
            shown.extend(more);
        }
        // Addresses from others stay, as long as the Service has no address of ours.
        let ingress = (!lines.is_empty() || !had.is_empty()).then_some(shown);
        let verdict = self.services.get(&service.key).and_then(|slot| slot.verdict.clone());
        let lasting = verdict.filter(|(condition, since)| {
            !crate::reason::passes(&condition.reason) || self.passing.told_at(*since) <= now
        });
        let condition = lasting.map(|(condition, _)| condition).or_else(|| service.condition.clone());
        Status { ingress, condition, host: None }
    }
}
