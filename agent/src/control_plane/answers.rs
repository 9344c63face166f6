//! What a name resolves to, where half an answer is none. A resolver asks for both families one by one, and answers with one of them
//! if the other question fails (`getaddrinfo(3)`).

use std::net::IpAddr;
use std::time::Duration;

use crate::core::time::Time;

/// A family that has been there must be missing from so many answers in a row to be gone ...
const GONE_AFTER: u32 = 3;
/// ... and for so long: while another name does not resolve, answers come every few seconds.
const GONE_FOR: Duration = Duration::from_mins(1);

/// The last answers for one name.
#[derive(Debug, Default)]
pub struct Answers {
    v4: Family,
    v6: Family,
}

#[derive(Debug, Default)]
struct Family {
    last: Vec<IpAddr>,
    missing: Option<Missing>,
}

/// A family stood in none of the last answers.
#[derive(Clone, Copy, Debug)]
struct Missing {
    answers: u32,
    /// The time of the first of them.
    since: Time,
}

impl Missing {
    fn is_gone(self, now: Time) -> bool {
        self.answers >= GONE_AFTER && now.since(self.since) >= GONE_FOR
    }
}

impl Answers {
    /// Takes in an answer, and returns what the name resolves to: IPv4 first.
    pub fn take(&mut self, found: &[IpAddr], now: Time) -> Vec<IpAddr> {
        let of = |v4: bool| found.iter().copied().filter(|address| address.is_ipv4() == v4).collect();
        self.v4.take(of(true), now);
        self.v6.take(of(false), now);
        self.v4.last.iter().chain(&self.v6.last).copied().collect()
    }
}

impl Family {
    fn take(&mut self, found: Vec<IpAddr>, now: Time) {
        let before = self.missing.unwrap_or(Missing { answers: 0, since: now });
        self.missing = found.is_empty().then(|| Missing { answers: before.answers.saturating_add(1), ..before });
        if self.missing.is_none_or(|missing| missing.is_gone(now)) {
            self.last = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10));

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_family_that_is_missing_from_one_answer_stays() {
        let other: IpAddr = "192.0.2.11".parse().unwrap();
        let mut answers = Answers::default();
        assert_eq!(answers.take(&[V4, V6], at(0)), [V4, V6]);
        assert_eq!(answers.take(&[V6], at(30)), [V4, V6]);
        assert_eq!(answers.take(&[other], at(60)), [other, V6], "a new answer counts at once");
        assert_eq!(answers.take(&[other, V6], at(90)), [other, V6]);
        // Only what stays away is gone.
        assert_eq!(answers.take(&[V6], at(120)), [other, V6]);
        assert_eq!(answers.take(&[V6], at(150)), [other, V6]);
        assert_eq!(answers.take(&[V6], at(180)), [V6]);
        assert_eq!(Answers::default().take(&[V6], at(0)), [V6], "there never was another one");
    }

    #[test]
    fn many_answers_in_a_short_time_do_not_make_a_family_go() {
        let mut answers = Answers::default();
        answers.take(&[V4, V6], at(0));
        for seconds in (2..62).step_by(2) {
            assert_eq!(answers.take(&[V6], at(seconds)), [V4, V6], "missing for {} s", seconds - 2);
        }
        // An answer with both begins the time anew.
        answers.take(&[V4, V6], at(62));
        assert_eq!(answers.take(&[V6], at(64)), [V4, V6]);
        // Few answers are not enough either.
        assert_eq!(answers.take(&[V6], at(300)), [V4, V6]);
        assert_eq!(answers.take(&[V6], at(302)), [V6]);
    }
}
