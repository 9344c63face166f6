//! Variables of a Cluster's topology that get the address.

use std::net::IpAddr;

use serde_json::Value;

use crate::manifest::{self, Manifest, ManifestError};

/// A variable that cannot get the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// The Cluster does not have the variable.
    #[error("there is no variable {0}: set it in spec.topology.variables, with an empty text if need be")]
    Missing(String),
    /// It is neither text nor an object with such a field.
    #[error("{0} is no text: name a variable, or a field of one (NAME.FIELD), that is")]
    NoText(String),
    /// It holds a static pod.
    #[error("the static pod in variable {0}: {1}")]
    Manifest(String, ManifestError),
}

/// Variables that get the address.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// All variables.
    pub all: Vec<Value>,
    /// Nothing stood where the address is now.
    pub empty: bool,
}

/// All variables with the address in those of these names; None: it stands there.
///
/// # Errors
/// A variable cannot get the address.
pub fn put<'a>(
    variables: &[Value],
    names: impl Iterator<Item = &'a str>,
    ip: IpAddr,
) -> Result<Option<Changed>, VariableError> {
    let mut all = variables.to_vec();
    let (mut changed, mut all_empty) = (false, true);
    for path in names {
        let mut fields = path.split('.');
        let name = fields.next().unwrap_or_default();
        let is_it = |one: &&mut Value| one.get("name").and_then(Value::as_str) == Some(name);
        let variable = all.iter_mut().find(is_it).and_then(|one| one.get_mut("value"));
        let mut value = variable.ok_or_else(|| VariableError::Missing(name.to_owned()))?;
        for field in fields {
            let Value::Object(object) = value else { return Err(VariableError::NoText(path.to_owned())) };
            value = object.entry(field).or_insert_with(|| Value::String(String::new()));
        }
        let Value::String(text) = value else { return Err(VariableError::NoText(path.to_owned())) };
        match manifest::put(text, ip).map_err(|error| VariableError::Manifest(path.to_owned(), error))? {
            Manifest::Carries => {}
            Manifest::Changed { text: new, empty } => {
                (*text, changed) = (new, true);
                all_empty &= empty;
            }
            Manifest::NotOurs if text.trim().parse() == Ok(ip) => {}
            Manifest::NotOurs => {
                all_empty &= manifest::is_empty(text);
                (*text, changed) = (ip.to_string(), true);
            }
        }
    }
    Ok(changed.then_some(Changed { all, empty: all_empty }))
}

/// The addresses that stand in the variables of these names, other than in static pods: somebody gave them, or they were put there.
pub fn addresses<'a>(variables: &'a [Value], names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = IpAddr> {
    names.filter_map(|path| {
        let mut fields = path.split('.');
        let name = fields.next()?;
        let one = variables.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))?;
        let value = fields.try_fold(one.get("value")?, |value, field| value.get(field))?;
        value.as_str()?.trim().parse().ok().filter(|ip: &IpAddr| !ip.is_unspecified())
    })
}

/// The text of a variable.
#[must_use]
pub fn text<'a>(variables: &'a [Value], name: &str) -> Option<&'a str> {
    let one = variables.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))?;
    one.get("value")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_fields_and_static_pods_get_the_address() {
        let ip: IpAddr = "10.0.0.5".parse().unwrap();
        let pod =
            "kind: Pod\nspec:\n  containers:\n  - name: kube-vip\n    env: [{name: vip_address, value: ''}] # this\n";
        let variables = vec![
            json!({"name": "other", "value": 3}),
            json!({"name": "controlPlaneIpAddr", "value": "", "definitionFrom": "x"}),
            json!({"name": "endpoint", "value": {"port": 6443}}),
            json!({"name": "kubeVipPodManifest", "value": pod}),
        ];
        let names = || ["controlPlaneIpAddr", "endpoint.host", "kubeVipPodManifest"].into_iter();
        let Changed { all: new, empty } = put(&variables, names(), ip).unwrap().unwrap();
        assert!(empty);
        let other = put(&new, names(), "10.0.0.6".parse().unwrap()).unwrap();
        assert!(other.is_some_and(|changed| !changed.empty), "another address stood there");
        assert_eq!(new[0], variables[0]);
        assert_eq!(new[1], json!({"name": "controlPlaneIpAddr", "value": "10.0.0.5", "definitionFrom": "x"}));
        assert_eq!(new[2], json!({"name": "endpoint", "value": {"port": 6443, "host": "10.0.0.5"}}));
        assert_eq!(new[3]["value"], pod.replace("''", "\"10.0.0.5\""));
        assert_eq!(put(&new, names(), ip), Ok(None));
        assert_eq!(text(&new, "controlPlaneIpAddr"), Some("10.0.0.5"));
        assert_eq!(put(&variables, ["none"].into_iter(), ip), Err(VariableError::Missing("none".into())));
        assert_eq!(put(&variables, ["other"].into_iter(), ip), Err(VariableError::NoText("other".into())));
        assert_eq!(put(&variables, ["other.x"].into_iter(), ip), Err(VariableError::NoText("other.x".into())));
    }
}
