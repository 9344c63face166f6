//! Whose turn it is under a limit of frames.
//!
//! Three ask for different things on one interface: whether another host has a VIP that is carried here, whether any host has a
//! VIP that this node wants to take, and whether any other node is there. Each of them matters, so none may crowd out another:
//! who was turned away waits, and who has waited longest comes first. A look that needs several probes at once finds room in that
//! way, because the others leave the second to run empty for it.
//!
//! Of many VIPs that this node wants to take, the first is asked for without delay, in the order in which the looks began: it is
//! not to wait for the last, and who is looked for again comes after all others. Later ones are asked for between its probes.
//!
//! The watch over other nodes has a share of its own, and stands in no line. Where the limit is so low that its share and the
//! others' are partly the same, it waits for its turn like the others, and they for it.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::net::IpAddr;
use std::time::Duration;

use super::SessionVips;
use crate::frames::Purpose;
use crate::time::Time;

/// Who waits and does not try again by then wants nothing any more. A step may come so late.
const GIVES_UP: Duration = Duration::from_millis(100);
/// Who waits for another tries again after this time at the latest.
const LONGEST: Duration = Duration::from_millis(500);

/// For what a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// To find another owner of the VIPs that are carried here.
    Carried,
    /// To find any owner of a VIP that is about to be taken: since when, and of which VIP.
    Look(Time, IpAddr),
    /// To hear other nodes.
    Peers,
    /// To know whether any host answers, while nothing is wrong.
    Echo,
    /// To watch other nodes, where nothing is kept for the others.
    Watch,
}

/// The lines of those who wait, by interface.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<u32, Line>);

#[derive(Debug, Default)]
struct Line {
    waits: Vec<Waits>,
    /// The look that began first, and when it goes on.
    look: Option<((Time, IpAddr), Time)>,
}

#[derive(Debug)]
struct Waits {
    asker: Asker,
    since: Time,
    /// When it tries again.
    again: Time,
}

impl Asker {
    /// Whether both ask for the same thing. All looks are one in that.
    fn is_like(self, other: Self) -> bool {
        discriminant(&self) == discriminant(&other)
    }

    /// Whether its probes are spaced on average: those for VIPs are.
    fn is_spaced(self) -> bool {
        !matches!(self, Self::Peers | Self::Echo)
    }
}

impl Line {
    /// Notes when a look goes on, unless an earlier one does.
    fn note_look(&mut self, now: Time, asker: Asker, again: Time) {
        let Asker::Look(since, address) = asker else { return };
        if self.look.is_none_or(|(first, again)| (since, address) <= first || now > again + GIVES_UP) {
            self.look = Some(((since, address), again));
        }
    }
}

impl Turns {
    /// When to try again, if somebody else on that interface has waited longer: their probes would leave later if so many
    /// others left now that the next may leave at `until`.
    pub(super) fn waits(&self, now: Time, interface: u32, asker: Asker, until: Time) -> Option<Time> {
        let line = self.0.get(&interface)?;
        if let (Asker::Look(since, address), Some((first, again))) = (asker, line.look)
            && (since, address) > first
            && now <= again + GIVES_UP
            && until > again
        {
            return Some(again);
        }
        let since = line.waits.iter().find(|one| one.asker.is_like(asker)).map_or(now, |one| one.since);
        let waits = |one: &&Waits| !one.asker.is_like(asker) && now <= one.again + GIVES_UP;
        line.waits.iter().filter(waits).filter(|one| one.since < since).map(|one| one.again).min()
    }

    /// Its probes may not leave before `again`.
    pub(super) fn turned_away(&mut self, now: Time, interface: u32, asker: Asker, again: Time) {
        let line = self.0.entry(interface).or_default();
        line.note_look(now, asker, again);
        line.waits.retain(|one| now <= one.again + GIVES_UP);
        match line.waits.iter_mut().find(|one| one.asker.is_like(asker)) {
            Some(one) => one.again = one.again.max(again),
            None => line.waits.push(Waits { asker, since: now, again }),
        }
    }

    /// Its probes leave. The next of them leave at `again`.
    pub(super) fn took(&mut self, now: Time, interface: u32, asker: Asker, again: Time) {
        let line = self.0.entry(interface).or_default();
        line.note_look(now, asker, again);
        line.waits.retain(|one| !one.asker.is_like(asker));
    }

    /// A look is over: the next one may go on.
    pub(super) fn ended(&mut self, interface: u32, since: Time, address: IpAddr) {
        if let Some(line) = self.0.get_mut(&interface)
            && line.look.is_some_and(|(first, _)| first == (since, address))
        {
            line.look = None;
        }
    }
}

