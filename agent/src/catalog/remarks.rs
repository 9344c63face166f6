//! What a Service asks for and does not get here: annotations of kube-vip's that Mooring does not honour. The user of
//! the Service is told once, and what to do instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Catalog;
use crate::api::objects::{Key, LeftOut, Service};

/// What the user of a Service should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The Service.
    pub service: Key,
    /// Its uid.
    pub uid: String,
    /// The remark, the same on every node.
    pub text: String,
}

/// The remarks on Services, each of which is told once.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// The last remark on a Service: its uid and the text.
    made: BTreeMap<Key, (String, String)>,
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
            self.waiting.push_back(Remark { service: key.clone(), uid: said.0.clone(), text: said.1.clone() });
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

    /// Looks whether a Service that this node may serve asks for something that it does not get.
    pub(super) fn remark_on(&mut self, service: &Service) {
        let recorded = service.addresses().next().is_some();
        let by_itself = self.stated.is_some() && self.classes.accept(service.class());
        let ours = !service.is_ignored() && (recorded || by_itself);
        let text = if ours { remark(service, by_itself && !recorded) } else { String::new() };
        self.remarks.make(service, text);
    }
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
