//! The loop of the agent, one for every core. The loop carries events to the core, and the core's outputs to the tasks.
//!
//! ```text
//!   watches, answers of calls ─▶ Adapter::take ─┐                    ┌─▶ Adapter::call      tasks
//!   address task: Notice ───────────────────────┼─▶ Event ─▶ Core ───┼─▶ address task       a thread
//!   segments: Frame ────────────────────────────┤                    ├─▶ segments
//!   signals, clocks ────────────────────────────┘                    └─▶ Adapter::report    log, Events, metrics
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::address_task::{AddressTask, Needs, Notice};
use crate::clocks::Clocks;
use crate::core::event::Moment;
use crate::core::mac::Mac;
use crate::core::rules::LATE;
use crate::core::session::{Link, Subnet};
use crate::core::time::Time;
use crate::core::{Core, Event, Interface as Declared, Output};
use crate::datapath::{self, Interface};
use crate::ops::health::Heart;
use crate::run_error::RunError;
use crate::segments::{Frame, Segments};

#[cfg(test)]
mod tests;

/// The loop steps at least this often, so that clocks that jump are seen.
pub const IDLE: Duration = Duration::from_secs(1);
/// How old the loop's last beat may be before `/livez` fails.
pub const STUCK: Duration = Duration::from_secs(15);
/// How long the removal of addresses may take when the process ends.
const FLUSH: Duration = Duration::from_secs(2);
/// How many messages may wait for the loop.
pub const INBOX: usize = 1024;

/// The event type of an adapter's core.
pub type EventOf<A> = Event<<<A as Adapter>::Core as Core>::Input>;

/// The part that a core adds to the loop: its messages, its calls, its reports, its settings.
pub trait Adapter {
    /// The core that decides.
    type Core: Core;
    /// Answers to calls: they are taken before messages.
    type Answer;
    /// Messages from the adapter's watches.
    type Message;
    /// Questions from outside.
    type Query;

    /// Takes an answer and returns the event for the core.
    fn take_answer(&mut self, answer: Self::Answer) -> EventOf<Self>;

    /// Takes a message and returns the events for the core.
    fn take(&mut self, core: &Self::Core, interfaces: &[Interface], message: Self::Message) -> Vec<EventOf<Self>>;

    /// The interfaces have changed, and the core has been informed. Returns further events.
    fn interfaces_changed(&mut self, core: &Self::Core, interfaces: &[Interface]) -> Vec<EventOf<Self>>;

    /// Some VIPs are permanent addresses of this node. Returns an event for the core.
    fn own_addresses(&mut self, own: BTreeSet<IpAddr>) -> Option<EventOf<Self>> {
        let _ = own;
        None
    }

    /// The interfaces that VIPs need, if those have changed.
    fn new_needs(&mut self) -> Option<Needs>;

    /// Called before a step. Returns whether the step may change the addresses to listen for.
    fn before_step(&mut self, at: Moment, core: &Self::Core, event: &EventOf<Self>) -> bool;

    /// Called after a step, before any probe or call. `listens_anew`: the result of [`Adapter::before_step`].
    fn after_step(&mut self, at: Moment, core: &Self::Core, listens_anew: bool) {
        let _ = (at, core, listens_anew);
    }

    /// Asks the API.
    fn call(&mut self, call: <Self::Core as Core>::Call);

    /// Called after a step, with the reports for people.
    fn report(
        &mut self,
        at: Moment,
        core: &Self::Core,
        interfaces: &[Interface],
        reports: Vec<<Self::Core as Core>::Report>,
    );

    /// Answers a question from outside.
    fn answer(&self, core: &Self::Core, interfaces: &[Interface], query: Self::Query);

    /// The process is asked to end; `again`: for the second time, and the process ends at once.
    fn asked_to_end(&mut self, again: bool);
}

