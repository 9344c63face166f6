//! The contract between claims, pools and their allocator, rule by rule: each test is named after its rule, and fails when
//! the rule is broken. Every rule is tried twice: beside Cluster API's own CRDs, and with Mooring's of a cluster without it.

mod adoption;
mod choice;
mod clusters;
mod exhaustion;
mod ours;
mod pause;
mod pools;
mod random;
mod release;
mod restarts;
mod storm;
mod strange;
mod takeover;
mod telling;

use anyhow::{Context as _, Result};
use futures::future::BoxFuture;

use crate::ipam::allocators::Allocator;
use crate::ipam::scope::Scope;
use crate::ipam::server::Crds;
use crate::ipam::stage::{Stage, give_back};
use crate::runner::{Ctx, Test};

/// A rule: what must hold in a namespace that an allocator looks after.
pub(in crate::scenario) type Rule = for<'a> fn(&'a Scope<'a>, &'a Allocator) -> BoxFuture<'a, Result<()>>;

/// A rule as a test, beside Cluster API.
macro_rules! rule {
    ($function:path, $name:literal) => {
        $crate::scenario::contract::rule!($function, $name, "contract", ClusterApi)
    };
    ($function:path, $name:literal, $group:literal, $crds:ident) => {
        $crate::runner::Test {
            name: $name,
            group: $group,
            limit: std::time::Duration::from_mins(5),
            alone: false,
            work: $crate::runner::Work::Function(|ctx| {
                let rule: $crate::scenario::contract::Rule = |scope, allocator| Box::pin($function(scope, allocator));
                Box::pin($crate::scenario::contract::on_stage(ctx, $crate::ipam::server::Crds::$crds, rule))
            }),
        }
    };
}
pub(crate) use rule;

/// A rule as two tests: beside Cluster API, and without it.
macro_rules! both {
    ($function:path, $name:literal) => {
        [
            $crate::scenario::contract::rule!($function, $name, "contract", ClusterApi),
            $crate::scenario::contract::rule!($function, $name, "contract-standalone", Standalone),
        ]
    };
}
pub(crate) use both;

/// Lets a rule be judged in a namespace of its own. An allocator that broke one is not used again.
pub(in crate::scenario) async fn on_stage(ctx: &mut Ctx<()>, crds: Crds, rule: Rule) -> Result<()> {
    let (stage, allocator) = Stage::lease(crds).await?;
    let outcome = async {
        let scope = stage.scope().await?;
        rule(&scope, &allocator).await?;
        scope.leave().await
    };
    match outcome.await {
        Ok(()) if allocator.process().is_running() => {
            give_back(stage, allocator);
            Ok(())
        }
        Ok(()) => Err(allocator.process().error("it ended").into()),
        Err(error) => {
            // For whoever looks at the failure.
            std::fs::copy(allocator.process().log(), ctx.dir.join("allocator.log")).context("keep the log")?;
            Err(error)
        }
    }
}

/// All of them.
pub fn all() -> Vec<Test<()>> {
    let mut all = Vec::new();
    for theme in [
        ours::all,
        release::all,
        pause::all,
        clusters::all,
        adoption::all,
        exhaustion::all,
        pools::all,
        choice::all,
        telling::all,
        strange::all,
        takeover::all,
        restarts::all,
        random::all,
        storm::all,
    ] {
        all.extend(theme());
    }
    all
}
