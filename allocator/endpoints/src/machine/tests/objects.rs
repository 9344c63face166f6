//! Clusters as charts make them, and their parts.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use serde_json::json;

use super::world::World;
use crate::machine::Change;
use crate::manifest::{self, Manifest};
use crate::notes::Notes;
use crate::objects::{Cluster, Companion, ControlPlane, File, Infrastructure, Place, Reference};
use crate::variables;

pub(super) const INFRASTRUCTURE: (&str, &str) = ("infrastructure.cluster.x-k8s.io", "VSphereCluster");
pub(super) const PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
pub(super) const POD: &str = "# the VIP\nkind: Pod\nspec:\n  containers:\n  - name: kube-vip\n    env:\n    - {name: vip_address, value: ''} # here\n";

/// What stands in it in place of an address.
pub(super) const EMPTY: &str = "value: ''";

/// A script that speaks of kube-vip, as templates of providers have it beside the static pod.
pub(super) const SCRIPT: &str = "#!/bin/bash\n\n# Workaround for kubeadm init with kube-vip:\n# see kube-vip/kube-vip/issues/684\nset -e\nMINOR=\"$(kubeadm version -o short | cut -d '.' -f 2)\"\nif [[ \"$MINOR\" -lt \"29\" ]]; then\n  return\nfi\nsed -i 's#path: /etc/kubernetes/admin.conf#path: /etc/kubernetes/super-admin.conf#' \\\n  /etc/kubernetes/manifests/kube-vip.yaml\n";

pub(super) fn key(name: &str) -> Key {
    Key::new("n", name)
}

/// The Cluster of a part, by the part's name.
pub(super) fn cluster_of(part: &Key) -> Key {
    Key::new(&part.namespace, part.name.split("-kubevip").next().unwrap_or_default())
}

pub(super) fn pool(name: &str) -> Arc<PoolRef> {
    Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", name))
}

pub(super) fn reference((group, kind): (&str, &str), name: &str) -> Reference {
    Reference { group: group.into(), kind: kind.into(), key: key(name) }
}

pub(super) fn secret(name: &str) -> Companion {
    Companion::Secret(key(&format!("{name}-kubevip-pod")), "content".into())
}

pub(super) fn config_map(name: &str) -> Companion {
    Companion::ConfigMap(key(&format!("{name}-kubevip")), "cidr-global".into())
}

/// A Cluster that asks for an endpoint.
pub(super) fn cluster(name: &str, uid: Uid) -> Cluster {
    Cluster {
        key: key(name),
        uid,
        version: Version::from(""),
        api: "v1beta2",
        deleting: false,
        moving: false,
        paused: false,
        held: false,
        initialised: false,
        notes: Notes { pool: Some("GlobalInClusterIPPool/cp".into()), ..Notes::default() },
        infrastructure: Some(reference(INFRASTRUCTURE, name)),
        control_plane: Some(reference(PLANE, name)),
        host: None,
        port: None,
        variables: None,
    }
}

/// One that is paused for it.
pub(super) fn paused(name: &str, uid: Uid) -> Cluster {
    let mut one = cluster(name, uid);
    (one.paused, one.notes.paused_for_endpoint) = (true, true);
    one
}

pub(super) fn infrastructure(name: &str) -> Infrastructure {
    Infrastructure {
        reference: reference(INFRASTRUCTURE, name),
        uid: Uid::from(&*format!("uid-infrastructure-{name}")),
        version: Version::from(""),
        deleting: false,
        held: false,
        host: None,
        port: None,
    }
}

/// A control plane with two static pods: one in a `Secret`, one inline.
pub(super) fn plane(name: &str) -> ControlPlane {
    plane_with(name, &secret(name))
}

/// The same, with this `Secret`.
pub(super) fn plane_with(name: &str, secret: &Companion) -> ControlPlane {
    let path = "/etc/kubernetes/manifests/kube-vip.yaml";
    let file = |content: Option<&str>, secret| File {
        path: path.into(),
        content: content.map(Into::into),
        encoded: false,
        secret,
        whole: json!({"path": path, "owner": "root", "content": content}),
    };
    let key = secret.key().name.to_string();
    let other = File { path: "/etc/hosts".into(), ..file(Some("127.0.0.1 localhost"), None) };
    let path = "/etc/pre-kubeadm-commands/50-kube-vip-prepare.sh";
    let script = File {
        path: path.into(),
        whole: json!({"path": path, "owner": "root", "content": SCRIPT}),
        ..file(Some(SCRIPT), None)
    };
    let files = vec![other, script, file(None, Some((key.into(), "content".into()))), file(Some(POD), None)];
    ControlPlane {
        reference: reference(PLANE, name),
        uid: Uid::from(&*format!("uid-plane-{name}")),
        version: Version::from(""),
        deleting: false,
        held: false,
        initialised: false,
        sans: vec!["localhost".into()],
        place: Place::Files(files),
    }
}

/// Does to a control plane what a write says.
pub(super) fn change(one: &mut ControlPlane, change: &Change) {
    if let (Some(all), Place::Files(files)) = (&change.files, &mut one.place) {
        assert_eq!(all.len(), files.len(), "no file comes or goes");
        for (file, whole) in files.iter_mut().zip(all) {
            assert_eq!((&whole["path"], &whole["owner"]), (&file.whole["path"], &file.whole["owner"]));
            file.content = whole["content"].as_str().map(Into::into);
            file.whole = whole.clone();
        }
    }
    if let Some(sans) = &change.sans {
        assert!(sans.starts_with(&one.sans), "appended, and nothing else");
        one.sans.clone_from(sans);
    }
    if let (Some(ip), Place::ServiceAddress(address)) = (change.address, &mut one.place) {
        assert_eq!(*address, None);
        *address = Some(ip.to_string().into());
    }
}

/// Whether all places but the host carry the address.
pub(super) fn carries(world: &World, cluster: &Cluster, ip: IpAddr) -> bool {
    if let Some(all) = &cluster.variables {
        return variables::put(all, cluster.notes.variable_names(), ip) == Ok(None);
    }
    let Some(one) = cluster.control_plane.as_ref().and_then(|reference| world.planes.get(reference)) else {
        return false;
    };
    let has = |text: &str| manifest::put(text, ip) != Ok(Manifest::Carries);
    let lacks = match &one.place {
        Place::Files(files) => {
            files.iter().filter(|file| file.is_manifest()).any(|file| match (&file.content, &file.secret) {
                (Some(text), _) => manifest::put(text, ip) != Ok(Manifest::NotOurs) && has(text),
                (None, Some((name, field))) => {
                    let what = Companion::Secret(Key::new(&cluster.key.namespace, name), field.clone());
                    world.texts.get(&what).and_then(|reading| reading.text.as_deref()).is_none_or(has)
                }
                (None, None) => false,
            })
        }
        Place::ServiceAddress(address) => address.as_deref() != Some(&*ip.to_string()),
    };
    !lacks && one.sans.iter().any(|san| **san == *ip.to_string())
}

/// Whether nothing stands in a place from which machines get the address.
pub(super) fn is_empty_somewhere(world: &World, cluster: &Cluster) -> bool {
    let plane = cluster.control_plane.as_ref().and_then(|reference| world.planes.get(reference));
    let Some(Place::Files(files)) = plane.map(|one| &one.place) else { return false };
    let inline = files.iter().filter_map(|file| file.content.as_deref());
    let secrets = plane.into_iter().flat_map(ControlPlane::secrets).filter_map(|(_, what)| world.texts.get(&what));
    inline.chain(secrets.filter_map(|reading| reading.text.as_deref())).any(|text| text.contains(EMPTY))
}
