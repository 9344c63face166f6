//! Lists and watches of kinds that are read as JSON: of each page that is kept which the controller needs, until the last one has come.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::controller::Outbox;
use super::index::Index;
use crate::api::{ApiError, Fed, Resource, Turned, What};
use crate::decode::frame::{Line, Page, line};

/// What is kept of the objects of unfinished lists.
#[derive(Debug)]
pub struct Listing<T>(HashMap<Resource, Vec<T>>);

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Listing<T> {
    /// A page of a list. `keep`: what is kept of an object; None: the object is not ours, or cannot be read. Returns all with the last
    /// page.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        resource: Resource,
        bytes: &[u8],
        (first, last): (bool, bool),
        keep: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, serde_json::Error> {
        let page: Page<'_, Value> = Page::read(bytes)?;
        let listing = self.0.entry(resource).or_default();
        if first {
            listing.clear();
        }
        listing.extend(page.items.iter().flatten().filter_map(keep));
        Ok(if last { self.0.remove(&resource) } else { None })
    }
}

/// What a page says about itself.
///
/// # Errors
/// The bytes are not a page.
pub fn turned(bytes: &[u8]) -> Result<Turned, serde_json::Error> {
    let page: Page<'_, IgnoredAny> = Page::read(bytes)?;
    Ok(Turned { next: page.metadata.next.0.into_owned(), version: page.metadata.resource_version.0.into_owned() })
}

/// The lines of a watch. One that cannot be read is logged and ignored: the others count.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<Value>> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|text| !text.is_empty());
    lines.filter_map(|text| {
        line(text)
            .inspect_err(|error| {
                tracing::error!(%error, "watch event cannot be read; the object is ignored until it changes");
            })
            .ok()
    })
}

/// The lists that a machine has asked for since its allocator leads.
#[derive(Debug)]
pub struct Asked {
    /// The number of the machine's request.
    pub number: u64,
    /// The number of the lists' request.
    epoch: u64,
    /// The kinds of which none has come.
    unlisted: BTreeSet<Resource>,
}

impl Asked {
    /// Nothing was asked for yet.
    pub const fn nothing() -> Self {
        Self { number: 0, epoch: 0, unlisted: BTreeSet::new() }
    }

    /// Asks for lists of these kinds.
    pub fn ask(number: u64, kinds: impl IntoIterator<Item = Resource>, out: &Outbox) -> Self {
        Self { number, epoch: out.ask_for_lists(), unlisted: kinds.into_iter().collect() }
    }

    /// A list is complete that began after this request; None: the kind is not served. `kind_of`: the machine's kind that depends
    /// on a resource. Returns the machine's kind of which every list has come with it.
    pub fn listed<K: Eq + Hash>(
        &mut self,
        resource: Resource,
        epoch: Option<u64>,
        kind_of: impl Fn(Resource) -> Option<K>,
    ) -> Option<K> {
        let kind = kind_of(resource)?;
        if epoch.is_some_and(|epoch| epoch < self.epoch) || !self.unlisted.remove(&resource) {
            return None;
        }
        self.unlisted.iter().all(|one| kind_of(*one).as_ref() != Some(&kind)).then_some(kind)
    }
}

/// A controller that follows kinds which nobody else does.
pub trait Follower {
    /// A page of a list. `last`: the list is complete with it.
    fn page(
        &mut self,
        what: (Resource, &'static str),
        bytes: &Bytes,
        turn: (bool, bool),
        index: &Index,
        out: &mut Outbox,
    );

    /// Lines of a watch.
    fn lines(&mut self, resource: Resource, bytes: &Bytes, index: &Index, out: &mut Outbox);

    /// The kind is not served: there are no such objects.
    fn missing(&mut self, resource: Resource, index: &Index, out: &mut Outbox);

    /// A list of this resource is complete. `epoch`: the list began after this request; None: there are no such objects.
    fn listed(&mut self, resource: Resource, epoch: Option<u64>, out: &mut Outbox);

    /// A list or watch shows something that only this controller depends on.
    fn received(&mut self, Fed { resource, what }: Fed, index: &Index, out: &mut Outbox) {
        match what {
            What::Page { version, bytes, first, epoch, reply, .. } => match turned(&bytes) {
                Ok(turned) => {
                    let last = turned.next.is_empty();
                    // Nobody waits any more: the follower has ended, together with the whole allocator.
                    let _ = reply.send(turned);
                    self.page((resource, version), &bytes, (first, last), index, out);
                    if last {
                        self.listed(resource, Some(epoch), out);
                    }
                }
                Err(error) => tracing::error!(%error, "list cannot be read; it is listed again"),
            },
            What::Lines(bytes) => self.lines(resource, &bytes, index, out),
            What::Missing => {
                out.ops.readiness.set(resource.name(), None);
                self.missing(resource, index, out);
                self.listed(resource, None, out);
            }
            What::Lost(error) => {
                // An outage passes, and is no matter of one kind.
                if let ApiError::Status { code: 401 | 403, .. } = error {
                    out.ops.readiness.set(resource.name(), Some(error.to_string()));
                }
                tracing::warn!(resource = resource.name(), %error, "list or watch failed; retrying");
            }
            What::Live => {
                out.ops.readiness.set(resource.name(), None);
                tracing::debug!(resource = resource.name(), "list is complete; watching");
            }
        }
    }
}
