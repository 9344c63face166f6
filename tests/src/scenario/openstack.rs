//! Floating IPs of the real Keystone and Neutron, asked for as a pool asks for them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::remote::{Answer, Entry, Failure, Mark, What};
use mooring_allocator_neutron::{Access, FloatingPool, Session};
use mooring_allocator_openstack::rules::{Pool, tag};
use mooring_allocator_openstack::spec::{NetworkFilter, NetworkParam, Reclaim};
use serde_json::Value;

use super::story;
use crate::lab::{Lab, Shape};
use crate::openstack::{Admin, Real, clouds};
use crate::runner::{Ctx, Test};

/// How many claims there are in the storm.
const CLAIMS: usize = 40;
/// How many requests of a pool are under way at a time.
const CALLS: usize = 4;

pub fn all() -> Vec<Test<()>> {
    // Installing it takes a minute, and setting it up another.
    vec![story!("openstack", real, "real-keystone-and-neutron", 15).only_named()]
}

async fn real(_: &mut Ctx<()>) -> Result<()> {
    let lab = Lab::up(Shape::segment()).await?;
    let host = lab.host("client")?;
    let cloud = Real::start(&host, "203.0.113.0/26").await?;
    let credential = cloud.admin.application_credential().await?;
    let netns = host.netns().clone();
    let story = move || -> Result<()> {
        // The pools' connections start on the host.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            life(&cloud.admin, &clouds(None)).await.context("with a password")?;
            life(&cloud.admin, &clouds(Some(&credential))).await.context("with an application credential")?;
            list(&cloud.admin).await.context("a list of addresses")?;
            kept(&cloud.admin).await.context("reclaimPolicy Retain")?;
            storm(&cloud.admin).await.context("killed at any time")?;
            full(&cloud.admin).await.context("quota and network")?;
            trouble(&cloud).await.context("tokens and Neutron away")
        })
    };
    tokio::task::spawn_blocking(move || netns.run(story)).await?
}

/// A pool as a process that has just started knows it.
fn pool(
    clouds: &Value,
    network: &str,
    given: &[IpAddr],
    most: Option<usize>,
    reclaim: Reclaim,
) -> Result<FloatingPool> {
    let access = Access { clouds: clouds.to_string().into_bytes(), ca: None, cloud: "openstack".into(), region: None };
    let session = Session::new(&access).map_err(anyhow::Error::msg)?;
    let rules = Pool { uid: "pool-uid".into(), given: given.to_vec(), most, reclaim, tag: tag("fips") };
    let filter = NetworkFilter { name: Some(network.to_owned()), ..NetworkFilter::default() };
    Ok(FloatingPool::new(Arc::new(session), rules, Some(NetworkParam { id: None, filter: Some(filter) })))
}

fn mark(claim: &str) -> Mark {
    Mark { claim: Uid::from(claim), name: Key::new("shop", claim), address: None }
}

async fn find(pool: &FloatingPool, claim: &str) -> Result<Vec<Entry>> {
    match pool.call(&What::Find(mark(claim))).await? {
        Answer::Entries(all) => Ok(all),
        other => bail!("{other:?}"),
    }
}

async fn allocate(pool: &FloatingPool, claim: &str) -> Result<Entry, Failure> {
    match pool.call(&What::Allocate(mark(claim), None)).await? {
        Answer::Entry(entry) => Ok(entry),
        other => Err(Failure::Refused(format!("{other:?}"))),
    }
}

async fn release(pool: &FloatingPool, entry: Entry) -> Result<()> {
    ensure!(pool.call(&What::Release(entry)).await? == Answer::Done);
    Ok(())
}

fn says(result: &Result<Entry, Failure>, part: &str) -> Result<()> {
    ensure!(matches!(result, Err(Failure::Full(text)) if text.contains(part)), "{result:?}");
    Ok(())
}

/// Created, tagged, found, released.
async fn life(admin: &Admin, clouds: &Value) -> Result<()> {
    let one = pool(clouds, "public", &[], None, Reclaim::Delete)?;
    ensure!(find(&one, "a").await?.is_empty());
    let entry = allocate(&one, "a").await?;
    let there = admin.floating_ips().await?;
    ensure!(there.len() == 1 && there[0].address == entry.address.to_string(), "{there:?}");
    ensure!(there[0].description == "mooring made claim=a pool=pool-uid for=a.shop", "{there:?}");
    ensure!(there[0].tags == [tag("fips")], "{there:?}");
    ensure!(find(&one, "a").await? == [entry.clone()] && find(&one, "b").await?.is_empty());
    release(&one, entry.clone()).await?;
    release(&one, entry).await?;
    ensure!(admin.floating_ips().await?.is_empty());
    Ok(())
}

