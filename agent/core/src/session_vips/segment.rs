//! What was heard on the segments that is not about one VIP alone.

use std::collections::BTreeMap;

use crate::mac::Mac;
use crate::peers::Peers;
use crate::time::Time;

/// The segments of this node's interfaces.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// When a VIP was last defended against that host, by an answer of the API. The host's other claims wait for one another.
    pub(super) defended: BTreeMap<Mac, Time>,
    /// When the address of a gateway or a peer was last heard on an interface: third parties.
    pub(super) third_heard: BTreeMap<u32, Time>,
    /// Whether any other node is heard.
    pub(super) peers: Peers,
    /// When this node last knew that it was cut off: of all that it watches and asks, nobody had answered for as long as a watcher
    /// waits.
    pub(super) deaf: Option<Time>,
}
