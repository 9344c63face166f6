//! What an answer says about itself: whether it is one to the call.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::text::cut;

/// What every object and every list says about itself.
#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub metadata: ListMetadata,
}

/// Metadata of an object or a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    /// The token for the next part of a list.
    #[serde(rename = "continue")]
    pub token: Option<String>,
    pub resource_version: String,
}

impl Header {
    /// Whether this is an answer to a call for `resource`: an object, or with the `suffix` `List` a list.
    pub fn check(&self, resource: &str, suffix: &str) -> Result<(), String> {
        let plural = resource.split('.').next().unwrap_or_default();
        if !self.kind.is_empty() && !self.kind.strip_suffix(suffix).is_some_and(|kind| is_plural(plural, kind)) {
            return Err(format!("a {} in answer to a call for {plural}", cut(&self.kind, 40)));
        }
        if self.metadata.resource_version.is_empty() {
            return Err(format!("{plural} without resourceVersion"));
        }
        Ok(())
    }
}

/// Whether `plural` is the plural of the kind, as Kubernetes forms it (`UnsafeGuessKindToResource` in apimachinery).
fn is_plural(plural: &str, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => plural.strip_suffix("ies") == Some(stem),
        None if kind.ends_with('s') => plural.strip_suffix("es") == Some(kind.as_str()),
        None => plural.strip_suffix('s') == Some(kind.as_str()),
    }
}

/// The error says where the text is no such JSON.
///
/// # Errors
/// The text is not the JSON of such a value.
pub fn decoded<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_plurals() {
        for (plural, kind) in [
            ("leases", "Lease"),
            ("nodes", "Node"),
            ("ipaddresses", "IPAddress"),
            ("ipaddressclaims", "IPAddressClaim"),
            ("endpointslices", "EndpointSlice"),
            ("networkpolicies", "NetworkPolicy"),
        ] {
            assert!(is_plural(plural, kind), "{kind}");
        }
        assert!(!is_plural("ipaddressclaims", "IPAddress") && !is_plural("nodes", "Lease") && !is_plural("nodes", ""));
    }
}
