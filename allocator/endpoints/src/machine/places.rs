//! The places of the address besides the host: `Secret`s, the control plane's object, variables of a topology.

use std::net::IpAddr;

use mooring_allocator_core::few::few;
use serde_json::Value;

use crate::manifest::{self, Manifest};
use crate::objects::{Companion, ControlPlane, File, Place, Reading};
use crate::reason::Reason;
use crate::variables::{self, Changed};

use super::Write;
use super::action::Change;
use super::flaws::{Flaw, planted};
use super::view::{Step, Stop, View, target, wait};

/// Which places are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// None.
    Nothing,
    /// Those in which nothing stands. Machines were made from texts with the address: to put it back rolls nothing out, and to
    /// leave the place empty rolls out machines without an address.
    Empty,
    /// These, and the names in certificates: the address stood among them.
    Lost,
    /// Each that lacks the address.
    Everything,
}

impl Repair {
    /// Whether a place that lacks the address is written. `empty`: nothing stands in it.
    fn writes(self, empty: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Empty | Self::Lost => empty,
            Self::Everything => true,
        }
    }
}

/// Checks the places. Returns those that lack the address. `repair`: the first of these is written instead. `given`: somebody
/// else gave the address; then it need not be among the `certSANs`, since kubeadm adds the endpoint by itself.
pub(super) fn check(
    view: &View<'_>,
    ip: IpAddr,
    (repair, given): (Repair, bool),
    wants: &mut Vec<Companion>,
) -> Result<Vec<String>, Stop> {
    if let Some(all) = &view.cluster.variables {
        return of_topology(view, all, ip, repair);
    }
    let Some(reference) = &view.cluster.control_plane else { return Ok(Vec::new()) };
    if !crate::machine::CONTROL_PLANES.contains(&&*reference.kind) {
        return Ok(Vec::new());
    }
    let Some(one) = view.control_plane.filter(|one| !one.deleting) else {
        return Err(wait(Reason::WaitingForControlPlane, format!("there is no {reference} yet")));
    };
    let mut lacking = Vec::new();
    let mut change = Change::default();
    match &one.place {
        Place::Files(files) => {
            for (file, secret) in one.secrets() {
                of_secret(view, (file, secret), ip, repair, (wants, &mut lacking))?;
            }
            change.files = of_files(files, ip, repair, &mut lacking)?;
        }
        Place::ServiceAddress(None) if repair.writes(true) => change.address = Some(ip),
        Place::ServiceAddress(None) => lacking.push(reference.to_string()),
        Place::ServiceAddress(Some(text)) if text.parse() == Ok(ip) => {}
        Place::ServiceAddress(Some(text)) => {
            return Err(wait(
                Reason::EndpointDiffers,
                format!("{reference} has the serviceAddress {text}, and the claim {ip}"),
            ));
        }
    }
    match with_san(one, ip) {
        Some(sans) if matches!(repair, Repair::Everything | Repair::Lost) || planted(Flaw::AddsNames) => {
            change.sans = Some(sans);
        }
        Some(_) if !given => lacking.push(format!("the certSANs of {reference}")),
        _ => {}
    }
    if change != Change::default() {
        let at = target(&one.reference.key, &one.uid, &one.version);
        return Err(Write::ControlPlane(at, one.reference.clone(), Box::new(change)).into());
    }
    Ok(lacking)
}

fn of_topology(view: &View<'_>, all: &[Value], ip: IpAddr, repair: Repair) -> Result<Vec<String>, Stop> {
    let notes = &view.cluster.notes;
    if notes.variable_names().next().is_none() {
        let has = view.infrastructure.and_then(|one| one.host.as_ref()).is_some();
        let message = format!(
            "it has {ip}; name the variables of the topology that get it in the annotation {}",
            crate::words::VARIABLES
        );
        return if has { Ok(Vec::new()) } else { Err(wait(Reason::NeedsVariable, message)) };
    }
    match variables::put(all, notes.variable_names(), ip) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(Changed { all, empty })) if repair.writes(empty) => {
            Err(Write::Variables(view.cluster_target(), all).into())
        }
        Ok(Some(_)) => Ok(vec!["the variables of the topology".to_owned()]),
        Err(error) => Err(wait(Reason::NeedsVariable, error.to_string())),
    }
}

