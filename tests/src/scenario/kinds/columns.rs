//! What `kubectl get` prints: the API server makes its table.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::ipam::server::{Server, object, place};
use crate::runner::Ctx;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub async fn tables(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    // The line that every tutorial shows.
    let counts = json!({"status": {"ipAddresses": {"total": 7, "free": 6, "used": 1, "outOfRange": 0}}});
    let ip = json!({"addresses": ["10.10.222.232-10.10.222.238"], "prefix": 24, "gateway": "10.10.222.1"});
    let prefix = json!({"prefixes": ["fd00::/48"]});
    for (kind, spec, column) in [
        ("InClusterIPPool", &ip, "Addresses"),
        ("GlobalInClusterIPPool", &ip, "Addresses"),
        ("InClusterPrefixPool", &prefix, "Prefixes"),
        ("GlobalInClusterPrefixPool", &prefix, "Prefixes"),
    ] {
        let all = place("v1alpha2", kind);
        server.create(&all, &object("v1alpha2", kind, "wc-cp-ips", spec)).await?;
        let ready = json!({"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""});
        let mut status = counts.clone();
        status["status"]["conditions"] = json!([ready]);
        server.merge(&format!("{all}/wc-cp-ips/status"), &status).await?;
        let text = if column == "Prefixes" { "[\"fd00::/48\"]" } else { "[\"10.10.222.232-10.10.222.238\"]" };
        let expected = [
            ("Name", json!("wc-cp-ips")),
            (column, json!(text)),
            ("Total", json!(7)),
            ("Free", json!(6)),
            ("Used", json!(1)),
            ("Ready", json!("True")),
        ];
        is(&without_age(table(&server, &all).await?, kind)?, &expected, kind)?;
        ctx.note(&format!("{kind} has its columns"));
    }
    let old = table(&server, &place("v1alpha1", "InClusterIPPool")).await?;
    let names: Vec<&str> = old.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["Name", "Subnet", "First", "Last", "Addresses", "Total", "Free", "Used", "Ready", "Age"];
    ensure!(names == expected, "v1alpha1: {names:?}");

    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "wc-cp-ips"});
    let claim = object("v1beta2", "IPAddressClaim", "give-me-an-ip", &json!({"poolRef": pool}));
    server.create(&place("v1beta2", "IPAddressClaim"), &claim).await?;
    let spec =
        json!({"claimRef": {"name": "give-me-an-ip"}, "poolRef": pool, "address": "10.10.222.233", "prefix": 24});
    server.create(&place("v1beta2", "IPAddress"), &object("v1beta2", "IPAddress", "give-me-an-ip", &spec)).await?;
    for version in ["v1alpha1", "v1beta1", "v1beta2"] {
        let claim = without_age(table(&server, &place(version, "IPAddressClaim")).await?, "a claim")?;
        let address = without_age(table(&server, &place(version, "IPAddress")).await?, "an address")?;
        let rest = [("Pool Name", json!("wc-cp-ips")), ("Pool Kind", json!("InClusterIPPool"))];
        // No allocator runs.
        let ready = [("Ready", Value::Null)];
        is(&claim, &[&[("Name", json!("give-me-an-ip"))], &rest[..], &ready[..]].concat(), "claims")?;
        let first = [("Name", json!("give-me-an-ip")), ("Address", json!("10.10.222.233"))];
        is(&address, &[&first[..], &rest[..]].concat(), "addresses")?;
    }
    Ok(())
}

/// The first line, as column name and cell; only the columns shown without `-o wide`.
async fn table(server: &Server, path: &str) -> Result<Vec<(String, Value)>> {
    let table = server.ask(Method::GET, path, None, TABLE).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let cells = table["rows"][0]["cells"].as_array().context("no line")?;
    let shown = columns.iter().zip(cells).filter(|(column, _)| column["priority"] == json!(0));
    Ok(shown.map(|(column, cell)| (column["name"].as_str().unwrap_or_default().to_owned(), cell.clone())).collect())
}

/// Ages differ.
fn without_age(mut row: Vec<(String, Value)>, what: &str) -> Result<Vec<(String, Value)>> {
    ensure!(row.pop().is_some_and(|(name, _)| name == "Age"), "{what} has no age");
    Ok(row)
}

fn is(seen: &[(String, Value)], expected: &[(&str, Value)], what: &str) -> Result<()> {
    let seen: Vec<(&str, Value)> = seen.iter().map(|(name, cell)| (name.as_str(), cell.clone())).collect();
    ensure!(seen == expected, "{what}: {seen:?}, and not {expected:?}");
    Ok(())
}
