//! What each call means in Neutron's API.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use mooring_allocator_core::names::Uid;
use mooring_allocator_core::remote::{Answer, Entry, Failure, Mark, What};
use mooring_allocator_openstack::fault::Fault;
use mooring_allocator_openstack::mark::{self, Holder};
use mooring_allocator_openstack::neutron::{self, FloatingIp, Network, Request};
use mooring_allocator_openstack::rules::{Choice, Pool, Release};
use mooring_api::pool::{FloatingIpNetwork, NetworkParam, ReclaimPolicy};
use tokio::sync::Mutex;

use super::session::Session;
use crate::driver::claims::floating_ips::{Look, Stock};

/// How often a floating IP is chosen anew because others changed the chosen one meanwhile.
const TRIES: usize = 5;
/// The most pages of a list: 500 floating IPs each.
const PAGES: usize = 200;

/// A pool of floating IPs, with a session.
#[derive(Debug)]
pub(super) struct FloatingPool {
    session: Session,
    rules: Pool,
    wanted: Option<NetworkParam>,
    /// The network, once it is known.
    network: Mutex<Option<Network>>,
    /// Held while a floating IP is chosen: two claims must not count the same ones.
    choosing: Rc<Mutex<()>>,
    look: RefCell<Look>,
}

/// Why a call did not succeed, in this module.
enum Problem {
    Fault(Fault),
    Unfit(String),
    Full(String),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<neutron::Unreadable> for Problem {
    fn from(error: neutron::Unreadable) -> Self {
        Self::Fault(Fault::Unknown(error.to_string()))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Full(text) | Problem::Fault(Fault::Full(text)) => Self::Full(text),
            Problem::Unfit(text) => Self::Unfit(text),
            Problem::Fault(Fault::Unknown(text)) => Self::Lost(text),
            Problem::Fault(
                Fault::Refused(text)
                | Fault::Busy(text)
                | Fault::Token(text)
                | Fault::Absent(text)
                | Fault::Changed(text)
                | Fault::Taken(text),
            ) => Self::Refused(text),
        }
    }
}

fn holder(mark: &Mark) -> Holder {
    Holder { uid: mark.claim.0.to_string(), name: mark.host() }
}

