//! Which of the other nodes are heard on the segment, and whether they are enough to go on without the API.
//!
//! From the API, an outage and a node that is cut off look alike. The segment tells them apart:
//!
//! - A node *hears* a peer by its answer to a probe that went to the peer's MAC address alone. What peers say unasked does not count: a
//!   node that hears and cannot send is cut off too. Nor does the answer to a broadcast, which a network may give for a dead host: the
//!   MAC address that it names is asked next.
//! - A node *knows* a peer that it heard within [`KNOWN`] before the API fell silent, or since. A silence that comes within
//!   [`KNOWN`] of another one continues it: an answer now and then is no reason to forget who was there. Peers that never answer a probe
//!   (another subnet, a filter) and names of nodes that are long gone are not known, and do not count.
//! - A peer is heard *now* if it was heard within [`HEARD`]; before a node takes a free VIP, since it found that free.
//! - While the API is silent, a node carries VIPs only as long as it hears enough of the peers that it knows ([`Quorum`]). With
//!   fewer, it refreshes no fence, and takes nothing provisionally. When it hears enough again, it goes on.
//!
//! The kernel of a peer answers, whether or not its agent runs: a peer whose agent is stopped is heard. A node that knows
//! nobody (the only one of its cluster, a cold start, an agent that started without the API) is not judged.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mac::Mac;
use super::planted::planted;
use super::time::Time;

/// A peer that was last heard longer ago than this when the API fell silent does not count.
pub const KNOWN: Duration = Duration::from_secs(30);
/// A peer that was heard within this time is heard now: three probes.
pub const HEARD: Duration = Duration::from_millis(1_500);
/// While the API answers, a peer is asked for its address this long after it was last heard.
pub const ROUND: Duration = Duration::from_secs(10);
/// The same while the API is silent.
pub const SILENT_ROUND: Duration = Duration::from_millis(500);
/// So many peers are asked at a time.
const AT_ONCE: usize = 8;
/// Between two such groups.
const APART: Duration = Duration::from_millis(50);

/// How many of the nodes that it knows a node must hear to carry VIPs while the API is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quorum {
    /// Most of them, itself counted. With fewer, etcd has no majority on this side, and the control plane's VIP leads nowhere.
    #[default]
    Most,
    /// One other, if it knows any.
    Any,
    /// None: it goes on alone.
    Nobody,
}

impl Quorum {
    /// Whether so many peers are enough. `heard` and `known` do not count the node itself.
    #[must_use]
    pub fn is_reached(self, heard: usize, known: usize) -> bool {
        if planted!(LapsedAlone) {
            return true;
        }
        match self {
            Self::Most => 2 * (heard + 1) > known + 1,
            Self::Any => heard > 0 || known == 0,
            Self::Nobody => true,
        }
    }

    /// For VIPs that do not lead to an API server.
    #[must_use]
    pub fn of_services(self) -> Self {
        if self == Self::Most { Self::Any } else { self }
    }

    /// Whether it is the default, which recorded rules leave out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The peers by name, as far as the segment tells.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    all: BTreeMap<String, Peer>,
    /// No peer is asked before.
    next: Time,
    /// Who was neither heard nor asked since is asked at once.
    anew: Time,
    /// The last silence of the API.
    silence: Option<Silence>,
}

/// A time in which the API did not answer, or only now and then.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Time,
    /// Since when the API has answered. None: it is silent.
    ended: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    heard: Option<Time>,
    asked: Option<Time>,
    /// The last question was a broadcast.
    by_broadcast: bool,
    /// The MAC address that an answer to a broadcast named. It is asked next.
    named: Option<Mac>,
}

/// How a peer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// At the MAC address that it declares, or answered from last.
    Alone,
    /// At the MAC address that an answer to a broadcast named.
    At(Mac),
    /// By broadcast: it did not answer alone, and a bond may have changed its MAC address.
    Everybody,
}

impl Peers {
    /// That peer answered a probe, from that MAC address. `alone`: the probe went to it alone, as far as this node knows.
    pub fn answered(&mut self, now: Time, peer: &str, mac: Mac, alone: bool) {
        let Some(peer) = self.all.get_mut(peer) else { return };
        if alone && !peer.by_broadcast && peer.named.is_none() || planted!(BelievesBroadcasts) {
            peer.heard = Some(now);
        } else if peer.asked > peer.heard {
            (peer.by_broadcast, peer.named) = (false, Some(mac));
        }
    }

