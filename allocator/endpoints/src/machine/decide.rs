//! The next step for a Cluster's endpoint: it follows from what the objects say, and from nothing else.
//!
//! The order: the claim; its address; the other places ([`super::places`]); the host; the end of the pause.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::PoolRef;

use crate::objects::{Claim, Companion};
use crate::reason::{Condition, Reason};
use crate::variables;

use super::Write;
use super::action::{NewClaim, Parent};
use super::flaws::{Flaw, planted};
use super::letting_go::let_go;
use super::places::{self, Repair};
use super::view::{Bond, Step, Stop, View, address_of, bond, claim_target, is_of_another, stood, target, wait};

/// The port of API servers, where nothing else is said.
const API_PORT: u16 = 6443;

/// What a decision found.
#[derive(Debug, Default)]
pub(super) struct Finding {
    /// What to do.
    pub(super) steps: Vec<Step>,
    /// What was read, or is to be read.
    pub(super) wants: Vec<Companion>,
    /// Where the endpoint stands; None: it is none of ours.
    pub(super) verdict: Option<Condition>,
}

/// Decides the next step for the endpoint.
pub(super) fn endpoint(view: &View<'_>) -> Finding {
    let mut wants = Vec::new();
    match next(view, &mut wants) {
        Ok(condition) | Err(Stop::Wait(condition)) => Finding { steps: Vec::new(), wants, verdict: Some(condition) },
        Err(Stop::Step(step)) => {
            let verdict = Some(Condition::new(Reason::Writing, "a write is under way"));
            Finding { steps: vec![*step], wants, verdict }
        }
        Err(Stop::Nothing) => Finding { wants, ..Finding::default() },
    }
}

fn next(view: &View<'_>, wants: &mut Vec<Companion>) -> Result<Condition, Stop> {
    let cluster = view.cluster;
    let pool = match &view.wish {
        Err(error) => return Err(wait(Reason::InvalidRequest, error.to_string())),
        Ok(None) => return Err(Stop::Nothing),
        Ok(Some(pool)) => pool,
    };
    if cluster.notes.paused_for_endpoint && !cluster.paused {
        // A later pause is somebody else's.
        return Err(Write::Unmark(view.cluster_target()).into());
    }
    let host = stated(view)?;
    let address = claimed(view, pool, host, wants)?;
    if let Some(host) = host.filter(|host| *host != address) {
        if planted(Flaw::OverwritesHost)
            && let Some(one) = view.infrastructure
        {
            let at = target(&one.reference.key, &one.uid, &one.version);
            return Err(Write::Host(at, one.reference.clone(), address, None).into());
        }
        let name = &cluster.key.name;
        let message = format!(
            "the host is {host}, and claim {name} has {address}: empty the host to get {address}; or, to keep the host, write it \
             wherever {address} stands, and then delete the claim"
        );
        return Err(wait(Reason::EndpointDiffers, message));
    }
    if view.held() {
        let message =
            format!("it has {address}; nothing else is written while the Cluster is paused for another reason");
        return Err(wait(Reason::Paused, message));
    }
    let claim = view.claims.get(&cluster.key.name);
    // Whoever set the host, and not Mooring, wrote the other places too.
    let given = host.is_some() && claim.is_some_and(|claim| is_given(claim) && claim.asks_for() == host);
    // The host is written last. With it, machines may have been made; a Cluster that was moved or restored says so only later, because
    // its status was left behind.
    let before_host = host.is_none() && !view.initialised();
    let early = before_host || view.waits_for_us() || planted(Flaw::RepairsAfterInit);
    if planted(Flaw::HostFirst) {
        write_host(view, address)?;
    }
    if planted(Flaw::UnpausesEarly) && view.waits_for_us() {
        return Err(Write::Unpause(view.cluster_target()).into());
    }
    let repair = if early && (!given || view.waits_for_us()) {
        Repair::Everything
    } else {
        // What machines were made with: the host has it, and so has the claim.
        match claim.is_some_and(|claim| stood(claim, address)) {
            _ if host != Some(address) => Repair::Nothing,
            true => Repair::Lost,
            false if given => Repair::Nothing,
            false => Repair::Empty,
        }
    };
    let lacking = places::check(view, address, (repair, given), wants)?;
    write_host(view, address)?;
    if !lacking.is_empty() {
        let what = mooring_allocator_core::few::few(&lacking);
        let why = if given {
            "it was set by somebody else, who is to write it there too"
        } else {
            "the endpoint is set, and what machines are made from is not changed by itself"
        };
        return Err(wait(Reason::Drifted, format!("{address} is missing in {what}: {why}")));
    }
    if view.waits_for_us() {
        stand_still(view, address, wants)?;
        return Err(Write::Unpause(view.cluster_target()).into());
    }
    Ok(Condition::new(Reason::Written, address.to_string()))
}

