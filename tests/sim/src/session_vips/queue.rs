//! What happens in the world of session VIPs alone.

use super::SessionVips;
use super::api::{Answer, Message, Of};
use crate::world::World;

/// Something that will happen. Calls and hosts are numbers.
#[derive(Debug)]
pub enum Item {
    /// A request reaches the API.
    Arrive { call: usize },
    /// Its answer reaches the agent.
    Answer { call: usize, answer: Box<Answer> },
    /// The agent gives it up.
    Deadline { call: usize },
    /// A watch says something.
    Watch { to: usize, of: Of, connection: u32, message: Box<Message> },
    /// A watch is opened again after that connection of it has ended.
    WatchAgain { host: usize, of: Of, connection: u32 },
}

impl World<'_, SessionVips> {
    #[expect(clippy::option_option, reason = "gone, nobody's, a host's: three cases, used once")]
    pub(super) fn own_process_of(&self, item: &Item) -> Option<Option<usize>> {
        match *item {
            Item::Watch { to, .. } => Some(Some(to)),
            Item::WatchAgain { host, .. } => Some(Some(host)),
            Item::Answer { call, .. } | Item::Deadline { call } => {
                let call = &self.api.calls[call];
                (self.hosts[call.host].life == call.life).then_some(Some(call.host))
            }
            Item::Arrive { .. } => Some(None),
        }
    }

    pub(super) fn own_happen(&mut self, item: Item) {
        match item {
            Item::Arrive { call } => self.arrive(call),
            Item::Answer { call, answer } => self.answered(call, *answer),
            Item::Deadline { call } => self.answered(call, Answer::Away),
            Item::Watch { to, of, connection, message } => self.watched(to, of, connection, *message),
            Item::WatchAgain { host, of, connection } => {
                let current = self.hosts[host].agent.as_ref().map(|a| a.own.watches[of as usize].connection);
                if current == Some(connection) {
                    self.follow(host, of);
                }
            }
        }
    }
}
