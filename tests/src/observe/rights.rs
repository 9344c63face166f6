//! The rules of roles beside what their user asked: whether a program has the rights that it needs, and no others.
//!
//! Rules about a subresource `finalizers` are left out: the API server looks at them when an object names an owner, and
//! writes nothing about that into the audit log. What lacks such a right cannot write its objects.

use std::fmt;

use serde_json::Value;

use super::audit::Request;

/// One thing that a rule allows: one verb on one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The only namespace; none: everywhere.
    namespace: Option<String>,
    group: String,
    /// With its subresource: `ipaddressclaims/status`.
    resource: String,
    verb: String,
    /// The only object; none: all of them.
    name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, group, resource, verb, name } = self;
        write!(f, "{verb} {resource} of {group:?}")?;
        for (word, one) in [("named", name), ("in", namespace)] {
            if let Some(one) = one {
                write!(f, " {word} {one}")?;
            }
        }
        Ok(())
    }
}

impl Right {
    /// What the Roles and `ClusterRoles` among these objects allow.
    #[must_use]
    pub fn all(objects: &[Value]) -> Vec<Self> {
        let mut all = Vec::new();
        for role in objects.iter().filter(|one| one["kind"] == "Role" || one["kind"] == "ClusterRole") {
            let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
            for rule in role["rules"].as_array().into_iter().flatten() {
                let names: Vec<Option<String>> = match texts(&rule["resourceNames"]) {
                    names if names.is_empty() => vec![None],
                    names => names.into_iter().map(Some).collect(),
                };
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        for verb in texts(&rule["verbs"]) {
                            all.extend(names.iter().map(|name| Self {
                                namespace: namespace.clone(),
                                group: group.clone(),
                                resource: resource.clone(),
                                verb: verb.clone(),
                                name: name.clone(),
                            }));
                        }
                    }
                }
            }
        }
        all
    }

    fn allows(&self, request: &Request) -> bool {
        let Some(object) = &request.object else { return false };
        let is = |one: &Option<String>, said: &str| one.as_deref().is_none_or(|one| one == said);
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        self.verb == request.verb
            && self.group == object.api_group
            && (resource, subresource) == (&object.resource, &object.subresource)
            && is(&self.namespace, &object.namespace)
            && is(&self.name, &object.name)
    }
}

/// Everything that is wrong: a request that was refused, and a right that no request needed.
#[must_use]
pub fn wrong(rights: &[Right], asked: &[Request]) -> Vec<String> {
    let mut wrong: Vec<String> = asked
        .iter()
        .filter(|request| request.refused)
        .map(|request| format!("refused: {} {}", request.verb, request.uri.split('?').next().unwrap_or_default()))
        .collect();
    wrong.sort();
    wrong.dedup();
    let used = |right: &Right| {
        right.resource.ends_with("/finalizers") || asked.iter().any(|one| !one.refused && right.allows(one))
    };
    wrong.extend(rights.iter().filter(|right| !used(right)).map(|right| format!("not needed: {right}")));
    wrong
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::super::audit::Object;
    use super::*;

    fn request(verb: &str, name: &str, refused: bool) -> Request {
        let object = Object {
            api_group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            namespace: "kube-system".into(),
            name: name.into(),
            ..Object::default()
        };
        let (uri, user, agent) = (format!("/{name}"), String::new(), String::new());
        Request { at: SystemTime::UNIX_EPOCH, verb: verb.into(), uri, user, agent, object: Some(object), refused }
    }

    #[test]
    fn a_right_too_many_and_a_right_too_few_are_found() {
        let rule = json!({
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases", "leases/finalizers"],
            "resourceNames": ["mine"], "verbs": ["get", "update"],
        });
        let in_namespace = json!({"kind": "Role", "metadata": {"namespace": "kube-system"}, "rules": [rule]});
        let rights = Right::all(&[in_namespace]);
        assert_eq!(rights.len(), 4);
        let (get, update) = (request("get", "mine", false), request("update", "mine", false));
        assert_eq!(wrong(&rights, &[get.clone(), update]), [""; 0]);
        let unused = r#"not needed: update leases of "coordination.k8s.io" named mine in kube-system"#;
        assert_eq!(wrong(&rights, &[get.clone(), request("update", "other", false)]), [unused]);
        assert_eq!(wrong(&rights, &[get, request("update", "mine", true)]), ["refused: update /mine", unused]);
    }
}
