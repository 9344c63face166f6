//! Checks of writes: a record changes hands only after an end or with consent; a session is ended only if its node is silent or
//! did not renew it.

use std::net::IpAddr;

use mooring_agent_core::Probe;
use mooring_agent_core::rules::SELF_PROBE;
use mooring_agent_core::session::{EndCause, Holder, View};
use mooring_agent_core::session_vips::Call;

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::session_vips::SessionVips;
use crate::session_vips::fault::Fault;
use crate::settings::number;
use crate::subject::Subject as _;
use crate::world::{World, nanos};

/// Witnesses probe a VIP whose record is at least this old.
const STOOD: Nanos = 3 * SECOND;

/// A take that rests on a consent may be written this long after the consent was withdrawn.
const WITHDRAWN: Nanos = 10 * SECOND;

/// Another host's frame may be minded for so long, by an agent that was stopped meanwhile.
const CLAIMED: Nanos = 40 * SECOND;

/// Whether others may take VIPs of that session: all of them, or those on a link where nobody answers the node.
pub fn gives(session: &View) -> bool {
    session.is_leaving() || session.offers()
}

impl World<'_, SessionVips> {
    /// A node's session is about to be written.
    pub fn check_session_write(&mut self, by: usize, before: Option<&View>, after: &View) {
        let key = |v: &View| (v.node.clone(), v.uid.clone(), v.record.transitions);
        if after.is_live() {
            if before.is_some_and(gives) && !gives(after) {
                self.checks.withdraws(&after.node, self.now);
            }
            if before.is_none_or(|b| !b.is_live() || b.incarnation() != after.incarnation()) {
                self.stirred();
                self.checks.began.insert(after.node.clone(), self.now);
                if let Some(before) = before {
                    let now = self.now;
                    self.checks.ended.entry(key(before)).or_insert(now);
                }
            }
            return;
        }
        let now = self.now;
        self.stirred();
        self.checks.ended.entry(key(after)).or_insert(now);
        let cause = after.end.as_ref().map(|end| end.cause);
        let Some(of) = number::<Fault>(&after.node).filter(|of| *of != by) else { return };
        let name = self.names[by].clone();
        self.note(|_| format!("{name} ends the session of {}: {cause:?}", after.node));
        if cause == Some(EndCause::Abandoned) {
            self.checks.abandoned[of] += 1;
            self.check_gone(by, of, before);
        }
        let lease = nanos(self.plan.settings.rules.lease_duration);
        let renewed = self.api.store.renewed.get(&after.node).copied().unwrap_or(0);
        if cause == Some(EndCause::Expired) && before.is_some_and(View::is_live) && !self.is_restored() {
            let age = self.now - renewed;
            if age + SECOND / 2 < lease {
                let text = format!("{name} ends {} as expired, and it was renewed {} ms ago", after.node, age / MS);
                return self.violated(Rule::Fence, text);
            }
            let host = &self.hosts[of];
            let slept = host.asleep.is_some() || host.slept > 0 && host.slept + lease > self.now;
            let slow = host.kernel > 0 || host.slow_until > self.now;
            if let Some(vip) =
                host.vips.iter().position(|s| s.is_some_and(|s| s.leased)).filter(|_| host.up && !slept && !slow)
            {
                let text = format!("{name} ends {} as expired, and that one still carries VIP {vip} by it", after.node);
                self.violated(Rule::Fence, text);
            }
        }
    }

    /// A session is ended for silence: its node must be gone, or its agent. A node that answers from its own address and renews its
    /// session lives, whatever VIPs it has let go.
    fn check_gone(&mut self, by: usize, of: usize, before: Option<&View>) {
        let renewed = self.api.store.renewed.get(&self.names[of]).copied().unwrap_or(0);
        let age = self.now - renewed;
        let lives = before.is_some_and(View::is_live) && age * 2 < nanos(self.plan.settings.rules.retry_period) * 3;
        if let Some(answered) = self.checks.robs.get(&(by, of)).filter(|_| lives && !self.is_restored()) {
            let (name, other, answered) = (&self.names[by], &self.names[of], answered / MS);
            let text = format!(
                "{name} abandons {other}, whose kernel has answered for {answered} ms, which all hear, and which has renewed its \
                 session {} ms ago",
                age / MS
            );
            return self.violated(Rule::Witness, text);
        }
        if lives && self.checks.reached.get(&(by, of)) == Some(&true) && !self.is_restored() {
            let (name, other) = (&self.names[by], &self.names[of]);
            let text =
                format!("{name} abandons {other}, which answers and has renewed its session {} ms ago", age / MS);
            self.violated(Rule::Witness, text);
        }
    }

    /// An agent reports that another host has a VIP: it must have heard such a host on the VIP's own segment.
    pub fn check_claimed(&mut self, by: usize, address: IpAddr) {
        let Some(vip) = self.vip_of(address) else { return };
        let Some(agent) = &self.hosts[by].agent else { return };
        if agent.own.claimed[vip].is_none_or(|at| self.now - at > CLAIMED) {
            let text =
                format!("{} minds another host with VIP {vip}, and has heard none on its segment", self.names[by]);
            self.violated(Rule::Moves, text);
        }
    }

    /// An agent writes the end of another's session: it must not have heard that node, and must have heard a third party.
    pub fn check_end_sent(&mut self, by: usize, call: &Call) {
        let Call::WriteSession { node, end: Some(end), .. } = call else { return };
        let Some(of) = number::<Fault>(node).filter(|of| *of != by && end.cause == EndCause::Abandoned) else {
            return;
        };
        self.checks.reached.remove(&(by, of));
        self.checks.robs.remove(&(by, of));
        // Excused: to a machine that stood still with its clock, what it heard before is as fresh as it was. And of a host many of whose
        // frames get lost, an answer to a broadcast alone shows nothing (a network may answer for a host that is gone).
        let many = if self.plan.settings.rules.witness_misses > 2 { 500 } else { 100 };
        let lost = |from, to| (0..self.plan.settings.segments).any(|on| self.segment.way(on, from, to).lost >= many);
        if self.hosts[by].has_just_slept(self.now) || lost(by, of) || lost(of, by) {
            return;
        }
        let answered = self.checks.reached_since[of].map(|since| self.now - since);
        let before = |answered: &Nanos| *answered > self.checks.bounds.silence + 2 * SECOND;
        if let Some(answered) = answered.filter(before) {
            self.checks.robs.insert((by, of), answered);
        }
        let heard = self.checks.heard_held.get(&(by, of)).copied();
        let (bound, least) = (self.checks.bounds.silence, self.checks.bounds.least_silence);
        let window = least / u64::from(self.plan.settings.rules.witness_misses.max(1));
        let own = self.checks.heard_own.get(&(by, of));
        self.checks.reached.insert((by, of), own.is_some_and(|at| self.now - at <= window));
        let third = self.hosts[by].agent.as_ref().and_then(|a| a.own.third.iter().max().copied()).unwrap_or(0);
        // A write that waited for the API rests on a silence of before, and where switches answer for others nobody need answer since.
        let waited = self.plan.settings.network.proxy.is_some();
        let late = if waited { 600 * SECOND } else { 0 };
        if let Some(ago) = heard.map(|at| self.now - at).filter(|ago| ago + 3 * MS < least) {
            let text = format!("{} abandons {node}, and an answer reached it {} ms ago", self.names[by], ago / MS);
            self.violated(Rule::Witness, text);
        } else if self.now - third > bound + 1_500 * MS + late {
            let text =
                format!("{} abandons {node}, and has heard nobody for {} ms", self.names[by], (self.now - third) / MS);
            self.violated(Rule::Witness, text);
        }
    }

    /// An agent takes a VIP for free: it must have heard a third party on that segment.
    pub fn check_provisional(&mut self, by: usize, address: IpAddr) {
        let Some(vip) = self.vip_of(address) else { return };
        let host = &self.hosts[by];
        // Excused: a kernel that answers late. The node had heard somebody when it asked for the address.
        let late = host.starved > 0 || host.unanswered > 0;
        if late || host.has_just_slept(self.now) {
            return;
        }
        let segment = SessionVips::segment_of(&self.plan.settings, vip);
        let third = host.agent.as_ref().and_then(|a| a.own.third.get(segment).copied()).unwrap_or(0);
        if self.now - third > self.checks.bounds.silence + 1_500 * MS {
            let (name, ago) = (self.names[by].clone(), (self.now - third) / MS);
            self.violated(
                Rule::Witness,
                format!("{name} takes VIP {vip} for nobody's, and has heard nobody for {ago} ms"),
            );
        }
    }

    /// An agent takes a VIP up. After the link of the VIP's interface came up, a renewal that was sent since has succeeded, or the
    /// segment was asked: while the link was down, another node may have taken the VIP.
    pub fn check_took(&mut self, by: usize, address: IpAddr) {
        let Some(vip) = self.vip_of(address) else { return };
        let Some(agent) = &self.hosts[by].agent else { return };
        let came_up = agent.own.came_up[SessionVips::segment_of(&self.plan.settings, vip)];
        let Some((up, told)) = came_up else { return };
        if agent.own.asked[vip] < up && agent.confirmed.is_none_or(|sent| sent < told) {
            let (name, ago) = (&self.names[by], (self.now - up) / MS);
            let text = format!(
                "{name} takes VIP {vip} up {ago} ms after its link came up, and knows of nothing that happened since"
            );
            self.violated(Rule::Late, text);
        }
    }

    /// An agent asks for an address.
    pub fn note_asked(&mut self, by: usize, ask: &Probe) {
        let now = self.now;
        if let Some(vip) = self.vip_of(ask.address).filter(|_| ask.to.is_none())
            && let Some(agent) = &mut self.hosts[by].agent
        {
            agent.own.asked[vip] = now;
        }
    }

    /// An agent writes a record to take a VIP: not before it has looked around after a late step, and what nobody held not
    /// before it has asked for another owner.
    pub fn check_take_sent(&mut self, by: usize, call: &Call) {
        let Call::WriteHolder { address, holder: Some(Holder { to: None, .. }), .. } = call else {
            return;
        };
        let Some(vip) = self.vip_of(*address) else { return };
        let name = self.names[by].clone();
        let record = self.api.store.addresses.get(&vip).and_then(|a| a.holder.as_ref());
        if record.is_some_and(|h| h.node == name) {
            return;
        }
        let clock = self.hosts[by].moment(self.now).now;
        let Some(agent) = &self.hosts[by].agent else { return };
        // It takes an offer back, and does not know yet that the offer was taken: the version that it names decides.
        if agent.core.vip(*address).is_some_and(|known| known.holder.as_ref().is_some_and(|h| h.node == name)) {
            return;
        }
        if let Some(late) = agent.late.filter(|late| clock.since(*late) < SELF_PROBE) {
            let ago = clock.since(late).as_millis();
            return self.violated(Rule::Late, format!("{name} takes VIP {vip} {ago} ms after a late step"));
        }
        let free = agent.core.vip(*address).is_some_and(|v| v.carried.is_none() && v.holder.is_none());
        let ago = self.now - agent.own.asked[vip];
        let slept = self.hosts[by].has_just_slept(self.now);
        if free && !slept && self.plan.settings.rules.conflict_probe && ago > self.checks.bounds.silence + 3 * SECOND {
            let text =
                format!("{name} takes VIP {vip}, which nobody holds, and last asked for its owner {} ms ago", ago / MS);
            self.violated(Rule::Witness, text);
        }
    }

    /// A frame for a VIP reaches an agent.
    pub fn note_heard(&mut self, to: usize, vip: usize, from: usize) {
        let now = self.now;
        if now <= self.checks.recorded[vip] + STOOD {
            return;
        }
        let holder = self.api.store.addresses.get(&vip).and_then(|a| a.holder.as_ref());
        if holder.is_some_and(|h| number::<Fault>(&h.node) == Some(from) && h.to.is_none()) {
            self.checks.heard_held.insert((to, from), now);
        }
    }

    /// A VIP's record is about to be written.
    pub fn check_record_write(&mut self, by: usize, vip: usize, before: Option<&Holder>, after: Option<&Holder>) {
        let name = self.names[by].clone();
        let now = self.now;
        let Some(after) = after else {
            if let Some(before) = before.filter(|before| before.node != name) {
                self.violated(
                    Rule::Record,
                    format!("{name} clears the record of VIP {vip}, which is {}'s", before.node),
                );
            }
            return;
        };
        if before.is_none_or(|b| b.session != after.session || b.node != after.node) {
            self.checks.recorded[vip] = now;
        }
        // What an agent of before held is the next agent's as well.
        let same = before.is_some_and(|before| before.node == after.node && before.session == after.session);
        let session = self.api.store.sessions.get(&after.node).filter(|session| session.is_of(&after.session));
        let told = (after.node.clone(), after.session.uid.clone(), after.session.transitions);
        if !same && session.is_some_and(|session| session.published) && !self.checks.published.contains(&told) {
            let text = format!("{name} takes VIP {vip} by a session of which nobody was told: {told:?}");
            return self.violated(Rule::Record, text);
        }
        let Some(before) = before else { return };
        if before.node == after.node && before.session == after.session {
            return;
        }
        let session = self.api.store.sessions.get(&before.node);
        let live = session.is_some_and(|s| s.is_live() && s.is_of(&before.session));
        // A consent that is withdrawn crosses with takes that rest on it: there the record decides.
        // So it does if the taker's watch of member objects is behind. To a machine that stood still with its clock, what it was told
        // is as fresh as it was.
        let lately = |at: Option<&Nanos>| at.is_some_and(|at| now < at + WITHDRAWN);
        let slept = self.hosts[by].has_just_slept(now);
        let told = self.checks.told_leaving.get(&(by, before.node.clone()));
        let told = lately(told) || slept && told.is_some();
        let withdrawn = self.checks.withdrawn.get(&before.node);
        let withdrawn = lately(withdrawn) || told && withdrawn.is_some();
        let consents = before.to.is_some() || session.is_some_and(gives) || withdrawn;
        if live && !consents && !self.is_restored() {
            let text = format!("{name} takes VIP {vip} from {}, whose session has not ended", before.node);
            return self.violated(Rule::Record, text);
        }
        let key = (before.node.clone(), before.session.uid.clone(), before.session.transitions);
        if let Some(ended) = self.checks.ended.get(&key).copied().filter(|_| !live) {
            let began = |node: &str| self.checks.began(node);
            // A node that already carries the VIP, without the API or because another's write came first, writes its record first.
            let address = SessionVips::vip(&self.plan.settings, vip);
            let has = self.hosts[by].agent.as_ref().and_then(|a| a.core.vip(address));
            let write = 2 * self.plan.settings.api.1 + 50 * MS;
            let carries = has.is_some_and(|v| v.carried == Some("provisional"))
                || self.hosts[by].vips[vip].is_some_and(|standing| standing.since + write < now);
            // A machine that stood still may know less: to it the holder that leaves is still there, and consents.
            let late = !carries && !slept && began(&name).is_some_and(|at| at > ended);
            // Nobody takes a VIP who is not told yet that it is wanted.
            let is_wanted_by =
                |h: usize| self.hosts[h].agent.as_ref().is_some_and(|a| !a.core.successors(address).is_empty());
            let older = (0..self.hosts.len()).find(|h| {
                let other = &self.names[*h];
                *h != by
                    && is_wanted_by(*h)
                    && self.api.store.sessions.get(other).is_some_and(View::is_live)
                    && began(other).is_some_and(|at| at + 10 * SECOND < ended)
                    && self.checks.able[*h][vip].is_some_and(|at| at + 10 * SECOND < ended)
            });
            if let Some(older) = older.filter(|_| late && self.now < ended + 3 * SECOND / 2) {
                let text = format!(
                    "{name} takes VIP {vip} at once, and began its session after {}'s had ended; {} was there before",
                    before.node, self.names[older]
                );
                return self.violated(Rule::Record, text);
            }
        }
        if before.node != after.node {
            let (from, to) = (before.node.clone(), after.node.clone());
            self.note(|_| format!("record of VIP {vip}: {from} -> {to}"));
            self.check_stays(vip, &from, &to);
        }
    }
}
