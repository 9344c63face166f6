//! Services: JSON to the fields that decide about their addresses.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, Uid, Version};
use mooring_allocator_services::notes::Notes;
use mooring_allocator_services::objects::{FamilyPolicy, Ingress, Service};
use mooring_allocator_services::ports::{Port, Protocol};
use mooring_allocator_services::reason::Condition;
use mooring_allocator_services::words;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta::{ConditionJson, Meta, Texts};
use super::names::Names;
use super::own_annotations;
use super::text::Text;

/// A Service, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a, Texts, Texts>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    load_balancer_class: Option<Text<'a>>,
    #[serde(borrow, rename = "loadBalancerIP")]
    load_balancer_ip: Option<Text<'a>>,
    #[serde(borrow)]
    ip_families: Vec<Text<'a>>,
    #[serde(borrow)]
    ip_family_policy: Text<'a>,
    #[serde(borrow)]
    external_traffic_policy: Text<'a>,
    #[serde(borrow)]
    ports: Vec<PortJson<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PortJson<'a> {
    port: u16,
    #[serde(borrow)]
    protocol: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status<'a> {
    #[serde(borrow)]
    load_balancer: LoadBalancer<'a>,
    #[serde(borrow)]
    conditions: Vec<ConditionJson<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer<'a> {
    #[serde(borrow)]
    ingress: Vec<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IngressJson<'a> {
    #[serde(borrow)]
    ip: Text<'a>,
    #[serde(borrow)]
    ip_mode: Text<'a>,
}

/// The trimmed text; None: it is empty.
fn filled(text: Option<&Text<'_>>) -> Option<Box<str>> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty()).map(Box::from)
}

impl ServiceJson<'_> {
    /// Translates to the machine's Service.
    pub fn translate(&self, names: &mut Names) -> Service {
        let (meta, spec) = (&self.metadata, &self.spec);
        let family = |text: &Text<'_>| match &**text {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        };
        let all = &self.status.load_balancer.ingress;
        let condition = self.status.conditions.iter().find(|one| &*one.kind == words::CONDITION);
        Service {
            key: Key { namespace: names.text(&meta.namespace), name: Arc::from(&*meta.name) },
            uid: Uid::from(&*meta.uid),
            version: Version::from(&*meta.resource_version),
            created: meta.creation_timestamp.as_deref().and_then(own_annotations::read_moment).unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            cleanup: meta.finalizers.iter().flatten().any(|one| &**one == words::CLEANUP),
            load_balancer: &*spec.kind == "LoadBalancer",
            class: filled(spec.load_balancer_class.as_ref()),
            families: spec.ip_families.iter().filter_map(family).collect(),
            policy: match &*spec.ip_family_policy {
                "RequireDualStack" => FamilyPolicy::RequireDualStack,
                "PreferDualStack" => FamilyPolicy::PreferDualStack,
                _ => FamilyPolicy::SingleStack,
            },
            local: &*spec.external_traffic_policy == "Local",
            ports: spec.ports.iter().map(port).collect(),
            load_balancer_ip: filled(spec.load_balancer_ip.as_ref()),
            notes: Notes::read(|key| meta.annotations.as_ref()?.get(key).map(String::as_str)),
            implementation: meta.labels.as_ref().and_then(|all| all.get(words::IMPLEMENTATION)).map(String::as_str)
                == Some(words::IMPLEMENTATION_VALUE),
            ingress: all.iter().filter_map(|one| ingress(one)).collect(),
            names: all.iter().filter(|one| is_name(one)).map(|one| one.get().into()).collect(),
            condition: condition.map(|one| Condition {
                ready: &*one.status == "True",
                reason: Box::from(&*one.reason),
                message: Box::from(&*one.message),
            }),
        }
    }
}

fn port(json: &PortJson<'_>) -> Port {
    let protocol = match &*json.protocol {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    Port { number: json.port, protocol }
}

fn ingress(raw: &RawValue) -> Option<Ingress> {
    let json: IngressJson<'_> = serde_json::from_str(raw.get()).ok()?;
    let ip = json.ip.parse().ok()?;
    // An entry without a mode is a VIP: the API server's default.
    Some(Ingress { ip, vip: &*json.ip_mode != "Proxy" })
}

/// Whether an entry has a name and no address: such an entry is never ours.
fn is_name(raw: &RawValue) -> bool {
    serde_json::from_str::<IngressJson<'_>>(raw.get()).is_ok_and(|json| json.ip.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Service {
        serde_json::from_str::<ServiceJson<'_>>(text).unwrap().translate(&mut Names::default())
    }

    #[test]
    fn a_service_is_read() {
        let text = r#"{"metadata":{"name":"web","namespace":"n","uid":"u","resourceVersion":"7","labels":{"implementation":"kube-vip"},
            "annotations":{"mooring.dev/sharing-key":"k"},"finalizers":["x","service.kubernetes.io/load-balancer-cleanup"]},
            "spec":{"type":"LoadBalancer","loadBalancerClass":"c","loadBalancerIP":"10.0.0.5","ipFamilies":["IPv6","IPv4"],
              "ipFamilyPolicy":"RequireDualStack","externalTrafficPolicy":"Local",
              "ports":[{"port":53,"protocol":"UDP","nodePort":30000},{"port":53,"protocol":"TCP"}]},
            "status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.5","ipMode":"VIP"},{"hostname":"x"},{"ip":"fd00::5","ipMode":"Proxy"}]},
              "conditions":[{"type":"mooring.dev/AddressReady","status":"False","reason":"NoPool","message":"m"}]}}"#;
        let service = read(text);
        assert_eq!((service.key.to_string().as_str(), &*service.version.0), ("n/web", "7"));
        assert!(service.load_balancer && service.local && service.cleanup && service.implementation);
        assert_eq!((service.families, service.policy), (vec![Family::V6, Family::V4], FamilyPolicy::RequireDualStack));
        assert_eq!(service.ports.len(), 2);
        assert_eq!((service.class.as_deref(), service.load_balancer_ip.as_deref()), (Some("c"), Some("10.0.0.5")));
        assert_eq!(service.notes.sharing_key.as_deref(), Some("k"));
        assert_eq!(service.ingress.iter().map(|one| one.vip).collect::<Vec<_>>(), [true, false]);
        assert_eq!(service.names, [r#"{"hostname":"x"}"#.into()]);
        assert_eq!(service.condition.map(|one| (one.ready, one.reason)), Some((false, "NoPool".into())));
    }

    #[test]
    fn one_of_another_kind_is_told_too() {
        let service =
            read(r#"{"metadata":{"name":"x","namespace":"n"},"spec":{"type":"ExternalName","loadBalancerIP":""}}"#);
        assert!(!service.load_balancer && service.load_balancer_ip.is_none() && service.ports.is_empty());
    }
}
