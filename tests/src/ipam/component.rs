//! A component of `manifests`, put onto roles: what `kubectl apply -k` would apply of them.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::server::documents_in;
use crate::shipped::objects;

/// The roles and bindings of `file`, as the component in `folder` changes them. Its patches of other objects do not count.
///
/// # Errors
/// A file cannot be read, or a patch is for a role that is not there.
pub fn roles(file: &str, folder: &str) -> Result<Vec<Value>> {
    let mut all = documents_in(file)?;
    let list = documents_in(&format!("{folder}/kustomization.yaml"))?.remove(0);
    for patch in list["patches"].as_array().context("no patches")? {
        let patches = match (patch["path"].as_str(), patch["patch"].as_str()) {
            (Some(path), _) => documents_in(&format!("{folder}/{path}"))?,
            (None, text) => objects(text.context("a patch without a text")?)?,
        };
        for patch in patches {
            let rbac = patch["apiVersion"].as_str().is_some_and(|one| one.starts_with("rbac.authorization.k8s.io/"));
            if rbac {
                apply(&mut all, patch)?;
            }
        }
    }
    Ok(all)
}

/// Deletes the patch's object, or replaces what the patch names of it: lists as a whole, as kustomize does with rules.
fn apply(all: &mut Vec<Value>, patch: Value) -> Result<()> {
    let id = |one: &Value| (one["kind"].clone(), one["metadata"]["namespace"].clone(), one["metadata"]["name"].clone());
    let place = all.iter().position(|one| id(one) == id(&patch));
    let place = place.with_context(|| format!("no such object: {:?}", id(&patch)))?;
    if patch["$patch"] == "delete" {
        all.remove(place);
        return Ok(());
    }
    let Value::Object(patch) = patch else { return Ok(()) };
    for (key, value) in patch.into_iter().filter(|(key, _)| key != "metadata") {
        ensure!(!value.is_object(), "only lists and texts are replaced, not {key}");
        all[place][key] = value;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::roles;

    #[test]
    fn without_services_the_roles_for_them_are_gone() {
        let all = roles("allocator/rbac.yaml", "allocator/claims-only").unwrap();
        let text = serde_json::to_string(&all).unwrap();
        for gone in ["\"services\"", "configmaps", "kube-system", "kube-public"] {
            assert!(!text.contains(gone), "{gone} is in {text}");
        }
        assert!(text.contains("ipaddressclaims") && text.contains("leases"), "{text}");
    }
}
