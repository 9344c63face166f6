//! Marks for the control-plane endpoints of Cluster API's Clusters: on the Clusters, their namespaces and claims.

/// The value of [`POOL`] that names no pool.
pub const NONE: &str = "none";
/// The variable of a Cluster's topology that says the same as [`POOL`].
pub const POOL_VARIABLE: &str = "mooringEndpointPool";

crate::mark::marks! {
    /// The pool of the endpoint's address. On a namespace: for all its Clusters that say nothing.
    Annotation POOL = "mooring.dev/endpoint-pool" {
        on: "Cluster, namespace", value: "`KIND/NAME`, or `none`", "people" => "allocator"
    }

    /// The Cluster is paused until its endpoint is written everywhere, and for nothing else.
    Annotation PAUSED_FOR_ENDPOINT = "mooring.dev/paused-for-endpoint" {
        on: "Cluster", value: "`true`", "people" => "allocator"
    }

    /// With a topology: the variables that get the address.
    Annotation VARIABLES = "mooring.dev/endpoint-variables" {
        on: "Cluster", value: "`NAME` or `NAME.FIELD`, comma separated", "people" => "allocator"
    }

    /// The pool of the addresses for the cluster's Services.
    Annotation SERVICE_POOL = "mooring.dev/service-lb-pool" {
        on: "Cluster", value: "`KIND/NAME`", "people" => "allocator"
    }

    /// How many addresses the cluster's Services get.
    Annotation SERVICE_COUNT = "mooring.dev/service-lb-count" {
        on: "Cluster", value: "1 to 64", "people" => "allocator"
    }

    /// Where these addresses are written.
    Annotation SERVICE_TARGET = "mooring.dev/service-lb-target" {
        on: "Cluster", value: "`ConfigMap/NAME/KEY` or `HelmRelease/NAME/FIELD.FIELD`", "people" => "allocator"
    }

    /// The claim was made for an address that the Cluster had already: its host, or one that `mooring.dev/service-lb-target` lists.
    Annotation GIVEN = "mooring.dev/endpoint-given" {
        on: "claims of endpoints", value: "`true`", "allocator" => "allocator"
    }

    /// The Cluster whose endpoint, or whose Services, the address is for.
    Label CLUSTER = "mooring.dev/endpoint-cluster" {
        on: "claims of endpoints", value: "the Cluster's name", "allocator" => "allocator"
    }

    /// The Cluster is not gone yet.
    Finalizer IN_USE = "mooring.dev/endpoint-in-use" {
        on: "claims of endpoints", value: "", "allocator" => "allocator"
    }

    /// Whether the Cluster's endpoint is written everywhere, and what it waits for.
    Condition CONDITION = "mooring.dev/EndpointReady" {
        on: "claims of endpoints", value: "see [the reasons](../endpoint.md#what-it-says)", "allocator" => "people"
    }

    /// The address stood in all places once, and `mooring.dev/EndpointReady` does not say so at the moment. The message is the
    /// address: what machines were made with.
    Condition STOOD = "mooring.dev/EndpointWasWritten" {
        on: "claims of endpoints", value: "the address", "allocator" => "allocator"
    }
}
