//! Translates lists and watches of Clusters, machines and templates to the machine's events.

use mooring_allocator_core::scope::Scope;
use mooring_allocator_machines::machine::Event;
use mooring_api::labels;
use serde_json::Value;

use super::super::listing::{Listing, lines};
use crate::api::Resource;
use crate::decode::endpoint::{key, uid};
use crate::decode::frame::Line;
use crate::decode::machine::{cluster, machine, template};

/// The state that lists and watches have shown.
#[derive(Debug, Default)]
pub struct Intake {
    listing: Listing<Event>,
    /// The version in which machines are served.
    served: Option<&'static str>,
}

impl Intake {
    /// The version in which machines are served, as far as it is known.
    pub fn served(&self) -> &'static str {
        self.served.unwrap_or("v1beta2")
    }

    /// A page of a list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        scope: &Scope,
        (resource, version): (Resource, &'static str),
        bytes: &[u8],
        turn: (bool, bool),
    ) -> Result<Option<Event>, serde_json::Error> {
        match resource {
            Resource::Machines => self.served = Some(version),
            Resource::Clusters | Resource::MachineTemplates => {}
            _ => return Ok(None),
        }
        let version = self.served();
        let keep = |one: &Value| {
            Some(one).filter(|one| is_ours(scope, resource, one)).and_then(|one| now(resource, one, version))
        };
        let all = self.listing.page(resource, bytes, turn, keep)?;
        Ok(all.and_then(|all| list(resource, all)))
    }

    /// Lines of a watch.
    pub fn lines(&self, scope: &Scope, resource: Resource, bytes: &[u8]) -> Vec<Event> {
        if !matches!(resource, Resource::Clusters | Resource::Machines | Resource::MachineTemplates) {
            return Vec::new();
        }
        let read = |line| match line {
            Line::Applied(one) if is_ours(scope, resource, &one) => now(resource, &one, self.served()),
            // One that is not ours may have been until now.
            Line::Applied(one) | Line::Deleted(one) => gone(resource, &one),
            _ => None,
        };
        lines(bytes).filter_map(read).collect()
    }
}

/// An object, as it is now.
fn now(resource: Resource, one: &Value, version: &'static str) -> Option<Event> {
    Some(match resource {
        Resource::Clusters => Event::Cluster(cluster(one)?),
        Resource::Machines => Event::Machine(Box::new(machine(one, version)?)),
        Resource::MachineTemplates => Event::Template(template(one)?),
        _ => return None,
    })
}

/// All objects of a kind.
pub fn list(resource: Resource, all: Vec<Event>) -> Option<Event> {
    let all = all.into_iter();
    Some(match resource {
        Resource::Clusters => Event::Clusters(
            all.filter_map(|one| if let Event::Cluster(one) = one { Some(one) } else { None }).collect(),
        ),
        Resource::Machines => Event::Machines(
            all.filter_map(|one| if let Event::Machine(one) = one { Some(*one) } else { None }).collect(),
        ),
        Resource::MachineTemplates => Event::Templates(
            all.filter_map(|one| if let Event::Template(one) = one { Some(one) } else { None }).collect(),
        ),
        _ => return None,
    })
}

/// Whether an object is of a namespace of ours; a Cluster also needs the label of `--watch-filter`.
fn is_ours(scope: &Scope, resource: Resource, one: &Value) -> bool {
    let label = || one.pointer("/metadata/labels")?.get(labels::WATCH_FILTER)?.as_str();
    key(one).is_some_and(|key| match resource {
        Resource::Clusters => scope.has(&key.namespace, label()),
        _ => scope.has_namespace(&key.namespace),
    })
}

fn gone(resource: Resource, one: &Value) -> Option<Event> {
    Some(match resource {
        Resource::Clusters => Event::ClusterGone(key(one)?),
        Resource::Machines => Event::MachineGone(key(one)?, uid(one)?),
        Resource::MachineTemplates => Event::TemplateGone(key(one)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_watches_are_told() {
        let object = |name: &str| json!({"metadata": {"namespace": "a", "name": name, "uid": "u", "resourceVersion": "1"}, "spec": {}});
        let page = |all: &[Value]| json!({"items": all, "metadata": {"resourceVersion": "9"}}).to_string();
        let (scope, mut intake) =
            (Scope { namespaces: ["a".to_owned()].into(), watch_filter: None }, Intake::default());
        let other = json!({"metadata": {"namespace": "b", "name": "x", "uid": "v", "resourceVersion": "1"}});
        let machines = (Resource::Machines, "v1beta1");
        let half = intake.page(&scope, machines, page(&[object("m"), other.clone()]).as_bytes(), (true, false));
        assert!(half.unwrap().is_none(), "half a list does not count");
        let event = intake.page(&scope, machines, page(&[object("n")]).as_bytes(), (false, true)).unwrap();
        assert!(matches!(event, Some(Event::Machines(all)) if all.len() == 2 && all[0].api == "v1beta1"));
        assert_eq!(intake.served(), "v1beta1");
        let line = |kind: &str, one: &Value| format!("{{\"type\":\"{kind}\",\"object\":{one}}}\n");
        let text = line("MODIFIED", &object("m")) + &line("DELETED", &object("n")) + &line("MODIFIED", &other);
        let told = |resource| intake.lines(&scope, resource, text.as_bytes());
        let of = [Resource::Machines, Resource::MachineTemplates, Resource::Clusters, Resource::Claims].map(told);
        assert!(matches!(&of[0][..], [Event::Machine(_), Event::MachineGone(..), Event::MachineGone(..)]));
        assert!(matches!(&of[1][..], [Event::Template(_), Event::TemplateGone(_), Event::TemplateGone(_)]));
        assert!(matches!(&of[2][..], [Event::Cluster(_), Event::ClusterGone(_), Event::ClusterGone(_)]));
        assert!(of[3].is_empty());
    }
}
