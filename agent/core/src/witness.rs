//! The segment as witness: whether somebody answers for the VIP.
//!
//! Time is cut into windows of one interval. A window opens with a probe and closes unanswered (a miss) or answered. A miss
//! counts only if this node's own tick was on time and, from the second on, a third party answered in the same window: a
//! deaf or starved candidate robs nobody.

use std::net::IpAddr;
use std::time::Duration;

use super::lease::Declaration;
use super::mac::Mac;
use super::planted::planted;
use super::time::Time;

/// What is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target<D = Declaration> {
    /// Nothing.
    #[default]
    Nothing,
    /// The holder that made this declaration: probed by unicast at its MAC address.
    Holder(D),
    /// Anybody: probed by broadcast.
    Anybody,
}

impl Target {
    const fn as_ref(&self) -> Target<&Declaration> {
        match self {
            Self::Nothing => Target::Nothing,
            Self::Holder(declaration) => Target::Holder(declaration),
            Self::Anybody => Target::Anybody,
        }
    }
}

impl Target<&Declaration> {
    fn to_owned(self) -> Target {
        match self {
            Self::Nothing => Target::Nothing,
            Self::Holder(declaration) => Target::Holder(declaration.clone()),
            Self::Anybody => Target::Anybody,
        }
    }
}

/// A probe to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whose owner is asked for.
    pub address: IpAddr,
    /// Whom to ask; None: everybody.
    pub to: Option<Mac>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    opened: Time,
    answered: bool,
    third: bool,
    third_asked: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Witness {
    interval: Duration,
    needed: u32,
    target: Target,
    vips: Vec<IpAddr>,
    parties: Vec<IpAddr>,
    window: Option<Window>,
    next: Time,
    misses: u32,
    quiet: u32,
    answered: Option<(Time, Mac)>,
    in_tenure: bool,
    /// The last tenure whose holder answered: it may be looked at again after this node held provisionally.
    last_tenure: Option<Declaration>,
}

/// Between two windows of [`Target::Anybody`] while somebody answers.
const SLOW: Duration = Duration::from_secs(1);

impl Witness {
    /// `interval`: the time between two probes; `needed`: how many misses make silence.
    #[must_use]
    pub fn new(interval: Duration, needed: u32) -> Self {
        let interval = if interval.is_zero() { Duration::from_millis(100) } else { interval };
        Self {
            interval,
            needed,
            target: Target::Nothing,
            vips: vec![],
            parties: vec![],
            window: None,
            next: Time::default(),
            misses: 0,
            quiet: 0,
            answered: None,
            in_tenure: false,
            last_tenure: None,
        }
    }

