//! The allocator with pools of phpIPAM (the component `phpipam`), beside Cluster API.

use anyhow::{Result, ensure};
use serde_json::json;

use super::exact;
use crate::ipam::component;
use crate::ipam::phpipam::{APP, PASSWORD, PhpIpam, USER as PHPIPAM_USER};
use crate::ipam::scope::{CLAIM, Scope};
use crate::ipam::server::{Crds, IPAM, Server, documents_in};
use crate::lab::Shape;
use crate::rig::allocator::{AllocatorRig, USER};
use crate::runner::Ctx;

const KIND: &str = "PHPIPAMIPPool";
/// As the component's Deployment is started.
const ARGS: [&str; 3] = ["--services=off", "--phpipam=on", "--secrets-namespace=mooring-system"];

/// A claim of such a pool gets an address and is released, and the pool goes.
pub async fn all_that_it_does(_: &mut Ctx<()>) -> Result<()> {
    let more = documents_in("allocator/phpipam/rbac.yaml")?;
    let mut roles = component::roles("allocator/rbac.yaml", "allocator/claims-only")?;
    roles.extend(more.iter().cloned());
    let server = Server::shaped(Shape::api_servers(1).audited(), Crds::ClusterApi).await?;
    server.install("crds/phpipam").await?;
    let rig = AllocatorRig::confined(server, Crds::ClusterApi, &roles).await?;
    let phpipam = PhpIpam::start(&rig.server.lab().host("client")?)?;
    for namespace in ["mooring-system", "default"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "phpipam", "namespace": namespace},
            "stringData": {"endpoint": phpipam.endpoint(), "username": PHPIPAM_USER, "password": PASSWORD}});
        rig.server.apply(&secret).await?;
    }
    super::refused(&rig.server, USER, &["/api/v1/namespaces/default/secrets/phpipam", "/api/v1/secrets"]).await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 28, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let spec = json!({"endpoint": phpipam.endpoint(), "appId": APP, "credentialsRef": {"name": "phpipam"},
        "subnets": [subnet]});
    let object = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": KIND,
        "metadata": {"name": "rights"}, "spec": spec});
    rig.server.create(&format!("{IPAM}/v1alpha1/phpipamippools"), &object).await?;
    scope.claim_with("c", KIND, "rights", json!({})).await?;
    scope.bound("c").await?;
    used(&scope).await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    let path = format!("{IPAM}/v1alpha1/phpipamippools/rights");
    rig.server.delete(&path).await?;
    let gone = crate::observe::now() + std::time::Duration::from_mins(1);
    while rig.server.get(&path).await.is_ok() {
        ensure!(crate::observe::now() < gone, "the pool stays");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    allocator.stop().await?;
    exact(rig.server.lab(), (USER, "mooring-allocator"), &more)
}

/// The pool says how many addresses are used: that is written behind all else.
async fn used(scope: &Scope<'_>) -> Result<()> {
    let until = crate::observe::now() + std::time::Duration::from_mins(1);
    loop {
        let pool = scope.rig.server.get(&format!("{IPAM}/v1alpha1/phpipamippools/rights")).await?;
        if pool.pointer("/status/ipAddresses/used").is_some_and(|used| *used == 1) {
            return Ok(());
        }
        ensure!(crate::observe::now() < until, "it does not count: {pool}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
