//! What a Service asks for and does not get here: annotations of kube-vip's that Mooring does not honour, and addresses that nodes have
//! for themselves. The user of the Service is told once, and what to do instead.

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

/// The remarks on Services, each of which is told once.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// The last remark on a Service: its uid and the text.
    made: BTreeMap<Key, (String, String)>,
    /// The last remark on whose an address is, for each object that asks for it.
    owners: BTreeMap<(IpAddr, Key), (String, String)>,
    waiting: VecDeque<Remark>,
}

impl Remarks {
    fn make(&mut self, service: &Service, text: String) {
        let key = service.metadata.key();
        if text.is_empty() {
            self.made.remove(&key);
            return;
        }
        let said = (service.metadata.uid.clone(), text);
        if self.made.get(&key) != Some(&said) {
            self.waiting.push_back(Remark {
                object: key.clone(),
                is_service: true,
                uid: said.0.clone(),
                reason: "AnnotationNotHonoured",
                text: said.1.clone(),
            });
            self.made.insert(key, said);
        }
    }

    /// Forgets the Services that are gone.
    pub(super) fn keep(&mut self, there: impl Fn(&Key) -> bool) {
        self.made.retain(|key, _| there(key));
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
        self.remarks.make(service, text);
    }
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
