//! Translates lists and watches of Services, nodes, endpoints and `ConfigMap`s to the machine's events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::scope::Scope;
use mooring_allocator_services::machine::Event;
use mooring_allocator_services::objects::{Reserved, Service};

use super::super::claims::{Unreadable, turned};
use crate::api::{Resource, Turned};
use crate::decode::frame::{Line, Page, line};
use crate::decode::names::Names;
use crate::decode::service::ServiceJson;
use crate::decode::surroundings::{ConfigMapJson, NodeJson, SliceJson};

/// The state that lists and watches have shown.
#[derive(Debug, Default)]
pub struct Intake {
    /// An unfinished list.
    services: Vec<Service>,
    nodes: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    /// The pages of an unfinished list of nodes.
    nodes_listing: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    nodes_known: bool,
    /// The address by which this program reaches the API server.
    server: Option<IpAddr>,
    control_plane: Option<IpAddr>,
    control_plane_known: bool,
    /// The `ConfigMap`'s uid, for Events.
    pub config_uid: Option<Box<str>>,
    config: Option<BTreeMap<String, String>>,
    /// The Service of each `EndpointSlice`, and the nodes with ready endpoints in the slice.
    slices: HashMap<Key, (Key, BTreeSet<Arc<str>>)>,
    slices_of: HashMap<Key, BTreeSet<Key>>,
    slices_known: bool,
}

/// What a line is about.
enum Change<T> {
    Now(T),
    Gone(T),
}

fn changed<T>(line: Line<T>) -> Option<Change<T>> {
    match line {
        Line::Applied(object) => Some(Change::Now(object)),
        Line::Deleted(object) => Some(Change::Gone(object)),
        Line::Bookmark | Line::Error(_) => None,
    }
}

impl Intake {
    /// Nothing was shown yet. `server`: the address by which this program reaches the API server.
    #[must_use]
    pub fn new(server: Option<IpAddr>) -> Self {
        Self { server, ..Self::default() }
    }

