//! What is tried in the simulated world: a core, and everything that this core alone has.
//!
//! The world ([`crate::world`]) is written once: time, hosts, kernels, segments, API failures, faults, plans, pictures. A
//! [`Subject`] brings the core that ships, its API objects and calls, its settings, its own faults, its checks and bounds.
//! There are two: [`crate::elector::Elector`] and [`crate::session_vips::SessionVips`].

use std::fmt::Debug;
use std::net::IpAddr;

use mooring_agent_core::mac::Mac;
use mooring_agent_core::{Core, Event, Output, Probe};

use crate::bounds::Bounds;
use crate::check::{Limits, Look};
use crate::clock::Nanos;
use crate::fault::{Fault, OwnFault};
use crate::host::Host;
use crate::kernel::Standing;
use crate::plan::{Pace, Plan};
use crate::rng::Rng;
use crate::segment::{Frame, What};
use crate::settings::Settings;
use crate::world::World;

/// What the core alone is told.
pub type InputOf<S> = <<S as Subject>::Core as Core>::Input;
/// What the core alone asks of the API.
pub type CallOf<S> = <<S as Subject>::Core as Core>::Call;
/// What the core reports.
pub type ReportOf<S> = <<S as Subject>::Core as Core>::Report;
/// What the core is told.
pub type EventOf<S> = Event<InputOf<S>>;
/// What the core wants done.
pub type OutputOf<S> = Output<CallOf<S>, ReportOf<S>>;
/// A fault, common or own.
pub type FaultOf<S> = Fault<<S as Subject>::Fault>;

