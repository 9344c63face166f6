//! A holder that took the VIPs because their last holder was silent, and then gets no answer to anything: it hears the segment, and the
//! segment does not hear it. It was wrong about the silence, or cannot serve. It gives the Lease back, and others are asked first.

use std::time::Duration;

use super::handing_over::STRANGER_WITHIN;
use super::{Elector, Role};
use crate::action::{Action, HandsOver, Report};
use crate::planted::planted;
use crate::rules::{MUTE_AFTER, MUTE_ASK};
use crate::time::Time;

/// A mute node takes nothing early for so long, and leaves a free Lease to others.
pub(super) const MISJUDGED: Duration = Duration::from_mins(1);
pub(super) const LEAVES: Duration = Duration::from_secs(10);

/// Whether the segment hears this holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Heard {
    /// It did not rest on silence when it took the VIPs, or an answer has come since.
    #[default]
    Certain,
    /// It did, and nobody has answered since then; third parties are asked next at that time.
    NotYet { since: Time, next: Time },
}

impl Elector {
    /// The VIPs were taken because their last holder was silent.
    pub(super) fn took_by_silence(&mut self) {
        let now = self.step.at.now;
        if let Role::Holding(holding) = &mut self.role {
            holding.heard = Heard::NotYet { since: now, next: now };
        }
    }

    /// A host has answered a probe.
    pub(super) fn is_heard(&mut self) {
        if let Role::Holding(holding) = &mut self.role {
            holding.heard = Heard::Certain;
        }
    }

    pub(super) fn advance_mute(&mut self) {
        let now = self.step.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let Heard::NotYet { since, next } = holding.heard else { return };
        // A step after a pause, or behind a link that was down, has missed answers.
        if !self.segment.link.is_up() || !self.doubt.is_sure() {
            return self.took_by_silence();
        }
        if self.due(since + MUTE_AFTER) && !planted!(MuteKeeps) {
            return self.give_back();
        }
        if self.due(next) {
            let sender = self.own_sender();
            for party in self.third_parties() {
                self.act(Action::Probe { address: party.address, to: party.mac, sender });
            }
            if let Role::Holding(holding) = &mut self.role {
                holding.heard = Heard::NotYet { since, next: now + MUTE_ASK };
            }
            self.due(now + MUTE_ASK);
        }
    }

    fn give_back(&mut self) {
        let now = self.step.at.now;
        if self.peers().next().is_none() || self.api.away.is_some() {
            // Nobody could be told now.
            return self.took_by_silence();
        }
        self.is_heard();
        self.report(Report::Mute);
        self.candidacy.misjudged_until = now + MISJUDGED;
        self.candidacy.hold_off = now + LEAVES;
        let grace = self.rules.handover_grace.min(STRANGER_WITHIN);
        self.begin_leaving(None, grace, HandsOver::Mute);
    }
}
