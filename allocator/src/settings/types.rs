//! The settings as the program uses them, checked.

use std::time::Duration;

use mooring_allocator_services::class::ClassRules;
use mooring_common::kubeconfig::Source;
use mooring_common::log::LogSettings;
use mooring_common::values::Listen;

use crate::api::PartKind;
use crate::driver::Scope;

/// All settings of the allocator.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address of the cluster.
    pub source: Source,
    /// Writes under way at a time.
    pub writes: usize,
    /// Writes a second; None: as many as the API server takes.
    pub writes_per_second: Option<u32>,
    /// For a call.
    pub call_deadline: Duration,
    /// For a page of a list.
    pub list_deadline: Duration,
    /// Which claims belong to this allocator.
    pub scope: Scope,
    /// The pools of all namespaces that name no network are of one network.
    pub one_network: bool,
    /// Claims of metal3's pools are served.
    pub metal3: bool,
    /// Claims of pools of OpenStack's floating IPs are served.
    pub openstack: bool,
    /// Claims of pools whose addresses phpIPAM gives are served.
    pub phpipam: bool,
    /// This allocator's name.
    pub identity: String,
    /// The election; None: this allocator always works.
    pub election: Option<Election>,
    /// Services of type `LoadBalancer`; None: Services are left alone.
    pub services: Option<Services>,
    /// Control-plane endpoints of Clusters; None: Clusters are left alone.
    pub endpoints: Option<Endpoints>,
    /// Whether `VSphereMachines` get addresses.
    pub machine_addresses: bool,
    /// The namespace of the Secrets that such pools name.
    pub secrets_namespace: String,
    /// Whether Events are written.
    pub events: bool,
    /// Where metrics and health are served; None: nowhere.
    pub metrics: Option<Listen>,
    /// The log.
    pub log: LogSettings,
}

/// How Services of type `LoadBalancer` get their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// Which Services are handled.
    pub classes: ClassRules,
    /// Namespace and name of the `ConfigMap` with addresses.
    pub config_map: (String, String),
    /// The namespace of the claims that Services of several namespaces share.
    pub home: String,
    /// Whether a Service gets an address that it asks for and that no pool has.
    pub outside_pools: bool,
}

/// How Clusters get their control-plane endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The kinds of infrastructure clusters.
    pub kinds: Vec<PartKind>,
}

/// The election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The Lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// For how long a renewal lasts.
    pub lease_duration: Duration,
    /// After this time a failing renewal is given up.
    pub renew_deadline: Duration,
    /// Between two renewals.
    pub retry_period: Duration,
}
