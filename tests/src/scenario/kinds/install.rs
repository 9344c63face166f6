//! The API server accepts the CRDs without an error, also as replacements of others.

use anyhow::{Context, Result, ensure};
use mooring_api::crds;
use serde_json::json;

use crate::ipam::server::{Crds, Server, documents_of};
use crate::runner::Ctx;

pub async fn established(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    // If the estimated cost of the rules is too high, the API server refuses the CRDs here.
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

/// The in-cluster provider's CRDs name a conversion webhook, which ours must not keep. A server-side apply keeps the
/// webhook and is refused; after the webhook is removed, a server-side apply succeeds. A client-side apply removes the
/// webhook itself: our manifests set it to null.
pub async fn replaced(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::with(Crds::Theirs).await?;
    let webhook = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "gone", "name": "webhook", "path": "/convert"}},
    }}}});
    let path = |name: &str| format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let (first, second) = ("inclusterippools.ipam.cluster.x-k8s.io", "globalinclusterippools.ipam.cluster.x-k8s.io");
    for name in [first, second] {
        server.merge(&path(name), &webhook).await?;
    }
    let ours = documents_of("crds")?;
    let named = |name: &str| ours.iter().find(|one| one["metadata"]["name"] == name).context("not ours");
    let refused =
        server.apply(named(first)?).await.err().context("a server-side apply is no longer refused: say so")?;
    ctx.note(&format!("server-side apply over a webhook: {refused}"));
    // The steps of the guide: once for each of the two.
    server.merge(&path(first), &json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})).await?;
    server.apply(named(first)?).await?;
    // The request that kubectl apply finally sends.
    server.merge(&path(second), named(second)?).await?;
    for name in [first, second] {
        server.established(name).await?;
        let seen = server.get(&path(name)).await?;
        let conversion = &seen["spec"]["conversion"];
        ensure!(*conversion == json!({"strategy": "None"}), "the webhook stayed: {conversion}");
        let rules = seen.to_string().contains("x-kubernetes-validations");
        ensure!(rules, "{name} is still theirs");
    }
    Ok(())
}