impl FloatingPool {
    /// A pool in a cloud. `choosing`: shared by all that know the pool.
    pub(super) fn new(session: Session, rules: Pool, network: Option<NetworkParam>, choosing: Rc<Mutex<()>>) -> Self {
        Self { session, rules, wanted: network, network: Mutex::new(None), choosing, look: RefCell::default() }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// What OpenStack said, or what became of the call.
    pub(super) async fn call(&self, what: &What) -> Result<Answer, Failure> {
        let result = match what {
            What::Find(mark) => self.find(mark).await.map(Answer::Entries),
            What::Allocate(mark, wanted) => self.allocate(mark, *wanted).await.map(Answer::Entry),
            What::Release(entry) => self.release(entry).await.map(|()| Answer::Done),
            What::PutBack(mark) => self.put_back(mark).await.map(|()| Answer::Done),
            What::Rewrite(entry, mark) => self.rewrite(entry, mark).await.map(|()| Answer::Done),
            What::List => self.list().await,
        };
        result.map_err(Failure::from)
    }

    /// What is known of the network, and what the last list has shown.
    pub(super) fn look(&self) -> Look {
        self.look.borrow().clone()
    }

    async fn find(&self, mark: &Mark) -> Result<Vec<Entry>, Problem> {
        let (network, project) = self.place().await?;
        let made = self.rules.mark(holder(mark)).description();
        // Its own text is only the uids and a name, which is cut.
        let made = made.map_err(|error| Problem::Unfit(error.to_string()))?;
        let mut asked = vec![neutron::find_description(&network, &project, &made)];
        let mut addresses = self.rules.given.clone();
        addresses.extend(mark.address.filter(|address| !addresses.contains(address)));
        asked.extend(neutron::find_addresses(&network, &project, &addresses));
        let mut found: Vec<Entry> = Vec::new();
        for request in asked {
            for one in neutron::page(&self.ask(&request).await?)?.items {
                let mut entry = self.entry(&one);
                // One that was moved here with its claim and its pool, which had other uids there.
                entry.ours |= entry.is_named(mark) && one.tags.contains(&self.rules.tag);
                // One of the pool's former controller, which wrote no claim: the address of the claim's own object says it.
                let former = one.mark().is_none() && Some(one.address) == mark.address;
                if former && (one.tags.contains(&self.rules.tag) || self.rules.given.contains(&one.address)) {
                    entry.host = mark.host().into();
                }
                if entry.is_for(mark) && found.iter().all(|other| other.id != entry.id) {
                    self.tagged(&one).await;
                    found.push(entry);
                }
            }
        }
        Ok(found)
    }

    async fn allocate(&self, mark: &Mark, wanted: Option<IpAddr>) -> Result<Entry, Problem> {
        if !self.rules.must_look() {
            return self.make(mark, wanted).await;
        }
        let _choosing = self.choosing.lock().await;
        let mut last = Fault::Busy("the floating IPs change all the time: others use them too".to_owned());
        for _ in 0..TRIES {
            let there = self.there().await?;
            let (one, description) = match self.rules.choose(&there, &holder(mark), wanted) {
                Choice::Take(one, description) => (one, description),
                Choice::Make => return self.make(mark, wanted).await,
                Choice::Full(text) => return Err(Problem::Full(text)),
                Choice::Unfit(text) => return Err(Problem::Unfit(text)),
            };
            match self.ask(&neutron::describe(&one, &description)).await {
                Ok(body) => {
                    let one = neutron::one(&body)?;
                    self.tagged(&one).await;
                    return Ok(self.entry(&one));
                }
                Err(fault @ (Fault::Changed(_) | Fault::Absent(_))) => last = fault,
                Err(other) => return Err(other.into()),
            }
        }
        Err(last.into())
    }

    async fn make(&self, mark: &Mark, wanted: Option<IpAddr>) -> Result<Entry, Problem> {
        let (network, _) = self.place().await?;
        let description = self.rules.mark(holder(mark)).description();
        let description = description.map_err(|error| Problem::Unfit(error.to_string()))?;
        let body = match self.ask(&neutron::create(&network, &description, wanted)).await {
            Ok(body) => body,
            Err(fault @ Fault::Absent(_)) => {
                // The network: it may be another one by now.
                *self.network.lock().await = None;
                return Err(fault.into());
            }
            Err(Fault::Taken(text)) => return Err(Problem::Unfit(text)),
            // By default only administrators may choose an address.
            Err(Fault::Refused(text)) if wanted.is_some() => return Err(Problem::Unfit(text)),
            Err(other) => return Err(other.into()),
        };
        let one = neutron::one(&body)?;
        self.tagged(&one).await;
        Ok(self.entry(&one))
    }

    async fn release(&self, entry: &Entry) -> Result<(), Problem> {
        let one = match self.ask(&neutron::read(&entry.id)).await {
            Ok(body) => neutron::one(&body)?,
            Err(Fault::Absent(_)) => return Ok(()),
            Err(other) => return Err(other.into()),
        };
        let request = match self.rules.release(&one, entry.claim.as_ref().map(|claim| &*claim.0), entry.ours) {
            Release::Nothing => return Ok(()),
            Release::Delete => neutron::delete(&one),
            Release::Describe(text) => neutron::describe(&one, &text),
        };
        match self.ask(&request).await {
            Ok(_) | Err(Fault::Absent(_)) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// Makes the claim's floating IP again, or writes the claim into the one that has its address: a person took the mark away,
    /// or the pool's former controller made it.
    async fn put_back(&self, mark: &Mark) -> Result<(), Problem> {
        let Some(address) = mark.address else { return Ok(()) };
        if let Some(entry) = self.find(mark).await?.iter().find(|entry| entry.address == address) {
            return self.rewrite(entry, mark).await;
        }
        let (network, project) = self.place().await?;
        for request in neutron::find_addresses(&network, &project, &[address]) {
            if let Some(one) = neutron::page(&self.ask(&request).await?)?.items.first() {
                // A mark names a claim, perhaps one of another namespace.
                let whose = match &*one.description {
                    _ if one.mark().is_some() => "it bears the mark of another claim".to_owned(),
                    "" => "its description is empty, and does not say that it is this pool's".to_owned(),
                    text => format!("its description says {text:?}, and not that it is this pool's"),
                };
                return Err(Problem::Unfit(whose));
            }
        }
        self.make(mark, Some(address)).await.map(drop)
    }

    async fn rewrite(&self, entry: &Entry, mark: &Mark) -> Result<(), Problem> {
        let one = neutron::one(&self.ask(&neutron::read(&entry.id)).await?)?;
        let holds = one.mark().and_then(|mark| mark.claim).map(|claim| claim.uid);
        if holds.as_deref() != entry.claim.as_ref().map(|claim| &*claim.0) {
            return Err(Fault::Changed(format!("{} has another claim by now", one.address)).into());
        }
        let description = self.rules.taken(&one, holder(mark));
        let description = description.map_err(|error| Problem::Unfit(format!("{}: {error}", one.address)))?;
        self.ask(&neutron::describe(&one, &description)).await?;
        Ok(())
    }

    /// Those of claims of this pool, and the most that there may be.
    async fn list(&self) -> Result<Answer, Problem> {
        let there = self.there().await?;
        self.look.borrow_mut().stock = Some(self.stock(&there));
        let claimed = |one: &&FloatingIp| one.mark().is_some_and(|mark| mark.claim.is_some());
        let entries = there.iter().filter(claimed).map(|one| self.entry(one));
        let tagged = |one: &FloatingIp| one.tags.contains(&self.rules.tag);
        let entries = entries.zip(there.iter().filter(claimed)).filter(|(entry, one)| entry.ours || tagged(one));
        let size = self.rules.most.and_then(|most| u64::try_from(most).ok());
        Ok(Answer::Listing(entries.map(|(entry, _)| entry).collect(), size))
    }

    fn stock(&self, there: &[FloatingIp]) -> Stock {
        let given = self.rules.given.iter().filter(|one| there.iter().any(|other| other.address == **one)).copied();
        let made = |one: &&FloatingIp| {
            let ours = |mark: mark::Mark| {
                mark.made
                    && mark.pool == self.rules.uid
                    && (mark.claim.is_none() || self.rules.reclaim == ReclaimPolicy::Retain)
            };
            one.mark().is_some_and(ours) && !self.rules.given.contains(&one.address)
        };
        let mut kept: Vec<IpAddr> = there.iter().filter(made).map(|one| one.address).collect();
        kept.sort_unstable();
        Stock { there: given.chain(kept).collect(), missing: self.rules.missing(there) }
    }

    /// All floating IPs of the project in the pool's network.
    async fn there(&self) -> Result<Vec<FloatingIp>, Problem> {
        let (network, project) = self.place().await?;
        let (mut all, mut marker) = (Vec::new(), None);
        for _ in 0..PAGES {
            let page = neutron::page(&self.ask(&neutron::list(&network, &project, marker.as_deref())).await?)?;
            all.extend(page.items);
            marker = page.marker;
            if marker.is_none() {
                return Ok(all);
            }
        }
        Err(Problem::Fault(Fault::Refused(format!("the project has more than {} floating IPs", all.len()))))
    }

    /// Network and project.
    async fn place(&self) -> Result<(String, String), Problem> {
        let project = self.session.project().await?;
        let mut network = self.network.lock().await;
        if let Some(network) = &*network {
            return Ok((network.id.clone(), project));
        }
        let body = self.ask(&neutron::find_networks(self.wanted.as_ref())).await?;
        let found = neutron::network(&body, self.wanted.is_some())?;
        let found = found.map_err(|error| Problem::Fault(Fault::Refused(error.to_string())))?;
        let Network { id, name, tags, .. } = found.clone();
        self.look.borrow_mut().network = Some(FloatingIpNetwork { id: id.clone(), name, tags });
        *network = Some(found);
        Ok((id, project))
    }

    /// Puts the tag on it by which the provider for OpenStack knows the pool's floating IPs, so that the pool can go back. All
    /// else rests on the description.
    async fn tagged(&self, one: &FloatingIp) {
        if one.mark().is_none_or(|mark| !mark.made) || one.tags.contains(&self.rules.tag) {
            return;
        }
        if let Err(error) = self.ask(&neutron::tag(&one.id, &self.rules.tag)).await {
            tracing::debug!(%error, address = %one.address, "floating IP could not be tagged; it is tagged when it is looked at again");
        }
    }

    async fn ask(&self, request: &Request) -> Result<bytes::Bytes, Fault> {
        self.session.neutron(request).await
    }

    fn entry(&self, one: &FloatingIp) -> Entry {
        let mark: Option<mark::Mark> = one.mark();
        let ours = mark.as_ref().is_some_and(|mark| mark.pool == self.rules.uid && mark.claim.is_some());
        let claim = mark.and_then(|mark| mark.claim);
        Entry {
            id: one.id.as_str().into(),
            address: one.address,
            // A floating IP is one address, whatever its subnet: no gateway is of use to its machine.
            prefix: if one.address.is_ipv4() { 32 } else { 128 },
            gateway: None,
            claim: claim.as_ref().map(|claim| Uid::from(claim.uid.as_str())),
            ours,
            host: claim.map(|claim| claim.name).unwrap_or_default().into(),
        }
    }
}
