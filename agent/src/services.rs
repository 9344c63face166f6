//! The parts that both placements of Services' VIPs share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::address_task::{self, Needs, Policy, Started};
use crate::api::objects::Key;
use crate::api::{EventNote, Events, Regarding, Severity};
use crate::catalog::Catalog;
use crate::core::placement::Interface;
use crate::core::session_vips::Input;
use crate::event_loop::STUCK;
use crate::ops::Ops;
use crate::ops::services::ServiceVip;
use crate::settings::{Services, ServicesInterface, Settings};
use crate::watches::Message;

/// The first interface, and the default interface for VIPs that specify none.
pub fn interfaces(settings: &Settings, services: &Services) -> (Option<String>, Interface) {
    match &services.interface {
        ServicesInterface::Same => (settings.interface.clone(), Interface::First),
        ServicesInterface::Named(name) => (Some(name.clone()), Interface::First),
        ServicesInterface::Auto => (settings.interface.clone(), Interface::Subnet),
    }
}

/// Tells what Services ask for and do not get: a log line on each node, and one Event. What cannot be queued now is told
/// after a later change.
pub fn tell_remarks(catalog: &mut Catalog, events: &Events) {
    while let Some(remark) = catalog.remark() {
        let (Key { namespace, name }, uid) = (remark.object.clone(), remark.uid.clone());
        let regarding = if remark.is_service {
            Regarding::Service { namespace, name, uid }
        } else {
            Regarding::AddressOfAll { namespace, name, uid }
        };
        let (reason, note) = (remark.reason, remark.text.clone());
        if !events.send(EventNote { regarding, severity: Severity::Warning, reason, action: "Serve", note }) {
            return;
        }
        tracing::warn!(object = %remark.object, reason, "{}", remark.text);
        catalog.remark_was_told();
    }
}

/// For the status: the addresses that are no VIPs, because nodes have them for themselves.
pub fn owned(catalog: &Catalog) -> impl Iterator<Item = ServiceVip> {
    catalog.owned().map(move |(address, node)| ServiceVip {
        address,
        object: catalog.ip_address(address).map(|object| object.metadata.key().to_string()).unwrap_or_default(),
        services: catalog.services_of(address).into_iter().map(ToString::to_string).collect(),
        interface: String::new(),
        holder: String::new(),
        carried: None,
        next: vec![],
        why: format!("not carried: it is an address of the node {node}"),
    })
}

/// Tells a placement which addresses are the control plane's VIPs, at once and after each change.
pub async fn tell_reserved(mut reserved: watch::Receiver<Vec<IpAddr>>, told: mpsc::Sender<Message>) {
    loop {
        let addresses = reserved.borrow_and_update().iter().copied().collect();
        if told.send(Message::Input(Input::Reserved(addresses))).await.is_err() || reserved.changed().await.is_err() {
            return;
        }
    }
}

/// Starts the address task. If the task cannot start, the agent goes on with the control plane's VIP, and `/livez` fails.
pub async fn start_address_task(needs: Needs, settings: &Settings, ops: &Arc<Ops>) -> Started {
    let heart = ops.liveness.watch("services-datapath", STUCK);
    let mut started = address_task::start(Policy::Services, needs, &settings.run_dir, ops, heart);
    if let Ok(Err(error)) = (&mut started.opened).await {
        tracing::error!(
            %error,
            "this node carries no VIP of a Service until the agent is restarted; /livez fails, so that the kubelet restarts it"
        );
    }
    started
}