    /// The next window asks for this instead; what was seen of the same holder stays.
    pub fn set_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.vips.clear();
        self.vips.extend(addresses);
    }

    /// Looks for `target` from now on. What was seen of another one is forgotten.
    pub fn aim(&mut self, now: Time, target: Target<&Declaration>, vips: impl Iterator<Item = IpAddr> + Clone) {
        if self.target.as_ref() == target && self.vips.iter().copied().eq(vips.clone()) {
            return;
        }
        self.vips = vips.collect();
        let target = target.to_owned();
        if let Target::Holder(declaration) = std::mem::replace(&mut self.target, target)
            && self.in_tenure
        {
            self.last_tenure = Some(declaration);
        }
        self.forget(now);
        self.answered = None;
        self.in_tenure = matches!(&self.target, Target::Holder(d) if self.last_tenure.as_ref() == Some(d));
    }

    /// Who is asked beside the holder when the next window opens.
    pub fn set_parties(&mut self, parties: Vec<IpAddr>) {
        self.parties = parties;
    }

    /// Whether the next window may ask third parties too: the one that is open may yet be missed.
    #[must_use]
    pub fn may_ask_parties(&self) -> bool {
        self.asks_parties() || self.window.is_some_and(|window| !window.answered)
    }

    fn asks_parties(&self) -> bool {
        self.target == Target::Anybody || self.misses > 0 || self.needed <= 1
    }

    /// The own step came late, or the link was down: what was not heard says nothing.
    pub fn forget(&mut self, now: Time) {
        self.window = None;
        self.next = now;
        self.misses = 0;
        self.quiet = 0;
    }

    /// A step begins: when it comes late for the window that is open, or for the one to open, what was missed says nothing.
    pub fn begin(&mut self, now: Time) {
        let due = self.window.map_or(self.next, |w| w.opened + self.interval);
        if self.misses > 0 && now > due + self.slack() {
            self.forget(now);
        }
    }

    fn slack(&self) -> Duration {
        (self.interval / 2).max(Duration::from_millis(25))
    }

    /// Another host spoke for `address`, which is a VIP or a third party's.
    pub fn heard(&mut self, now: Time, address: IpAddr, mac: Mac) {
        if self.vips.contains(&address) {
            self.misses = 0;
            self.quiet = 0;
            self.answered = Some((now, mac));
            self.in_tenure |= match &self.target {
                Target::Holder(declaration) => declaration.macs.contains(&mac),
                _ => true,
            };
            if let Some(window) = &mut self.window {
                window.answered = true;
            }
        } else if let Some(window) = &mut self.window
            && self.parties.contains(&address)
        {
            window.third = true;
        }
    }

    /// Time has passed. Returns the probes to send, and whether a miss was counted.
    pub fn tick(&mut self, now: Time) -> (Vec<Probe>, bool) {
        if self.target == Target::Nothing || self.vips.is_empty() {
            return (vec![], false);
        }
        let mut missed = false;
        if let Some(window) = self.window {
            let ends = window.opened + self.interval;
            if now < ends {
                return (vec![], false);
            }
            missed = self.close(window, now);
        }
        if now < self.next {
            return (vec![], missed);
        }
        (self.open(now), missed)
    }

    /// When [`Witness::tick`] has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        if self.target == Target::Nothing || self.vips.is_empty() {
            return None;
        }
        Some(self.window.map_or(self.next, |w| w.opened + self.interval))
    }

    /// Whether what was seen is about this holder's tenure, not about the one before it.
    #[must_use]
    pub fn is_of(&self, declaration: &Declaration) -> bool {
        matches!(&self.target, Target::Holder(target) if target == declaration)
    }

    /// The VIP is nobody's: probes went unanswered while third parties answered theirs. A declared holder must have
    /// answered before, in this tenure.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let entitled = planted!(NeverHeard) || self.in_tenure || matches!(self.target, Target::Anybody);
        entitled && self.is_free()
    }

    /// As [`Witness::is_silent`], whether or not the holder has ever answered: enough to carry the VIP while the API
    /// cannot be asked, not to take a Lease from somebody.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.misses >= self.needed
    }

    /// Nobody answered for a while, whoever else may or may not have been heard: enough to rule out a foreign owner.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet >= self.needed
    }

    /// Who answered within the last second.
    #[must_use]
    pub fn answer(&self, now: Time) -> Option<Mac> {
        self.answered.filter(|(at, _)| now.since(*at) <= SLOW + self.interval).map(|(_, mac)| mac)
    }

    /// Probes missed in a row, and when the last answer was heard.
    #[must_use]
    pub fn state(&self) -> (u32, Option<Time>) {
        (self.misses, self.answered.map(|(at, _)| at))
    }

    fn close(&mut self, window: Window, now: Time) -> bool {
        self.window = None;
        self.next = window.opened + self.interval;
        if window.answered {
            if self.target == Target::Anybody {
                self.next = window.opened + SLOW.max(self.interval);
            }
            return false;
        }
        if now > window.opened + self.interval + self.slack() {
            self.forget(now);
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet > self.needed.saturating_mul(4) {
            // It has been quiet for long: what is to be done about it was done, or cannot be.
            self.next = window.opened + SLOW.max(self.interval);
        }
        if !window.third_asked || window.third || planted!(DeafWitness) {
            self.misses += 1;
            return true;
        }
        // Deaf: what was missed before may have been missed for the same reason.
        self.misses = 0;
        false
    }

    fn open(&mut self, now: Time) -> Vec<Probe> {
        let third_asked = self.asks_parties();
        let holder = match &self.target {
            Target::Holder(d) => self.answered.map(|(_, mac)| mac).or_else(|| d.macs.first().copied()),
            _ => None,
        };
        // The last probe asks everybody: a bond may have changed its MAC address.
        let to = holder.filter(|_| self.misses + 1 < self.needed);
        self.window = Some(Window { opened: now, answered: false, third: false, third_asked });
        let vips = self.vips.iter().map(|address| Probe { address: *address, to });
        let parties = self.parties.iter().filter(|_| third_asked).map(|address| Probe { address: *address, to: None });
        vips.chain(parties).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100));
    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const HOLDER: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn watching() -> Witness {
        let mut witness = Witness::new(Duration::from_millis(100), 3);
        let declaration = Declaration { holder: "cp1".into(), transitions: 1, acquired: None, macs: vec![HOLDER] };
        witness.aim(ms(0), Target::Holder(&declaration), [VIP].into_iter());
        witness.set_parties(vec![GATEWAY]);
        witness
    }

    /// Runs windows of 100 ms from `from` to `to`; the holder answers if `holder`, the gateway when asked if `gateway`.
    fn run(witness: &mut Witness, from: u64, to: u64, holder: bool, gateway: bool) -> Vec<Probe> {
        let mut last = vec![];
        for t in (from..to).step_by(100) {
            let (probes, _) = witness.tick(ms(t));
            for probe in &probes {
                match probe.address {
                    VIP if holder => witness.heard(ms(t + 1), VIP, HOLDER),
                    GATEWAY if gateway => witness.heard(ms(t + 1), GATEWAY, ROUTER),
                    _ => {}
                }
            }
            last = probes;
        }
        last
    }

    #[test]
    fn three_misses_while_a_third_party_answers_are_silence() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        assert!(!witness.is_silent());
        let last = run(&mut witness, 1_000, 1_300, false, true);
        assert_eq!(last[0], Probe { address: VIP, to: None }, "the last probe is broadcast");
        witness.tick(ms(1_300));
        assert!(witness.is_silent());
    }

    #[test]
    fn a_deaf_candidate_judges_nothing() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        run(&mut witness, 1_000, 5_000, false, false);
        assert!(!witness.is_silent());
        assert!(witness.is_quiet(), "but it may rule out a foreign owner");
    }

    #[test]
    fn a_candidate_that_goes_deaf_forgets_what_it_missed() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        run(&mut witness, 1_000, 1_600, false, true);
        assert!(witness.is_silent());
        run(&mut witness, 1_600, 1_800, false, false);
        assert!(!witness.is_silent());
    }

    #[test]
    fn a_starved_candidate_judges_nothing() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        for t in (1_000..5_000).step_by(200) {
            for probe in witness.tick(ms(t)).0 {
                if probe.address == GATEWAY {
                    witness.heard(ms(t + 1), GATEWAY, ROUTER);
                }
            }
        }
        assert!(!witness.is_silent());
    }

    #[test]
    fn who_stood_still_judges_nothing_by_what_it_missed_before() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        run(&mut witness, 1_000, 1_400, false, true);
        witness.begin(ms(1_420));
        assert!(witness.is_silent());
        witness.begin(ms(1_800));
        assert!(!witness.is_silent());
    }

    #[test]
    fn a_holder_that_never_answered_in_this_tenure_is_not_abandoned() {
        let mut witness = watching();
        run(&mut witness, 0, 5_000, false, true);
        assert!(!witness.is_silent());
    }

    #[test]
    fn an_answer_ends_the_suspicion() {
        let mut witness = watching();
        run(&mut witness, 0, 1_000, true, true);
        run(&mut witness, 1_000, 1_300, false, true);
        witness.heard(ms(1_299), VIP, HOLDER);
        witness.tick(ms(1_300));
        assert!(!witness.is_silent());
    }

    #[test]
    fn while_the_holder_answers_nobody_else_is_bothered() {
        let mut witness = watching();
        for t in (0..1_000).step_by(100) {
            let (probes, _) = witness.tick(ms(t));
            assert_eq!(probes, [Probe { address: VIP, to: Some(HOLDER) }]);
            witness.heard(ms(t + 1), VIP, HOLDER);
        }
    }
}
