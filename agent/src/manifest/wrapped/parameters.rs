//! Single values of a chart, by names with dots, as `helm --set` takes them.

use serde_json::{Map, Value};

/// Sets the value of this name, as in `env.vip_interface`.
pub(super) fn set(values: &mut Value, name: &str, value: Value) {
    if !values.is_object() {
        *values = Value::Object(Map::new());
    }
    let Value::Object(fields) = values else { return };
    match name.split_once('.') {
        Some((first, rest)) => set(fields.entry(first).or_insert(Value::Null), rest, value),
        None => _ = fields.insert(name.to_owned(), value),
    }
}