    /// A page of a list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        (names, scope): (&mut Names, &Scope),
        resource: Resource,
        bytes: &[u8],
        first: bool,
    ) -> Result<(Turned, Vec<Event>), Unreadable> {
        let read = match resource {
            Resource::Services => self.services_page(names, scope, bytes, first),
            Resource::Nodes => self.nodes_page(bytes, first),
            Resource::Endpoints => self.slices_page(names, bytes, first),
            _ => self.config_page(resource, bytes),
        };
        read.map_err(|source| Unreadable { resource: resource.plural(), source })
    }

    /// Lines of a watch. An unreadable line is reported and ignored: the other lines count.
    pub fn lines(
        &mut self,
        (names, scope): (&mut Names, &Scope),
        resource: Resource,
        bytes: &[u8],
        mut each: impl FnMut(Result<Event, Unreadable>),
    ) {
        for text in bytes.split(|&byte| byte == b'\n').filter(|text| !text.is_empty()) {
            let event = match resource {
                Resource::Services => service_line(names, scope, text),
                Resource::Nodes => self.node_line(text),
                Resource::Endpoints => self.slice_line(names, text),
                _ => self.config_line(resource, text),
            };
            match event {
                Ok(Some(event)) => each(Ok(event)),
                Ok(None) => {}
                Err(source) => each(Err(Unreadable { resource: resource.plural(), source })),
            }
        }
    }

    /// This program may lack permission to read where the control plane is: then the address stays unknown.
    pub fn control_plane_denied(&mut self) -> Option<Event> {
        self.control_plane_known = true;
        self.reserved()
    }

    fn services_page(
        &mut self,
        names: &mut Names,
        scope: &Scope,
        bytes: &[u8],
        first: bool,
    ) -> Result<(Turned, Vec<Event>), serde_json::Error> {
        let page: Page<'_, ServiceJson<'_>> = Page::read(bytes)?;
        if first {
            self.services.clear();
        }
        let ours = page.items.iter().flatten().filter(|one| scope.has_namespace(&one.metadata.namespace));
        self.services.extend(ours.map(|one| one.translate(names)));
        let turned = turned(&page);
        let ended = turned.next.is_empty();
        let events = ended.then(|| Event::Services(std::mem::take(&mut self.services)));
        Ok((turned, events.into_iter().collect()))
    }

    fn nodes_page(&mut self, bytes: &[u8], first: bool) -> Result<(Turned, Vec<Event>), serde_json::Error> {
        let page: Page<'_, NodeJson<'_>> = Page::read(bytes)?;
        if first {
            self.nodes_listing.clear();
        }
        let nodes = page.items.iter().flatten().map(|node| (Box::from(&*node.metadata.name), node.addresses()));
        self.nodes_listing.extend(nodes);
        let turned = turned(&page);
        if !turned.next.is_empty() {
            return Ok((turned, Vec::new()));
        }
        self.nodes = std::mem::take(&mut self.nodes_listing);
        self.nodes_known = true;
        Ok((turned, self.reserved().into_iter().collect()))
    }

    fn node_line(&mut self, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
        let (name, now) = match changed(line::<NodeJson<'_>>(text)?) {
            Some(Change::Now(node)) => (Box::from(&*node.metadata.name), Some(node.addresses())),
            Some(Change::Gone(node)) => (Box::from(&*node.metadata.name), None),
            None => return Ok(None),
        };
        // Nodes change all the time, their addresses hardly ever.
        let before = match now.clone() {
            Some(addresses) => self.nodes.insert(name, addresses),
            None => self.nodes.remove(&name),
        };
        Ok(if before == now { None } else { self.reserved() })
    }

    /// All addresses that are in use without a claim, once all sources are known.
    fn reserved(&self) -> Option<Event> {
        if !(self.nodes_known && self.control_plane_known) {
            return None;
        }
        let mut all = BTreeMap::new();
        for ip in self.server.iter().chain(&self.control_plane) {
            all.insert(*ip, Reserved::ControlPlane);
        }
        for (name, addresses) in &self.nodes {
            let node: Arc<str> = (&**name).into();
            all.extend(addresses.iter().map(|ip| (*ip, Reserved::Node(node.clone()))));
        }
        Some(Event::Reserved(all))
    }

    fn slices_page(
        &mut self,
        names: &mut Names,
        bytes: &[u8],
        first: bool,
    ) -> Result<(Turned, Vec<Event>), serde_json::Error> {
        let page: Page<'_, SliceJson<'_>> = Page::read(bytes)?;
        if first {
            self.slices.clear();
            self.slices_of.clear();
            self.slices_known = false;
        }
        for slice in page.items.iter().flatten() {
            self.slice(names, slice);
        }
        let turned = turned(&page);
        if !turned.next.is_empty() {
            return Ok((turned, Vec::new()));
        }
        self.slices_known = true;
        let all = self.slices_of.keys().map(|service| (service.clone(), self.nodes_of(service)));
        let event = Event::AllEndpoints(all.filter(|(_, nodes)| !nodes.is_empty()).collect());
        Ok((turned, vec![event]))
    }

    /// Stores a slice. Returns the Service the slice belongs to, and the Service it belonged to before.
    fn slice(&mut self, names: &mut Names, json: &SliceJson<'_>) -> BTreeSet<Key> {
        let key = slice_key(names, json);
        let mut services: BTreeSet<Key> = self.slice_gone(&key).into_iter().collect();
        if let Some((service, nodes)) = json.nodes(names) {
            self.slices_of.entry(service.clone()).or_default().insert(key.clone());
            self.slices.insert(key, (service.clone(), nodes));
            services.insert(service);
        }
        services
    }

    fn slice_gone(&mut self, key: &Key) -> Option<Key> {
        let (service, _) = self.slices.remove(key)?;
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        Some(service)
    }

    fn nodes_of(&self, service: &Key) -> BTreeSet<Arc<str>> {
        let slices = self.slices_of.get(service).into_iter().flatten();
        slices.filter_map(|slice| self.slices.get(slice)).flat_map(|(_, nodes)| nodes.iter().cloned()).collect()
    }

    fn slice_line(&mut self, names: &mut Names, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
        let services = match changed(line::<SliceJson<'_>>(text)?) {
            Some(Change::Now(slice)) => self.slice(names, &slice),
            Some(Change::Gone(slice)) => {
                let key = slice_key(names, &slice);
                self.slice_gone(&key).into_iter().collect()
            }
            None => return Ok(None),
        };
        // A slice that moves from one Service to another is rare: all endpoints are shown again.
        Ok(match services.len() {
            0 => None,
            1 => services.into_iter().next().map(|service| {
                let nodes = self.nodes_of(&service);
                Event::Endpoints(service, nodes)
            }),
            _ => {
                let all = self.slices_of.keys().map(|service| (service.clone(), self.nodes_of(service)));
                Some(Event::AllEndpoints(all.filter(|(_, nodes)| !nodes.is_empty()).collect()))
            }
        })
    }

    fn config_page(&mut self, resource: Resource, bytes: &[u8]) -> Result<(Turned, Vec<Event>), serde_json::Error> {
        let page: Page<'_, ConfigMapJson<'_>> = Page::read(bytes)?;
        let turned = turned(&page);
        // At most one object has this name.
        let event = self.config(resource, page.items.into_iter().flatten().next());
        Ok((turned, event.into_iter().collect()))
    }

    fn config_line(&mut self, resource: Resource, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
        Ok(match changed(line::<ConfigMapJson<'_>>(text)?) {
            Some(Change::Now(map)) => self.config(resource, Some(map)),
            Some(Change::Gone(_)) => self.config(resource, None),
            None => None,
        })
    }

    fn config(&mut self, resource: Resource, map: Option<ConfigMapJson<'_>>) -> Option<Event> {
        if resource == Resource::ClusterInfo {
            self.control_plane = map.and_then(|map| map.server());
            self.control_plane_known = true;
            return self.reserved();
        }
        self.config_uid = map.as_ref().map(|map| Box::from(&*map.metadata.uid));
        self.config = map.map(|map| map.data.unwrap_or_default());
        Some(Event::Config(self.config.clone()))
    }
}

