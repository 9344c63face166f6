//! The contract between claims, pools and their allocator, rule by rule: each test has the name of its rule, and fails
//! when the rule is broken. Every rule is tested twice: with Cluster API's own CRDs, and with Mooring's CRDs in a
//! cluster without Cluster API.

mod adoption;
mod choice;
mod clusters;
mod exhaustion;
mod ours;
mod pause;
mod pools;
pub(in crate::scenario) mod random;
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
use crate::rig::allocator::{AllocatorRig, give_back};
use crate::runner::{Ctx, Test};

/// A rule: a condition that must hold in a namespace that an allocator serves.
pub(in crate::scenario) type Rule = for<'a> fn(&'a Scope<'a>, &'a Allocator) -> BoxFuture<'a, Result<()>>;

/// A rule as a test, with Cluster API.
macro_rules! rule {
    ($function:path, $name:literal) => {
        $crate::scenario::contract::rule!($function, $name, "contract", ClusterApi)
    };
    ($function:path, $name:literal, $group:literal, $crds:ident) => {
        $crate::runner::Test::new(
            $group,
            $name,
            std::time::Duration::from_mins(5),
            $crate::runner::Work::Function(|ctx| {
                let rule: $crate::scenario::contract::Rule = |scope, allocator| Box::pin($function(scope, allocator));
                Box::pin($crate::scenario::contract::on_shared_rig(ctx, $crate::ipam::server::Crds::$crds, rule))
            }),
        )
    };
}
pub(crate) use rule;

/// A rule as two tests: beside Cluster API, and without it. `quick`: the second one belongs to the quick round as well.
macro_rules! both {
    ($function:path, $name:literal, quick) => {{
        let [beside, standalone] = $crate::scenario::contract::both!($function, $name);
        [beside, standalone.quick()]
    }};
    ($function:path, $name:literal) => {
        [
            $crate::scenario::contract::rule!($function, $name, "contract", ClusterApi),
            $crate::scenario::contract::rule!($function, $name, "contract-standalone", Standalone),
        ]
    };
}
pub(crate) use both;

/// Tests a rule in a namespace of its own. An allocator that broke a rule is not used again.
pub(in crate::scenario) async fn on_shared_rig(ctx: &mut Ctx<()>, crds: Crds, rule: Rule) -> Result<()> {
    let (rig, allocator) = AllocatorRig::lease(crds).await?;
    let outcome = async {
        let scope = rig.scope().await?;
        rule(&scope, &allocator).await?;
        scope.leave().await
    };
    match outcome.await {
        Ok(()) if allocator.process().is_running() => {
            give_back(rig, allocator);
            Ok(())
        }
        Ok(()) => Err(allocator.process().error("it ended").into()),
        Err(error) => {
            // For the analysis of the failure.
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
