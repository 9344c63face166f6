//! The tests on the real lab: each scenario is a story, a plain async function. Bounds are wide enough for a busy
//! machine; the benches measure the figures.

mod adapter;
mod agent;
mod conflict;
mod contract;
mod crash;
mod dice;
mod election;
mod endpoint;
mod evidence;
mod families;
mod health;
mod kinds;
mod kubeadm;
mod link;
mod metal3;
mod metal3_own;
mod migration;
mod mixed;
mod named;
pub(crate) mod openstack;
mod outage;
mod outside;
mod phpipam;
mod restore;
mod rig;
mod rights;
mod service_addresses;
pub(crate) mod services;
pub(crate) mod traffic;

use crate::runner::{Beside, Test};

/// A story as a test. `counting()`: it counts every lost packet, and the address of an agent without a processor runs out.
macro_rules! story {
    ($group:literal, $function:path, $name:literal, $minutes:literal) => {
        $crate::runner::Test::new(
            $group,
            $name,
            std::time::Duration::from_mins($minutes),
            $crate::runner::Work::Function(|ctx| {
                Box::pin(async move {
                    let outcome = $function(ctx).await;
                    $crate::rig::shared::settle(&ctx.dir, outcome.is_ok()).await;
                    outcome
                })
            }),
        )
    };
}
pub(crate) use story;

/// All scenarios. Random orders of the nightly round have the seeds after this one.
#[must_use]
pub fn all(seed: u64) -> Vec<Test<()>> {
    contract::random::begin_after(seed);
    let mut all = Vec::new();
    for theme in [
        election::all,
        crash::all,
        agent::all,
        outage::all,
        health::all,
        conflict::all,
        link::all,
        evidence::all,
        families::all,
        mixed::all,
        named::all,
        rights::all,
        kinds::all,
        contract::all,
        endpoint::all,
        adapter::all,
        phpipam::all,
        restore::all,
        services::all,
        service_addresses::all,
        metal3::all,
        metal3_own::all,
        migration::all,
        openstack::all,
        traffic::all,
        kubeadm::all,
    ] {
        all.extend(theme());
    }
    // The counting stories come late: by then most clusters that they reuse are up. Beside what runs alone nothing computes, so it comes last.
    all.sort_by_key(|test| (test.beside == Beside::Nothing, test.beside));
    all
}
