//! The segment as witness: whether any host answers for the VIP.
//!
//! Time is cut into windows of one interval. A window opens with a probe, and closes answered or unanswered (a miss). A miss
//! counts only if this node's own tick was on time. From the second miss on, a third party must also have answered in the
//! same window, and a probe of the same form ([`crate::evidence`]): a candidate that is deaf, mute or starved, or whose probes a
//! network drops, takes nothing from a holder that is alive.
//!
//! Only the answer to a probe that went to one MAC address counts as the holder's. An answer to a broadcast names a MAC address,
//! which is asked at once: ARP suppression (EVPN, NSX, OVN) answers broadcasts for hosts that are gone.

mod owners;

use std::net::IpAddr;
use std::time::Duration;

use self::owners::Owners;
use super::evidence::{Form, Sender};
use super::lease::Declaration;
use super::mac::Mac;
use super::parties::Party;
use super::planted::planted;
use super::rules::WITNESS_INTERVAL;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// Whose owner is asked for.
    pub address: IpAddr,
    /// Whom to ask; None: everybody.
    pub to: Option<Mac>,
    /// Who asks, as the probe says.
    pub sender: Sender,
}

/// A window that is open, and what was heard in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    opened: Time,
    /// The host that is asked; None: everybody.
    asked: Option<Mac>,
    /// That host was named by an answer to a broadcast.
    verifies: bool,
    sender: Sender,
    /// Third parties are asked one by one, and not by broadcast.
    alone: bool,
    answered: bool,
    /// What third parties were asked for, and what they answered.
    parties: Parties,
}

/// Third parties in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parties {
    /// None was asked.
    NotAsked,
    /// They were asked, and none has answered.
    Silent,
    /// One answered a probe of another form than the window's: its MAC address was not known.
    Learned,
    /// One answered a probe of the window's form.
    Answered,
}

/// With which sender a VIP that may be free is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// The sender of the first probes.
    pub first: Sender,
    /// Third parties have answered probes with that sender lately.
    pub works: bool,
}

impl Looks {
    /// With which senders an address is asked for that this node carries: with both until it is known which one passes.
    pub fn senders(self) -> impl Iterator<Item = Sender> + Clone {
        [self.first].into_iter().chain((!self.works).then_some(Sender::Own).filter(|own| *own != self.first))
    }
}

impl Default for Looks {
    fn default() -> Self {
        Self { first: Sender::Unspecified, works: false }
    }
}

/// A look with one sender after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Forms {
    looks: Looks,
    /// The sender now.
    sender: Sender,
    /// A third party answered a probe with that sender in this look, or lately.
    answered: bool,
    /// The other sender had its turn.
    both: bool,
}

impl Forms {
    fn begin(&mut self) {
        *self = Self { looks: self.looks, sender: self.looks.first, answered: self.looks.works, both: false };
    }
}

/// Asks the segment for one target, window by window, and counts what stays unanswered.
#[derive(Clone, Debug)]
pub struct Witness {
    interval: Duration,
    needed: u32,
    target: Target,
    vips: Vec<IpAddr>,
    parties: Vec<Party>,
    /// What [`Sender::Own`] amounts to here: [`Sender::Unspecified`] where the interface has no address of its own.
    own: Sender,
    forms: Forms,
    /// Hosts that answer for others: only an answer to a probe from 0.0.0.0 shows that one of these has a VIP.
    proxies: Vec<Mac>,
    /// An answer to a broadcast named this host: it is asked next, as often as makes silence.
    named: Option<Mac>,
    /// A host that did not answer then: what else names it says nothing new.
    gone: Option<Mac>,
    /// That was just found: everybody is asked once more, for a bond may have changed its MAC address meanwhile.
    again: bool,
    window: Option<Window>,
    next: Time,
    misses: u32,
    quiet: u32,
    /// Windows in a row in which third parties were asked and not heard.
    deaf: u32,
    /// When the last of them closed.
    deaf_at: Time,
    answered: Option<(Time, Mac)>,
    in_tenure: bool,
    /// Who was heard to have the VIPs.
    owners: Owners,
    /// Nodes that take part: whichever of them has a VIP is no foreign host.
    peers: Vec<Mac>,
    /// The last tenure whose holder answered. It may become the target again after this node held provisionally.
    last_tenure: Option<Declaration>,
}

