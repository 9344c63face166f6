//! CRDs as the files of `manifests/crds`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::build::Error;
use super::{metal3, openstack, phpipam, pools, standalone};

/// A file, by its path within `manifests/crds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `ipam.cluster.x-k8s.io_inclusterippools.yaml`
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All that is generated for `manifests/crds`.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn files() -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for (folder, crds) in [
        ("", pools()?),
        ("standalone/", standalone()?),
        ("metal3/", metal3()?),
        ("phpipam/", phpipam()?),
        ("openstack/", openstack()?),
    ] {
        for crd in crds {
            let text = format!("# Generated from the Rust types in allocator/api: do not edit.\n{}", to_yaml(&crd)?);
            files.push(File { path: format!("{folder}{}_{}.yaml", crd.spec.group, crd.spec.names.plural), text });
        }
    }
    Ok(files)
}

/// A CRD as YAML.
///
/// # Errors
/// [`Error::Yaml`], [`Error::Json`]
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, Error> {
    // By way of a value: its keys are in order.
    let mut value = serde_json::to_value(crd).map_err(Error::Json)?;
    if let Some(conversion) = value.pointer_mut("/spec/conversion").and_then(Value::as_object_mut) {
        // In place of a CRD that names a webhook, "None" alone is refused: the webhook must be taken away, by name.
        conversion.entry("webhook").or_insert(Value::Null);
    }
    whole_numbers(&mut value);
    // Rules and descriptions stay on one line each.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&value, options).map_err(|error| Error::Yaml(error.to_string()))
}

/// Bounds are floats in the types of CRDs: whole ones are written as integers.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) => {
            let whole = number.to_string().strip_suffix(".0").and_then(|text| text.parse::<i64>().ok());
            if let Some(whole) = whole {
                *value = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::crds::{metal3, openstack, phpipam, pools, standalone, to_yaml};

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let all = [pools(), standalone(), metal3(), phpipam(), openstack()].map(Result::unwrap);
        for crd in all.into_iter().flatten() {
            let mut expected = serde_json::to_value(&crd).unwrap();
            expected["spec"]["conversion"]["webhook"] = Value::Null;
            super::whole_numbers(&mut expected);
            let read: Value = serde_saphyr::from_str(&to_yaml(&crd).unwrap()).unwrap();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn whole_bounds_are_integers() {
        let mut value = json!({"a": [128.0, 1.5, "1.0"], "b": {"c": -1.0}});
        super::whole_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"a":[128,1.5,"1.0"],"b":{"c":-1}}"#);
    }
}
