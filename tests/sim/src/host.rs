//! A node: its kernel, its clocks, and the process of its agent.

use std::collections::VecDeque;

use mooring_core::event::{Event, Moment, Node};
use mooring_core::keeper::Keeper;
use mooring_core::lease::{LeaseView, Participant, Record};
use mooring_core::rules::Rules;
use mooring_core::time::{Time, WallTime};

use crate::api::Client;
use crate::clock::{Clock, Nanos};
use crate::health::Prober;
use crate::place::Place;
use crate::queue::Item;
use crate::rival::Rival;
use crate::segment::What;
use crate::settings::{self, Settings};

/// An address on the interface.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// When its lifetime ends, by the host's own time (which stands still with the host); the timer is later. None: never.
    pub ends: Option<Nanos>,
    /// Which lifetime this is: a timer for another one does nothing.
    pub generation: u32,
    /// By the agent's boot clock: when it must be gone.
    pub until: Time,
    /// Whether that was the end of the holder's Lease, not of a short fence.
    pub leased: bool,
    /// Which process asked for it.
    pub life: u32,
}

/// Why a host is silent, with nothing in it going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// Since when.
    pub since: Nanos,
    /// Its boot clock stands still too.
    pub stunned: bool,
}

/// See the module's text.
#[derive(Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its clocks.
    pub clock: Clock,
    /// It has power, and has booted.
    pub up: bool,
    /// It stands still.
    pub asleep: Option<Asleep>,
    /// The link is up.
    pub link: bool,
    /// The node's own address is there.
    pub own: bool,
    /// The VIPs on the interface.
    pub vips: Vec<Option<Standing>>,
    /// Counts lifetimes.
    pub generation: u32,
    /// How long the kernel takes for an address.
    pub kernel: Nanos,
    /// Until then it may still be busy with what it was slow at.
    pub slow_until: Nanos,
    /// The kernel refuses addresses.
    pub refuses: bool,
    /// The agent, while its process is there.
    pub agent: Option<Box<Agent>>,
    /// Which agent that is.
    pub life: u32,
    /// The agent is stopped so many times over.
    pub stopped: u32,
    /// What waits for a stopped agent, or a host that stands still; how long after it stopped that came.
    pub waiting: VecDeque<(Nanos, Item)>,
    /// How late the agent gets the processor, at most.
    pub starved: Nanos,
    /// The agent should be running: something else than a fault ended it otherwise.
    pub wanted: bool,
    /// Another elector than ours.
    pub rival: Option<Rival>,
    /// Since when it could serve the client, if it can.
    pub able: Option<Nanos>,
}

/// The agent's process.
#[derive(Debug)]
pub struct Agent {
    /// The core.
    pub keeper: Keeper,
    /// When the loop's timer goes off.
    pub tick: Nanos,
    /// The wake-up that it was set for.
    pub wake: Option<Time>,
    /// The clocks at the last step.
    pub last: Option<Moment>,
    /// The datapath's task.
    pub place: Place,
    /// Calls, the watch.
    pub api: Client,
    /// The health of the local API server.
    pub prober: Prober,
    /// It has been asked to end.
    pub ending: bool,
    /// It has looked for what an earlier run left.
    pub looked: bool,
    /// Its writes that took effect and made this node the holder, and when each was sent.
    pub effects: VecDeque<(Record, Time)>,
    /// When the last of those that it was shown was sent.
    pub confirmed: Option<Time>,
    /// When it let go of what it carried: what it had heard of a holder before is forgotten.
    pub let_go: Nanos,
    /// When a VIP was last answered for, or claimed, by another, and the frame came this far.
    pub heard: Nanos,
    /// The same, by station.
    pub heard_from: Vec<Nanos>,
    /// When a station's frame for a VIP was last taken in by an agent that knew it as the holder.
    pub heard_holder: Vec<Nanos>,
    /// When a third party last answered.
    pub third: Nanos,
    /// Its last step that came late, as long as it has not looked around since: when, and how.
    pub late: Option<Nanos>,
    /// So many steps within this second of simulated time.
    pub steps: (Nanos, u32),
}

