//! What a Service asks for and does not get here: annotations of kube-vip's that Mooring does not honour, the control plane's VIP, and
//! addresses that nodes have for themselves. The user of the Service is told once, and what to do instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::Catalog;
use crate::api::objects::{Key, LeftOut, Service};

/// What the user of a Service, or of an `IPAddress` that no Service has, should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The object.
    pub object: Key,
    /// It is a Service.
    pub is_service: bool,
    /// Its uid.
    pub uid: String,
    /// The reason of the Event.
    pub reason: &'static str,
    /// The remark, the same on every node.
    pub text: String,
}

/// An annotation has no effect.
const NOT_HONOURED: &str = "AnnotationNotHonoured";
/// The address is the control plane's VIP. An allocator that knows the address says so in the Service's condition, with this reason.
const OF_CONTROL_PLANE: &str = "AddressOfControlPlane";

/// The remarks on Services, each of which is told once.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// The last remark of each reason on a Service: its uid and the text.
    made: BTreeMap<(Key, &'static str), (String, String)>,
    /// The last remark on whose an address is, for each object that asks for it.
    owners: BTreeMap<(IpAddr, Key), (String, String)>,
    waiting: VecDeque<Remark>,
}

impl Remarks {
    fn make(&mut self, service: &Service, reason: &'static str, text: String) {
        let key = (service.metadata.key(), reason);
        if text.is_empty() {
            self.made.remove(&key);
            return;
        }
        let said = (service.metadata.uid.clone(), text);
        if self.made.get(&key) != Some(&said) {
            self.waiting.push_back(Remark {
                object: key.0.clone(),
                is_service: true,
                uid: said.0.clone(),
                reason,
                text: said.1.clone(),
            });
            self.made.insert(key, said);
        }
    }

    /// Forgets the Services that are gone.
    pub(super) fn keep(&mut self, there: impl Fn(&Key) -> bool) {
        self.made.retain(|(key, _), _| there(key));
    }
}

impl Catalog {
    /// The next remark to be told. It stays the next until [`Catalog::remark_was_told`].
    #[must_use]
    pub fn remark(&self) -> Option<&Remark> {
        self.remarks.waiting.front()
    }

    /// The next remark was told.
    pub fn remark_was_told(&mut self) {
        self.remarks.waiting.pop_front();
    }

    /// A node has the address for itself; None: no node has it, or nobody asks for it any more. `unknown`: that is not known.
    pub(super) fn remark_on_owner(&mut self, address: IpAddr, owner: Option<&str>, unknown: bool) {
        let mut said: BTreeMap<Key, Remark> = BTreeMap::new();
        if let Some(node) = owner {
            let remark = |object: Key, is_service, uid: &str, by_status| {
                let text = text_of_owner(address, node, by_status);
                Remark { object, is_service, uid: uid.to_owned(), reason: "AddressOfNode", text }
            };
            let services = self.asking_for(address).into_iter();
            for service in services.filter_map(|key| self.service(&key)) {
                let (key, uid) = (service.metadata.key(), &service.metadata.uid);
                said.insert(key.clone(), remark(key, true, uid, service.states_by_status(address)));
            }
            if let Some((key, object)) = self.object_of(address).filter(|_| said.is_empty()) {
                said.insert(key.clone(), remark(key.clone(), false, &object.metadata.uid, false));
            }
        } else if unknown {
            return;
        }
        let made = &mut self.remarks.owners;
        made.retain(|(one, key), _| *one != address || said.contains_key(key));
        for (key, remark) in said {
            let now = (remark.uid.clone(), remark.text.clone());
            if made.insert((address, key), now.clone()).as_ref() != Some(&now) {
                self.remarks.waiting.push_back(remark);
            }
        }
    }

    /// Looks whether a Service that this node may serve asks for something that it does not get.
    pub(super) fn remark_on(&mut self, service: &Service) {
        let recorded = service.addresses().next().is_some();
        let by_itself = self.stated.is_some() && self.classes.accept(service.class());
        let ours = !service.is_ignored() && (recorded || by_itself);
        let text = if ours { remark(service, by_itself && !recorded) } else { String::new() };
        self.remarks.make(service, NOT_HONOURED, text);
        let reserved = self.reserved_by(service);
        let text = reserved.iter().map(of_control_plane).collect::<Vec<_>>().join(". ");
        self.remarks.make(service, OF_CONTROL_PLANE, text);
    }

    /// The control plane's VIPs, by this node's settings.
    pub fn reserve(&mut self, reserved: BTreeSet<IpAddr>) {
        if self.reserved == reserved {
            return;
        }
        self.reserved = reserved;
        let services: Vec<Service> = self.services.values().map(|service| (**service).clone()).collect();
        for service in services {
            self.remark_on(&service);
        }
    }

    /// The control plane's VIPs that Services ask for and do not get, and these Services.
    pub fn refused(&self) -> impl Iterator<Item = (IpAddr, Vec<&Key>)> {
        let asking = move |address| {
            let all = self.services.iter().filter(move |(_, service)| self.reserved_by(service).contains(&address));
            all.map(|(key, _)| key).collect::<Vec<_>>()
        };
        self.reserved.iter().map(move |address| (*address, asking(*address))).filter(|(_, all)| !all.is_empty())
    }

    /// The control plane's VIPs that a Service asks for.
    fn reserved_by(&self, service: &Service) -> BTreeSet<IpAddr> {
        let ours = service.addresses().next().is_some() || self.classes.accept(service.class());
        if self.reserved.is_empty() || !ours || service.is_ignored() {
            return BTreeSet::new();
        }
        let mut wants = service.asked();
        wants.extend(self.stated_by(service));
        wants.extend(service.addresses().map(|(_, address)| address));
        wants.retain(|address| self.reserved.contains(address));
        wants
    }
}

/// What is said of an address that the control plane has.
#[must_use]
pub fn of_control_plane(address: &IpAddr) -> String {
    format!("{address} is the control plane's VIP, and no Service gets it: ask for another address")
}

fn text_of_owner(address: IpAddr, node: &str, by_status: bool) -> String {
    if by_status {
        return format!(
            "{address} is not carried: it is an address of the node {node}, and another load balancer has written it into the status \
             (on k3s: ServiceLB). Let one of both serve this Service: by spec.loadBalancerClass, or switch the other one off"
        );
    }
    format!("{address} is not carried: it is an address of the node {node}. Ask for another address")
}

/// The remark on a Service; empty: nothing is to be said. `alone`: no allocator has given the Service its addresses, and
/// so none says what is wrong with its request.
fn remark(service: &Service, alone: bool) -> String {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (annotation, instead) in service.metadata.annotations.not_honoured.each() {
        all.entry(instead).or_default().insert(annotation);
    }
    for part in service.left_out().filter(|_| alone) {
        let (text, instead) = match part {
            LeftOut::Dhcp(text) => {
                (text, "Mooring does not speak DHCP: name an address, or let mooring-allocator give one")
            }
            LeftOut::Name(text) => (text, "Mooring does not look up names of Services: name an address"),
        };
        all.entry(instead).or_default().insert(format!("{text:?} in kube-vip.io/loadbalancerIPs"));
    }
    let each = all.into_iter().map(|(instead, names)| {
        format!("{} has no effect: {instead}", names.into_iter().collect::<Vec<_>>().join(", "))
    });
    each.collect::<Vec<_>>().join(". ")
}
