//! What comes of calls, in the protocol's words.

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::protocol::{Claim, Done, Failure, Target, Write};
use mooring_api::address::IpAddress;
use mooring_api::claim::IpAddressClaim;
use mooring_api::patch::MetaChange;

use super::intake;
use super::known::{Known, KnownClaim};
use crate::api::{ApiError, Call, Client, Observe, Resource, Verb};
use crate::wire::address::AddressJson;
use crate::wire::claim::{self, ClaimJson, Stamp};
use crate::wire::frame::ErrorBody;

/// A write that has been sent, and what came of it.
#[derive(Debug)]
pub struct Sent {
    /// The action's number.
    pub id: u64,
    /// What was written.
    pub write: Write,
    /// The answer.
    pub result: Result<Bytes, ApiError>,
}

/// Reads an object; changes it if it still is the target.
///
/// # Errors
/// See [`ApiError`]; 409 if it is not.
pub async fn read_then_patch(
    client: &Client,
    path: String,
    target: &Target,
    change: &MetaChange,
    deadline: Duration,
    observe: &impl Observe,
) -> Result<Bytes, ApiError> {
    let resource = Resource::Addresses.plural();
    let body = client.call(&Call::read(Verb::Get, resource, path.clone()), deadline, observe).await?;
    let unreadable = |error: serde_json::Error| ApiError::Lost(error.to_string());
    let address: IpAddress = serde_json::from_slice(&body).map_err(unreadable)?;
    let meta = &address.metadata;
    let same =
        meta.uid.as_deref() == Some(&*target.uid.0) && meta.resource_version.as_deref() == Some(&*target.version.0);
    if !same {
        let (reason, message) = ("Conflict".to_owned(), "it is another object, or has changed".to_owned());
        return Err(ApiError::Status { code: 409, reason, message, retry_after: None });
    }
    match change.of(meta) {
        Ok(Some(locked)) => {
            let body = serde_json::to_vec(locked.body()).map_err(unreadable)?;
            let call = Call { verb: Verb::Patch, resource, path, body: body.into() };
            client.call(&call, deadline, observe).await
        }
        // It is so already.
        Ok(None) => Ok(body),
        Err(error) => Err(ApiError::NotSent(error.to_string())),
    }
}

impl Known {
    /// What a write left.
    ///
    /// # Errors
    /// How it failed; [`Failure::Unknown`] if the answer makes no sense.
    pub fn done(&mut self, write: &Write, result: Result<Bytes, ApiError>) -> Result<Done, Failure> {
        let bytes = result.map_err(|error| error.failure())?;
        match write {
            Write::AddFinalizer(target)
            | Write::RemoveFinalizer(target)
            | Write::Void(target, _)
            | Write::Bind(target, ..)
            | Write::Unbind(target, _)
            | Write::Condition(target, _) => Ok(self.claim_done(target, &bytes)),
            Write::Adopt(target, _) => Ok(self.address_done(target, &bytes)),
            Write::RemoveAddressFinalizer(target) | Write::DeleteAddress(target) => {
                // `Status` without a uid: the object is gone.
                if serde_json::from_slice::<ErrorBody>(&bytes).is_ok_and(|said| said.is_status()) {
                    return Ok(Done::Gone);
                }
                Ok(self.address_done(target, &bytes))
            }
            // The watch tells.
            Write::Create(_) | Write::AddPoolFinalizer(_) | Write::RemovePoolFinalizer(_) | Write::PoolStatus(..) => {
                Ok(Done::Written)
            }
        }
    }

    fn claim_done(&mut self, target: &Target, bytes: &[u8]) -> Done {
        match claim::read(bytes, &mut self.names, &self.scope, self.served) {
            Ok(Some((claim, beside))) if claim.uid == target.uid => {
                // Only over what the write was decided on: the watch may have shown something newer.
                let at = Stamp::from(&target.version);
                if let Some(known) = self.claims.get_mut(&claim.uid.0).filter(|known| known.beside.at == at) {
                    known.beside = beside;
                    if claim.bound.is_some() {
                        known.is_bound();
                    }
                }
                Done::Claim(self.held(claim))
            }
            Ok(_) => Done::Written,
            Err(error) => {
                tracing::warn!(%error, claim = %target.key, "the answer to a write cannot be read");
                Done::Written
            }
        }
    }

    fn address_done(&mut self, target: &Target, bytes: &[u8]) -> Done {
        match serde_json::from_slice::<AddressJson<'_>>(bytes) {
            Ok(json) if *json.metadata.uid == *target.uid.0 => {
                let before = self.odd.get(&target.uid.0).cloned();
                let address = intake::address(self, &json);
                // As with claims.
                if let Some((version, list)) = before.filter(|(version, _)| *version != target.version) {
                    self.odd.insert(target.uid.0.clone(), (version, list));
                }
                address.map_or(Done::Written, Done::Address)
            }
            Ok(_) => Done::Written,
            Err(error) => {
                tracing::warn!(%error, address = %target.key, "the answer to a write cannot be read");
                Done::Written
            }
        }
    }

    /// A claim that was read for the sake of an object that it (`owner`) may own. None: it is there, and is of no pool of
    /// ours; the object is its affair.
    pub fn claim_read(
        &mut self,
        key: &Key,
        owner: &Uid,
        result: Result<Bytes, ApiError>,
    ) -> Option<Result<Option<Claim>, Failure>> {
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Some(Ok(None)),
            Err(error) => return Some(Err(error.failure())),
        };
        match claim::read(&bytes, &mut self.names, &self.scope, self.served) {
            Ok(Some((claim, beside))) => {
                self.claims
                    .entry(claim.uid.0.clone())
                    .or_insert_with(|| KnownClaim::new(beside, u32::MAX, false, None));
                Some(Ok(Some(self.held(claim))))
            }
            // Another claim of its name, for another provider: the owner is gone.
            Ok(None) => match serde_json::from_slice::<ClaimJson<'_>>(&bytes) {
                Ok(json) if *json.metadata.uid != *owner.0 => Some(Ok(None)),
                _ => None,
            },
            Err(error) => {
                tracing::warn!(%error, claim = %key, "a claim cannot be read");
                Some(Err(Failure::Unknown))
            }
        }
    }
}

/// The path of a claim.
#[must_use]
pub fn claim_path(version: &str, key: &Key) -> Call {
    let path = Resource::Claims.object(version, &key.namespace, &key.name);
    Call::read(Verb::Get, IpAddressClaim::PLURAL, path)
}
