//! The calls and reports of the control plane's core, and the Elector's actions as outputs of every core.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Output;
use crate::action::{self, Action};
use crate::core::{Probe, Vip};
use crate::lease::{Notes, Record};

/// A call to the API. Its answer is an [`super::Input`] with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a handful live for a moment")]
pub enum Call {
    /// Read the Lease.
    Read {
        /// The answer has the same number.
        id: u64,
        /// After this long the read has failed.
        within: Duration,
    },
    /// Write the Lease.
    Write {
        /// The answer has the same number.
        id: u64,
        /// The version that the Lease must still have; None: the Lease must not exist.
        base: Option<String>,
        /// What to write.
        record: Record,
        /// The annotations to write; foreign ones stay.
        notes: Notes,
        /// After this long the write has failed.
        within: Duration,
    },
    /// Ask the API servers of all peers for their health.
    AskPeers {
        /// The answer has the same number.
        id: u64,
        /// After this long those that did not answer are not healthy.
        within: Duration,
    },
}

/// A report to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The VIPs that the report is about.
    pub vips: Arc<[IpAddr]>,
    /// What has happened.
    pub what: action::Report,
}

/// Adds an action of the Elector to the outputs. Equal actions in a row go into one output, so that many VIPs are one
/// request to the kernel. The order stays.
pub(super) fn push(out: &mut Vec<Output>, action: Action, interface: u32, vips: &Arc<[IpAddr]>) {
    let more = match action {
        Action::Carry { address, deadline } => {
            let vip = Vip { address, interface };
            match out.last_mut() {
                Some(Output::Ensure { vips, deadline: last }) if *last == deadline => return vips.push(vip),
                _ => Output::Ensure { vips: vec![vip], deadline },
            }
        }
        Action::Drop { address } => match out.last_mut() {
            Some(Output::Remove(addresses)) => return addresses.push(address),
            _ => Output::Remove(vec![address]),
        },
        Action::Announce { address } => {
            let vip = Vip { address, interface };
            match out.last_mut() {
                Some(Output::Announce(vips)) => return vips.push(vip),
                _ => Output::Announce(vec![vip]),
            }
        }
        Action::Probe { address, to, sender } => {
            let probe = Probe { interface, address, to, sender };
            match out.last_mut() {
                Some(Output::Probe(probes)) => return probes.push(probe),
                _ => Output::Probe(vec![probe]),
            }
        }
        Action::Read { id, within } => Output::Call(Call::Read { id, within }),
        Action::Write { id, base, record, notes, within } => {
            Output::Call(Call::Write { id, base, record, notes, within })
        }
        Action::AskPeers { id, within } => Output::Call(Call::AskPeers { id, within }),
        Action::Report(what) => Output::Report(Report { vips: vips.clone(), what }),
        Action::Exit => Output::Exit,
    };
    out.push(more);
}