/// Between two windows of [`Target::Anybody`] while somebody answers.
const SLOW: Duration = Duration::from_secs(1);

impl Witness {
    /// `interval`: the time between two probes; `needed`: how many misses make silence.
    #[must_use]
    pub fn new(interval: Duration, needed: u32) -> Self {
        let interval = if interval.is_zero() { WITNESS_INTERVAL } else { interval };
        Self {
            interval,
            needed,
            target: Target::Nothing,
            vips: vec![],
            parties: vec![],
            own: Sender::Own,
            forms: Forms::default(),
            proxies: vec![],
            named: None,
            gone: None,
            again: false,
            window: None,
            next: Time::default(),
            misses: 0,
            quiet: 0,
            deaf: 0,
            deaf_at: Time::default(),
            answered: None,
            in_tenure: false,
            owners: Owners::default(),
            peers: vec![],
            last_tenure: None,
        }
    }

    /// A witness of the same holder for another address. What closed windows have shown of the first one says nothing about it.
    #[must_use]
    pub fn for_another(&self, now: Time, address: IpAddr) -> Self {
        Self {
            target: self.target.clone(),
            vips: vec![address],
            owners: Owners::of(1),
            next: now,
            answered: self.answered,
            in_tenure: self.in_tenure,
            ..Self::new(self.interval, self.needed)
        }
    }

    /// Windows are so long from now on.
    pub fn set_interval(&mut self, interval: Duration) {
        if !interval.is_zero() {
            self.interval = interval;
        }
    }