impl Host {
    /// A host that has booted, without an agent.
    #[must_use]
    pub fn new(n: usize, settings: &Settings, boot: u64, wall: i64) -> Self {
        Self {
            name: settings::name(n),
            clock: Clock::new(0, boot, settings.ppm[n], wall),
            up: true,
            asleep: None,
            link: true,
            own: true,
            vips: vec![None; settings.vips.len()],
            generation: 0,
            kernel: 0,
            slow_until: 0,
            refuses: false,
            agent: None,
            life: 0,
            stopped: 0,
            waiting: VecDeque::new(),
            starved: 0,
            wanted: true,
            rival: (settings.rival == Some(n)).then(Rival::default),
            able: None,
        }
    }

    /// Its kernel runs.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.up && self.asleep.is_none()
    }

    /// Its agent can act.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_awake() && self.stopped == 0 && self.agent.as_ref().is_some_and(|agent| agent.looked)
    }

    /// Its kernel answers for that VIP.
    #[must_use]
    pub fn carries(&self, vip: usize) -> bool {
        self.up && self.vips[vip].is_some()
    }

    /// The clocks.
    #[must_use]
    pub fn moment(&self, now: Nanos) -> Moment {
        Moment { now: Time::from_nanos(self.clock.boot(now)), wall: WallTime(self.clock.wall(now)) }
    }
}

impl Host {
    /// A station's frame is taken in.
    pub fn heard_in_tenure(&mut self, from: usize, what: What, name: Option<&String>, now: Nanos) {
        let Some(agent) = self.agent.as_mut().filter(|_| matches!(what, What::Vip(_))) else { return };
        if agent.keeper.snapshot().lease.is_some_and(|lease| Some(&lease.record.holder) == name) {
            agent.heard_holder[from] = now;
        }
    }
}

/// So many writes are remembered.
const EFFECTS: usize = 16;

impl Agent {
    /// A write of its own has taken effect.
    pub fn took_effect(&mut self, id: u64, record: &Record) {
        if let Some((_, sent)) = self.api.sent.iter().find(|(one, _)| *one == id) {
            self.effects.push_back((record.clone(), *sent));
            while self.effects.len() > EFFECTS {
                self.effects.pop_front();
            }
        }
    }

    /// The Lease was shown to it: by an answer, a read, the watch.
    pub fn was_shown(&mut self, view: &LeaseView) {
        if let Some((_, sent)) = self.effects.iter().rev().find(|(record, _)| *record == view.record) {
            self.confirmed = self.confirmed.max(Some(*sent));
            self.late = self.late.filter(|late| Time::from_nanos(*late) > *sent);
        }
    }

    /// A process that has just begun.
    #[must_use]
    pub fn new(n: usize, settings: &Settings) -> Self {
        let rules = Rules { node: settings::name(n), ..settings.rules.clone() };
        Self {
            keeper: Keeper::new(rules),
            tick: Nanos::MAX,
            wake: None,
            last: None,
            place: Place::new(settings.vips.len()),
            api: Client::new(n, settings),
            prober: Prober::new(settings),
            ending: false,
            looked: false,
            effects: VecDeque::new(),
            confirmed: None,
            heard: 0,
            let_go: 0,
            heard_from: vec![0; settings.nodes + 3],
            heard_holder: vec![0; settings.nodes + 3],
            third: 0,
            late: None,
            steps: (0, 0),
        }
    }
}

/// What the agent is told of its node.
#[must_use]
pub fn node(n: usize, settings: &Settings) -> Event {
    let macs = vec![settings::mac(n)];
    let participant = Participant { macs: macs.clone(), addresses: vec![settings::own(n)] };
    Event::Node(Node { participant, macs, gateways: vec![settings::own(settings.nodes)] })
}
