//! One call, whoever answers it, as `common/src/api/race.rs` has it: the next server is asked at once after a failure, and
//! beside after a while; the first answer counts. A write may take effect though nobody answers.

use mooring_agent_core::control_plane::{Event, Input};
use mooring_agent_core::event::Failure;
use mooring_agent_core::lease::{LeaseView, Notes, Record};
use mooring_agent_core::time::Time;

use crate::api::Fate;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::queue::Item;
use crate::queue::Item as Common;
use crate::world::World;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The Lease.
    Read,
    /// The Lease, for a watch.
    List,
    /// To write it.
    Write {
        /// The version it must have.
        base: Option<String>,
        /// What.
        record: Record,
        /// And on it.
        notes: Notes,
    },
    /// Whether a write that may have taken effect has.
    Verify(Record),
}

/// What a server says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The Lease.
    Lease(Option<LeaseView>),
    /// 409.
    Conflict,
    /// Nothing that says anything: the connection broke, 500, or 403, for which another server is asked. Whether the
    /// request may have taken effect.
    Miss(bool),
}

#[derive(Clone, Copy, Debug)]
struct Try {
    server: usize,
    done: bool,
    sent: bool,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    host: usize,
    life: u32,
    id: u64,
    sent: Time,
    kind: Kind,
    patience: Nanos,
    ends: Nanos,
    order: std::vec::IntoIter<usize>,
    tries: Vec<Try>,
    doubt: bool,
    /// The agent no longer waits for it; it may take effect all the same.
    over: bool,
}

impl Call {
    /// Whose it is.
    #[must_use]
    pub fn host(&self) -> usize {
        self.host
    }

    /// Which of the host's processes made it.
    #[must_use]
    pub fn life(&self) -> u32 {
        self.life
    }
}