    /// The next window asks for these addresses instead. What was seen of the same holder stays.
    pub fn set_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr> + Clone) {
        if !self.vips.iter().copied().eq(addresses.clone()) {
            // The host did not answer for another address, which may have gone by itself.
            self.gone = None;
            self.owners = Owners::of(addresses.clone().into_iter().count());
        }
        self.vips.clear();
        self.vips.extend(addresses);
    }

    /// The addresses that are asked for.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.vips
    }

    /// Looks for `target` from now on. What was seen of another target is forgotten. A holder that answered for none of these
    /// addresses must answer anew before its silence counts: it may not know yet that the VIPs have changed.
    pub fn aim(&mut self, now: Time, target: Target<&Declaration>, vips: impl Iterator<Item = IpAddr> + Clone) {
        if self.target.as_ref() == target && self.vips.iter().copied().eq(vips.clone()) {
            return;
        }
        if !vips.clone().any(|vip| self.vips.contains(&vip)) {
            self.must_answer_anew();
        }
        self.vips = vips.collect();
        self.owners = Owners::of(self.vips.len());
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

    /// The target must answer anew before its silence counts: it may have answered where nothing is heard any more.
    pub fn must_answer_anew(&mut self) {
        self.in_tenure = false;
        self.last_tenure = None;
    }

    /// The holder is known to have answered in this tenure, for another address.
    pub fn vouch(&mut self) {
        self.in_tenure |= matches!(self.target, Target::Holder(_));
    }

    /// Third parties that are asked beside the holder when the next window opens: those with an address of a VIP's family.
    pub fn set_parties(&mut self, parties: Vec<Party>) {
        self.parties = parties;
        // Whether ARP passes says nothing about neighbour discovery, nor the other way.
        let vips = &self.vips;
        let near = |party: &Party| vips.iter().any(|vip| vip.is_ipv4() == party.address.is_ipv4());
        self.parties.retain(|party| near(party) || planted!(AnyFamily));
        if self.deaf > 0 {
            // Their MAC addresses may have changed.
            self.parties.iter_mut().for_each(|party| party.mac = None);
        }
    }

    /// How probes ask here: as whom a host asks another one, and as whom it looks for a VIP that may be free.
    pub fn set_senders(&mut self, own: Sender, looks: Looks) {
        self.own = own;
        if self.forms.looks != looks {
            let fresh = !self.forms.both && self.quiet == 0;
            // The network has begun to drop the probes of one sender, or passes them again: what was asked as that one says nothing.
            let other = looks.first != self.forms.looks.first && !planted!(GoesOnAsDropped);
            self.forms.looks = looks;
            if other && self.target == Target::Anybody {
                (self.misses, self.quiet) = (0, 0);
            }
            if fresh || other {
                self.forms.begin();
            }
            self.forms.answered |= looks.works && self.forms.sender == looks.first;
        }
    }

    /// These are nodes that take part.
    pub fn set_peers(&mut self, peers: Vec<Mac>) {
        self.peers = peers;
    }

    /// These hosts answer for others, and probes from 0.0.0.0 pass.
    pub fn set_proxies(&mut self, proxies: Vec<Mac>) {
        self.proxies = proxies;
    }

    /// Whether the next window asks third parties too, if none is open now.
    #[must_use]
    pub fn asks_parties(&self) -> bool {
        self.target == Target::Anybody || self.misses > 0 || self.needed <= 1 || self.named.is_some()
    }

    /// Whether answers of third parties are waited for.
    #[must_use]
    pub fn waits_for_parties(&self) -> bool {
        self.window.is_some_and(|window| window.parties != Parties::NotAsked)
    }

    /// Whether the open window has asked third parties, and none has answered yet.
    #[must_use]
    pub fn hears_no_party(&self) -> bool {
        self.window.is_some_and(|window| window.parties == Parties::Silent)
    }

    /// The third parties that a window asks.
    #[must_use]
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// Whether that third party is asked in the window that is open.
    #[must_use]
    pub fn asks_beside(&self, address: IpAddr) -> bool {
        self.waits_for_parties() && self.parties.iter().any(|party| party.address == address)
    }

    /// The own step came late, or the link was down: silence says nothing.
    pub fn forget(&mut self, now: Time) {
        (self.window, self.named, self.gone, self.again) = (None, None, None, false);
        self.next = now;
        self.forget_windows();
    }

    /// What closed windows have shown says nothing any more.
    fn forget_windows(&mut self) {
        (self.misses, self.quiet, self.deaf) = (0, 0, 0);
        self.forms.begin();
    }

    /// A step begins. If it is late for the window that is open, or for the next one to open, earlier misses say nothing.
    pub fn begin(&mut self, now: Time) {
        let due = self.window.map_or(self.next, |w| w.opened + self.interval);
        if self.misses > 0 && now > due + self.slack() {
            self.forget(now);
        }
    }

    fn slack(&self) -> Duration {
        (self.interval / 2).max(Duration::from_millis(25))
    }

    /// Another host spoke for `address`, which is a VIP or belongs to a third party.
    pub fn heard(&mut self, now: Time, address: IpAddr, mac: Mac, form: Form) {
        if let Some(nth) = self.vips.iter().position(|vip| *vip == address) {
            let declared = match &self.target {
                Target::Holder(declaration) => declaration.macs.contains(&mac),
                _ => true,
            };
            self.heard_owner(now, (mac, nth), declared, form);
        } else if let Some(party) = self.parties.iter_mut().find(|party| party.address == address)
            && let Some(window) = &mut self.window
            && (form.is_answer() || planted!(ClaimsEntitle))
        {
            let alone = party.mac.is_some() && form.is_alone();
            let same_cast = !window.alone || alone || planted!(ClaimsEntitle);
            let same_form = same_cast && (form.answers(address, window.sender) || planted!(ClaimsEntitle));
            if same_form || planted!(AnyForm) {
                window.parties = Parties::Answered;
            } else if party.mac.is_none() && window.parties == Parties::Silent {
                window.parties = Parties::Learned;
            }
        }
    }

    /// The target was heard, from a MAC address that it may not have declared.
    pub fn heard_target(&mut self, now: Time, mac: Mac, form: Form) {
        self.heard_owner(now, (mac, 0), true, form);
    }

    /// A host spoke for a VIP that is perhaps not asked for: one that the holder has not declared yet, or that was held back
    /// until now. From a MAC address that the holder declared, this shows that the holder is alive. It does not show that the
    /// holder answers for the addresses that are asked for.
    pub fn heard_for_another(&mut self, mac: Mac, form: Form) {
        let is_its = !form.is_answer() || self.is_asked(mac, form) || planted!(BelievesBroadcasts);
        if is_its && matches!(&self.target, Target::Holder(declaration) if declaration.macs.contains(&mac)) {
            self.forget_windows();
            if let Some(window) = &mut self.window {
                window.answered = true;
            }
        }
    }

    /// A host spoke for the VIP with that place among those that are asked for.
    fn heard_owner(&mut self, now: Time, (mac, nth): (Mac, usize), is_target: bool, form: Form) {
        if form.is_answer() && !self.is_asked(mac, form) && !planted!(BelievesBroadcasts) {
            // Perhaps another host answers for one that is gone.
            self.name(mac);
            return;
        }
        if is_target && matches!(self.target, Target::Holder(_)) {
            self.owners.is_holders(nth);
        }
        if !is_target && !self.has_all(mac, nth) && !planted!(AnyOwnerIsHolder) {
            return;
        }
        self.is_there(now, mac);
        self.in_tenure |= is_target && (form.is_answer() || planted!(ClaimsEntitle));
    }

    /// Whether a host that the target has not declared counts as the holder: see [`Owners::has_all`]. Another node of the election does: it
    /// may have taken over.
    fn has_all(&mut self, mac: Mac, nth: usize) -> bool {
        let declares = matches!(&self.target, Target::Holder(declaration) if !declaration.macs.is_empty());
        !declares || self.vips.len() == 1 || self.peers.contains(&mac) || self.owners.has_all(mac, nth)
    }

    /// Whether the probe of the open window went to that host alone, and the frame answers a probe with its sender.
    fn is_asked(&self, mac: Mac, form: Form) -> bool {
        let is_ipv6 = self.vips.iter().all(IpAddr::is_ipv6);
        let counts = |by| by == Sender::Unspecified || !self.proxies.contains(&mac);
        let answers = |sender| matches!(form, Form::Answer(by) if by == sender && counts(by) || is_ipv6);
        self.window.is_some_and(|window| window.asked == Some(mac) && answers(window.sender))
    }

    /// That host is asked by the next windows: not before this one ends, for more answers to a broadcast may be on their way.
    fn name(&mut self, mac: Mac) {
        // Behind a host that answers for others, whoever else answers comes first.
        let is_proxy = |mac| self.proxies.contains(&mac);
        // The holder comes before a foreign host, and whoever was not asked yet before a host that did not answer.
        let rank = |mac| (is_proxy(mac), !self.is_declared(mac), self.gone == Some(mac));
        if self.named.is_some_and(|named| named == mac || rank(named) <= rank(mac)) {
            return;
        }
        self.named = Some(mac);
        if self.gone != Some(mac) {
            // A frame may get lost: what was missed before says nothing about the host that was named.
            self.misses = 0;
        }
    }

    fn is_declared(&self, mac: Mac) -> bool {
        matches!(&self.target, Target::Holder(declaration) if declaration.macs.contains(&mac))
    }

    /// The next window asks a host that was named, or everybody once more after that one did not answer: for what it was named for.
    #[must_use]
    pub const fn is_verifying(&self) -> bool {
        self.named.is_some() || self.again
    }

    /// An answer to a broadcast has named a host that was not asked yet, or is asked now. One that did not answer before counts as gone
    /// while it is asked again.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let asked = self.window.filter(|window| window.verifies).and_then(|window| window.asked);
        self.named.or(asked).is_some_and(|mac| self.gone != Some(mac))
    }

    /// What a host was named for is not asked for any more.
    pub fn forget_named(&mut self) {
        (self.named, self.again) = (None, false);
    }

    /// The target lives: what was missed says nothing.
    fn is_there(&mut self, now: Time, mac: Mac) {
        self.forget_windows();
        self.answered = Some((now, mac));
        (self.named, self.gone, self.again) = (None, None, false);
        if let Some(window) = &mut self.window {
            window.answered = true;
        }
    }

    /// Time has passed: closes a window, and opens the next one. Returns the probes to send, and whether a miss was counted.
    pub fn tick(&mut self, now: Time) -> (Vec<Probe>, bool) {
        let missed = self.end_window(now);
        if !self.opens(now) {
            return (vec![], missed);
        }
        let probes = self.probes();
        self.open(now);
        (probes, missed)
    }

    /// Closes the window whose time is over. Answers whether that was a miss.
    pub fn end_window(&mut self, now: Time) -> bool {
        self.window.filter(|window| now >= window.opened + self.interval).is_some_and(|window| self.close(window, now))
    }

    /// Whether the next window opens now.
    #[must_use]
    pub fn opens(&self, now: Time) -> bool {
        self.window.is_none() && self.next().is_some_and(|next| next <= now)
    }

    /// The next window opens no sooner: its probes may not leave yet. That is no miss, and does not make this node late.
    pub fn put_off(&mut self, until: Time) {
        self.next = until;
    }

    /// Whether no window is open.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.window.is_none()
    }

    /// How long the misses take that make silence.
    pub(crate) fn decides_within(&self) -> Duration {
        self.interval * (self.needed + 1)
    }

    /// When [`Witness::tick`] has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        if self.target == Target::Nothing || self.vips.is_empty() {
            return None;
        }
        Some(self.window.map_or(self.next, |w| w.opened + self.interval))
    }

    /// Whether the target is this tenure, and not the one before it.
    #[must_use]
    pub fn is_of(&self, declaration: &Declaration) -> bool {
        matches!(&self.target, Target::Holder(target) if target == declaration)
    }

    /// The VIP has no owner: its probes went unanswered while third parties answered theirs. A declared holder must have
    /// answered before, in this tenure.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let entitled = planted!(NeverHeard) || self.in_tenure || matches!(self.target, Target::Anybody);
        // A host that did not answer is named once more: it may be back, and is asked first.
        let undecided = self.named.is_some() || self.window.is_some_and(|window| window.verifies);
        entitled && self.is_free() && !undecided
    }

    /// As [`Witness::is_silent`], whether or not the holder has ever answered: enough to carry the VIP while the API
    /// cannot be asked, not to take a Lease from somebody.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.misses >= self.needed
    }

    /// No host answered for the VIP for a while, whether or not third parties were heard: enough to rule out a foreign owner.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet >= self.needed && (self.forms.answered || self.forms.both || !self.has_other_sender())
    }

    /// Whether a look can ask as somebody else. A holder is asked as any host asks.
    fn has_other_sender(&self) -> bool {
        let is_look = self.target == Target::Anybody && !planted!(OneSenderIsEnough);
        is_look && self.own == Sender::Own && self.vips.iter().any(IpAddr::is_ipv4)
    }

    /// The last window was not answered, and no third party was heard in it either.
    #[must_use]
    pub fn was_deaf(&self) -> bool {
        self.quiet > 0 && self.misses == 0
    }

    /// Nobody answered for a while, nor did third parties the last two times that they were asked: when that was last so. A single
    /// answer may get lost.
    #[must_use]
    pub fn deaf_at(&self) -> Option<Time> {
        (self.is_quiet() && self.deaf >= 2).then_some(self.deaf_at)
    }

    /// The host that answered within the last second.
    #[must_use]
    pub fn answer(&self, now: Time) -> Option<Mac> {
        self.answered.filter(|(at, _)| now.since(*at) <= SLOW + self.interval).map(|(_, mac)| mac)
    }

    /// Whether a holder is asked, and has not answered for longer than two windows.
    #[must_use]
    pub fn misses_holder(&self, now: Time) -> bool {
        let is_asked = matches!(self.target, Target::Holder(_)) && self.next().is_some();
        is_asked && self.answered.is_none_or(|(at, _)| now.since(at) > self.interval * 2)
    }

    /// Whether a holder is looked for.
    #[must_use]
    pub const fn is_for_holder(&self) -> bool {
        matches!(self.target, Target::Holder(_))
    }

    /// Whether the next window asks again because the last one was not answered, or was answered by a host that has to be asked alone.
    #[must_use]
    pub const fn is_deciding(&self) -> bool {
        self.misses > 0 || self.quiet > 0 || self.is_verifying()
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
        if window.verifies && window.parties != Parties::Answered {
            // Nothing shows that the host could have been heard: the answer that named it is believed.
            if let Some(mac) = window.asked {
                self.is_there(now, mac);
            }
            return false;
        }
        if window.parties == Parties::Learned {
            self.deaf = 0;
        }
        if self.named.is_some() || window.parties == Parties::Learned {
            // The next window asks the host that was named, or third parties as it asks for the VIP.
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet > self.needed.saturating_mul(4) {
            // It has been quiet for long: whatever follows from that was done, or cannot be done. Probes become rare.
            self.next = window.opened + SLOW.max(self.interval);
        }
        match window.parties {
            Parties::Answered => (self.deaf, self.forms.answered) = (0, true),
            Parties::Silent if !self.parties.is_empty() => {
                (self.deaf, self.deaf_at) = (self.deaf.saturating_add(1), now);
            }
            _ => {}
        }
        if matches!(window.parties, Parties::NotAsked | Parties::Answered) || planted!(DeafWitness) {
            self.misses += 1;
            if window.verifies && self.misses < self.needed {
                self.named = window.asked;
            } else if window.verifies && self.gone != window.asked {
                self.gone = window.asked;
                self.misses = self.needed.saturating_sub(1);
                self.again = true;
            }
            return true;
        }
        // This node is deaf: it may have missed earlier answers for the same reason.
        self.misses = 0;
        self.change_sender();
        false
    }

    /// A look that no third party answered goes on with the other sender: perhaps the network drops the one that it had.
    fn change_sender(&mut self) {
        let forms = self.forms;
        if self.quiet < self.needed || forms.answered || !self.has_other_sender() {
            return;
        }
        let sender = if forms.sender == Sender::Unspecified { self.own } else { Sender::Unspecified };
        // The first change begins the count anew. From the second on, both senders had their turn.
        self.quiet = if forms.both { self.quiet } else { 0 };
        self.forms = Forms { sender, both: true, ..forms };
    }

    /// Whom the next window asks, and as whom.
    fn asks(&self) -> (Option<Mac>, Sender) {
        let last = self.answered.map(|(_, mac)| mac);
        let to = match &self.target {
            _ if self.named.is_some() => self.named,
            // The last probe is a broadcast: a bond may have changed its MAC address.
            Target::Holder(d) => last.or_else(|| d.macs.first().copied()).filter(|_| self.misses + 1 < self.needed),
            Target::Anybody => last.filter(|_| self.quiet == 0),
            Target::Nothing => None,
        };
        let looks = to.is_none() && self.target == Target::Anybody;
        let proxy = to.is_some_and(|to| self.proxies.contains(&to));
        let sender = match (looks, proxy) {
            (true, _) => self.forms.sender,
            (false, true) => Sender::Unspecified,
            (false, false) => self.own,
        };
        (to, sender)
    }

    /// Whether the next window asks third parties one by one: as it asks for the VIPs, and at the end of a look. A network that answers
    /// broadcasts for other hosts does so for third parties too, to a node that is cut off from all of them.
    fn asks_parties_alone(&self) -> bool {
        let is_last = self.target == Target::Anybody && self.misses + 1 >= self.needed;
        self.asks().0.is_some() || is_last && !planted!(BelievesBroadcasts)
    }

    /// With which sender the next window asks.
    #[must_use]
    pub fn asks_as(&self) -> Sender {
        self.asks().1
    }

    /// The probes with which the next window opens.
    #[must_use]
    pub fn probes(&self) -> Vec<Probe> {
        let (to, sender) = self.asks();
        let vips = self.vips.iter().map(|address| Probe { address: *address, to, sender });
        let parties = self.parties.iter().filter(|_| self.asks_parties());
        let alone = self.asks_parties_alone();
        let party = |party: &Party| Probe { address: party.address, to: party.mac.filter(|_| alone), sender };
        vips.chain(parties.map(party)).collect()
    }

    /// A window opens: [`Witness::probes`] leave.
    pub fn open(&mut self, now: Time) {
        let (asked, sender) = self.asks();
        let parties = if self.asks_parties() { Parties::Silent } else { Parties::NotAsked };
        let alone = self.asks_parties_alone();
        self.again = false;
        let verifies = self.named.take().is_some();
        self.window = Some(Window { opened: now, asked, verifies, sender, alone, answered: false, parties });
    }
}

#[cfg(test)]
mod tests;
