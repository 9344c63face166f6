//! What a probe asks, and what a frame shows.
//!
//! An answer is a reply to a probe of this node. Only answers entitle: they make a holder known in its tenure, show that a third
//! party hears this node, and make a peer known. What other hosts say unasked may show that they live; it lets nobody take a VIP.
//!
//! Networks treat probes differently by their sender (OpenStack's port security and Dynamic ARP Inspection drop 0.0.0.0) and by
//! their recipient (ARP suppression answers broadcasts for hosts that are gone). So the silence of one host counts only if another
//! one has answered a probe of the same form.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::core::Probe;
use super::mac::Mac;
use super::planted::planted;
use super::time::Time;

/// The sender's protocol address in an ARP request. In IPv6 the sender is always the link-local address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// 0.0.0.0, as RFC 5227 section 2.1 has it: owners answer, proxy ARP does not, and no cache learns.
    #[default]
    Unspecified,
    /// The interface's own address, as any host asks: networks that check senders let it pass.
    Own,
}

/// How a host spoke for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A reply to this node alone, to a request with that sender.
    Answer(Sender),
    /// The same, and this node has asked everybody for the address by broadcast just before: a network may have answered for a host
    /// that is gone.
    AnswerToAll(Sender),
    /// Anything else: an announcement, or the address in use as the sender of a request.
    Claim,
}

impl Form {
    /// Whether the frame answers a request for that address with that sender. In IPv6 all requests have one sender.
    #[must_use]
    pub fn answers(self, address: IpAddr, sender: Sender) -> bool {
        matches!(self, Self::Answer(by) | Self::AnswerToAll(by) if by == sender || address.is_ipv6())
    }

    /// Whether the frame answers any request.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Answer(_) | Self::AnswerToAll(_))
    }

    /// Whether the frame may answer a broadcast: a network may have given it for a host that is gone.
    #[must_use]
    pub const fn is_to_all(self) -> bool {
        matches!(self, Self::AnswerToAll(_))
    }

    /// Whether the frame answers a request that went to the host alone.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Answer(_))
    }
}

/// For so long after a broadcast an answer is one to that, whatever else was asked. Where windows are short, for half of one.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// For so long it may be: a switch may answer for a host only after its controller was asked, and Linux answers as a proxy within 0.8 s
/// (`proxy_delay`).
const LATE: Duration = Duration::from_secs(1);
/// So many broadcasts, and answers, are remembered for each question.
const MOST: usize = 64;

/// What this node has asked by broadcast lately: an answer does not say to which probe. So a probe to one host does not leave beside a
/// broadcast for the same address, but a little later.
#[derive(Clone, Debug)]
pub struct Broadcasts {
    on_its_way: Duration,
    asked: BTreeMap<Question, Asked>,
    later: Vec<(Time, Probe)>,
}

/// The broadcasts with one question, within [`LATE`], and who has answered since.
#[derive(Clone, Debug, Default)]
struct Asked {
    sent: VecDeque<Time>,
    heard: VecDeque<(Time, Mac)>,
}

impl Asked {
    /// Forgets what is over. True: nothing is left.
    fn is_over(&mut self, now: Time) -> bool {
        while self.sent.front().is_some_and(|at| now.since(*at) > LATE) || self.sent.len() > MOST {
            self.sent.pop_front();
        }
        let first = self.sent.front().copied();
        while self.heard.front().is_some_and(|(at, _)| first.is_none_or(|first| *at < first)) || self.heard.len() > MOST
        {
            self.heard.pop_front();
        }
        self.sent.is_empty()
    }

    /// A host has answered. True: that may be to a broadcast. It is none if, since each of them, the host has answered more often than it was
    /// asked so.
    fn answers_all(&mut self, now: Time, mac: Mac) -> bool {
        self.heard.push_back((now, mac));
        if self.is_over(now) {
            return false;
        }
        let since = |first: Time| self.heard.iter().filter(|(at, by)| *by == mac && *at >= first).count();
        let sent = self.sent.len();
        self.sent.iter().enumerate().any(|(before, at)| since(*at) <= sent - before)
    }

    /// The last broadcast, if it was sent within this time.
    fn last_within(&self, now: Time, time: Duration) -> Option<Time> {
        self.sent.back().copied().filter(|at| now.since(*at) <= time)
    }
}

/// The interface, the address that is asked for, and who asks.
type Question = (u32, IpAddr, Sender);

impl Default for Broadcasts {
    fn default() -> Self {
        Self { on_its_way: ON_ITS_WAY, asked: BTreeMap::new(), later: vec![] }
    }
}

impl Broadcasts {
    /// For windows of that length; zero: there are none.
    #[must_use]
    pub fn with_windows_of(interval: Duration) -> Self {
        let half = Some(interval / 2).filter(|half| !half.is_zero());
        Self { on_its_way: half.map_or(ON_ITS_WAY, |half| half.min(ON_ITS_WAY)), ..Self::default() }
    }