/// Waits until nothing of the Cluster changes any more.
fn stand_still(view: &View<'_>, address: IpAddr, wants: &[Companion]) -> Result<(), Stop> {
    let Some(still) = view.standstill else { return Ok(()) };
    if !still.reached {
        let message = format!(
            "{address} stands everywhere; the Cluster goes on when nothing of it has changed for {} s: somebody may be putting back \
             its objects one by one",
            still.wanted.as_secs()
        );
        return Err(wait(Reason::Settling, message));
    }
    // Nobody tells of their changes.
    let old = |what: &&Companion| {
        matches!(what, Companion::Secret(..)) && (view.read_at)(what).is_none_or(|at| at < still.at)
    };
    match wants.iter().find(old).filter(|_| !planted(Flaw::BelievesOldSecrets)) {
        Some(secret) => Err(Stop::Step(Box::new(Step::Read(secret.clone())))),
        None => Ok(()),
    }
}

/// The host that the Cluster has.
fn stated(view: &View<'_>) -> Result<Option<IpAddr>, Stop> {
    let cluster = view.cluster;
    if let Some(reference) = &cluster.infrastructure {
        let topology = cluster.variables.is_some();
        match view.infrastructure {
            Some(one) if one.deleting => {
                return Err(wait(Reason::WaitingForInfrastructure, format!("{reference} is being deleted")));
            }
            None if !view.followed => {
                let message = format!("the kind of {reference} is not followed: add it to --endpoint-kinds");
                return Err(wait(Reason::KindNotFollowed, message));
            }
            None if !topology => {
                return Err(wait(Reason::WaitingForInfrastructure, format!("there is no {reference} yet")));
            }
            _ => {}
        }
    }
    let mut found: Option<IpAddr> = None;
    let given = cluster.variables.iter().flat_map(|all| variables::addresses(all, cluster.notes.variable_names()));
    for ip in given {
        if let Some(other) = found.replace(ip).filter(|other| *other != ip) {
            let message = format!("the variables of the topology have {ip} and {other}: make them one");
            return Err(wait(Reason::EndpointDiffers, message));
        }
    }
    for host in view.infrastructure.and_then(|one| one.host.as_ref()).into_iter().chain(&cluster.host) {
        let Ok(ip) = host.parse() else {
            return Err(wait(Reason::EndpointIsAName, format!("the host is {host}, which is no address")));
        };
        if let Some(other) = found.replace(ip).filter(|other| *other != ip) {
            let message =
                format!("one of Cluster, infrastructure and variables has {ip}, and another {other}: make them one");
            return Err(wait(Reason::EndpointDiffers, message));
        }
    }
    Ok(found)
}