/// The signals that ask the process to end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals from now on.
    pub fn catch() -> Result<Self, RunError> {
        let catch = |kind| signal(kind).map_err(|source| RunError::Io { what: "cannot catch signals".into(), source });
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    /// Waits for a signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The inputs of the loop.
pub struct Inputs<A: Adapter> {
    /// Requests to end.
    pub signals: Signals,
    /// Frames of the segments.
    pub frames: mpsc::Receiver<Frame>,
    /// Notices of the address task.
    pub notices: mpsc::Receiver<Notice>,
    /// Answers to calls.
    pub answers: mpsc::Receiver<A::Answer>,
    /// Messages from the watches.
    pub inbox: mpsc::Receiver<A::Message>,
    /// Questions from outside.
    pub queries: mpsc::Receiver<A::Query>,
}

/// Frames come first, because seconds count when another host claims a VIP. But after so many of them everything else has its turn: a
/// flood on one segment must not keep the answers of the API from the core.
const IN_A_ROW: usize = 64;

/// A core and the parts around it.
pub struct EventLoop<A: Adapter> {
    core: A::Core,
    adapter: A,
    clocks: Clocks,
    segments: Segments,
    addresses: AddressTask,
    interfaces: Vec<Interface>,
    look_again: Time,
    exit: bool,
}

impl<A: Adapter> EventLoop<A> {
    /// A loop without interfaces.
    pub fn new(core: A::Core, adapter: A, segments: Segments, addresses: AddressTask) -> Self {
        let (clocks, look_again) = (Clocks::new(), Time::default());
        Self { core, adapter, clocks, segments, addresses, interfaces: vec![], look_again, exit: false }
    }

    /// Runs until the core or an operator wants the process to end.
    pub async fn run(mut self, mut inputs: Inputs<A>, heart: Heart) {
        let mut asked_to_end = false;
        let mut in_a_row = 0;
        while !self.exit {
            let wake = self.sleep();
            let frames_before = std::mem::take(&mut in_a_row);
            tokio::select! {
                biased;
                () = inputs.signals.next() => if self.end(&mut asked_to_end) { break },
                Some(frame) = inputs.frames.recv(), if frames_before < IN_A_ROW => {
                    in_a_row = frames_before + 1;
                    self.frame(&frame);
                }
                Some(answer) = inputs.answers.recv() => {
                    let event = self.adapter.take_answer(answer);
                    self.step(event);
                }
                Some(notice) = inputs.notices.recv() => self.notice(notice),
                Some(message) = inputs.inbox.recv() => self.take(message),
                Some(query) = inputs.queries.recv() => self.adapter.answer(&self.core, &self.interfaces, query),
                () = tokio::time::sleep(wake) => self.tick(),
                // Nothing else came, and frames may come again.
                () = std::future::ready(()), if frames_before >= IN_A_ROW => {
                    if wake.is_zero() {
                        self.tick();
                    }
                }
            }
            heart.beat();
        }
        // The loop takes no more notices: the task must not wait for the loop.
        inputs.notices.close();
        // The receiver ends when the task drops the sender: this is the signal.
        if tokio::time::timeout(FLUSH, self.addresses.flush()).await.is_err() {
            tracing::error!("the kernel did not remove all VIPs in time; their fences remove them");
        }
    }

    fn sleep(&self) -> Duration {
        let now = datapath::clock::boottime();
        self.core.wake().map_or(IDLE, |wake| wake.since(now).min(IDLE))
    }

    /// Without a segment nothing is announced: the loop reopens the segment as soon as possible.
    fn tick(&mut self) {
        let now = datapath::clock::boottime();
        if now >= self.look_again && self.interfaces.iter().any(|one| !self.segments.is_open(one.index)) {
            self.look_again = now + IDLE;
            self.addresses.look();
        }
        self.step(Event::Tick);
    }

    /// Takes a message of the adapter.
    pub fn take(&mut self, message: A::Message) {
        let events = self.adapter.take(&self.core, &self.interfaces, message);
        self.steps(events);
        if let Some(needs) = self.adapter.new_needs() {
            self.addresses.need(needs);
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Interfaces(interfaces, macs) => {
                self.segments.set(&interfaces);
                let declared = interfaces.iter().map(declare).collect();
                self.interfaces = interfaces;
                self.step(Event::Node { interfaces: declared, macs });
                self.interfaces_changed();
            }
            Notice::Link { interface, up } => {
                for one in self.interfaces.iter_mut().filter(|one| one.index == interface) {
                    one.up = up;
                }
                self.step(Event::Link { interface, up });
                self.interfaces_changed();
            }
            Notice::LeftOver(vips) => self.step(Event::LeftOver(vips)),
            Notice::Own(own) => {
                let event = self.adapter.own_addresses(own);
                self.steps(event);
            }
            Notice::Ensured(addresses) => self.step(Event::Ensured(addresses)),
            Notice::NotRefreshed(addresses) => self.step(Event::NotRefreshed(addresses)),
            Notice::EnsureFailed { address, reason } => self.step(Event::EnsureFailed { address, reason }),
            Notice::Gone(address) => self.step(Event::Gone(address)),
            Notice::Removed(removed) => {
                let gone = self.addresses.confirmed(removed);
                self.step(Event::Removed(gone));
            }
            Notice::RemoveFailed { address, reason } => self.step(Event::RemoveFailed { address, reason }),
        }
    }

    fn interfaces_changed(&mut self) {
        let events = self.adapter.interfaces_changed(&self.core, &self.interfaces);
        self.steps(events);
    }

    fn frame(&mut self, frame: &Frame) {
        match *frame {
            Frame::Heard { index, address, mac, form } => {
                self.step(Event::Heard { interface: index, address, mac, form });
            }
            Frame::Ended(ended) if self.segments.close(ended) => {
                let index = ended.index;
                let name = self.interfaces.iter().find(|one| one.index == index).map(|one| one.name.clone());
                let interface = name.unwrap_or_default();
                tracing::warn!(interface, index, "sockets of the segment were closed; looking for the interface");
            }
            // The interface has got another segment meanwhile.
            Frame::Ended(_) => {}
        }
    }

    fn steps(&mut self, events: impl IntoIterator<Item = EventOf<A>>) {
        for event in events {
            self.step(event);
        }
    }

    fn step(&mut self, event: EventOf<A>) {
        let (at, jump) = self.clocks.read();
        let is_late = self.core.wake().is_some_and(|wake| at.now > wake + LATE);
        if is_late || jump.is_some() {
            self.segments.withdraw_all();
        }
        if let Some(by) = jump {
            self.step_at(at, Event::ClockJump(by));
        }
        self.step_at(at, event);
    }

    fn step_at(&mut self, at: Moment, event: EventOf<A>) {
        let listens_anew = self.adapter.before_step(at, &self.core, &event);
        let outputs = self.core.step(at, event);
        // Before any probe on the segment and any call to the API.
        self.adapter.after_step(at, &self.core, listens_anew);
        if listens_anew {
            self.segments.listen_for(self.core.listens_for());
        }
        let mut reports = vec![];
        for output in outputs {
            match output {
                Output::Ensure { vips, deadline } => self.addresses.ensure(vips, deadline),
                Output::Remove(addresses) => {
                    // An announcement that the limit has delayed must not leave after the VIP is gone.
                    for address in &addresses {
                        self.segments.withdraw(*address);
                    }
                    self.addresses.remove(addresses);
                }
                Output::Announce(vips) => self.segments.announce(&vips),
                Output::Probe(probes) => self.segments.probe(&probes),
                Output::Call(call) => self.adapter.call(call),
                Output::Report(report) => reports.push(report),
                Output::Exit => self.exit = true,
            }
        }
        self.adapter.report(at, &self.core, &self.interfaces, reports);
    }

    /// The first signal asks for a hand-over, the second ends the process at once. True: end now.
    fn end(&mut self, asked: &mut bool) -> bool {
        let again = std::mem::replace(asked, true);
        self.adapter.asked_to_end(again);
        if !again {
            self.step(Event::Shutdown);
        }
        again
    }
}

/// An interface as cores see it.
pub fn declare(interface: &Interface) -> Declared {
    let addresses = interface.addresses.iter().map(ipnet::IpNet::addr).collect();
    let subnets: BTreeSet<Subnet> =
        interface.addresses.iter().map(|net| Subnet::of(net.addr(), net.prefix_len())).collect();
    let link = Link {
        name: interface.name.clone(),
        altnames: interface.altnames.clone(),
        macs: macs_of(interface),
        addresses,
        subnets: subnets.into_iter().collect(),
        up: interface.up,
        unheard: false,
    };
    Declared { index: interface.index, link, gateways: interface.gateways.clone() }
}

/// The Ethernet addresses from which the node answers on an interface: its own first, then those of a bond's other ports.
fn macs_of(interface: &Interface) -> Vec<Mac> {
    let others = interface.ports.iter().copied().filter(|mac| *mac != interface.mac);
    // An interface that does not exist has none.
    std::iter::once(interface.mac).chain(others).filter(|mac| *mac != Mac([0; 6])).collect()
}
