//! What is tested on the real lab: each scenario is a story, a plain async function. Bounds are wide enough for a busy
//! machine; figures are the benches' matter.

mod agent;
mod conflict;
mod contract;
mod crash;
mod election;
mod families;
mod health;
mod kinds;
mod link;
mod mixed;
mod named;
mod outage;
mod scene;
mod service_addresses;
pub(crate) mod services;
pub(crate) mod traffic;

use crate::runner::Test;

/// A story as a test. Alone: it counts every lost packet, and a starved agent's address runs out.
macro_rules! story {
    ($group:literal, $function:path, $name:literal, $minutes:literal) => {
        $crate::scenario::story!($group, $function, $name, $minutes, alone: false)
    };
    ($group:literal, $function:path, $name:literal, $minutes:literal, alone: $alone:literal) => {
        $crate::runner::Test {
            name: $name,
            group: $group,
            limit: std::time::Duration::from_secs($minutes * 60),
            alone: $alone,
            work: $crate::runner::Work::Function(|ctx| Box::pin($function(ctx))),
        }
    };
}
pub(crate) use story;

/// All scenarios.
#[must_use]
pub fn all() -> Vec<Test<()>> {
    let mut all = Vec::new();
    for theme in [
        election::all,
        crash::all,
        agent::all,
        outage::all,
        health::all,
        conflict::all,
        link::all,
        families::all,
        mixed::all,
        named::all,
        kinds::all,
        contract::all,
        services::all,
        service_addresses::all,
        traffic::all,
    ] {
        all.extend(theme());
    }
    all
}
