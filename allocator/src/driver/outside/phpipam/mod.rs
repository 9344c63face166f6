//! phpIPAM: what each call means in its REST API (phpIPAM 1.8; `api.phpipam.net`).
//!
//! An entry of ours has the claim's uid in its description and the pool's in its owner, and the host name `<claim>.<namespace>`.
//! The description is the key: host names are not unique there, and people change them.

mod entries;
mod reply;
mod session;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::names::Uid;
use mooring_allocator_core::remote::{Answer, Entry, Failure, Mark, What};
use mooring_api::pool::PhpIpamIpPoolSpec;
use serde_json::json;

use super::credentials::Secrets;
use super::kept::Kept;
use entries::{Subnet, description, entries, is_still, owner};
use reply::{Problem, Reply};
use session::Session;

/// How often a request is repeated that phpIPAM has refused because another one got the address: its API's lock is off.
const RACES: u32 = 8;

/// A pool's phpIPAM.
pub(super) struct PhpIpam {
    spec: PhpIpamIpPoolSpec,
    pool: Uid,
    session: Kept<Session>,
    /// The subnets by number, each with the time at which it was read.
    subnets: RefCell<HashMap<i64, (Subnet, Duration)>>,
}

impl fmt::Debug for PhpIpam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhpIpam").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl PhpIpam {
    pub(super) fn new(spec: PhpIpamIpPoolSpec, pool: &Uid) -> Self {
        Self { spec, pool: pool.clone(), session: Kept::default(), subnets: RefCell::default() }
    }

    /// Whether it is for this pool as it is.
    pub(super) fn is_of(&self, spec: &PhpIpamIpPoolSpec, pool: &Uid) -> bool {
        self.spec == *spec && self.pool == *pool
    }

    /// Carries out a call.
    pub(super) async fn carry_out(&self, secrets: &Secrets, what: &What) -> Result<Answer, Failure> {
        let session = self.session(secrets).await?;
        let api = Api { of: self, session };
        match what {
            What::Find(mark) => api.find(mark).await.map(Answer::Entries),
            What::Allocate(mark, None) => api.allocate(mark).await.map(Answer::Entry),
            What::Allocate(mark, Some(wanted)) => api.enter(mark, *wanted).await.map(Answer::Entry),
            What::Release(entry) => api.delete(entry).await.map(|()| Answer::Done),
            What::PutBack(mark) => {
                let Some(address) = mark.address else { return Err(Failure::Unfit("it has no address".into())) };
                api.enter(mark, address).await.map(|_| Answer::Done)
            }
            What::Rewrite(entry, mark) => api.rewrite(entry, mark).await.map(|()| Answer::Done),
            What::List => api.list().await,
        }
    }
}

/// The API, with a session.
struct Api<'a> {
    of: &'a PhpIpam,
    session: std::rc::Rc<Session>,
}

