//! Annotations of claims, addresses and pools. Those of Mooring begin with [`OURS`].

/// The prefix of all annotations of Mooring.
pub const OURS: &str = "mooring.dev/";

crate::mark::marks! {
    /// The address that the claim wants. It gets that one or none, and its condition says why.
    Annotation REQUESTED_ADDRESS = "mooring.dev/requested-address" {
        on: "IPAddressClaim, before it has an address", value: "an address, `10.0.0.7` say", "people, allocator" => "allocator"
    }

    /// The address, or the prefix, that the claim is given. Backups have no status: by this annotation a claim that is restored
    /// before its `IPAddress` gets the same address again, if nobody else has it.
    Annotation ADDRESS = "mooring.dev/address" {
        on: "IPAddressClaim", value: "an address, or a prefix", "allocator" => "allocator"
    }

    /// How many of the claim's `IPAddress` objects were declared void, one after another had its address earlier. None of a
    /// lower number may ever be bound.
    Annotation VOIDED = "mooring.dev/voided" {
        on: "IPAddressClaim", value: "a number", "allocator" => "allocator"
    }

    /// For which claim the `IPAddress` was made or adopted, and its number.
    Annotation ATTEMPT = "mooring.dev/attempt" {
        on: "IPAddress", value: "`UID NUMBER`, or `UID NUMBER adopted`", "allocator" => "allocator"
    }

    /// The claim whose address this `IPAddress` keeps back, until the moment in `mooring.dev/quarantined-until`.
    Annotation RESTS_FOR = "mooring.dev/rests-for" {
        on: "IPAddress without a claim", value: "the claim's uid", "allocator" => "allocator"
    }

    /// Nobody may have the address before this moment, though its claim is gone.
    Annotation QUARANTINED_UNTIL = "mooring.dev/quarantined-until" {
        on: "IPAddress", value: "a time (RFC 3339, UTC)", "allocator" => "allocator"
    }

    /// A node heard another owner of the address on the wire. The address then rests (`quarantine.afterConflictSeconds` of its
    /// pool; 600 without), and its claim gets another one. A claim that was given this very address (by
    /// `mooring.dev/requested-address`, by `preAllocations`, or by an `IPAddress` made beforehand) keeps it: its condition says
    /// what to do, until the annotation is taken off.
    Annotation CONFLICT = "mooring.dev/conflict" {
        on: "IPAddress", value: "who and when, for people", "agent" => "allocator, people"
    }

    /// Which node holds the address. The allocator clears it once nobody is to hold the address.
    Annotation HOLDER = "mooring.dev/holder" {
        on: "IPAddress", value: "JSON; `node` is the node's name", "the agent that advertises it" => "allocator, agents"
    }

    /// The interface that carries the address. A pool's value is copied to its addresses that agents advertise.
    Annotation INTERFACE = "mooring.dev/interface" {
        on: "IPAddress, pools", value: "a name, or `auto`", "people, allocator" => "allocator, agents"
    }

    /// Labels that a node must have to hold the address. A pool's value is copied to its addresses that agents advertise.
    Annotation NODE_SELECTOR = "mooring.dev/node-selector" {
        on: "IPAddress, pools", value: "`key=value,key!=value,key,!key`", "people, allocator" => "allocator, agents"
    }

    /// Nodes that should rather hold the address, with weights. A pool's value is copied to its addresses that agents
    /// advertise.
    Annotation PREFERRED_NODES = "mooring.dev/preferred-nodes" {
        on: "IPAddress, pools", value: "`node1=100,node2`", "people, allocator" => "allocator, agents"
    }

    /// Which of `interface`, `node-selector` and `preferred-nodes` were copied from the address's pool. What differs is
    /// somebody's own.
    Annotation FROM_POOL = "mooring.dev/from-pool" {
        on: "IPAddress", value: "JSON", "allocator" => "allocator"
    }

    /// All work on the object stops, its deletion too.
    /// Source: `PausedAnnotation` in Cluster API's `api/core/v1beta2`.
    Annotation PAUSED = "cluster.x-k8s.io/paused" {
        on: "IPAddressClaim, pools, Cluster", value: "any", "Cluster API, people" => "allocator"
    }

    /// `clusterctl move` is about to delete the object here, because it has moved to another management cluster: a pool with it
    /// may be deleted while addresses of it are in use.
    /// Source: `DeleteForMoveAnnotation` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
    Annotation DELETE_FOR_MOVE = "clusterctl.cluster.x-k8s.io/delete-for-move" {
        on: "pools, Cluster, IPAddressClaim", value: "any", "clusterctl" => "allocator, the policy `pool-in-use`"
    }

    /// `clusterctl move` waits as long as an object has it.
    /// Source: `BlockMoveAnnotation` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
    Annotation BLOCK_MOVE = "clusterctl.cluster.x-k8s.io/block-move" {
        on: "all that moves", value: "any", "nobody here" => "clusterctl"
    }

    /// A pool with it may be deleted while addresses of it are in use.
    /// Source: `SkipValidateDeleteWebhookAnnotation` in `internal/webhooks` of cluster-api-ipam-provider-in-cluster.
    Annotation SKIP_VALIDATE_DELETE = "ipam.cluster.x-k8s.io/skip-validate-delete-webhook" {
        on: "pools", value: "any", "people" => "the policy `pool-in-use`"
    }

    /// The `v1alpha1` form of a pool: the in-cluster provider's conversion left it there. Mooring does not need it: the spec
    /// says the same.
    /// Source: `DataAnnotation` in Cluster API's `util/conversion`.
    Annotation CONVERSION_DATA = "cluster.x-k8s.io/conversion-data" {
        on: "pools", value: "JSON", "the in-cluster provider" => "nobody here"
    }
}