    /// Which of these probes leave now, and which of earlier ones.
    pub fn leave(&mut self, now: Time, probes: Vec<Probe>) -> Vec<Probe> {
        self.asked.retain(|_, asked| !asked.is_over(now));
        for probe in probes.iter().filter(|probe| probe.to.is_none()) {
            self.asked.entry(question(probe)).or_default().sent.push_back(now);
        }
        let mut leave = vec![];
        self.later.retain(|(due, probe)| {
            let leaves = *due <= now;
            leave.extend(leaves.then_some(*probe));
            !leaves
        });
        for probe in probes {
            let asked = self.asked.get(&question(&probe)).filter(|_| probe.to.is_some());
            match asked.and_then(|asked| asked.last_within(now, self.on_its_way)) {
                Some(at) if !planted!(BelievesBroadcasts) => {
                    let due = at + self.on_its_way + self.on_its_way / 4;
                    if self.later.iter().all(|(_, waits)| *waits != probe) {
                        self.later.push((due, probe));
                    }
                }
                _ => leave.push(probe),
            }
        }
        leave
    }

    /// The interfaces of those probes that leave now, and that [`Broadcasts::leave`] was given before.
    pub fn late(&self, now: Time) -> impl Iterator<Item = u32> {
        self.later.iter().filter(move |(due, _)| *due <= now).map(|(_, probe)| probe.interface)
    }

    /// When [`Broadcasts::leave`] has more to send.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.later.iter().map(|(due, _)| *due).min()
    }

    /// How a host spoke, by what was asked lately. An answer does not say to which probe. A host answers a broadcast once: who has answered
    /// more often than it was asked so has answered a probe that went to it alone. `is_vip`: the address may be one of a host that is gone,
    /// for which a switch still answers, however late.
    pub fn judge(
        &mut self,
        now: Time,
        interface: u32,
        (address, mac): (IpAddr, Mac),
        form: Form,
        is_vip: bool,
    ) -> Form {
        let Form::Answer(sender) = form else { return form };
        let Some(asked) = self.asked.get_mut(&(interface, address, as_asked(address, sender))) else { return form };
        let late = asked.answers_all(now, mac) && is_vip && !planted!(BelievesLateAnswers);
        let to_all = late || asked.last_within(now, self.on_its_way).is_some();
        if to_all && !planted!(BelievesBroadcasts) { Form::AnswerToAll(sender) } else { form }
    }
}

fn question(probe: &Probe) -> Question {
    (probe.interface, probe.address, as_asked(probe.address, probe.sender))
}

/// The sender by which questions are told apart: in IPv6 all have one.
const fn as_asked(address: IpAddr, sender: Sender) -> Sender {
    if address.is_ipv6() { Sender::Own } else { sender }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const ALL: Probe = Probe { interface: 2, address: GATEWAY, to: None, sender: Sender::Own };
    const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const ALONE: Probe = Probe { to: Some(HOST), ..ALL };

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_host_is_not_asked_alone_at_the_moment_of_a_broadcast() {
        let mut broadcasts = Broadcasts::default();
        assert_eq!(broadcasts.leave(at(0), vec![ALONE]), [ALONE]);
        assert_eq!(broadcasts.leave(at(100), vec![ALONE, ALL]), [ALL]);
        let answer = Form::Answer(Sender::Own);
        assert_eq!(broadcasts.judge(at(101), 2, (GATEWAY, HOST), answer, true), Form::AnswerToAll(Sender::Own));
        assert_eq!(broadcasts.judge(at(101), 3, (GATEWAY, HOST), answer, true), answer, "another interface");
        assert_eq!(broadcasts.leave(at(110), vec![ALONE]), [], "it waits already");
        assert_eq!(broadcasts.next(), Some(at(125)));
        assert_eq!(broadcasts.leave(at(125), vec![]), [ALONE]);
        assert_eq!((broadcasts.next(), broadcasts.judge(at(126), 2, (GATEWAY, HOST), answer, true)), (None, answer));
    }

    /// A switch answers for a host that is gone, as late as it likes; and a host that is there answers each probe.
    #[test]
    fn a_late_answer_to_a_broadcast_is_none_of_the_host_alone() {
        let (answer, to_all) = (Form::Answer(Sender::Own), Form::AnswerToAll(Sender::Own));
        for late in [1, 50, 200, 800] {
            let mut broadcasts = Broadcasts::default();
            broadcasts.leave(at(0), vec![ALL]);
            broadcasts.leave(at(30), vec![ALONE]);
            assert_eq!(broadcasts.judge(at(late), 2, (GATEWAY, HOST), answer, true), to_all, "{late} ms");
        }
        let mut broadcasts = Broadcasts::default();
        for n in 0..20 {
            broadcasts.leave(at(n * 250), vec![ALL]);
            assert_eq!(broadcasts.judge(at(n * 250 + 1), 2, (GATEWAY, HOST), answer, true), to_all, "broadcast {n}");
            broadcasts.leave(at(n * 250 + 50), vec![ALONE]);
            assert_eq!(broadcasts.judge(at(n * 250 + 51), 2, (GATEWAY, HOST), answer, true), answer, "broadcast {n}");
            assert_eq!(broadcasts.judge(at(n * 250 + 100), 2, (GATEWAY, OTHER), answer, true), to_all, "broadcast {n}");
        }
    }

    #[test]
    fn where_windows_are_short_answers_count_sooner() {
        let mut broadcasts = Broadcasts::with_windows_of(Duration::from_millis(8));
        broadcasts.leave(at(0), vec![ALL]);
        assert_eq!(broadcasts.leave(at(2), vec![ALONE]), []);
        assert_eq!(broadcasts.leave(at(5), vec![]), [ALONE]);
    }
}
