//! Reports of an Elector for people: texts, Events' reasons, metrics.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use crate::api::Severity;
use crate::core::action::{Cause, HandsOver, Report, Why};
use crate::core::echo::State;
use crate::core::mac::Mac;
use crate::core::rules::{MOVES, MOVES_WINDOW};
use crate::ops::Ops;
use crate::ops::metrics::{Takeover, Transition};

/// Up to this many addresses are named one by one.
const NAMED: usize = 4;

/// The Event for the report: severity, reason and action. None: no Event.
pub fn event(report: &Report) -> Option<(Severity, &'static str, &'static str)> {
    use Severity::{Normal, Warning};
    Some(match report {
        Report::Took(Cause::Provisional) => (Warning, "ProvisionalHold", "Take"),
        Report::Took(_) => (Normal, "VIPTaken", "Take"),
        Report::Confirmed => (Normal, "HoldConfirmed", "Renew"),
        Report::LetGo(Why::HandedOver | Why::NotWanted) => (Normal, "VIPReleased", "Release"),
        Report::LetGo(_) => (Warning, "VIPReleased", "Release"),
        Report::Lapsed => (Warning, "LeaseLapsed", "Hold"),
        Report::TooFewHeard { .. } => (Warning, "CutOff", "Hold"),
        Report::HandingOver { .. } => (Normal, "HandingOver", "HandOver"),
        Report::NobodyBetter => (Warning, "NobodyBetter", "Hold"),
        Report::ForeignOwner { .. } => (Warning, "ForeignOwner", "Wait"),
        Report::Contested { .. } => (Warning, "AddressContested", "Challenge"),
        Report::Defended { .. } => (Normal, "AddressDefended", "Announce"),
        Report::Restored { .. } => (Warning, "AddressRestored", "Restore"),
        Report::RemovedAgain { .. } => (Warning, "AddressRemovedAgain", "Wait"),
        Report::CannotCarry { .. } => (Warning, "CannotCarry", "Release"),
        Report::CannotRemove { .. } => (Warning, "CannotRemove", "Release"),
        Report::Late { .. } => (Warning, "AgentLate", "Look"),
        Report::Abandoned { .. } => (Warning, "HolderSilent", "Take"),
        Report::MovedOften { .. } => (Warning, "NotTakenEarly", "Wait"),
        Report::NoNamespace => (Warning, "NoNamespace", "Wait"),
        Report::NameTaken { .. } => (Warning, "NodeNameTaken", "Wait"),
        Report::Mute => (Warning, "NotHeard", "Release"),
        Report::Echo(echo) => echo_event(*echo)?,
        Report::ProbeMissed | Report::Outrun | Report::Answered => return None,
    })
}

/// The Event for a change of whether probes are answered.
pub const fn echo_event(state: State) -> Option<(Severity, &'static str, &'static str)> {
    match state {
        State::Nobody => Some((Severity::Warning, "NoProbeAnswered", "Probe")),
        State::Filtered => Some((Severity::Warning, "ProbesFiltered", "Probe")),
        State::Answered => Some((Severity::Normal, "ProbesAnswered", "Probe")),
        State::Unknown | State::NotAsked => None,
    }
}

/// Whether probes are answered, in words.
pub const fn echo(state: State) -> &'static str {
    match state {
        State::Unknown => "it is not known whether other hosts answer this node's probes",
        State::NotAsked => {
            "it is not known whether other hosts answer this node's probes, and they are not asked: --arp-rate-limit leaves no room for that below 3 frames a second, or below 6 where the agent holds VIPs of the control plane and of Services"
        }
        State::Answered => "other hosts answer this node's probes",
        State::Filtered => {
            "the network drops ARP probes from 0.0.0.0 (port security, ARP inspection): this node looks for free VIPs with its own address as sender, and may take proxy ARP for an owner"
        }
        State::Nobody => {
            "no host on the segment answers this node's probes: it cannot tell a dead holder from a living one, so fail-over takes as long as the Lease, and clients may not find the VIPs that are here; it offers them to nodes that are answered; allow this node's ARP and neighbour discovery on its port, or give the segment a gateway that answers"
        }
    }
}

/// Counts the report.
pub fn count(report: &Report, ops: &Arc<Ops>) {
    let metrics = &ops.metrics;
    match report {
        Report::Took(cause) => {
            metrics.transition(Transition::Taken);
            metrics.takeover(Takeover::from(*cause));
        }
        Report::LetGo(why) => metrics.transition(Transition::from(*why)),
        Report::Contested { address, .. } | Report::ForeignOwner { address, .. } => metrics.conflict(*address),
        Report::ProbeMissed => metrics.probe_missed(),
        Report::Echo(echo) => metrics.probes(*echo),
        Report::Answered => metrics.probes(State::Answered),
        _ => {}
    }
}

