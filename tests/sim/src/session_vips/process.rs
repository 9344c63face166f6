//! What the world of session VIPs keeps of an agent's process.

use std::collections::BTreeSet;

use mooring_agent_core::action::{Cause, Why};
use mooring_agent_core::session_vips::{Event, Input, Report};
use mooring_agent_core::time::Time;

use super::SessionVips;
use super::api::Watch;
use crate::clock::Nanos;
use crate::segment::{Frame, What};
use crate::settings::{Settings, segment};
use crate::subject::Subject as _;
use crate::world::World;

/// What is kept of a process.
#[derive(Debug)]
pub struct Process {
    /// The watches.
    pub watches: [Watch; 3],
    /// The nodes whose Leases it follows by name.
    pub follows: BTreeSet<String>,
    /// It is drained.
    pub drained: bool,
    /// Whether it is to stay has changed in this step.
    pub changed: bool,
    /// When a third party last answered itself, by segment.
    pub third: Vec<Nanos>,
    /// When it last asked everybody for each VIP.
    pub asked: Vec<Nanos>,
    /// When it last heard another host speak for each VIP, on the VIP's own segment.
    pub claimed: Vec<Option<Nanos>>,
    /// Whether its links are up, as far as it was told, by segment.
    pub links: Vec<Option<bool>>,
    /// When it was last told that a link which had been down is up, by segment: for the world, and by
    /// its own clock.
    pub came_up: Vec<Option<(Nanos, Time)>>,
}

impl Process {
    /// One that has just begun.
    #[must_use]
    pub fn new(life: u32, settings: &Settings<SessionVips>) -> Self {
        Self {
            watches: std::array::from_fn(|_| Watch::of_process(life)),
            follows: BTreeSet::new(),
            drained: false,
            changed: false,
            third: vec![0; settings.segments],
            asked: vec![0; SessionVips::vips(settings)],
            claimed: vec![None; SessionVips::vips(settings)],
            links: vec![None; settings.segments],
            came_up: vec![None; settings.segments],
        }
    }

    /// It is told how a link is. None: there is no such interface.
    fn link_is(&mut self, now: (Nanos, Time), segment: usize, up: Option<bool>) {
        let known = self.links[segment].replace(up == Some(true));
        if up == Some(true) && known == Some(false) {
            self.came_up[segment] = Some(now);
        }
    }
}

impl World<'_, SessionVips> {
    /// A process begins.
    pub(super) fn own_start(&mut self, host: usize) {
        let found = self.adopt_left_over(host);
        let event = self.node_event(host);
        self.tell(host, event);
        self.tell(host, Event::LeftOver(found));
        for of in self.watches() {
            self.follow(host, *of);
        }
        self.eligible();
    }

    /// The core is about to get this input.
    pub(super) fn own_before_step(&mut self, host: usize, event: &Event) {
        let told = match event {
            Event::Input(Input::Member(member)) => Some(&member.copy),
            Event::Input(Input::Session(session)) => Some(session),
            _ => None,
        };
        if let Some(session) = told.filter(|session| super::check::gives(session)) {
            self.checks.told_leaving.insert((host, session.node.clone()), self.now);
        }
        let now = (self.now, self.hosts[host].moment(self.now).now);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        match event {
            Event::Link { interface, up } => agent.own.link_is(now, segment(*interface), Some(*up)),
            Event::Node { interfaces, .. } => {
                for of in 0..agent.own.links.len() {
                    let one = interfaces.iter().find(|one| segment(one.index) == of);
                    agent.own.link_is(now, of, one.map(|one| one.link.up));
                }
            }
            Event::Input(
                Input::Session(view)
                | Input::Followed { view: Some(view), .. }
                | Input::WroteSession { result: Ok(view), .. },
            ) => {
                agent.was_shown(&view.record);
            }
            Event::Input(Input::Sessions { result: Ok(views), .. }) => {
                for view in views {
                    agent.was_shown(&view.record);
                }
            }
            // Copies of Leases.
            Event::Input(Input::Member(member) | Input::Published { result: Ok(Some(member)), .. }) => {
                agent.was_shown(&member.copy.record);
            }
            Event::Input(Input::Members(members)) => {
                for member in members {
                    agent.was_shown(&member.copy.record);
                }
            }
            Event::Shutdown => agent.own.changed = true,
            Event::Input(Input::Drain(drained)) => (agent.own.drained, agent.own.changed) = (*drained, true),
            _ => {}
        }
    }

    /// The core has got its input.
    pub(super) fn own_after_step(&mut self, host: usize) {
        let agent = self.hosts[host].agent.as_mut();
        if agent.is_some_and(|agent| std::mem::take(&mut agent.own.changed)) {
            self.eligible();
        }
    }

    /// The core reports something.
    pub(super) fn own_reported(&mut self, host: usize, report: &Report) {
        if let Report::Took { address, cause: Cause::Provisional } = report {
            self.check_provisional(host, *address);
        }
        if let Report::Took { address, .. } = report {
            self.check_took(host, *address);
        }
        if let Report::LetGo { address, why: Why::Yielded }
        | Report::Contested { address, .. }
        | Report::ForeignOwner { address, .. } = report
        {
            self.check_claimed(host, *address);
        }
        self.note(|w| format!("{}: {report:?}", w.names[host]));
    }

    /// The agent takes a frame in. It passes on what means something: an agent that was never told of a VIP hears nothing of it.
    pub(super) fn own_frame_taken(&mut self, frame: &Frame) -> bool {
        let (now, address) = (self.now, self.address(frame.segment, frame.what));
        let Some(agent) = &mut self.hosts[frame.to].agent else { return false };
        if let What::Vip(vip) = frame.what
            && SessionVips::segment_of(&self.plan.settings, vip) == frame.segment
        {
            agent.own.claimed[vip] = Some(now);
        }
        match frame.what {
            What::Vip(_) if !agent.core.knows(address) => return false,
            // Excused: a node that does not know the sender's new Ethernet address yet, because both were cut off from the API.
            What::Vip(_) if agent.core.node_with(frame.mac).is_none() => {}
            // Of a node that may be gone.
            _ if frame.proxied => {}
            What::Vip(vip) => self.note_heard(frame.to, vip, frame.from),
            What::Own(of) => {
                if frame.form.is_answer() {
                    agent.own.third[frame.segment] = now;
                }
                if of == frame.from && agent.core.node_with(frame.mac).is_some() {
                    self.checks.heard_own.insert((frame.to, of), now);
                }
            }
        }
        true
    }
}
