//! CRDs are taken without complaint, also in place of others.

use anyhow::{Context, Result, ensure};
use mooring_api::crds;
use serde_json::json;

use super::server::{Server, documents_of};
use crate::runner::Ctx;

pub async fn established(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    // The estimate of what rules cost is refused here, if anywhere.
    server.install("crds").await?;
    server.install("crds/standalone").await?;
    // The YAML is what the types make, read by a YAML parser.
    for (folder, made) in [("crds", crds::crds()?), ("crds/standalone", crds::standalone()?)] {
        let mut written = documents_of(folder)?;
        ensure!(written.len() == made.len(), "{} files in {folder}", written.len());
        for crd in made {
            let name = crd.metadata.name.clone();
            let place = written.iter().position(|one| one["metadata"]["name"] == json!(name));
            let one = written.swap_remove(place.with_context(|| format!("{name:?} is not in {folder}"))?);
            let read: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
                serde_json::from_value(one)?;
            ensure!(read == crd, "{name:?} is another as YAML");
            ctx.note(&format!("{name:?} established"));
        }
    }
    Ok(())
}

/// The in-cluster provider's CRDs name a conversion webhook, which ours must not keep.
pub async fn replaced(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    let name = "inclusterippools.ipam.cluster.x-k8s.io";
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "ipam.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "InClusterIPPool", "plural": "inclusterippools"},
            "versions": [version("v1alpha1", false), version("v1alpha2", true)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "gone", "name": "webhook", "path": "/convert"}},
            }},
        },
    });
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &theirs).await?;
    server.install("crds").await?;
    let conversion = server.get(&path).await?["spec"]["conversion"].clone();
    ctx.note(&format!("conversion is {conversion}"));
    ensure!(conversion == json!({"strategy": "None"}), "the webhook stayed: {conversion}");
    Ok(())
}