    /// These are the peers now: others are forgotten.
    pub fn set<'a>(&mut self, peers: impl Iterator<Item = &'a str> + Clone) {
        if self.all.keys().map(String::as_str).eq(peers.clone()) {
            return;
        }
        let mut before = std::mem::take(&mut self.all);
        self.all = peers.map(|name| (name.to_owned(), before.remove(name).unwrap_or_default())).collect();
    }

    /// It matters who is heard from now on: all are asked again at once.
    pub fn ask_anew(&mut self, now: Time) {
        self.anew = now;
    }

    /// When [`Peers::to_ask`] has something to do. None: there are no peers.
    #[must_use]
    pub fn next(&self, silent: bool) -> Option<Time> {
        self.all.values().map(|peer| peer.due(silent, self.anew)).min().map(|due| due.max(self.next))
    }

    /// The peers to ask now: those that were neither heard nor asked lately, a few at a time, the longest unheard first.
    /// `silent`: the API does not answer, and it matters who is heard.
    pub fn to_ask(&mut self, now: Time, silent: bool) -> Vec<(String, Ask)> {
        if now < self.next {
            return vec![];
        }
        let mut due: Vec<(Time, &String)> =
            self.all.iter().map(|(name, peer)| (peer.due(silent, self.anew), name)).collect();
        due.retain(|(due, _)| *due <= now);
        due.sort_unstable();
        let these: Vec<String> = due.into_iter().take(AT_ONCE).map(|(_, name)| name.clone()).collect();
        let ask = |name: String| {
            let ask = self.all.get_mut(&name)?.ask(now);
            Some((name, ask))
        };
        let these: Vec<(String, Ask)> = these.into_iter().filter_map(ask).collect();
        if !these.is_empty() {
            self.next = now + APART;
        }
        these
    }

    /// Whether that peer has not answered the last question.
    #[must_use]
    pub fn is_unanswered(&self, peer: &str) -> bool {
        self.all.get(peer).is_some_and(Peer::is_unanswered)
    }

    /// How that peer is asked next.
    #[must_use]
    pub fn next_ask(&self, peer: &str) -> Ask {
        self.all.get(peer).map_or(Ask::Alone, Peer::next_ask)
    }

    /// `silent`: since when the API has been silent; None: it answers.
    pub fn note_silence(&mut self, now: Time, silent: Option<Time>) {
        self.silence = match (self.silence, silent) {
            (before, Some(since)) => Some(Silence { since: Self::beginning(before, since), ended: None }),
            (Some(Silence { since, ended }), None) => Some(Silence { since, ended: ended.or(Some(now)) }),
            (None, None) => None,
        };
    }

    /// When the silence began that this one belongs to.
    fn beginning(before: Option<Silence>, since: Time) -> Time {
        before
            .filter(|before| before.ended.is_none_or(|ended| since < ended + KNOWN))
            .map_or(since, |b| b.since.min(since))
    }

    /// How many peers were heard since then, and how many are known. `silent`: since when the API has been silent; None: it
    /// answers, and nobody needs to be heard.
    #[must_use]
    pub fn count(&self, since: Time, silent: Option<Time>) -> Option<(usize, usize)> {
        let silent = Self::beginning(self.silence, silent?);
        let heard = |since: Time| self.all.values().filter(|peer| peer.heard.is_some_and(|at| at >= since)).count();
        Some((heard(since), heard(silent - KNOWN)))
    }
}

impl Peer {
    /// Alone and by broadcast in turn, for as long as it does not answer alone.
    fn ask(&mut self, now: Time) -> Ask {
        let ask = self.next_ask();
        (self.named, self.by_broadcast, self.asked) = (None, ask == Ask::Everybody, Some(now));
        ask
    }

    fn next_ask(&self) -> Ask {
        match self.named {
            Some(mac) => Ask::At(mac),
            None if self.is_unanswered() && !self.by_broadcast => Ask::Everybody,
            None => Ask::Alone,
        }
    }

    fn is_unanswered(&self) -> bool {
        self.asked.is_some() && self.asked > self.heard
    }

