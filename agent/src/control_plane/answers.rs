//! What a name resolves to, where half an answer is none. A resolver asks for both families one by one, and answers with one of them
//! if the other question fails (`getaddrinfo(3)`).

use std::net::IpAddr;

/// A family that has been there must be missing from so many answers in a row to be gone.
const GONE_AFTER: u32 = 3;

/// The last answers for one name.
#[derive(Debug, Default)]
pub struct Answers {
    v4: Family,
    v6: Family,
}

#[derive(Debug, Default)]
struct Family {
    last: Vec<IpAddr>,
    missing: u32,
}

impl Answers {
    /// Takes in an answer, and returns what the name resolves to: IPv4 first.
    pub fn take(&mut self, found: &[IpAddr]) -> Vec<IpAddr> {
        let of = |v4: bool| found.iter().copied().filter(|address| address.is_ipv4() == v4).collect();
        self.v4.take(of(true));
        self.v6.take(of(false));
        self.v4.last.iter().chain(&self.v6.last).copied().collect()
    }
}

impl Family {
    fn take(&mut self, found: Vec<IpAddr>) {
        self.missing = if found.is_empty() { self.missing.saturating_add(1) } else { 0 };
        if self.missing == 0 || self.missing >= GONE_AFTER {
            self.last = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_is_missing_from_one_answer_stays() {
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.10".parse().unwrap(), "2001:db8::10".parse().unwrap());
        let other: IpAddr = "192.0.2.11".parse().unwrap();
        let mut answers = Answers::default();
        assert_eq!(answers.take(&[v4, v6]), [v4, v6]);
        assert_eq!(answers.take(&[v6]), [v4, v6]);
        assert_eq!(answers.take(&[other]), [other, v6], "a new answer counts at once");
        assert_eq!(answers.take(&[other, v6]), [other, v6]);
        // Only what stays away is gone.
        assert_eq!(answers.take(&[v6]), [other, v6]);
        assert_eq!(answers.take(&[v6]), [other, v6]);
        assert_eq!(answers.take(&[v6]), [v6]);
        assert_eq!(Answers::default().take(&[v6]), [v6], "there never was another one");
    }
}
