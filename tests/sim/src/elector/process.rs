//! The state that the Elector's world keeps for an agent's process: the inputs of the process, and the frames it heard.

use mooring_agent_core::action::{Cause, Report};
use mooring_agent_core::control_plane::{Call, Event, Input};

use super::Elector;
use super::api::{Client, Kind};
use super::health::Prober;
use super::queue::Item;
use crate::address_task::Job;
use crate::clock::{MS, Nanos};
use crate::queue::Item as Common;
use crate::segment::{Frame, What};
use crate::settings::Settings;
use crate::world::{World, nanos};

/// What is kept of a process.
#[derive(Debug)]
pub struct Process {
    /// Calls, the watch.
    pub client: Client,
    /// The health of the local API server.
    pub prober: Prober,
    /// When it let go of what it carried: what it had heard of a holder before is forgotten.
    pub let_go: Nanos,
    /// When it last came to hold the Lease.
    pub began: Nanos,
    /// When a VIP was last answered for, or claimed, by another, and its own frame came this far.
    pub heard: Nanos,
    /// When each station last answered for a VIP itself.
    pub heard_from: Vec<Nanos>,
    /// When a station's frame for a VIP was last taken in by an agent that knew it as the holder.
    pub heard_holder: Vec<Nanos>,
    /// When a third party last answered itself.
    pub third: Nanos,
    /// Whom it takes the Lease from though that one has answered, and for how long it has.
    pub robs: Option<(usize, Nanos)>,
    /// Why it last took the Lease.
    pub took: Option<Cause>,
}

impl Process {
    /// One that has just begun.
    #[must_use]
    pub fn new(n: usize, life: u32, settings: &Settings<Elector>) -> Self {
        Self {
            client: Client::new(n, life, settings),
            prober: Prober::new(settings),
            let_go: 0,
            began: 0,
            heard: 0,
            heard_from: vec![0; settings.nodes + 3],
            heard_holder: vec![0; settings.nodes + 3],
            third: 0,
            robs: None,
            took: None,
        }
    }
}

impl World<'_, Elector> {
    /// A process begins.
    pub(super) fn own_start(&mut self, host: usize) {
        let mut vips = self.plan.settings.own.vips.clone();
        if self.plan.settings.own.learns.get(host).is_some_and(|at| self.now < *at) {
            vips.truncate(1);
        }
        self.tell(host, Event::Input(Input::Vips(vips)));
        let event = self.node_event(host);
        self.tell(host, event);
        self.job(host, Job::Look);
        self.follow(host);
        let life = self.hosts[host].life;
        let first = self.now + self.rng.below(20 * MS);
        self.queue.put(first, Common::Own(Item::Health { host, life }));
    }

    /// The core is about to get this input.
    pub(super) fn own_before_step(&mut self, host: usize, event: &Event) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        match event {
            Event::Input(Input::Wrote { result: Ok(view), .. } | Input::Seen(Some(view))) => {
                agent.was_shown(&view.record);
            }
            Event::Input(Input::Read { result: Ok(Some(read)), .. }) => {
                let behind = agent.core.snapshot().lease.is_some_and(|known| known.version != read.version);
                agent.was_shown(&read.record);
                if behind {
                    self.distrust_watch(host);
                }
            }
            _ => {}
        }
    }

    /// The core asks something of the API.
    pub(super) fn own_call(&mut self, host: usize, call: Call) {
        match call {
            Call::Read { id, within } => self.call(host, id, Kind::Read, nanos(within)),
            Call::Write { id, base, record, notes, within } => {
                self.check_take_sent(host, &record);
                self.call(host, id, Kind::Write { base, record, notes }, nanos(within));
            }
            Call::AskPeers { id, within } => self.ask_peers(host, id, nanos(within)),
        }
    }

    /// The core reports something.
    pub(super) fn own_reported(&mut self, host: usize, report: &Report) {
        if !matches!(report, Report::ProbeMissed) {
            self.note(|w| format!("{}: {report:?}", w.names[host]));
        }
        if let (Report::LetGo(_), Some(agent)) = (report, &mut self.hosts[host].agent) {
            agent.own.let_go = self.now;
        }
        if let (Report::Took(_) | Report::Confirmed, Some(agent)) = (report, &mut self.hosts[host].agent) {
            agent.own.began = self.now;
        }
        if let (Report::Took(cause), Some(agent)) = (report, &mut self.hosts[host].agent) {
            agent.own.took = Some(*cause);
        }
        self.check_report(host, report);
    }

    /// A frame reaches the agent's socket.
    pub(super) fn own_frame_arrives(&mut self, frame: &Frame) {
        let (now, foreign, gateway) = (self.now, self.foreign(), self.gateway());
        let unlearned = self.plan.settings.own.learns.get(frame.to).is_some_and(|at| now < *at);
        // The foreign host has one VIP only: where there are several, it says nothing about a holder, which has them all.
        let of_several = frame.from == foreign && self.plan.settings.own.vips.len() > 1;
        let Some(agent) = &mut self.hosts[frame.to].agent else { return };
        if matches!(frame.what, What::Vip(vip) if of_several || vip > 0 && unlearned) {
            // Nor does anybody for a VIP that this node has not learned of.
        } else if frame.proxied {
            // Of a station that may be gone. But a gateway that answers for another is a third party itself.
            if frame.from == gateway && matches!(frame.what, What::Own(_)) {
                agent.own.third = now;
            }
        } else if matches!(frame.what, What::Vip(_)) {
            agent.own.heard = now;
            if frame.form.is_answer() {
                agent.own.heard_from[frame.from] = now;
            }
        } else if frame.form.is_answer() {
            agent.own.third = now;
        }
    }

    /// The agent takes it in.
    pub(super) fn own_frame_taken(&mut self, frame: &Frame) {
        let (now, name) = (self.now, self.names.get(frame.from));
        let Some(agent) = self.hosts[frame.to]
            .agent
            .as_mut()
            .filter(|_| matches!(frame.what, What::Vip(_)) && frame.form.is_answer())
        else {
            return;
        };
        if agent.core.snapshot().lease.is_some_and(|lease| Some(&lease.record.holder) == name) {
            agent.own.heard_holder[frame.from] = now;
        }
    }
}
