//! Carries events to the core and its actions to the edges.
//!
//! ```text
//!  API watch, reads, writes ─┐                       ┌─▶ calls (tasks)
//!  health of the API server ─┤                       ├─▶ place (task): addresses
//!  kernel: links, addresses ─┼─▶ Told ─▶ Keeper ─▶ Action ─▶ segment: announce, probe
//!  names, signals           ─┤   (this loop)         └─▶ reports: log, Events, metrics
//!  segment: ARP and NDP     ─┘
//! ```

mod api;
mod clocks;
mod fleet;
mod names;
mod objects;
mod place;
mod reach;
mod reports;
mod run;
mod show;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::core::event::Event;
use crate::core::rules::Rules;
use crate::datapath::Interface;
use crate::settings::{ApiLoss, Settings};

pub use run::{RunError, run};

/// What comes to the driver's loop.
#[derive(Debug)]
pub enum Told {
    /// Something for the core.
    Event(Event),
    /// The interface was found, or is another, or is gone: the segment is opened anew.
    Place(Option<Interface>),
    /// These VIPs are the node's own permanent addresses, and not carried here.
    Own(BTreeSet<IpAddr>),
}

/// The core's rules out of the settings.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        node: settings.node_name.clone(),
        lease_duration: settings.lease.duration,
        renew_deadline: settings.lease.renew_deadline,
        retry_period: settings.lease.retry_period,
        witness_interval: settings.witness.map_or(Duration::ZERO, |w| w.interval),
        witness_misses: settings.witness.map_or(3, |w| u32::from(w.misses)),
        hold_without_api: settings.api_loss == ApiLoss::Hold,
        provisional: settings.provisional.is_some(),
        provisional_spread: settings.provisional.map_or(Duration::ZERO, |p| p.delay),
        handover_grace: settings.handover_grace,
        link_down_delay: settings.link_down_delay,
        announce_refresh: settings.announce.refresh.unwrap_or_default(),
        conflict_probe: settings.conflict_probe,
        refresh: Duration::ZERO,
    }
}
