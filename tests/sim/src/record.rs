//! What is kept of a run that somebody wants to look at.

use crate::clock::Nanos;
use crate::subject::Subject;
use crate::world::World;

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What happened, in words.
    pub lines: Vec<(Nanos, String)>,
    /// What each core took itself for, from when on: the host, and the role.
    pub roles: Vec<(Nanos, usize, &'static str)>,
    /// When a VIP came to a host's interface or left it: the host, the VIP, and which of the two.
    pub carries: Vec<(Nanos, usize, usize, bool)>,
    /// When all VIPs began to be answered, or no longer were.
    pub served: Vec<(Nanos, bool)>,
}

impl Record {
    /// As text, a line an entry, with the time in seconds.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|(at, line)| {
            let micros = at / 1_000;
            format!("{:>5}.{:06} {line}\n", micros / 1_000_000, micros % 1_000_000)
        });
        lines.collect()
    }
}

impl<S: Subject> World<'_, S> {
    /// An address came or went.
    pub fn record_carry(&mut self, host: usize, vip: usize, there: bool) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.carries.push((now, host, vip, there));
        }
    }

    /// A core has been stepped.
    pub fn record_role(&mut self, host: usize) {
        let now = self.now;
        let Some(log) = &mut self.log else { return };
        let role = self.hosts[host].agent.as_ref().map_or("none", |agent| S::role(&agent.core));
        let last = log.roles.iter().rev().find(|(_, of, _)| *of == host);
        if last.is_none_or(|(_, _, last)| *last != role) {
            log.roles.push((now, host, role));
        }
    }

    /// The client has asked all VIPs; whether all were answered.
    pub fn record_served(&mut self, served: bool) {
        let now = self.now;
        let Some(log) = &mut self.log else { return };
        if log.served.last().is_none_or(|(_, last)| *last != served) {
            log.served.push((now, served));
        }
    }
}
