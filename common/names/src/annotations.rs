//! Annotations. Those of Mooring begin with [`OURS`].

/// The prefix of all annotations of Mooring.
pub const OURS: &str = "mooring.dev/";

/// On a claim, before it has an address: the address it wants, `10.0.0.7` say. It gets that one or none, and its condition
/// says why.
pub const REQUESTED_ADDRESS: &str = "mooring.dev/requested-address";

/// On a claim: how many of its `IPAddress` objects were declared void, one after another had its address earlier. None of a
/// lower number may ever be bound.
pub const VOIDED: &str = "mooring.dev/voided";

/// On an `IPAddress`: for which claim it was made or adopted, and its number: `UID NUMBER`, or `UID NUMBER adopted`.
pub const ATTEMPT: &str = "mooring.dev/attempt";

/// On an `IPAddress` without a claim: the uid of the one whose address it keeps back, until [`QUARANTINED_UNTIL`].
pub const RESTS_FOR: &str = "mooring.dev/rests-for";

/// On an `IPAddress`: nobody may have the address before this moment (RFC 3339, UTC), though its claim is gone.
pub const QUARANTINED_UNTIL: &str = "mooring.dev/quarantined-until";

/// On an `IPAddress`: a node heard another owner of the address on the wire; the value says who and when, for people. The
/// address then rests (`quarantine.afterConflictSeconds` of its pool; 600 without), and its claim gets another one. A claim
/// that was given this very address (by [`REQUESTED_ADDRESS`], by `preAllocations`, or by an `IPAddress` made beforehand)
/// keeps it: its condition says what to do, until the annotation is taken off.
pub const CONFLICT: &str = "mooring.dev/conflict";

/// On an `IPAddress`: which node holds the address, as JSON; `node` is the node's name. Written by the agent that advertises it;
/// cleared by the allocator once nobody is to.
pub const HOLDER: &str = "mooring.dev/holder";

/// On an `IPAddress`, or on a pool for all of its addresses that agents advertise: the interface, or `auto`.
pub const INTERFACE: &str = "mooring.dev/interface";

/// On an `IPAddress`, or on a pool for all of its addresses that agents advertise: labels that a node must have to hold it,
/// `key=value,key!=value,key,!key`.
pub const NODE_SELECTOR: &str = "mooring.dev/node-selector";

/// On an `IPAddress`, or on a pool for all of its addresses that agents advertise: nodes that should rather hold it, with
/// weights, `node1=100,node2`.
pub const PREFERRED_NODES: &str = "mooring.dev/preferred-nodes";

/// On an `IPAddress`, written: which of the three before were copied from its pool, as JSON. What differs is somebody's own.
pub const FROM_POOL: &str = "mooring.dev/from-pool";

/// If an object has this annotation, with any value, all work on the object stops, its deletion too.
/// Source: `PausedAnnotation` in Cluster API's `api/core/v1beta2`.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

/// `clusterctl move` is about to delete the object here, because it has moved to another management cluster.
/// Source: `DeleteForMoveAnnotation` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// `clusterctl move` waits as long as an object has it.
/// Source: `BlockMoveAnnotation` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";

/// A pool with it may be deleted while addresses of it are in use.
/// Source: `SkipValidateDeleteWebhookAnnotation` in `internal/webhooks` of cluster-api-ipam-provider-in-cluster.
pub const SKIP_VALIDATE_DELETE: &str = "ipam.cluster.x-k8s.io/skip-validate-delete-webhook";

/// The `v1alpha1` form of a pool as JSON: the in-cluster provider's conversion left it there. Mooring does not read it:
/// the spec says the same.
/// Source: `DataAnnotation` in Cluster API's `util/conversion`.
pub const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";
