//! What happens in the Elector's world alone.

use mooring_agent_core::control_plane::{Event, Input};

use super::Elector;
use super::api::{Answer, Message};
use super::health::Question;
use crate::world::World;

/// Something that will happen. Calls, servers, hosts and their lives are numbers.
#[derive(Debug)]
pub enum Item {
    /// A request reaches an API server.
    Arrive { call: u32, server: usize },
    /// An answer reaches the agent.
    Answer { call: u32, server: usize, answer: Box<Answer> },
    /// The agent asks the next API server beside, after so many attempts.
    Patience { call: u32, tries: usize },
    /// The agent gives the call up.
    Deadline { call: u32 },
    /// A watch says something.
    Watch { to: usize, connection: u32, message: Box<Message> },
    /// A watch is opened again after that connection of it has ended.
    WatchAgain { host: usize, connection: u32 },
    /// The agent asks its API server how it is.
    Health { host: usize, life: u32 },
    /// The agent waits no longer for servers that are silent.
    AskedLongEnough { host: usize, life: u32, question: Box<Question> },
    /// The rival's turn.
    Rival { host: usize, life: u32 },
    /// The node learns of the second VIP.
    Learns { host: usize },
}

impl World<'_, Elector> {
    #[expect(clippy::option_option, reason = "gone, nobody's, a host's: three cases, used once")]
    pub(super) fn own_process_of(&self, item: &Item) -> Option<Option<usize>> {
        let alive = |host: usize, life: u32| (self.hosts[host].life == life).then_some(Some(host));
        match *item {
            Item::Watch { to, .. } => Some(Some(to)),
            Item::WatchAgain { host, .. } => Some(Some(host)),
            Item::Health { host, life } | Item::AskedLongEnough { host, life, .. } => alive(host, life),
            Item::Answer { call, .. } | Item::Patience { call, .. } | Item::Deadline { call } => {
                let call = &self.api.calls[call as usize];
                alive(call.host(), call.life())
            }
            Item::Arrive { .. } | Item::Rival { .. } | Item::Learns { .. } => Some(None),
        }
    }

    pub(super) fn own_happen(&mut self, item: Item) {
        match item {
            Item::Arrive { call, server } => self.arrive(call, server),
            Item::Answer { call, server, answer } => self.answered(call, server, *answer),
            Item::Patience { call, tries } => self.impatient(call, tries),
            Item::Deadline { call } => self.give_up(call),
            Item::Watch { to, connection, message } => self.watched(to, connection, *message),
            Item::WatchAgain { host, connection } => {
                let current = self.hosts[host].agent.as_ref().map(|a| a.own.client.watch.connection);
                if current == Some(connection) {
                    self.follow(host);
                }
            }
            Item::Health { host, .. } => self.ask_health(host),
            Item::AskedLongEnough { host, question, .. } => self.asked_long_enough(host, *question),
            Item::Rival { host, life } => self.rival_turn(host, life),
            Item::Learns { host } => {
                let vips = self.plan.settings.own.vips.clone();
                self.tell_soon(host, Event::Input(Input::Vips(vips)));
            }
        }
    }
}