/// The report in words; `vips`: the VIPs it is about.
pub fn text(report: &Report, vips: &[IpAddr]) -> String {
    let all = names(vips);
    match report {
        Report::Took(cause) => format!("carries {all}: {}", because(*cause)),
        Report::Confirmed => format!("holds the Lease for {all} again"),
        Report::LetGo(why) => format!("no longer carries {all}: {}", let_go(*why)),
        Report::Lapsed => format!("the Lease could not be renewed: keeps {all} until another host is heard to have it"),
        Report::TooFewHeard { heard, known } => format!(
            "the API is silent, and this node hears {heard} of the {known} other nodes that it knew: {all} goes from this node within seconds unless they are heard again; with api-loss=hold-alone it would stay"
        ),
        Report::HandingOver { to: Some(to), cause } => format!("hands {all} over to {to}: {}", hands_over(*cause)),
        Report::HandingOver { to: None, cause } => format!(
            "releases the Lease of {all}, and serves on until another node takes it or 3 s have passed: {}",
            hands_over(*cause)
        ),
        Report::NobodyBetter => {
            format!("the local API server is not healthy, but no other is: keeps {all}; see /readyz of the API servers")
        }
        Report::ForeignOwner { address, mac } => {
            format!(
                "{address} is not taken: {mac} answers for it; find that host and remove the address, or choose another VIP"
            )
        }
        Report::Contested { address, mac, participant: Some(node) } => {
            format!(
                "{node} ({mac}) answers for {address}, which is held here; if that lasts, look on that node: its agent may have another lease-name; if this is an address of a Service, its kube-proxy may need strictARP"
            )
        }
        Report::Contested { address, mac, participant: None } => {
            format!("{mac} claims {address}, which is held here; find that host and remove the address")
        }
        Report::Defended { address } => format!("announced {address} again because another host claimed it"),
        Report::Restored { address } => {
            format!(
                "{address} was removed from the interface by another program, and put back; look for what manages addresses there"
            )
        }
        Report::RemovedAgain { address } => format!(
            "another program removes {address} again and again: it is put back with the next renewal; find that program"
        ),
        Report::CannotCarry { address, reason } => format!("cannot carry {address}: {reason}"),
        Report::CannotRemove { address, reason } => cannot_remove(*address, reason),
        Report::Late { by } => format!(
            "the agent ran {} ms late: the node was stopped or starved of CPU; looking again before anything is announced",
            by.as_millis()
        ),
        Report::Abandoned { holder } => format!("{holder} no longer answers for {all} while others on the segment do"),
        Report::MovedOften { holder } => format!(
            "{holder} no longer answers for {all}, and is not taken early: {all} moved {MOVES} times in {} s; it is taken when its Lease ends",
            MOVES_WINDOW.as_secs()
        ),
        Report::Mute => format!(
            "took {all} because the last holder was silent, and no host on the segment has answered this node since: gives the Lease back; look for what keeps this node's ARP or neighbour discovery from leaving"
        ),
        Report::Echo(state) => echo(*state).to_owned(),
        Report::ProbeMissed => "a probe of the VIP went unanswered".to_owned(),
        Report::Answered => echo(State::Answered).to_owned(),
        Report::Outrun => "another node wrote the Lease first".to_owned(),
        Report::NameTaken { macs } => name_taken(macs),
        Report::NoNamespace => format!(
            "the Lease of {all} cannot be created: its namespace does not exist; create the namespace, or name another one in the settings; trying again less and less often, at least every 32 s"
        ),
    }
}

/// Another machine has this node's name, in words.
pub fn name_taken(macs: &[Mac]) -> String {
    let macs: Vec<String> = macs.iter().map(ToString::to_string).collect();
    format!(
        "another machine ({}) uses this node's name: give each node a name of its own (MOORING_NODE_NAME, vip_nodename); what that machine holds is not carried here",
        macs.join(", ")
    )
}

/// A VIP stays on its interface, in words.
pub fn cannot_remove(address: IpAddr, reason: &str) -> String {
    format!(
        "{address} could not be removed from its interface: {reason}; it is tried again, and the kernel removes the address when its lifetime ends"
    )
}

/// Addresses for people: the first few, and the number of the others.
pub fn names(addresses: &[IpAddr]) -> String {
    if addresses.is_empty() {
        return "no VIP".into();
    }
    let mut text = addresses.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(more) = addresses.len().checked_sub(NAMED).filter(|more| *more > 0) {
        // Writing to a String cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text
}

/// Why VIPs were taken, in words.
pub const fn because(cause: Cause) -> &'static str {
    match cause {
        Cause::Free => "nobody held it",
        Cause::Handover => "it was handed over",
        Cause::Expiry => "the last holder's Lease ended",
        Cause::Witness => "the last holder fell silent on the segment",
        Cause::Adopted => "it was held here before",
        Cause::Provisional => "the API does not answer and no other host has it",
    }
}

/// Why VIPs are handed over, in words.
const fn hands_over(cause: HandsOver) -> &'static str {
    match cause {
        HandsOver::Ending => {
            "the agent was asked to end, or this node takes no part any longer (drained, or without a ready endpoint)"
        }
        HandsOver::Mute => "no host on the segment answers this node",
        HandsOver::Unhealthy => "the API server of this node is not healthy, and another is",
    }
}

/// Why VIPs were released, in words.
pub const fn let_go(why: Why) -> &'static str {
    match why {
        Why::LeaseLost => "another node holds the Lease",
        Why::Yielded => "another node answers for it",
        Why::HandedOver => "handed over",
        Why::ApiLost => "the Lease could not be renewed",
        Why::Late => "the agent ran too late to be sure of it",
        Why::LinkDown => "the link is down",
        Why::NotWanted => "it is no longer configured",
        Why::CannotCarry => "it could not be put on the interface",
        Why::CutOff => "the API is silent and too few other nodes are heard: this node is cut off",
        Why::Owned => "it is the address of a node, or of the control plane",
    }
}