/// `certSANs` with the address; None: it is there.
fn with_san(one: &ControlPlane, ip: IpAddr) -> Option<Vec<Box<str>>> {
    if one.sans.iter().any(|san| san.trim().parse() == Ok(ip)) {
        return None;
    }
    Some(one.sans.iter().cloned().chain([ip.to_string().into()]).collect())
}

fn of_secret(
    view: &View<'_>,
    (file, what): (&File, Companion),
    ip: IpAddr,
    repair: Repair,
    (wants, lacking): (&mut Vec<Companion>, &mut Vec<String>),
) -> Result<(), Stop> {
    wants.push(what.clone());
    let (reading, text) = match (view.read)(&what) {
        None => return Err(Stop::Step(Box::new(Step::Read(what)))),
        Some(Some(Reading { uid, version, text: Some(text), .. })) => ((uid, version), text),
        Some(_) if repair == Repair::Everything => {
            return Err(wait(Reason::WaitingForSecret, format!("there is no {what} yet")));
        }
        Some(_) => {
            lacking.push(format!("{what}, which does not exist"));
            return Ok(());
        }
    };
    match put(file, &text, ip) {
        Ok(Manifest::NotOurs | Manifest::Carries) => Ok(()),
        Ok(Manifest::Changed { text: new, empty }) if repair.writes(empty) => {
            // What machines of this Cluster were made with is put back, whoever else gets the Secret.
            let others = if repair == Repair::Everything { (view.shared)(&what) } else { Vec::new() };
            if !others.is_empty() && !planted(Flaw::WritesSharedSecrets) {
                let message = format!(
                    "the machines of Cluster {} get {what} too, and would announce {ip}: give each Cluster a Secret of its own",
                    few(&others)
                );
                return Err(wait(Reason::ManifestNotUsable, message));
            }
            let at = target(what.key(), &reading.0, &reading.1);
            Err(Write::Text(at, what, new).into())
        }
        Err(error) if repair == Repair::Everything => Err(wait(Reason::ManifestNotUsable, format!("{what}: {error}"))),
        Ok(Manifest::Changed { .. }) | Err(_) => {
            lacking.push(what.to_string());
            Ok(())
        }
    }
}

/// All files with the address in those that are written inline; None: it is there.
fn of_files(files: &[File], ip: IpAddr, repair: Repair, lacking: &mut Vec<String>) -> Result<Option<Vec<Value>>, Stop> {
    let mut changed = false;
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let mut whole = file.whole.clone();
        if let Some(content) = file.content.as_ref().filter(|_| file.is_manifest()) {
            match put(file, content, ip) {
                Ok(Manifest::NotOurs | Manifest::Carries) => {}
                Ok(Manifest::Changed { text: new, empty }) if repair.writes(empty) => {
                    whole["content"] = new.into();
                    changed = true;
                }
                Err(error) if repair == Repair::Everything => {
                    return Err(wait(Reason::ManifestNotUsable, format!("file {}: {error}", file.path)));
                }
                Ok(Manifest::Changed { .. }) | Err(_) => lacking.push(format!("file {}", file.path)),
            }
        }
        all.push(whole);
    }
    Ok(changed.then_some(all))
}

fn put(file: &File, content: &str, ip: IpAddr) -> Result<Manifest, manifest::ManifestError> {
    if !file.encoded {
        return manifest::put(content, ip);
    }
    let ours = ["vip", "mooring"].iter().any(|mark| file.path.contains(mark));
    if ours { Err(manifest::ManifestError::Encoded) } else { Ok(Manifest::NotOurs) }
}