fn slice_key(names: &mut Names, json: &SliceJson<'_>) -> Key {
    Key { namespace: names.text(&json.metadata.namespace), name: Arc::from(&*json.metadata.name) }
}

fn service_line(names: &mut Names, scope: &Scope, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    Ok(match changed(line::<ServiceJson<'_>>(text)?) {
        Some(Change::Now(json)) if scope.has_namespace(&json.metadata.namespace) => {
            Some(Event::Service(Box::new(json.translate(names))))
        }
        Some(Change::Gone(json)) => {
            let key = Key { namespace: names.text(&json.metadata.namespace), name: Arc::from(&*json.metadata.name) };
            Some(Event::ServiceGone(key, Uid::from(&*json.metadata.uid)))
        }
        Some(Change::Now(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn list(intake: &mut Intake, resource: Resource, items: &[Value]) -> Vec<Event> {
        let bytes = json!({"items": items, "metadata": {"resourceVersion": "9"}}).to_string();
        let retained = (&mut Names::default(), &Scope::default());
        intake.page(retained, resource, bytes.as_bytes(), true).unwrap().1
    }

    fn lines(intake: &mut Intake, resource: Resource, kind: &str, object: &Value) -> Vec<Event> {
        let text = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        let mut events = Vec::new();
        let retained = (&mut Names::default(), &Scope::default());
        intake.lines(retained, resource, text.as_bytes(), |event| events.push(event.unwrap()));
        events
    }

    fn node(name: &str, ip: &str) -> Value {
        json!({"metadata": {"name": name}, "status": {"addresses": [{"address": ip}], "images": []}})
    }

    #[test]
    fn nothing_is_reserved_before_nodes_and_control_plane_are_known() {
        let mut intake = Intake::default();
        assert!(list(&mut intake, Resource::Nodes, &[node("n1", "10.0.0.1")]).is_empty());
        let events = list(&mut intake, Resource::ClusterInfo, &[]);
        assert!(matches!(&events[..], [Event::Reserved(all)] if all.len() == 1));
        assert!(lines(&mut intake, Resource::Nodes, "MODIFIED", &node("n1", "10.0.0.1")).is_empty(), "nothing is new");
        let events = lines(&mut intake, Resource::Nodes, "MODIFIED", &node("n1", "10.0.0.2"));
        assert!(matches!(&events[..], [Event::Reserved(all)] if all.contains_key(&"10.0.0.2".parse().unwrap())));
        let events = lines(&mut intake, Resource::Nodes, "DELETED", &node("n1", "10.0.0.2"));
        assert!(matches!(&events[..], [Event::Reserved(all)] if all.is_empty()));
    }

    #[test]
    fn half_a_list_of_nodes_does_not_count() {
        let mut intake = Intake::default();
        list(&mut intake, Resource::Nodes, &[node("n1", "10.0.0.1"), node("n2", "10.0.0.2")]);
        let reserved = |intake: &mut Intake| match &list(intake, Resource::ClusterInfo, &[])[..] {
            [Event::Reserved(all)] => all.keys().map(ToString::to_string).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reserved(&mut intake), ["10.0.0.1", "10.0.0.2"]);
        let page = |intake: &mut Intake, next: &str, one: Value, first: bool| {
            let bytes = json!({"items": [one], "metadata": {"resourceVersion": "10", "continue": next}}).to_string();
            let retained = (&mut Names::default(), &Scope::default());
            intake.page(retained, Resource::Nodes, bytes.as_bytes(), first).unwrap().1
        };
        // Meanwhile something else is shown that the reserved addresses depend on.
        assert!(page(&mut intake, "more", node("n1", "10.0.0.1"), true).is_empty());
        assert_eq!(reserved(&mut intake), ["10.0.0.1", "10.0.0.2"]);
        // A list that begins again starts from nothing.
        assert!(page(&mut intake, "more", node("n3", "10.0.0.3"), true).is_empty());
        let events = page(&mut intake, "", node("n4", "10.0.0.4"), false);
        assert!(matches!(&events[..], [Event::Reserved(all)] if all.len() == 2), "{events:?}");
        assert_eq!(reserved(&mut intake), ["10.0.0.3", "10.0.0.4"]);
    }

    #[test]
    fn a_configmap_comes_and_goes() {
        let mut intake = Intake::default();
        assert!(matches!(&list(&mut intake, Resource::Config, &[])[..], [Event::Config(None)]));
        let map = json!({"metadata": {"name": "kubevip", "uid": "u"}, "data": {"cidr-global": "10.0.0.0/24"}});
        let events = lines(&mut intake, Resource::Config, "ADDED", &map);
        assert!(matches!(&events[..], [Event::Config(Some(data))] if data.len() == 1));
        assert_eq!(intake.config_uid.as_deref(), Some("u"));
        assert!(matches!(&lines(&mut intake, Resource::Config, "DELETED", &map)[..], [Event::Config(None)]));
    }

    #[test]
    fn all_slices_of_a_service_count() {
        let slice = |name: &str, node: &str| {
            json!({"metadata": {"name": name, "namespace": "n", "labels": {"kubernetes.io/service-name": "web"}},
                "endpoints": [{"nodeName": node}]})
        };
        let mut intake = Intake::default();
        let events = list(&mut intake, Resource::Endpoints, &[slice("a", "n1"), slice("b", "n2")]);
        assert!(matches!(&events[..], [Event::AllEndpoints(all)] if all[&Key::new("n", "web")].len() == 2));
        let events = lines(&mut intake, Resource::Endpoints, "DELETED", &slice("a", "n1"));
        assert!(matches!(&events[..], [Event::Endpoints(_, nodes)] if nodes.len() == 1));
        let events = lines(&mut intake, Resource::Endpoints, "DELETED", &slice("b", "n2"));
        assert!(matches!(&events[..], [Event::Endpoints(_, nodes)] if nodes.is_empty()));
        assert!(lines(&mut intake, Resource::Endpoints, "DELETED", &slice("b", "n2")).is_empty());
    }

    #[test]
    fn only_services_of_our_namespaces_are_told() {
        let scope = Scope { namespaces: ["a".to_owned()].into(), watch_filter: None };
        let items = [json!({"metadata": {"namespace": "a"}}), json!({"metadata": {"namespace": "b"}})];
        let bytes = json!({"items": items, "metadata": {}}).to_string();
        let retained = (&mut Names::default(), &scope);
        let events = Intake::default().page(retained, Resource::Services, bytes.as_bytes(), true).unwrap().1;
        assert!(matches!(&events[..], [Event::Services(all)] if all.len() == 1));
    }
}
