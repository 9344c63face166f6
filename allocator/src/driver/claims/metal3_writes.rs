//! Translates the protocol's writes about metal3's own claims and addresses to calls. What their users read is as metal3 writes it.

use mooring_allocator_core::protocol::{Condition, Done, New, Object, Purpose, Target};
use mooring_api::annotations;
use mooring_api::labels;
use mooring_api::pool::METAL3_VERSION;
use mooring_names::metal3;
use serde_json::{Map, Value, json};

use super::super::claim_writes::{call, locked};
use super::super::controller::Prepared;
use super::super::index::Index;
use super::answers::NOT_SHOWN;
use crate::api::{Resource, Verb};
use crate::decode::kinds::finalizers;
use crate::decode::metal3::{Metal3AddressJson, address_name, error_message};
use crate::decode::own_annotations;

impl Index {
    pub(super) fn metal3_bind(&self, target: &Target, name: &str) -> Prepared {
        let address = json!({"name": name, "namespace": &*target.key.namespace});
        self.metal3_status(target, &json!({"address": address, "errorMessage": null}))
    }

    pub(super) fn metal3_condition(&self, target: &Target, condition: &Condition, unbind: bool) -> Prepared {
        let error = if condition.ready { Value::Null } else { error_message(condition).into() };
        let mut status = Map::from_iter([("errorMessage".to_owned(), error)]);
        if unbind {
            status.insert("address".to_owned(), Value::Null);
        }
        self.metal3_status(target, &status.into())
    }

    fn metal3_status(&self, target: &Target, status: &Value) -> Prepared {
        if self.claim_at(&target.uid, &target.version).is_none() {
            return Prepared::Stale;
        }
        let path = format!("{}/status", self.claim_path(&target.key));
        call(Verb::Patch, Resource::Metal3Claims.plural(), path, &json!({"metadata": locked(target), "status": status}))
    }

    /// An address, named and filled as metal3 does it: so its controller finds it again.
    pub(super) fn metal3_create(&self, new: &New) -> Prepared {
        let Purpose::Claim(attempt) = &new.purpose else {
            return Prepared::Impossible("a tombstone of metal3's".to_owned());
        };
        let (Some(claim), Some(pool)) = (self.claim(&attempt.claim), self.pools.get(&new.pool)) else {
            return Prepared::Stale;
        };
        let Some(spec) = pool.seen.metal3() else { return Prepared::Stale };
        let namespace = &*new.key.namespace;
        let mut owners = vec![json!(self.claim_owner(claim, &attempt.claim))];
        owners.extend(self.pool_owner(&new.pool).map(|owner| json!(owner)));
        let cluster = claim.retained.cluster.as_ref();
        let labels = cluster.map(|name| json!({labels::CLUSTER_NAME: &**name})).unwrap_or_default();
        let plan = self.protocol.pool(&new.pool).and_then(|pool| pool.plan.as_ref().ok());
        let entry = plan.and_then(|plan| spec.pools.get(plan.entry_of(new.address)?));
        let own = entry.map(|entry| &entry.dns_servers).filter(|all| !all.is_empty());
        let mut body = json!({
            "apiVersion": format!("{}/{METAL3_VERSION}", metal3::GROUP),
            "kind": "IPAddress",
            "metadata": {
                "name": address_name(&spec.name_prefix, new.address),
                "namespace": namespace,
                "labels": labels,
                "annotations": {annotations::ATTEMPT: own_annotations::attempt(attempt)},
                "finalizers": [finalizers(new.pool.kind, new.key.claim_kind()).address],
                "ownerReferences": owners,
            },
            "spec": {
                "address": new.address.to_string(),
                "claim": {"name": new.key.object(), "namespace": namespace},
                "pool": {"name": &*new.pool.name, "namespace": namespace},
                "dnsServers": own.unwrap_or(&spec.dns_servers),
            },
        });
        // Where there is none, metal3 leaves the field out.
        if new.prefix > 0 {
            body["spec"]["prefix"] = new.prefix.into();
        }
        if let Some(gateway) = new.gateway {
            body["spec"]["gateway"] = gateway.to_string().into();
        }
        let path = Resource::Metal3Addresses.object(METAL3_VERSION, namespace, "");
        call(Verb::Create, Resource::Metal3Addresses.plural(), path.trim_end_matches('/').to_owned(), &body)
    }

    pub(super) fn metal3_address_done(&mut self, target: &Target, bytes: &[u8]) -> Done {
        match serde_json::from_slice::<Metal3AddressJson<'_>>(bytes) {
            Ok(json) if *json.metadata.uid == *target.uid.0 => {
                let Some((address, others)) = json.translate(&mut self.names) else { return NOT_SHOWN };
                self.metal3.foreign_finalizers.answered(target, &address.version, others);
                Done::There(Object::Address(address))
            }
            Ok(_) => NOT_SHOWN,
            Err(error) => {
                tracing::warn!(%error, address = %target.key, "answer to a write cannot be read; the watch will show the object");
                NOT_SHOWN
            }
        }
    }
}
