//! Translates the results of calls for the protocol.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mooring_allocator_core::names::{ClaimKind, Key, Uid};
use mooring_allocator_core::protocol::{Claim, Done, Object, Write};
use mooring_allocator_core::work::{Failure, Target};
use mooring_api::patch::MetaChange;
use serde::Deserialize;

use super::super::index::Index;
use super::intake;
use crate::api::{ApiError, Call, Client, Observe, Resource, Verb};
use crate::decode::address::AddressJson;
use crate::decode::claim::{self, ClaimJson};
use crate::decode::frame::ErrorBody;
use crate::decode::metal3::Metal3ClaimJson;

/// The object exists; the watch will show it.
pub const NOT_SHOWN: Done = Done::There(Object::NotShown);

/// The metadata of an object of any kind.
#[derive(Deserialize)]
struct MetaOnly {
    metadata: ObjectMeta,
}

/// Reads an object, and changes it if it is still the target.
///
/// # Errors
/// See [`ApiError`]; 409 if it is not the target.
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
    let address: MetaOnly = serde_json::from_slice(&body).map_err(unreadable)?;
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
        // The object has the wanted state already.
        Ok(None) => Ok(body),
        Err(error) => Err(ApiError::NotSent(error.to_string())),
    }
}

impl Index {
    /// The object that a write left.
    ///
    /// # Errors
    /// The reason of the failure; [`Failure::Unknown`] if the answer is unreadable.
    pub fn done(&mut self, write: &Write, result: Result<Bytes, ApiError>) -> Result<Done, Failure> {
        let bytes = result.map_err(|error| error.failure())?;
        match write {
            Write::AddFinalizer(target, _)
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
            // The watch will report the result.
            Write::Create(_) | Write::AddPoolFinalizer(_) | Write::RemovePoolFinalizer(_) | Write::PoolStatus(..) => {
                Ok(NOT_SHOWN)
            }
        }
    }

    fn claim_done(&mut self, target: &Target, bytes: &[u8]) -> Done {
        match self.read_claim(&target.key, bytes) {
            Ok(Some(claim)) if claim.uid == target.uid => {
                // Overwrite only the version on which the write was decided: the watch may have shown something newer.
                if claim.bound.is_some() && self.claim_at(&target.uid, &target.version).is_some() {
                    self.waiting_since.remove(&target.uid);
                }
                Done::There(Object::Claim(self.held(claim)))
            }
            Ok(_) => NOT_SHOWN,
            Err(error) => {
                tracing::warn!(%error, claim = %target.key, "answer to a write cannot be read; the watch will show the object");
                NOT_SHOWN
            }
        }
    }

    fn read_claim(&mut self, key: &Key, bytes: &[u8]) -> Result<Option<Claim>, serde_json::Error> {
        match key.claim_kind() {
            ClaimKind::ClusterApi => claim::read(bytes, &mut self.names, &self.scope, self.served),
            ClaimKind::Metal3 => serde_json::from_slice::<Metal3ClaimJson<'_>>(bytes)
                .map(|json| json.translate(&mut self.names, &self.scope)),
        }
    }

    fn address_done(&mut self, target: &Target, bytes: &[u8]) -> Done {
        if target.key.claim_kind() == ClaimKind::Metal3 {
            return self.metal3_address_done(target, bytes);
        }
        match serde_json::from_slice::<AddressJson<'_>>(bytes) {
            Ok(json) if *json.metadata.uid == *target.uid.0 => {
                let Some((address, others)) = intake::address(self, &json) else { return NOT_SHOWN };
                self.foreign_finalizers.answered(target, &address.version, others);
                Done::There(Object::Address(address))
            }
            Ok(_) => NOT_SHOWN,
            Err(error) => {
                tracing::warn!(%error, address = %target.key, "answer to a write cannot be read; the watch will show the object");
                NOT_SHOWN
            }
        }
    }

    /// A claim that was read because an object names it (`owner`) as its owner. None: the claim exists, and is of no
    /// pool of ours; the object is the claim's concern.
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
        match self.read_claim(key, &bytes) {
            Ok(Some(claim)) => {
                self.claims.entry(claim.uid.clone()).or_insert_with(|| claim.key.clone());
                Some(Ok(Some(self.held(claim))))
            }
            // Another claim of the same name, for another provider: the owner is gone.
            Ok(None) => match serde_json::from_slice::<ClaimJson<'_>>(&bytes) {
                Ok(json) if *json.metadata.uid != *owner.0 => Some(Ok(None)),
                _ => None,
            },
            Err(error) => {
                tracing::warn!(%error, claim = %key, "claim that owns an IPAddress cannot be read; it is read again");
                Some(Err(Failure::Unknown))
            }
        }
    }
}

/// The read of a claim.
#[must_use]
pub fn read_of_claim(index: &Index, key: &Key) -> Call {
    Call::read(Verb::Get, Resource::claims(key.claim_kind()).plural(), index.claim_path(key))
}
