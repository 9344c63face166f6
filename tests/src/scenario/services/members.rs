//! Member objects that people change: no VIP moves, and each is written anew.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::session::View;
use serde_json::{Value, json};

use crate::lab::Shape;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// VIPs; more than nodes.
const VIPS: u8 = 6;
/// All member objects.
const MEMBERS: &str = "/api/v1/namespaces/mooring-system/configmaps";
/// The label that makes a `ConfigMap` one.
const LABEL: &str = "mooring.dev/member";
/// A node that happens to know leaves it to others for up to half a minute.
const LATE: Duration = Duration::from_mins(2);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![story!("services", changed, "member-objects-that-people-change", 6).counting()]
}

async fn changed(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::on(&ctx.dir, Shape::api_servers(1), 5, VIPS, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    for n in 0..VIPS {
        rig.make(n, "Cluster").await?;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    // Clients have answers from all.
    pass(5).await;
    let from = now();
    let holder = rig.settled(vip(0)).await?;
    let path = format!("{MEMBERS}/mooring-member.{holder}");
    let copy = copy(&rig.server.get(&path).await?).context("a member object that cannot be read")?;
    ensure!(copy.node == holder && copy.is_live(), "{copy:?}");
    let old = View { version: "1".into(), ..copy.clone() };
    let other_lease = View { uid: "of-another-lease".into(), ..old.clone() };
    let mut earlier = old.clone();
    earlier.record.transitions = earlier.record.transitions.saturating_sub(1);
    let changes = [
        ("nobody can read it", json!({"data": {"session": "{"}})),
        ("it says nothing", json!({"data": null})),
        ("it has no label", json!({"metadata": {"labels": {LABEL: null}}})),
        ("it tells of another Lease", json!({"data": {"session": serde_json::to_string(&other_lease)?}})),
        ("it tells of an earlier incarnation", json!({"data": {"session": serde_json::to_string(&earlier)?}})),
    ];
    for (what, change) in changes {
        rig.server.merge(&path, &change).await?;
        put_right(&rig, &path, &copy, what).await?;
    }
    rig.server.delete(&path).await?;
    put_right(&rig, &path, &copy, "it is deleted").await?;

    // As from a backup: of a node that is not there any more.
    let mut gone = View { node: "gone".into(), uid: "of-old".into(), ..old };
    gone.record.holder = "gone".into();
    let restored = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mooring-member.gone", "labels": {LABEL: ""}},
        "data": {"session": serde_json::to_string(&gone)?},
    });
    rig.server.create(MEMBERS, &restored).await?;
    let deadline = now() + LATE;
    while self::copy(&rig.server.get(&format!("{MEMBERS}/mooring-member.gone")).await?)
        .is_none_or(|gone| gone.is_live())
    {
        ensure!(now() < deadline, "a session without a Lease lives on; {}", rig.logs());
        pass(1).await;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        rig.never_gone(*vip, from)?;
        rig.never_shared(*vip, from)?;
    }
    ensure!(rig.settled(vip(0)).await? == holder, "it has moved; {}", rig.logs());
    Ok(())
}

/// What a member object says.
fn copy(object: &Value) -> Option<View> {
    serde_json::from_str(object.pointer("/data/session")?.as_str()?).ok()
}

/// Waits until a member object says again what it said, and has its label.
async fn put_right(rig: &WorkerRig, path: &str, said: &View, what: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let object = rig.server.get(path).await.unwrap_or_default();
        let labelled = object["metadata"]["labels"].get(LABEL).is_some();
        if labelled && copy(&object).is_some_and(|copy| copy.says_as(said)) {
            return Ok(());
        }
        ensure!(now() < deadline, "{what}: {object}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