/// A core that is tried, and what this core alone has.
pub trait Subject: Copy + Debug + Send + Sync + 'static {
    /// The core that ships.
    type Core: Core<Input: Debug, Call: Debug, Report: Debug> + Debug;
    /// The settings drawn for this core's runs, in addition to the common settings.
    type Settings: Clone + Debug + Send + Sync;
    /// Faults that only this core's world knows: of its API objects, of its watches.
    type Fault: OwnFault;
    /// What happens in this core's world alone: requests, answers, watch events.
    type Item: Debug;
    /// What this core's world keeps of a host.
    type Host: Debug;
    /// What this core's world keeps of an agent's process.
    type Process: Debug;
    /// The API: objects, servers, calls under way.
    type Api: Debug;
    /// What the checks remember.
    type Checks: Debug;

    /// The plan is drawn from this stream of the seed, and what is not in the plan from the next one.
    const STREAM: u64;
    /// How many faults there are, and how far apart.
    const PACE: Pace;
    /// So many of a thousand wall clocks are off by hours instead of seconds.
    const CLOCKS_FAR_OFF: u32;
    /// A probe that reaches a kernel within this time is answered as things are when it is sent.
    const ANSWERED_AT_ONCE: Nanos;
    /// Announcements reach the client, which remembers them.
    const CLIENT_LEARNS: bool;
    /// So long after the end of its fence an address may still be there, if the kernel is not slow.
    const PAST_FENCE: Nanos;

    /// Draws the settings of a run. `nodes`: so many, whatever is drawn.
    fn settings(rng: &mut Rng, nodes: Option<usize>) -> Settings<Self>;
    /// Draws a fault.
    fn draw(rng: &mut Rng, settings: &Settings<Self>) -> FaultOf<Self>;
    /// How often settings and faults were added after seeds had been kept.
    const WIDENINGS: usize = 0;
    /// Draws what was added at that time, from a stream apart: kept seeds stay what they were.
    fn widen(_plan: &mut Plan<Self>, _widening: usize) {}

    /// How many VIPs there may ever be.
    fn vips(settings: &Settings<Self>) -> usize;
    /// The address of a VIP.
    fn vip(settings: &Settings<Self>, vip: usize) -> IpAddr;
    /// The VIP of an address.
    fn vip_of(settings: &Settings<Self>, address: IpAddr) -> Option<usize>;
    /// The segment that a VIP is on.
    fn segment_of(_settings: &Settings<Self>, _vip: usize) -> usize {
        0
    }
    /// How many API servers there are.
    fn servers(_settings: &Settings<Self>) -> usize {
        1
    }
    /// How long anything may take.
    fn bounds(settings: &Settings<Self>) -> Bounds;

    /// What is kept of a host that has just booted for the first time.
    fn host(n: usize, settings: &Settings<Self>) -> Self::Host;
    /// The API at the beginning.
    fn api(settings: &Settings<Self>) -> Self::Api;
    /// The checks at the beginning.
    fn checks(plan: &Plan<Self>) -> Self::Checks;
    /// The world begins: objects that are there, looks that are planned.
    fn begin(_world: &mut World<'_, Self>) {}
    /// Looks are planned that only this core's checks take.
    fn plan_looks(_world: &mut World<'_, Self>) {}

    /// Whether the host runs the agent that is tried, and not a rival of it.
    fn is_ours(_host: &Host<Self>) -> bool {
        true
    }
    /// The rival starts.
    fn start_rival(_world: &mut World<'_, Self>, _host: usize) {}
    /// A core that knows nothing yet, and what is kept of its process: the host's process of that number.
    fn process(n: usize, life: u32, settings: &Settings<Self>) -> (Self::Core, Self::Process);
    /// A process has begun: the core is told of its node, its watches are opened.
    fn start(world: &mut World<'_, Self>, host: usize);
    /// A process is gone.
    fn ended(world: &mut World<'_, Self>, host: usize);
    /// The core is about to get this input.
    fn before_step(world: &mut World<'_, Self>, host: usize, event: &EventOf<Self>);
    /// The core has been told, and what it wanted is under way.
    fn after_step(_world: &mut World<'_, Self>, _host: usize) {}
    /// Whether the core carries nothing that a late step could make it unsure of.
    fn is_idle(_core: &Self::Core) -> bool {
        false
    }
    /// What the core takes its node for, in a word: for pictures.
    fn role(core: &Self::Core) -> &'static str;
    /// Whether the core has seen that the host with this Ethernet address takes part.
    fn knows(core: &Self::Core, mac: Mac) -> bool;
    /// The core asks something of the API.
    fn call(world: &mut World<'_, Self>, host: usize, call: CallOf<Self>);
    /// The core reports something.
    fn reported(world: &mut World<'_, Self>, host: usize, report: ReportOf<Self>);
    /// The core asks the segment for an address.
    fn asks(_world: &mut World<'_, Self>, _host: usize, _probe: &Probe) {}

    /// The host whose agent an item belongs to, if it belongs to an agent; None if that agent's process is gone.
    fn process_of(world: &World<'_, Self>, item: &Self::Item) -> Option<Option<usize>>;
    /// Whether it is an answer of the API: to a machine that stood still, it is sent again later.
    fn is_answer(item: &Self::Item) -> bool;
    /// Whether it comes through a watch: to a machine that stood still, it is sent again later, in order.
    fn is_watched(item: &Self::Item) -> bool;
    /// The host has stood still, and its watches go on a little later.
    fn stall_watches(world: &mut World<'_, Self>, host: usize);
    /// It happens.
    fn happen(world: &mut World<'_, Self>, item: Self::Item);

    /// A frame reaches the socket of an agent, which may be stopped.
    fn frame_arrives(_world: &mut World<'_, Self>, _frame: &Frame) {}
    /// The agent takes a frame in; whether it passes the frame on to the core.
    fn frame_taken(world: &mut World<'_, Self>, frame: &Frame) -> bool;
    /// A station tells the client that it has a VIP.
    fn client_hears(_world: &mut World<'_, Self>, _vip: usize, _from: usize) {}

    /// A fault begins: what the common part of it does not do.
    fn strike(world: &mut World<'_, Self>, fault: FaultOf<Self>);
    /// A fault ends: what the common part of it does not do.
    fn heal(world: &mut World<'_, Self>, fault: FaultOf<Self>);
    /// A host that stood still for so long goes on.
    fn wake(_world: &mut World<'_, Self>, _host: usize, _slept: Nanos) {}
    /// As if there were no fault.
    fn mend(world: &mut World<'_, Self>);
    /// This fault of its own is there now.
    fn apply(world: &mut World<'_, Self>, fault: Self::Fault);
    /// All faults that are there now have been applied.
    fn applied(world: &mut World<'_, Self>);

    /// A change of carriers, of connections between hosts, or of agents that can act.
    fn touched(world: &mut World<'_, Self>);
    /// The set of carriers of a VIP has changed.
    fn touched_vip(world: &mut World<'_, Self>, vip: usize);
    /// A fault begins or ends.
    fn disturbed(world: &mut World<'_, Self>, fault: usize);
    /// A check's time has come.
    fn look(world: &mut World<'_, Self>, look: Look);
    /// The client asks all VIPs.
    fn ping(world: &mut World<'_, Self>);
    /// How long two that hear each other may both carry a VIP, by what the two can know.
    fn owners_bound(world: &World<'_, Self>, a: usize, b: usize) -> Nanos;
    /// Whether nodes that hear one another, and nobody else, are too few to carry VIPs without the API.
    fn is_cut_off(settings: &Settings<Self>, inside: &[usize]) -> bool;
    /// Whether a host has an API server to speak to.
    fn has_any_api(world: &World<'_, Self>, host: usize) -> bool;
    /// Whether an address may be there past its fence.
    fn excuses(world: &World<'_, Self>, host: usize, standing: &Standing) -> bool;
    /// Requests of one node within ten seconds.
    fn calls_allowed(world: &World<'_, Self>) -> u32 {
        world.bounds.calls
    }
    /// Whether a VIP's address is a node's own.
    fn owns(_settings: &Settings<Self>, _node: usize, _vip: usize) -> bool {
        false
    }
    /// Beyond these, an agent or the world is stuck.
    fn limits(world: &World<'_, Self>) -> Limits;
}

/// The VIPs are numbered; these are their segments and addresses.
#[must_use]
pub fn what_of<S: Subject>(settings: &Settings<S>, address: IpAddr) -> Option<What> {
    S::vip_of(settings, address).map(What::Vip).or_else(|| crate::settings::owner(address).map(What::Own))
}