impl SessionVips {
    /// Whether that many probes may leave on an interface now, because nobody has waited longer; if not, when to try again.
    /// Probes for VIPs are spaced on average.
    pub(super) fn take_turn(&mut self, interface: u32, probes: usize, asker: Asker) -> Result<(), Time> {
        let Some(spacing) = self.rules.probe_spacing() else { return Ok(()) };
        let now = self.step.at.now;
        let next = self.asking.spaced.get(&interface).copied().filter(|next| now < *next && asker.is_spaced());
        let until = now + spacing.saturating_mul(u32::try_from(probes).unwrap_or(u32::MAX));
        self.frames.wanted(now, interface);
        let room = match next {
            Some(next) => Err(next),
            None => self.take_in_line(interface, probes, asker, until),
        };
        if let Err(again) = room {
            self.asking.turns.turned_away(now, interface, asker, again);
            return room;
        }
        // A look goes on no sooner than it would without a limit.
        self.asking.turns.took(now, interface, asker, until.max(now + self.rules.probe_interval()));
        if asker.is_spaced() {
            self.asking.spaced.insert(interface, until);
        }
        Ok(())
    }

    /// The same for the watch, which is not spaced.
    pub(super) fn take_watch(&mut self, interface: u32, probes: usize) -> Result<(), Time> {
        let now = self.step.at.now;
        if !self.rules.watch_shares_room() {
            return self.frames.take(now, interface, &self.rules, Purpose::Watch, probes);
        }
        let room = self.take_in_line(interface, probes, Asker::Watch, now);
        match room {
            Err(again) => self.asking.turns.turned_away(now, interface, Asker::Watch, again),
            Ok(()) => self.asking.turns.took(now, interface, Asker::Watch, now),
        }
        room
    }

    fn take_in_line(&mut self, interface: u32, probes: usize, asker: Asker, until: Time) -> Result<(), Time> {
        let now = self.step.at.now;
        if let Some(again) = self.asking.turns.waits(now, interface, asker, until) {
            // Who is before this one tries at that time. If that is now, it comes later in this step.
            let spacing = self.rules.probe_spacing().unwrap_or_default();
            return Err(if again > now { again } else { now + spacing }.min(now + LONGEST));
        }
        let purpose = if asker == Asker::Watch { Purpose::Watch } else { Purpose::Other };
        self.frames.take(now, interface, &self.rules, purpose, probes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOOK_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const LOOK: Asker = Asker::Look(Time::from_nanos(0), LOOK_ADDRESS);
    const OTHER: Asker = Asker::Look(Time::from_nanos(1), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn is_first(turns: &Turns, now: Time, interface: u32, asker: Asker) -> bool {
        turns.waits(now, interface, asker, now + Duration::from_millis(200)).is_none()
    }

    #[test]
    fn who_has_waited_longest_comes_first() {
        let mut turns = Turns::default();
        assert!(is_first(&turns, at(0), 2, Asker::Carried));
        turns.turned_away(at(0), 2, LOOK, at(200));
        turns.turned_away(at(50), 2, Asker::Carried, at(200));
        turns.turned_away(at(200), 2, LOOK, at(1_000));
        assert!(is_first(&turns, at(300), 2, LOOK), "it waits still");
        assert!(!is_first(&turns, at(300), 2, Asker::Carried));
        assert!(is_first(&turns, at(300), 3, Asker::Carried), "another interface");
        turns.took(at(300), 2, LOOK, at(500));
        turns.turned_away(at(300), 2, Asker::Carried, at(500));
        turns.turned_away(at(310), 2, LOOK, at(500));
        assert!(!is_first(&turns, at(320), 2, LOOK), "it comes after who waited meanwhile");
        assert!(is_first(&turns, at(320), 2, Asker::Carried));
    }

    #[test]
    fn who_does_not_come_back_is_not_waited_for() {
        let mut turns = Turns::default();
        turns.turned_away(at(0), 2, LOOK, at(200));
        assert!(!is_first(&turns, at(290), 2, Asker::Carried));
        assert!(is_first(&turns, at(301), 2, Asker::Carried));
        turns.turned_away(at(310), 2, Asker::Carried, at(500));
        turns.turned_away(at(320), 2, LOOK, at(500));
        assert!(!is_first(&turns, at(330), 2, LOOK), "its place was lost");
    }

    #[test]
    fn one_look_ends_before_the_next_begins() {
        let mut turns = Turns::default();
        turns.took(at(0), 2, LOOK, at(200));
        assert!(!is_first(&turns, at(200), 2, OTHER));
        turns.turned_away(at(200), 2, OTHER, at(400));
        assert!(is_first(&turns, at(210), 2, LOOK));
        turns.took(at(210), 2, LOOK, at(410));
        assert!(!is_first(&turns, at(500), 2, OTHER));
        assert!(is_first(&turns, at(511), 2, OTHER), "the first look is over");
        turns.took(at(520), 2, LOOK, at(720));
        assert!(!is_first(&turns, at(530), 2, OTHER));
        turns.ended(2, at(0), LOOK_ADDRESS);
        assert!(is_first(&turns, at(530), 2, OTHER), "it is known to be over");
    }

    #[test]
    fn another_look_asks_while_the_first_waits_for_its_interval() {
        let mut turns = Turns::default();
        turns.took(at(0), 2, LOOK, at(100));
        assert_eq!(turns.waits(at(10), 2, OTHER, at(20)), None);
        assert_eq!(turns.waits(at(90), 2, OTHER, at(100)), None);
        assert_eq!(turns.waits(at(95), 2, OTHER, at(105)), Some(at(100)), "the first look would be late");
    }
}