/// An address of the list is given first, and comes back as it was.
async fn list(admin: &Admin) -> Result<()> {
    let given = [admin.allocate("Ingress").await?, admin.allocate("").await?];
    let one = pool(&clouds(None), "public", &given, Some(2), Reclaim::Delete)?;
    let (a, b) = (allocate(&one, "a").await?, allocate(&one, "b").await?);
    ensure!([a.address, b.address] == given);
    says(&allocate(&one, "c").await, "maxIPs")?;
    ensure!(find(&one, "a").await? == [a.clone()]);
    release(&one, a).await?;
    release(&one, b).await?;
    let mut there = admin.floating_ips().await?;
    let mut texts: Vec<&str> = there.iter().map(|one| &*one.description).collect();
    texts.sort_unstable();
    ensure!(texts == ["", "Ingress"], "{texts:?}");
    for one in there.drain(..) {
        admin.delete(&one.id).await?;
    }
    Ok(())
}

/// What is retained is given again, and a late release of its former claim does nothing.
async fn kept(admin: &Admin) -> Result<()> {
    let one = pool(&clouds(None), "public", &[], None, Reclaim::Retain)?;
    let a = allocate(&one, "a").await?;
    release(&one, a.clone()).await?;
    let b = allocate(&one, "b").await?;
    ensure!(a.id == b.id);
    release(&one, a).await?;
    ensure!(find(&one, "b").await? == [b.clone()]);
    admin.delete(&b.id).await
}

/// Many claims get an address each, and lose it, while their process is killed again and again.
async fn storm(admin: &Admin) -> Result<()> {
    let claims: Vec<String> = (0..CLAIMS).map(|number| format!("claim-{number}")).collect();
    let (claims, mut random) = (&claims, 0x9E37_79B9_7F4A_7C15_u64);
    for wanted in [true, false] {
        let mut kills = 0;
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let life = Duration::from_millis(100 + (random >> 33) % 2_000);
            let one = pool(&clouds(None), "public", &[], None, Reclaim::Delete)?;
            let one = &one;
            let each = futures::stream::iter(claims).map(|claim| async move {
                let found = find(one, claim).await?;
                match (wanted, found.is_empty()) {
                    (true, true) => allocate(one, claim).await.map(drop)?,
                    (false, false) => {
                        for entry in found {
                            release(one, entry).await?;
                        }
                    }
                    _ => {}
                }
                anyhow::Ok(())
            });
            let all = each.buffer_unordered(CALLS).collect::<Vec<_>>();
            // The last process may end its work.
            let life = if kills < 12 { life } else { Duration::from_mins(3) };
            if let Ok(results) = tokio::time::timeout(life, all).await {
                results.into_iter().collect::<Result<Vec<_>>>()?;
                break;
            }
            kills += 1;
            // Neutron answers one after the other: what was under way has ended before this.
            admin.floating_ips().await?;
        }
        let there = admin.floating_ips().await?;
        let distinct: BTreeSet<&str> = there.iter().map(|one| &*one.address).collect();
        let texts: BTreeSet<&str> = there.iter().map(|one| &*one.description).collect();
        let count = if wanted { CLAIMS } else { 0 };
        ensure!(there.len() == count && distinct.len() == count && texts.len() == count, "{there:?}");
        ensure!(kills > 0, "nothing was killed");
        // One that was made right before a kill is tagged when it is looked at again: the last process looks at all.
        ensure!(there.iter().all(|one| one.tags.contains(&tag("fips"))), "{there:?}");
    }
    Ok(())
}

/// Quota reached; network full.
async fn full(admin: &Admin) -> Result<()> {
    admin.external_network("small", "198.51.100.0/29").await?;
    let one = pool(&clouds(None), "small", &[], None, Reclaim::Delete)?;
    admin.quota(Some(1)).await?;
    allocate(&one, "claim-0").await?;
    says(&allocate(&one, "claim-1").await, "Quota exceeded")?;
    admin.quota(None).await?;
    for number in 1..5 {
        allocate(&one, &format!("claim-{number}")).await?;
    }
    says(&allocate(&one, "claim-5").await, "No more IP addresses")?;
    let entry = find(&one, "claim-3").await?.pop().context("nothing found")?;
    release(&one, entry).await?;
    allocate(&one, "claim-5").await?;
    // By default a user may not choose an address.
    let wanted = What::Allocate(mark("claim-6"), Some("198.51.100.3".parse()?));
    ensure!(matches!(one.call(&wanted).await, Err(Failure::Unfit(_))));
    for one in admin.floating_ips().await? {
        admin.delete(&one.id).await?;
    }
    Ok(())
}

/// Tokens that are not good any more, and Neutron away.
async fn trouble(cloud: &Real) -> Result<()> {
    let one = pool(&clouds(None), "public", &[], None, Reclaim::Delete)?;
    allocate(&one, "a").await?;
    cloud.stop_neutron().await?;
    let away = allocate(&one, "b").await;
    ensure!(matches!(away, Err(Failure::Refused(_))), "{away:?}");
    cloud.start_neutron().await?;
    allocate(&one, "b").await?;
    cloud.forget_tokens()?;
    allocate(&one, "c").await?;
    ensure!(find(&one, "a").await?.len() == 1);
    Ok(())
}
