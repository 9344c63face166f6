//! How often a VIP has moved lately.

use std::collections::VecDeque;

use super::rules::{MOVES, MOVES_WINDOW};
use super::time::Time;

/// The moves of a VIP that were seen in the last 180 s. EVPN fabrics freeze an address that moves five times in that time
/// (RFC 7432 section 15.1), so nobody takes early when the fourth has been seen; expiry still works.
#[derive(Clone, Debug, Default)]
pub struct Moves(VecDeque<Time>);

impl Moves {
    /// The VIP has moved.
    pub fn record(&mut self, now: Time) {
        self.forget(now);
        // Whoever writes the Lease can make the VIP move as often as it likes: moves older than these decide nothing.
        while self.0.len() >= MOVES {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Whether it may move once more without waiting for an expiry.
    pub fn may_move(&mut self, now: Time) -> bool {
        self.forget(now);
        self.0.len() < MOVES
    }

    fn forget(&mut self, now: Time) {
        while self.0.front().is_some_and(|at| now.since(*at) > MOVES_WINDOW) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_fifth_move_in_180_s_is_not_made_early() {
        let mut moves = Moves::default();
        let start = Time::from_nanos(1);
        for n in 0..4 {
            assert!(moves.may_move(start));
            moves.record(start + Duration::from_secs(n));
        }
        assert!(!moves.may_move(start + Duration::from_secs(100)));
        assert!(moves.may_move(start + Duration::from_secs(181)));
    }
}
