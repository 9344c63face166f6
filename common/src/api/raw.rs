//! A Lease as an API server sends it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::codec::{self, Flaw};
use crate::text::cut;
use mooring_lease::lease::LeaseView;

/// A Lease in JSON. An invalid time is left out. A time that this program cannot represent, as the last day of the year
/// 9999, is left out too. If the whole Lease were refused instead, one wrong word would look to every node as if the API
/// were away.
#[derive(Clone, Debug)]
pub struct Raw {
    /// The rest.
    pub lease: Lease,
    flaws: Vec<Flaw>,
}

impl Raw {
    /// The content of the Lease, and its flaws.
    #[must_use]
    pub fn show(&self) -> (LeaseView, Vec<Flaw>) {
        let (view, flaws) = codec::decode(&self.lease);
        (view, self.flaws.iter().cloned().chain(flaws).collect())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let mut flaws = Vec::new();
        for field in ["acquireTime", "renewTime"] {
            let time = value.get_mut("spec").and_then(|spec| spec.get_mut(field)).filter(|time| !time.is_null());
            if let Some(time) = time
                && MicroTime::deserialize(&*time).is_err()
            {
                flaws.push(Flaw { field, what: format!("is left out: {} is no time", cut(&time.to_string(), 40)) });
                *time = Value::Null;
            }
        }
        Lease::deserialize(value).map(|lease| Self { lease, flaws }).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_does_not_hide_the_holder() {
        for time in [r#""9999-12-31T23:59:59.999999Z""#, r#""yesterday""#, "17", "{}"] {
            let text = format!(r#"{{"metadata":{{}},"spec":{{"holderIdentity":"cp1","acquireTime":{time}}}}}"#);
            let (view, flaws) = serde_json::from_str::<Raw>(&text).unwrap().show();
            assert_eq!((view.record.holder.as_str(), view.record.acquired), ("cp1", None));
            assert!(flaws[0].to_string().starts_with("acquireTime of the Lease is left out"), "{flaws:?}");
        }
        let none = r#"{"metadata":{},"spec":{"acquireTime":null}}"#;
        assert_eq!(serde_json::from_str::<Raw>(none).unwrap().show().1, []);
        assert!(serde_json::from_str::<Raw>(r#"{"metadata":{},"spec":{"holderIdentity":7}}"#).is_err());
    }
}