    fn due(&self, silent: bool, anew: Time) -> Time {
        if self.named.is_some() {
            return Time::default();
        }
        let round = if silent { SILENT_ROUND } else { ROUND };
        // One that was never asked is asked at once.
        self.heard.max(self.asked).filter(|at| *at >= anew).map_or_else(Time::default, |at| at + round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn peers(names: &[&str]) -> Peers {
        let mut peers = Peers::default();
        peers.set(names.iter().copied());
        peers
    }

    #[test]
    fn most_count_the_node_itself() {
        let enough = |of: usize| (0..of).find(|heard| Quorum::Most.is_reached(*heard, of - 1)).unwrap();
        // Nodes of the cluster, and how many others one of them must hear: an etcd majority, less itself.
        assert_eq!([1, 2, 3, 4, 5, 7].map(enough), [0, 1, 1, 2, 2, 3]);
        assert!(Quorum::Any.is_reached(0, 0) && !Quorum::Any.is_reached(0, 9) && Quorum::Any.is_reached(1, 9));
        assert!(Quorum::Nobody.is_reached(0, 9));
    }

    #[test]
    fn only_peers_that_were_heard_before_the_silence_count() {
        let mut peers = peers(&["a", "b", "gone", "never"]);
        peers.answered(at(1_000), "gone", MAC, true);
        peers.answered(at(60_000), "a", MAC, true);
        peers.answered(at(60_000), "b", MAC, true);
        assert_eq!(peers.count(at(59_000), Some(at(60_000))), Some((2, 2)));
        assert_eq!(peers.count(at(68_500), Some(at(61_000))), Some((0, 2)), "they fell silent with the API");
        peers.answered(at(70_000), "never", MAC, true);
        assert_eq!(peers.count(at(68_500), Some(at(61_000))), Some((1, 3)), "one more is there after all");
        peers.answered(at(70_001), "nobody", MAC, true);
        assert_eq!(peers.count(at(70_001), Some(at(61_000))), Some((0, 3)));
    }

    #[test]
    fn an_answer_now_and_then_does_not_end_a_silence() {
        let mut peers = peers(&["a"]);
        peers.answered(at(9_000), "a", MAC, true);
        peers.note_silence(at(10_000), Some(at(10_000)));
        assert_eq!(peers.count(at(9_500), Some(at(10_000))), Some((0, 1)));
        peers.note_silence(at(50_000), None);
        assert_eq!(peers.count(at(50_000), None), None, "the API answers");
        peers.note_silence(at(60_000), Some(at(60_000)));
        assert_eq!(peers.count(at(59_500), Some(at(60_000))), Some((0, 1)), "it is known still");
        peers.note_silence(at(61_000), None);
        assert_eq!(peers.count(at(99_000), Some(at(99_000))), Some((0, 0)), "the API has answered for long");
    }

    /// The names of those that are asked then.
    fn asked(peers: &mut Peers, ms: u64, silent: bool) -> Vec<String> {
        peers.to_ask(at(ms), silent).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn who_does_not_answer_alone_is_asked_by_broadcast_and_then_where_that_placed_it() {
        const PORT: Mac = Mac([2, 0, 0, 0, 0, 2]);
        let mut peers = peers(&["a"]);
        let ask = |peers: &mut Peers, ms| peers.to_ask(at(ms), true).first().map(|(_, ask)| *ask);
        let heard = |peers: &Peers| peers.count(at(9_000), Some(at(10_000)));
        peers.note_silence(at(10_000), Some(at(10_000)));
        assert_eq!(ask(&mut peers, 10_000), Some(Ask::Alone));
        assert_eq!(ask(&mut peers, 10_500), Some(Ask::Everybody));
        peers.answered(at(10_501), "a", PORT, true);
        assert_eq!(heard(&peers), Some((0, 0)), "a network may answer for a dead host");
        assert_eq!(ask(&mut peers, 10_550), Some(Ask::At(PORT)), "at once");
        assert_eq!(ask(&mut peers, 11_050), Some(Ask::Everybody), "and so on");
        peers.answered(at(11_051), "a", PORT, true);
        assert_eq!(ask(&mut peers, 11_100), Some(Ask::At(PORT)));
        peers.answered(at(11_101), "a", PORT, true);
        assert_eq!(heard(&peers), Some((1, 1)));
        assert_eq!(ask(&mut peers, 11_700), Some(Ask::Alone));
    }

    #[test]
    fn each_is_asked_in_its_turn() {
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let mut peers = peers(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(asked(&mut peers, 1_000, false), names[..8]);
        assert_eq!(asked(&mut peers, 1_010, false), [""; 0], "not all at once");
        assert_eq!(peers.next(false), Some(at(1_050)));
        assert_eq!(asked(&mut peers, 1_050, false), names[8..]);
        assert_eq!(peers.next(false), Some(at(11_000)));
        peers.answered(at(5_000), "n0", MAC, true);
        assert_eq!(asked(&mut peers, 11_000, false), names[1..8], "one that was heard meanwhile waits");
        assert_eq!(asked(&mut peers, 11_100, true), ["n8", "n9", "n0"], "the API is silent: the longest unheard first");
        assert_eq!(peers.next(true), Some(at(11_500)));
        peers.ask_anew(at(11_150));
        assert_eq!(asked(&mut peers, 11_150, true).len(), 8, "it matters from now on");
    }

    #[test]
    fn those_that_stay_are_remembered() {
        let mut peers = peers(&["a", "b"]);
        peers.answered(at(1_000), "a", MAC, true);
        peers.set(["a", "c"].into_iter());
        assert_eq!(peers.count(at(1_000), Some(at(1_000))), Some((1, 1)));
    }
}
