//! Each rule of the CRDs, accepted and refused.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::ipam::server::{Server, object, place};
use crate::runner::Ctx;

const IP: &str = "InClusterIPPool";
const GLOBAL: &str = "GlobalInClusterIPPool";
const PREFIX: &str = "InClusterPrefixPool";
const GLOBAL_PREFIX: &str = "GlobalInClusterPrefixPool";

/// A kind, a spec, and a part of the expected error; empty if the spec is valid.
type Row = (&'static str, Value, &'static str);

const ENTRY: &str = "is not a valid IP, range (first-last), nor CIDR";
const REVERSED: &str = "ends before it begins";
const REQUIRED: &str = "addresses is required";
const PREFIX_REQUIRED: &str = "a valid prefix is required";
const MIXED: &str = "provided addresses are of mixed IP families";
const SUBNET: &str = "belongs to a different subnet than others";

/// The rules 1 to 12 of the in-cluster provider's webhook, and ours, for pools of addresses.
fn ip_rows() -> Vec<Row> {
    let one = |addresses: &[&str], prefix: i64| json!({"addresses": addresses, "prefix": prefix});
    let with = |more: Value| {
        let mut spec = json!({"addresses": ["10.0.0.0/24"], "prefix": 24});
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        spec
    };
    vec![
        (IP, one(&["10.0.0.1"], 24), ""),
        (IP, one(&["10.0.0.1-10.0.0.9", "10.0.0.200/25", "10.0.0.77"], 24), ""),
        (IP, one(&["10.0.0.9-10.0.0.9"], 32), ""),
        (IP, one(&["9.255.255.255-10.0.0.0"], 0), ""),
        (IP, one(&["fd::1-fd::9", "fd::ffff/120"], 64), ""),
        (IP, one(&["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], 0), ""),
        (IP, one(&["fd::1-fd::1"], 128), ""),
        (IP, json!({}), REQUIRED),
        (IP, json!({"prefix": 24}), REQUIRED),
        (IP, one(&[], 24), REQUIRED),
        (IP, json!({"addresses": ["10.0.0.1"]}), PREFIX_REQUIRED),
        (IP, one(&["10.0.0.1"], -1), "greater than or equal to 0"),
        (IP, one(&["10.0.0.1"], 9999), "less than or equal to 128"),
        (IP, one(&["10.0.0.1"], 33), "provided prefix is not valid"),
        (IP, one(&["fd::1"], 33), ""),
        (IP, one(&["x"], 24), ENTRY),
        (IP, one(&["10.0.0.1", ""], 24), "should be at least 1 chars long"),
        (IP, one(&["10.0.0.0/33"], 24), ENTRY),
        (IP, one(&["fd::/129"], 64), ENTRY),
        (IP, one(&["10.0.0.256"], 24), ENTRY),
        (IP, one(&["10.0.0.01"], 24), ENTRY),
        (IP, one(&["10.0.0.1-"], 24), ENTRY),
        (IP, one(&["10.0.0.1 - 10.0.0.2"], 24), ENTRY),
        (IP, one(&["10.0.0.1-10.0.0.2-10.0.0.3"], 24), ENTRY),
        (IP, one(&["10.0.0.1-fd::1"], 24), ENTRY),
        (IP, one(&["fd::1%eth0"], 64), ENTRY),
        (IP, one(&["::ffff:10.0.0.1"], 64), ENTRY),
        (IP, one(&["10.0.0.9-10.0.0.1"], 24), REVERSED),
        (IP, one(&["10.0.1.0-10.0.0.255"], 16), REVERSED),
        (IP, one(&["fd::9-fd::1"], 64), REVERSED),
        (IP, one(&["ffff::-::"], 0), REVERSED),
        (IP, one(&["fd:0:0:2::-fd:0:0:1:ffff::"], 32), REVERSED),
        (IP, one(&["10.0.0.1", "fd::1"], 24), MIXED),
        (IP, one(&["10.0.0.1", "10.0.1.1"], 24), SUBNET),
        (IP, one(&["10.0.0.0/16"], 24), SUBNET),
        (IP, one(&["10.0.0.1-10.0.1.9"], 24), SUBNET),
        (IP, one(&["fd::1", "fd:0:0:1::1"], 64), SUBNET),
        (IP, with(json!({"gateway": "10.0.0.1"})), ""),
        (IP, with(json!({"gateway": ""})), ""),
        (IP, with(json!({"gateway": "x"})), "'x' is not an IP address"),
        (IP, with(json!({"gateway": "fd::1"})), "provided gateway and addresses are of mixed IP families"),
        (IP, with(json!({"excludedAddresses": ["10.0.0.5", "10.0.0.7-10.0.0.9", "10.0.0.128/25"]})), ""),
        (IP, with(json!({"excludedAddresses": ["x"]})), ENTRY),
        (IP, with(json!({"excludedAddresses": ["10.0.0.9-10.0.0.1"]})), REVERSED),
        (IP, with(json!({"excludedAddresses": ["fd::9-fd::1"]})), REVERSED),
        (
            IP,
            with(json!({"excludedAddresses": ["10.0.0.3", "fd::1"]})),
            "provided excluded addresses are of mixed IP families",
        ),
        (
            IP,
            with(json!({"excludedAddresses": ["fd::1"]})),
            "addresses and excluded addresses are of mixed IP families",
        ),
        (IP, with(json!({"addressReuseGracePeriodSeconds": 0})), ""),
        (IP, with(json!({"addressReuseGracePeriodSeconds": -1})), "greater than or equal to 0"),
        (IP, with(json!({"strategy": "Random"})), ""),
        (IP, with(json!({"strategy": "Newest"})), "Unsupported value: \"Newest\""),
        (IP, with(json!({"quarantine": {"afterReleaseSeconds": -5}})), "greater than or equal to 0"),
        (IP, with(json!({"network": "DMZ"})), "should match"),
        (IP, with(json!({"preAllocations": {"a": "10.0.0.7"}})), ""),
        (IP, with(json!({"preAllocations": {"a": "x"}})), "preAllocations must be IP addresses"),
        (IP, with(json!({"preAllocations": {"a": "10.0.1.7"}})), "preAllocations must lie in the pool's network"),
        (IP, with(json!({"preAllocations": {"n/a": "10.0.0.7"}})), "NAME, without a /"),
        (GLOBAL, with(json!({"preAllocations": {"n/a": "10.0.0.7"}})), ""),
        (GLOBAL, with(json!({"preAllocations": {"a": "10.0.0.7"}})), "NAMESPACE/NAME"),
        (GLOBAL, with(json!({"allowedNamespaces": {"names": ["a"], "selector": {"matchLabels": {"a": "b"}}}})), ""),
        (GLOBAL, one(&["x"], 24), ENTRY),
        (GLOBAL, json!({}), REQUIRED),
    ]
}

/// The old form.
fn old_rows() -> Vec<Row> {
    vec![
        (IP, json!({"subnet": "10.0.0.0/24"}), ""),
        (IP, json!({"subnet": "10.0.0.0/24", "prefix": 0, "gateway": "10.0.0.1"}), ""),
        (IP, json!({"subnet": "10.0.0.0/24", "start": "10.0.0.9"}), ""),
        (IP, json!({"start": "10.0.0.1", "end": "10.0.0.9", "prefix": 24}), ""),
        (IP, json!({"start": "fd::1", "end": "fd::9", "prefix": 64}), ""),
        (IP, json!({"subnet": "x"}), "'x' is not a CIDR"),
        (IP, json!({"start": "10.0.0.1", "prefix": 24}), "start and end go together"),
        (IP, json!({"start": "10.0.0.1", "end": "10.0.0.9"}), PREFIX_REQUIRED),
        (IP, json!({"start": "x", "end": "10.0.0.9", "prefix": 24}), "'x' is not an IP address"),
        (IP, json!({"start": "10.0.0.1", "end": "x", "prefix": 24}), "'x' is not an IP address"),
        (IP, json!({"start": "10.0.0.9", "end": "10.0.0.1", "prefix": 24}), REVERSED),
        (IP, json!({"start": "fd::9", "end": "fd::1", "prefix": 64}), REVERSED),
        (IP, json!({"start": "10.0.0.9", "end": "fd::1", "prefix": 24}), "start and end are of mixed IP families"),
        (IP, json!({"subnet": "10.0.0.0/24", "start": "10.0.1.1"}), "start and end must lie in subnet"),
        (IP, json!({"subnet": "10.0.0.0/24", "gateway": "fd::1"}), "of mixed IP families"),
    ]
}

fn prefix_rows() -> Vec<Row> {
    let with = |more: Value| {
        let mut spec = json!({"prefixes": ["fd00::/48"]});
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        spec
    };
    let one = |prefix: &str| json!({"prefixes": [prefix]});
    vec![
        (PREFIX, with(json!({})), ""),
        (PREFIX, with(json!({"gateway": "fe80::1", "allocationPrefixLength": 48})), ""),
        (PREFIX, json!({}), "prefixes is required"),
        (PREFIX, json!({"prefixes": []}), "should have at least 1 items"),
        (PREFIX, one("x"), "is not a valid IPv6 CIDR"),
        (PREFIX, one("fd00::1"), "is not a valid IPv6 CIDR"),
        (PREFIX, one("10.0.0.0/8"), "only IPv6 prefixes are supported"),
        (PREFIX, one("fd00::1/48"), "must be network-aligned"),
        (PREFIX, one("fd00::/72"), "must be <= allocationPrefixLength"),
        (PREFIX, with(json!({"allocationPrefixLength": 47})), "must be <= allocationPrefixLength"),
        (PREFIX, with(json!({"allocationPrefixLength": 0})), "greater than or equal to 1"),
        (PREFIX, with(json!({"allocationPrefixLength": 129})), "less than or equal to 128"),
        (PREFIX, with(json!({"gateway": "10.0.0.1"})), "provided gateway must be IPv6"),
        (PREFIX, with(json!({"gateway": "x"})), "'x' is not an IP address"),
        (PREFIX, with(json!({"excludedPrefixes": ["fd00::1-fd00::7", "fd00::/64", "fd00::9"]})), ""),
        (PREFIX, with(json!({"excludedPrefixes": ["10.0.0.1"]})), "only IPv6 excluded prefixes are supported"),
        (PREFIX, with(json!({"excludedPrefixes": ["x"]})), ENTRY),
        (PREFIX, with(json!({"excludedPrefixes": ["fd00::9-fd00::1"]})), REVERSED),
        (PREFIX, with(json!({"excludedPrefixes": ["10.0.0.9-10.0.0.1"]})), REVERSED),
        (PREFIX, with(json!({"preAllocations": {"n/a": "fd00::"}})), "NAME, without a /"),
        (PREFIX, with(json!({"preAllocations": {"a": "10.0.0.1"}})), "preAllocations must be IPv6 addresses"),
        (GLOBAL_PREFIX, with(json!({"preAllocations": {"n/a": "fd00::"}})), ""),
        (GLOBAL_PREFIX, with(json!({"preAllocations": {"a": "fd00::"}})), "NAMESPACE/NAME"),
    ]
}

/// Creates each object as a dry run.
async fn judge(server: &Server, version: &str, rows: &[Row], ctx: &Ctx<()>) -> Result<()> {
    let mut wrong = Vec::new();
    for (kind, spec, against) in rows {
        let path = format!("{}?dryRun=All", place(version, kind));
        let answer = server.create(&path, &object(version, kind, "p", spec)).await;
        let said = match answer {
            Ok(_) => String::new(),
            Err(refused) => format!("{refused}"),
        };
        let right = if against.is_empty() { said.is_empty() } else { said.contains(against) };
        // A rule that cannot be evaluated is a mistake in the rule, whatever the other errors say.
        let told = said.replace("correct the existing errors", "");
        let evaluated = !told.contains("error") && !told.contains("no such");
        ctx.note(&format!("{kind} {version} {spec}: {said}"));
        if !right || !evaluated {
            wrong.push(format!("{kind} {version} {spec}: {said:?}, expected {against:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    Ok(())
}

pub async fn pools(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    judge(&server, "v1alpha2", &ip_rows(), ctx).await?;
    judge(&server, "v1alpha2", &old_rows(), ctx).await?;
    judge(&server, "v1alpha1", &old_rows(), ctx).await?;
    judge(&server, "v1alpha2", &prefix_rows(), ctx).await?;
    let path = place("v1alpha2", PREFIX);
    let made = server.create(&path, &object("v1alpha2", PREFIX, "p", &json!({"prefixes": ["fd00::/48"]}))).await?;
    ensure!(made["spec"]["allocationPrefixLength"] == 64, "no default: {made}");
    Ok(())
}

pub async fn changes(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let path = place("v1alpha2", PREFIX);
    server.create(&path, &object("v1alpha2", PREFIX, "p", &json!({"prefixes": ["fd00::/48"]}))).await?;
    let one = format!("{path}/p");
    let length = |length: i64| json!({"spec": {"allocationPrefixLength": length}});
    server.merge(&one, &length(64)).await?;
    let refused = server.merge(&one, &length(56)).await.err().context("the length was changed")?;
    ensure!(refused.message.contains("allocationPrefixLength is immutable"), "{refused}");
    server.merge(&one, &json!({"spec": {"prefixes": ["fd00::/48", "fd01::/48"]}})).await?;
    Ok(())
}

pub async fn standalone(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": IP, "name": "p"});
    let address = |address: &str, prefix: i64, gateway: Option<&str>| {
        let mut spec = json!({"claimRef": {"name": "c"}, "poolRef": pool, "address": address, "prefix": prefix});
        if let Some(gateway) = gateway {
            spec["gateway"] = json!(gateway);
        }
        spec
    };
    let no_group = json!({"kind": IP, "name": "p"});
    let rows = [
        ("IPAddress", address("10.0.0.1", 24, Some("10.0.0.254")), ""),
        ("IPAddress", address("fd::1", 64, None), ""),
        ("IPAddress", address("x", 24, None), "is not a valid IP address"),
        ("IPAddress", address("10.0.0.1", 33, None), "prefix is too large"),
        ("IPAddress", address("10.0.0.1", 129, None), "less than or equal to 128"),
        ("IPAddress", address("10.0.0.1", 24, Some("x")), "is not a valid IP address"),
        ("IPAddress", json!({"address": "10.0.0.1"}), "Required value"),
        ("IPAddressClaim", json!({"poolRef": pool}), ""),
        ("IPAddressClaim", json!({"poolRef": pool, "clusterName": "w"}), ""),
        ("IPAddressClaim", json!({}), "Required value"),
        ("IPAddressClaim", json!({"poolRef": no_group}), "Required value"),
        ("IPAddressClaim", json!({"poolRef": {"apiGroup": "a", "kind": "K", "name": "Not A Name"}}), "should match"),
    ];
    for version in ["v1alpha1", "v1beta1", "v1beta2"] {
        judge(&server, version, &rows, ctx).await?;
    }
    for (kind, spec, change) in [
        ("IPAddress", address("10.0.0.1", 24, None), json!({"spec": {"address": "10.0.0.2"}})),
        ("IPAddress", address("10.0.0.3", 24, None), json!({"spec": {"gateway": "10.0.0.254"}})),
        ("IPAddressClaim", json!({"poolRef": pool}), json!({"spec": {"poolRef": {"name": "q"}}})),
    ] {
        let all = place("v1beta2", kind);
        let name = spec["address"].as_str().unwrap_or("c");
        server.create(&all, &object("v1beta2", kind, name, &spec)).await?;
        let one = format!("{all}/{name}");
        let refused = server.merge(&one, &change).await.err().with_context(|| format!("{kind} was changed"))?;
        ensure!(refused.message.contains("spec is immutable"), "{refused}");
        server.merge(&one, &json!({"metadata": {"labels": {"a": "b"}}})).await?;
    }
    Ok(())
}

/// The largest object that the schema allows: the rules stay within the API server's cost budget.
pub async fn large(ctx: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let list = |of: &dyn Fn(usize) -> String, count: usize| -> Vec<String> { (0..count).map(of).collect() };
    let long = |n: usize, last: &str| format!("fd00:1111:2222:3333:4444:5555:{n:x}:{last}");
    let claims: serde_json::Map<String, Value> =
        (0..1024).map(|n| (format!("claim-{n}"), json!(long(n, "7777")))).collect();
    let v6 = json!({
        "addresses": list(&|n| format!("{}-{}", long(n, "1111"), long(n, "ffff")), 2048),
        "excludedAddresses": list(&|n| format!("{}-{}", long(n, "1112"), long(n, "1113")), 2048),
        "prefix": 64, "preAllocations": claims,
    });
    let v4 = json!({
        "addresses": list(&|n| format!("110.1{0:02}.{1}.101-110.1{0:02}.{1}.199", n / 100, n % 100 + 100), 2048),
        "prefix": 8,
    });
    let prefixes = json!({
        "prefixes": list(&|n| format!("fd00:1111:{n:x}::/48"), 1024),
        "excludedPrefixes": list(&|n| format!("{}-{}", long(n, "1112"), long(n, "1113")), 1024),
    });
    for (kind, spec) in [(IP, &v6), (IP, &v4), (PREFIX, &prefixes)] {
        let path = place("v1alpha2", kind);
        let begin = std::time::Instant::now();
        server.create(&format!("{path}?dryRun=All"), &object("v1alpha2", kind, "p", spec)).await?;
        ctx.note(&format!("{kind}: {:?}", begin.elapsed()));
    }
    let mut over = v4.clone();
    over["addresses"].as_array_mut().context("no list")?.push(json!("110.199.0.1"));
    let refused = server.create(&place("v1alpha2", IP), &object("v1alpha2", IP, "p", &over)).await;
    ensure!(refused.is_err_and(|error| error.message.contains("must have at most 2048 items")), "too many are let in");
    Ok(())
}
