//! Owners of an object that are none of ours: they stay.

use mooring_allocator_core::retained_meta::Owner;
use serde_json::{Value, json};

/// An entry of `ownerReferences`, unchanged.
pub fn owner(owner: &Owner) -> Value {
    let Owner { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
    let mut value = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    for (field, flag) in [("controller", controller), ("blockOwnerDeletion", block_owner_deletion)] {
        if let Some(flag) = flag {
            value[field] = (*flag).into();
        }
    }
    value
}