impl Api<'_> {
    async fn get(&self, path: &str) -> Result<Reply, Failure> {
        self.of.request(&self.session, http::Method::GET, path, None).await
    }

    async fn send(&self, method: http::Method, path: &str, body: &serde_json::Value) -> Result<Reply, Failure> {
        self.of.request(&self.session, method, path, Some(body)).await
    }

    /// The body of an entry for a claim.
    fn body(&self, mark: &Mark) -> serde_json::Value {
        json!({"hostname": mark.host(), "description": description(&mark.claim), "owner": owner(&self.of.pool)})
    }

    /// A subnet, read again every few minutes.
    async fn subnet(&self, id: i64) -> Result<Subnet, Failure> {
        if let Some(known) = self.of.known_subnet(id) {
            return Ok(known);
        }
        let data = self.get(&format!("subnets/{id}/")).await?.map_err(|problem| {
            let Problem { message, .. } = &problem;
            if problem.code == 400 || problem.code == 404 {
                Failure::Refused(format!("phpIPAM has no subnet {id} ({message}): correct subnets"))
            } else {
                problem.failure()
            }
        })?;
        let subnet = Subnet::read(id, &data.data.value()).ok_or_else(|| {
            Failure::Refused(format!("phpIPAM's subnet {id} has no address or mask that can be read"))
        })?;
        self.of.remember(subnet);
        Ok(subnet)
    }

    /// A list in a subnet; none is told as 404.
    async fn list_of(&self, subnet: &Subnet, path: &str) -> Result<Vec<Entry>, Failure> {
        match self.get(path).await? {
            Ok(reply) => entries(&reply.data, subnet, &self.of.pool)
                .ok_or_else(|| Failure::Lost("phpIPAM's list of addresses cannot be read".into())),
            Err(problem) if problem.code == 404 => Ok(Vec::new()),
            Err(problem) => Err(problem.failure()),
        }
    }

    async fn find(&self, mark: &Mark) -> Result<Vec<Entry>, Failure> {
        let mut found: Vec<Entry> = Vec::new();
        for id in self.of.spec.subnet_ids() {
            let subnet = self.subnet(id).await?;
            let key = description(&mark.claim);
            let path = format!("subnets/{id}/addresses/?filter_by=description&filter_value={key}");
            let all = self.list_of(&subnet, &path).await?;
            found.extend(all.into_iter().filter(|one| one.claim.as_ref() == Some(&mark.claim)));
            if let Some(address) = mark.address.filter(|address| subnet.has(*address)) {
                let at = self.list_of(&subnet, &format!("subnets/{id}/addresses/{address}/")).await?;
                let new = at.into_iter().filter(|one| one.address == address);
                let new: Vec<Entry> = new.filter(|one| !found.iter().any(|known| known.id == one.id)).collect();
                found.extend(new);
            }
            // Left by a request that was lost after phpIPAM had given it: see `first_free`. One that the claim is bound to is not.
            let left = |one: &mut Entry| {
                let unbound = mark.address != Some(one.address);
                subnet.is_anycast(one.address) && one.claim.as_ref() == Some(&mark.claim) && unbound
            };
            for one in found.extract_if(.., left) {
                self.give_to_routers(&one).await?;
            }
        }
        Ok(found)
    }

    /// The first address of an IPv6 subnet is that of all its routers (RFC 4291): it becomes an entry of nobody.
    async fn give_to_routers(&self, entry: &Entry) -> Result<(), Failure> {
        match self.is_there(entry).await {
            Ok(true) => {}
            // People have deleted it, or have used it for something else, since it was found.
            Ok(false) | Err(Failure::Unfit(_)) => return Ok(()),
            Err(other) => return Err(other),
        }
        let id = &entry.id;
        let body = json!({"hostname": "subnet-router-anycast", "description": "RFC 4291", "owner": ""});
        match self.send(http::Method::PATCH, &format!("addresses/{id}/"), &body).await? {
            Ok(_) => Ok(()),
            // The entry is there already, with the claim's mark.
            Err(problem) => Err(Failure::Lost(format!("phpIPAM said {}: {}", problem.code, problem.message))),
        }
    }

    /// Makes an entry in the first subnet that has room.
    async fn allocate(&self, mark: &Mark) -> Result<Entry, Failure> {
        let mut full = String::from("it has no subnets");
        for id in self.of.spec.subnet_ids() {
            let subnet = self.subnet(id).await?;
            match self.first_free(mark, &subnet).await {
                Err(Failure::Full(text)) => full = text,
                other => return other,
            }
        }
        Err(Failure::Full(full))
    }

    async fn first_free(&self, mark: &Mark, subnet: &Subnet) -> Result<Entry, Failure> {
        let path = format!("addresses/first_free/{}/", subnet.id);
        for race in 0..RACES {
            match self.send(http::Method::POST, &path, &self.body(mark)).await? {
                Ok(reply) => {
                    let entry = made(reply, mark, subnet)?;
                    if !subnet.is_anycast(entry.address) {
                        return Ok(entry);
                    }
                    self.give_to_routers(&entry).await.map_err(|failure| Failure::Lost(failure.to_string()))?;
                }
                Err(problem) if problem.code == 404 => return Err(Failure::Full(problem.message)),
                // Nothing was entered: another request was quicker.
                Err(problem) if problem.is_taken() => {
                    tokio::time::sleep(Duration::from_millis(5) * 2u32.pow(race.min(5))).await;
                }
                Err(problem) => return Err(problem.failure()),
            }
        }
        Err(Failure::Lost("other requests were quicker each time: turn the lock of phpIPAM's API on".into()))
    }

    /// Makes an entry of this address.
    async fn enter(&self, mark: &Mark, address: IpAddr) -> Result<Entry, Failure> {
        for id in self.of.spec.subnet_ids() {
            let subnet = self.subnet(id).await?;
            if !subnet.has(address) {
                continue;
            }
            let mut body = self.body(mark);
            body["subnetId"] = json!(id.to_string());
            body["ip"] = json!(address.to_string());
            return match self.send(http::Method::POST, "addresses/", &body).await? {
                Ok(reply) => match reply.id {
                    Some(number) => Ok(entry(number, address, mark, &subnet)),
                    None => Err(Failure::Lost("phpIPAM's answer has no number of the address".into())),
                },
                Err(problem) if problem.is_taken() || problem.is_unfit() => {
                    Err(Failure::Unfit(format!("{address}: {}", problem.message)))
                }
                Err(problem) => Err(problem.failure()),
            };
        }
        Err(Failure::Unfit(format!("{address} is in none of its subnets")))
    }

    /// Whether an entry is there. People may have used it for something else since it was found, with the number that it has.
    async fn is_there(&self, entry: &Entry) -> Result<bool, Failure> {
        let Entry { id, address, .. } = entry;
        match self.get(&format!("addresses/{id}/")).await? {
            Ok(reply) if is_still(&reply.data.value(), entry, &self.of.pool) => Ok(true),
            Ok(_) => Err(Failure::Unfit(format!("the entry {id} of {address} is somebody else's by now: it stays"))),
            Err(problem) if problem.code == 404 => Ok(false),
            Err(problem) => Err(problem.failure()),
        }
    }

    async fn delete(&self, entry: &Entry) -> Result<(), Failure> {
        if !self.is_there(entry).await? {
            return Ok(());
        }
        let path = format!("addresses/{}/", entry.id);
        match self.of.request(&self.session, http::Method::DELETE, &path, None).await? {
            Ok(_) => Ok(()),
            Err(problem) if problem.code == 404 => Ok(()),
            Err(problem) => Err(problem.failure()),
        }
    }

    async fn rewrite(&self, entry: &Entry, mark: &Mark) -> Result<(), Failure> {
        if !self.is_there(entry).await? {
            return Err(Failure::Unfit(format!("{} has no entry any more", entry.address)));
        }
        let path = format!("addresses/{}/", entry.id);
        match self.send(http::Method::PATCH, &path, &self.body(mark)).await? {
            Ok(_) => Ok(()),
            Err(problem) => Err(problem.failure()),
        }
    }

    async fn list(&self) -> Result<Answer, Failure> {
        let (mut all, mut size) = (Vec::new(), Some(0u64));
        for id in self.of.spec.subnet_ids() {
            let subnet = self.subnet(id).await?;
            all.extend(self.list_of(&subnet, &format!("subnets/{id}/addresses/")).await?);
            size = size.zip(subnet.size()).map(|(all, more)| all.saturating_add(more));
        }
        Ok(Answer::Listing(all, size))
    }
}

/// The entry that `first_free` has made.
fn made(reply: reply::Content, mark: &Mark, subnet: &Subnet) -> Result<Entry, Failure> {
    let address = reply.data.value().as_str().and_then(|text| text.parse().ok());
    match (reply.id, address) {
        (Some(id), Some(address)) if subnet.has(address) => Ok(entry(id, address, mark, subnet)),
        _ => Err(Failure::Lost("phpIPAM's answer to first_free has no address of the subnet".into())),
    }
}

fn entry(id: Box<str>, address: IpAddr, mark: &Mark, subnet: &Subnet) -> Entry {
    let (claim, host) = (Some(mark.claim.clone()), mark.host().into());
    Entry { id, address, prefix: subnet.prefix, gateway: subnet.gateway, claim, ours: true, host }
}
