//! Restores on a real API server: objects come back one by one, with new uids and without status, in the order of a backup tool, in the
//! reverse, and at random, under an allocator that runs and is started again. Who had an address has it again, nothing is given twice,
//! and nothing is left over.

mod addresses;
mod clusters;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::dice::Dice;
use super::story;
use crate::ipam::server::Server;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("restore", in_some_orders, "in-each-order-of-kinds-and-at-random", 8),
        story!("restore", in_many_orders, "in-200-random-orders", 60).nightly(),
        story!("restore", clusters_in_some_orders, "clusters-and-machines", 10),
        story!("restore", clusters_in_many_orders, "clusters-and-machines-in-100-random-orders", 90).nightly(),
    ]
}

async fn in_some_orders(ctx: &mut Ctx<()>) -> Result<()> {
    addresses::in_orders(ctx, 1).await
}

async fn in_many_orders(ctx: &mut Ctx<()>) -> Result<()> {
    addresses::in_orders(ctx, 200).await
}

async fn clusters_in_some_orders(ctx: &mut Ctx<()>) -> Result<()> {
    clusters::in_orders(ctx, 1).await
}

async fn clusters_in_many_orders(ctx: &mut Ctx<()>) -> Result<()> {
    clusters::in_orders(ctx, 100).await
}

/// What chooses random orders: `MOORING_RESTORE_SEED`, or any number.
fn seed(ctx: &Ctx<()>) -> u64 {
    let seed = std::env::var("MOORING_RESTORE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    ctx.note(&format!("seed {seed}"));
    seed
}

fn shuffled<T: Clone>(all: &[T], dice: &mut Dice) -> Vec<T> {
    let mut left = all.to_vec();
    let mut order = Vec::new();
    while !left.is_empty() {
        order.push(left.swap_remove(dice.roll(left.len())));
    }
    order
}

/// Takes off what the API server gives an object anew.
fn without_identity(object: &mut Value) -> Result<()> {
    let meta = object["metadata"].as_object_mut().context("no metadata")?;
    for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        meta.remove(key);
    }
    Ok(())
}

/// Deletes an object at once, whatever holds it.
async fn wiped(server: &Server, path: &str) -> Result<()> {
    // One that was being deleted is gone without its finalizers.
    let freed = server.merge(path, &json!({"metadata": {"finalizers": Value::Null}})).await;
    for answer in [freed, server.delete(path).await] {
        ensure!(answer.as_ref().err().is_none_or(|no| no.code == 404), "{path}: {answer:?}");
    }
    Ok(())
}
