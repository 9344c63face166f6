//! How much the API sends for what it tells.

use mooring_agent_core::session_vips::{Event, Input};

/// The Lease of a session, in bytes as JSON.
pub const SESSION: u64 = 1_200;
/// A member object.
const MEMBER: u64 = 1_400;
/// An `IPAddress`.
const ADDRESS: u64 = 1_000;
/// A Service.
const SERVICE: u64 = 1_500;
/// The metadata of a Node.
const NODE: u64 = 2_000;

/// The objects in what a watch or list says.
pub fn objects(event: &Event) -> u64 {
    let Event::Input(input) = event else { return 0 };
    match input {
        Input::Sessions { result, .. } => result.as_ref().map_or(0, |all| all.len() as u64),
        Input::Members(all) => all.len() as u64,
        Input::Wanted(all) => all.len() as u64,
        Input::Address { view, .. } => u64::from(view.is_some()),
        Input::Followed { view, .. } => u64::from(view.is_some()),
        // Lists do not name what is not there.
        Input::Unwanted(_) | Input::Synced => 0,
        _ => 1,
    }
}

/// Their bytes.
pub fn size(event: &Event) -> u64 {
    let Event::Input(input) = event else { return 0 };
    let one = match input {
        Input::Members(_) | Input::Member(_) | Input::MemberDeleted(_) => MEMBER,
        Input::Address { .. } => ADDRESS,
        Input::Wanted(_) | Input::Unwanted(_) => SERVICE,
        Input::Node { .. } => NODE,
        _ => SESSION,
    };
    one * objects(event)
}
