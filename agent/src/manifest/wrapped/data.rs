//! The keys of a `Secret` or a `ConfigMap`, as a `ClusterResourceSet` applies them.

use serde_json::Value;

use super::{Coding, Place, Step};

/// The texts under its keys.
pub(super) fn places(object: &Value) -> Vec<Place> {
    let fields: &[(&str, Coding)] = match object["kind"].as_str() {
        Some("ConfigMap") => &[("data", Coding::Plain), ("binaryData", Coding::Base64)],
        Some("Secret") => &[("stringData", Coding::Plain), ("data", Coding::Base64)],
        _ => &[],
    };
    let of = |&(field, coding): &(&str, Coding)| {
        let keys = object[field].as_object().into_iter().flatten();
        let place = |(key, value): (&String, &Value)| {
            let path = vec![Step::Field(field.to_owned()), Step::Field(key.clone())];
            Some(Place::Text { path, text: coding.decoded(value.as_str()?)?, coding })
        };
        keys.filter_map(place).collect::<Vec<_>>()
    };
    fields.iter().flat_map(of).collect()
}
