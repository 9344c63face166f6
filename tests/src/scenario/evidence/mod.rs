//! What the segment proves, and what it does not: hosts that are not heard, and networks that drop or forge ARP.

mod filtered;
mod mute;
mod networks;
mod services;
mod unanswered;

use std::time::Duration;

use anyhow::Result;

use crate::fault::Talk;
use crate::lab::Lab;
use crate::runner::Test;
use crate::segment::GATEWAY_NAME;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    [mute::all(), filtered::all(), networks::all(), unanswered::all(), services::all()].concat()
}

/// The gateway asks for hosts 20 times a second, as one does that has many.
const BUSY: Duration = Duration::from_millis(50);
/// A host asks for its peers now and then, as kernels do that talk to each other.
const SELDOM: Duration = Duration::from_secs(20);

/// The gateway is busy, and so are these hosts: frames from third parties, in each window of a witness.
fn busy(lab: &Lab, hosts: &[&str]) -> Result<Vec<Talk>> {
    let all = hosts.iter().copied().chain([GATEWAY_NAME]);
    Ok(all.map(|who| lab.talk(who, BUSY)).collect::<Result<_, _>>()?)
}
