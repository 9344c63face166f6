//! What must hold of the Elector, whatever goes wrong, beside what [`crate::check`] asks of every core. Each rule is a file; the
//! bounds come from [`super::bounds`].

mod able;
mod fence;
mod health;
mod misled;
mod new_vip;
mod outage;
mod owners;
mod robbed;
mod settle;
mod single;
mod witness;

use super::client::NeighbourCache;
use super::{Plan, bounds};

/// What the checks remember.
#[derive(Debug)]
pub struct Checks {
    /// The client, which is asked whether the VIPs answer.
    pub client: NeighbourCache,
    /// How often the VIP moved, and when.
    pub witness: witness::Moves,
    bounds: bounds::Own,
    settle: settle::Settle,
    outage: outage::Outages,
    unfit: health::Unfit,
    new_vip: new_vip::NewVip,
}

impl Checks {
    /// At the beginning of a run.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            client: NeighbourCache::new(plan.settings.own.vips.len()),
            witness: witness::Moves::default(),
            bounds: bounds::of(&plan.settings).1,
            settle: settle::Settle::default(),
            outage: outage::Outages::default(),
            unfit: health::Unfit::default(),
            new_vip: new_vip::NewVip::default(),
        }
    }
}