impl World<'_, Elector> {
    /// An agent calls.
    pub fn call(&mut self, host: usize, id: u64, kind: Kind, within: Nanos) {
        let life = self.hosts[host].life;
        let Some(agent) = &self.hosts[host].agent else { return };
        let order = agent.own.client.order(self.now).into_iter();
        let (patience, ends) = ((within / 2).min(SECOND), self.now + within);
        let sent = self.hosts[host].moment(self.now).now;
        let (tries, doubt, over) = (vec![], false, false);
        let call = Call { host, life, id, sent, kind, patience, ends, order, tries, doubt, over };
        self.api.calls.push(call);
        let number = u32::try_from(self.api.calls.len() - 1).unwrap_or(u32::MAX);
        self.put(within, Common::Own(Item::Deadline { call: number }));
        self.ask_next(number);
    }

    /// Asks the next server; false when there is none left.
    fn ask_next(&mut self, number: u32) -> bool {
        let call = &mut self.api.calls[number as usize];
        let Some(server) = call.order.next() else { return false };
        let (host, patience) = (call.host, call.patience);
        let tries = call.tries.len() + 1;
        self.counts.requests(self.now, host);
        let fate = self.fate(host, server);
        let sent = !matches!(fate, Fate::Refused | Fate::Unreachable);
        self.api.calls[number as usize].tries.push(Try { server, done: false, sent });
        match fate {
            Fate::Goes(wait) => self.put(wait, Common::Own(Item::Arrive { call: number, server })),
            fate => {
                if let Some(wait) = fate.fails_after() {
                    self.put(wait, answer(number, server, Answer::Miss(false)));
                }
            }
        }
        self.put(patience, Common::Own(Item::Patience { call: number, tries }));
        true
    }

    /// A request reaches a server.
    pub fn arrive(&mut self, number: u32, server: usize) {
        let call = &self.api.calls[number as usize];
        let (host, life, sent) = (call.host, call.life, call.sent);
        let kind = call.kind.clone();
        if !self.serves(server) {
            // The store has no majority: some requests hang, others are told so.
            if self.rng.chance(500) {
                self.put(2 * MS, answer(number, server, Answer::Miss(true)));
            }
            return;
        }
        let given = match kind {
            Kind::Read | Kind::List | Kind::Verify(_) => Answer::Lease(self.api.store.lease.clone()),
            Kind::Write { base, record, notes } => {
                let before = self.api.store.holder().to_owned();
                // An empty version is none: the API server writes whatever there is over.
                let base = if base.as_deref() == Some("") {
                    self.api.store.lease.as_ref().map(|l| l.version.clone())
                } else {
                    base
                };
                let written = self.api.store.write(self.now, base.as_deref(), record, notes);
                match written {
                    Some(view) => {
                        let of = &mut self.hosts[host];
                        if let Some(agent) =
                            of.agent.as_mut().filter(|_| of.life == life && view.record.holder == self.names[host])
                        {
                            agent.took_effect(view.record.clone(), sent);
                        }
                        self.written(Some(host), &before, &view);
                        self.publish(Some(&view));
                        Answer::Lease(Some(view))
                    }
                    None => Answer::Conflict,
                }
            }
        };
        match self.fate(host, server) {
            Fate::Goes(wait) => {
                let (wait, said) = match self.loses_answer(host, server) {
                    None => (wait, given),
                    Some(true) => (wait, Answer::Miss(true)),
                    Some(false) => return,
                };
                self.put(wait, answer(number, server, said));
            }
            Fate::Refused => {
                // The server went down with the answer on its lips.
                self.put(MS, answer(number, server, Answer::Miss(true)));
            }
            _ => {}
        }
    }

    /// An answer reaches the agent.
    pub fn answered(&mut self, number: u32, server: usize, answer: Answer) {
        let Some(call) = self.awaited(number) else { return };
        let Some(one) = call.tries.iter_mut().find(|t| t.server == server && !t.done) else { return };
        one.done = true;
        let sent = one.sent;
        let host = call.host;
        match answer {
            Answer::Miss(said) => {
                call.doubt |= sent && said;
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.own.client.bad(server, self.now);
                }
                let running = self.api.calls[number as usize].tries.iter().any(|t| !t.done);
                if !self.ask_next(number) && !running {
                    self.end_call(number, Answer::Miss(false));
                }
            }
            answer => {
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.own.client.good(server);
                }
                self.end_call(number, answer);
            }
        }
    }

    /// The server asked last has not answered for a while.
    pub fn impatient(&mut self, number: u32, tries: usize) {
        let now = self.now;
        let Some(call) = self.awaited(number) else { return };
        if call.tries.len() != tries || now >= call.ends {
            return;
        }
        let (host, last) = (call.host, call.tries.last().copied());
        if let (Some(last), Some(agent)) = (last.filter(|t| !t.done), &mut self.hosts[host].agent) {
            agent.own.client.bad(last.server, now);
        }
        self.ask_next(number);
    }

    /// The agent gives up.
    pub fn give_up(&mut self, number: u32) {
        if self.awaited(number).is_some() {
            self.end_call(number, Answer::Miss(false));
        }
    }

    /// The call, if the process that made it is still there and waits for it.
    fn awaited(&mut self, number: u32) -> Option<&mut Call> {
        let call = &mut self.api.calls[number as usize];
        (!call.over && self.hosts[call.host].life == call.life).then_some(call)
    }

    fn end_call(&mut self, number: u32, answer: Answer) {
        let now = self.now;
        let call = &mut self.api.calls[number as usize];
        let (host, id) = (call.host, call.id);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        if matches!(answer, Answer::Miss(_)) {
            for slow in call.tries.iter().filter(|t| !t.done) {
                agent.own.client.bad(slow.server, now);
            }
        }
        let doubt = call.doubt || call.tries.iter().any(|t| !t.done && t.sent);
        if let (Answer::Conflict, Kind::Write { record, .. }, true) = (&answer, &call.kind, doubt) {
            // Two servers were asked, and the silent one may be who applied it: the Lease is read. What is still on its
            // way for this call can only meet a conflict.
            let verify = Call {
                kind: Kind::Verify(record.clone()),
                order: agent.own.client.order(now).into_iter(),
                tries: vec![],
                doubt: false,
                over: false,
                ..*call
            };
            call.over = true;
            let left = verify.ends.saturating_sub(now);
            self.api.calls.push(verify);
            let number = u32::try_from(self.api.calls.len() - 1).unwrap_or(u32::MAX);
            self.put(left, Common::Own(Item::Deadline { call: number }));
            self.ask_next(number);
            return;
        }
        call.over = true;
        let server = call.tries.iter().rev().find(|t| t.done).map_or(0, |t| t.server);
        let input = match (&call.kind, answer) {
            (Kind::List, Answer::Lease(view)) => return self.listed(host, server, Some(view)),
            (Kind::List, _) => return self.listed(host, server, None),
            (Kind::Read, Answer::Lease(view)) => Input::Read { id, result: Ok(view) },
            (Kind::Read, _) => Input::Read { id, result: Err(Failure::Away) },
            (Kind::Write { .. }, Answer::Lease(Some(view))) => Input::Wrote { id, result: Ok(view) },
            (Kind::Verify(wanted), Answer::Lease(Some(view))) if view.record == *wanted => {
                Input::Wrote { id, result: Ok(view) }
            }
            (Kind::Write { .. }, Answer::Conflict) | (Kind::Verify(_), Answer::Lease(_)) => {
                Input::Wrote { id, result: Err(Failure::Conflict) }
            }
            (Kind::Write { .. } | Kind::Verify(_), _) => Input::Wrote { id, result: Err(Failure::Away) },
        };
        self.tell(host, Event::Input(input));
    }
}

fn answer(call: u32, server: usize, answer: Answer) -> Common<Elector> {
    Common::Own(Item::Answer { call, server, answer: Box::new(answer) })
}
