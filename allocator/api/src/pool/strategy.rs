//! Which free address comes next.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Which free address a claim gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// The lowest.
    #[default]
    LowestFree,
    /// The highest.
    HighestFree,
    /// Any, with equal chance.
    Random,
    /// The one that was given back longest ago; those never given come first, lowest first.
    LeastRecentlyUsed,
    /// One that this version does not know; only a newer CRD lets it in. Nothing is to be given out of such a pool.
    #[serde(untagged)]
    Unknown(String),
}

/// By hand, because the API server is to know nothing of [`Strategy::Unknown`].
impl JsonSchema for Strategy {
    fn schema_name() -> Cow<'static, str> {
        "Strategy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": ["LowestFree", "HighestFree", "Random", "LeastRecentlyUsed"]})
    }
}

#[cfg(test)]
mod tests {
    use super::Strategy;

    #[test]
    fn an_unknown_one_is_no_error() {
        let read = |text: &str| serde_json::from_str::<Strategy>(text).expect("a strategy");
        assert_eq!(read("\"Random\""), Strategy::Random);
        assert_eq!(read("\"Newest\""), Strategy::Unknown("Newest".to_owned()));
        assert_eq!(serde_json::to_string(&read("\"Newest\"")).expect("JSON"), "\"Newest\"");
    }
}
