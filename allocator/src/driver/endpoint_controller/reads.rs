//! Reads of objects that are not watched: `Secret`s, `ConfigMap`s, `HelmRelease`s, and whether a Cluster exists.

use bytes::Bytes;
use k8s_openapi::ByteString;
use mooring_allocator_endpoints::machine::Failure;
use mooring_allocator_endpoints::objects::{Companion, Reading};
use mooring_api::versions::{ClusterVersion, Version as _};
use serde_json::Value;

use super::intake::Intake;
use crate::api::{ApiError, Call, Resource, Verb};
use crate::decode::endpoint::{uid, version};

/// The path of a companion, and the name of its kind in metrics.
pub(super) fn place(what: &Companion, intake: &Intake) -> (&'static str, String) {
    let key = what.key();
    let within = |prefix: &str, plural: &str| format!("{prefix}/namespaces/{}/{plural}/{}", key.namespace, key.name);
    match what {
        Companion::Secret(..) => ("secrets", within("/api/v1", "secrets")),
        Companion::ConfigMap(..) => ("configmaps", within("/api/v1", "configmaps")),
        Companion::HelmRelease(..) => {
            let group = format!("/apis/helm.toolkit.fluxcd.io/{}", intake.helm_releases());
            ("helmreleases", within(&group, "helmreleases"))
        }
        Companion::Cluster(_) => {
            let version = intake.served(Resource::Clusters).unwrap_or_else(|| ClusterVersion::default().name());
            (Resource::Clusters.plural(), Resource::Clusters.object(version, &key.namespace, &key.name))
        }
    }
}

/// The call that reads a companion.
pub(super) fn call(what: &Companion, intake: &Intake) -> Call {
    let (resource, path) = place(what, intake);
    Call::read(Verb::Get, resource, path)
}

/// What was read.
///
/// # Errors
/// The reason of the failure. That the kind is not served says nothing about the object.
pub(super) fn reading(
    what: &Companion,
    result: Result<Bytes, ApiError>,
    intake: &mut Intake,
) -> Result<Option<Reading>, Failure> {
    let bytes = match result {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(ApiError::Status { code: 404, .. }) if matches!(what, Companion::HelmRelease(..)) => {
            let none =
                || Failure::Refused("it serves no HelmRelease of helm.toolkit.fluxcd.io: install Flux".to_owned());
            return Err(if intake.no_helm_releases() { Failure::Unknown } else { none() });
        }
        Err(error) => return Err(error.failure()),
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| Failure::Unknown)?;
    let (Some(uid), Some(version)) = (uid(&value), version(&value)) else { return Err(Failure::Unknown) };
    let text = text(what, &value);
    Ok(Some(Reading { uid, version, other: text.is_err(), text: text.unwrap_or_default() }))
}

/// Something that is no text stands in the place of one, or on the way there.
struct Other;

fn text(what: &Companion, value: &Value) -> Result<Option<Box<str>>, Other> {
    let (start, names): (_, Vec<&str>) = match what {
        Companion::Secret(_, field) | Companion::ConfigMap(_, field) => ("/data", vec![field]),
        Companion::HelmRelease(_, path) => ("/spec/values", path.split('.').collect()),
        Companion::Cluster(_) => return Ok(None),
    };
    let Some(mut value) = value.pointer(start) else { return Ok(None) };
    for name in names {
        match value {
            Value::Object(all) => match all.get(name) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            _ => return Err(Other),
        }
    }
    match (what, value) {
        (_, Value::Null) => Ok(None),
        (Companion::Secret(..), encoded) => {
            let data: ByteString = serde_json::from_value(encoded.clone()).map_err(|_| Other)?;
            String::from_utf8(data.0).map(|text| Some(text.into())).map_err(|_| Other)
        }
        (_, Value::String(text)) => Ok(Some(text.as_str().into())),
        _ => Err(Other),
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::names::Key;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_companion_has_its_text() {
        let meta = json!({"uid": "u", "resourceVersion": "7"});
        let key = || Key::new("n", "x");
        for (what, object, expected) in [
            (
                Companion::Secret(key(), "content".into()),
                json!({"data": {"content": "a2luZDogUG9k"}}),
                Some("kind: Pod"),
            ),
            (Companion::Secret(key(), "other".into()), json!({"data": {"content": ""}}), None),
            (Companion::ConfigMap(key(), "a.b".into()), json!({"data": {"a.b": "c"}}), Some("c")),
            (
                Companion::HelmRelease(key(), "cm.data".into()),
                json!({"spec": {"values": {"cm": {"data": "d"}}}}),
                Some("d"),
            ),
            (Companion::Cluster(key()), json!({}), None),
        ] {
            let mut object = object;
            object["metadata"] = meta.clone();
            let read = reading(&what, Ok(object.to_string().into()), &mut Intake::default()).unwrap().unwrap();
            assert_eq!((read.text.as_deref(), &*read.uid.0), (expected, "u"), "{what}");
        }
        let helm = |values: Value| {
            let what = Companion::HelmRelease(key(), "cm.data".into());
            let object = json!({"metadata": meta, "spec": {"values": values}}).to_string();
            let read = reading(&what, Ok(object.into()), &mut Intake::default()).unwrap().unwrap();
            (read.text, read.other)
        };
        for absent in [json!(null), json!({}), json!({"cm": null}), json!({"cm": {"data": null}})] {
            assert_eq!(helm(absent), (None, false));
        }
        for other in [json!({"cm": "x"}), json!({"cm": [1]}), json!({"cm": {"data": [1]}}), json!({"cm": {"data": 1}})]
        {
            assert_eq!(helm(other), (None, true), "it would be overwritten");
        }
        let status = |reason: &str| ApiError::Status {
            code: 404,
            reason: reason.into(),
            message: String::new(),
            retry_after: None,
        };
        let what = Companion::Cluster(key());
        let mut intake = Intake::default();
        let mut read = |what: &Companion, reason| reading(what, Err(status(reason)), &mut intake);
        assert_eq!(read(&what, "NotFound"), Ok(None));
        assert_eq!(read(&what, ""), Err(Failure::Unknown), "the kind is not served at the moment");
        let what = Companion::HelmRelease(key(), "cm.data".into());
        assert_eq!([read(&what, ""), read(&what, "")], [Err(Failure::Unknown), Err(Failure::Unknown)]);
        assert!(matches!(read(&what, ""), Err(Failure::Refused(why)) if why.contains("no HelmRelease")));
    }
}