/// The address of the claim.
fn claimed(
    view: &View<'_>,
    pool: &Arc<PoolRef>,
    host: Option<IpAddr>,
    wants: &mut Vec<Companion>,
) -> Result<IpAddr, Stop> {
    let cluster = view.cluster;
    let name = &cluster.key.name;
    let taken =
        || wait(Reason::NameTaken, format!("a claim {name} exists and belongs to somebody else: delete or rename it"));
    let Some(claim) = view.claims.get(name) else {
        if (view.hidden)(name) {
            // Mostly the watch is late.
            let message = format!(
                "a claim {name} exists and is not shown: if it is of another provider's pool, delete or rename it"
            );
            return Err(wait(Reason::Allocating, message));
        }
        let paused = (cluster.paused || cluster.held) && !view.waits_for_us();
        if host.is_some() && paused && !planted(Flaw::PinsUnderMove) {
            // clusterctl may be moving the Cluster, and have taken the claim along already.
            return Err(wait(
                Reason::Paused,
                "no claim is made for its host while the Cluster is paused for another reason",
            ));
        }
        let (key, parent) = (cluster.key.clone(), Parent::of(cluster));
        let new = NewClaim { key, parent, pool: pool.clone(), requested: host };
        return Err(Write::CreateClaim(Box::new(new)).into());
    };
    match bond(claim, cluster) {
        Bond::Foreign => return Err(taken()),
        Bond::Missing(write) => return Err(write.into()),
        Bond::Whole => {}
    }
    if claim.deleting {
        // One that an earlier Cluster of this name had.
        let earlier = is_of_another(claim, cluster) && host != claim.address;
        if claim.bound.is_some() && !earlier {
            // It keeps its address as long as the Cluster lives, or has it anywhere.
            let_go(view, claim, wants)?;
        } else if let Some(ip) = kept_for_later(view, claim, host) {
            let message = format!(
                "claim {name} is being deleted, and keeps {ip} until the Cluster goes on; then another is made for it"
            );
            return Err(wait(Reason::Paused, message));
        } else if claim.in_use() {
            return Err(Write::ReleaseClaim(claim_target(claim)).into());
        } else {
            return Err(wait(Reason::Allocating, format!("claim {name} is being deleted; then another is made")));
        }
    }
    if claim.bound.is_none() && host.is_some() && view.held() {
        let message = format!(
            "claim {name} waits for its address until the Cluster goes on, or its IPAddress comes along, as with clusterctl move"
        );
        return Err(wait(Reason::Paused, message));
    }
    if claim.bound.is_none() && is_given(claim) && claim.asks_for() != host && !view.held() {
        // It asks for a host that the Cluster does not have any more.
        return Err(Write::DeleteClaim(claim_target(claim)).into());
    }
    address_of(claim).map_err(|stop| match stop {
        Stop::Wait(Condition { reason, message }) if claim.pool != *pool => {
            let of = &claim.pool;
            let hint = "delete the claim to get another of that";
            wait(reason, format!("{message}. The claim is of {of}, and the Cluster names {pool} now: {hint}"))
        }
        other => other,
    })
}

/// The host, if a restored claim that is being deleted had it, and no other claim is made for it before the Cluster goes on.
fn kept_for_later(view: &View<'_>, claim: &Claim, host: Option<IpAddr>) -> Option<IpAddr> {
    let had = claim.had().filter(|had| claim.bound.is_none() && Some(*had) == host);
    had.filter(|_| view.held() && !planted(Flaw::ReleasesTheRestored))
}

/// Whether the claim was made for an address that the Cluster had already.
pub(super) fn is_given(claim: &Claim) -> bool {
    claim.mark().is_some_and(|mark| mark.given)
}

/// Writes the host where it is empty. With a topology the topology controller does it.
fn write_host(view: &View<'_>, address: IpAddr) -> Result<(), Stop> {
    match view.infrastructure.filter(|one| one.host.is_none() && view.cluster.variables.is_none()) {
        Some(one) => {
            let at = target(&one.reference.key, &one.uid, &one.version);
            // Many kinds want both, and Cluster API counts an endpoint without port as none.
            let port = one.port.is_none().then(|| view.cluster.port.unwrap_or(API_PORT));
            Err(Write::Host(at, one.reference.clone(), address, port).into())
        }
        None => Ok(()),
    }
}
