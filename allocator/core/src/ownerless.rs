//! Claims whose Cluster or machine is not there: how long they wait for it, and which need not wait.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::names::Uid;

/// A claim goes after this time without its owner. A backup may bring back a claim before its owner, or with an owner that has another uid
/// by now: then the garbage collector deletes the claim at once.
const ORPHANED: Duration = Duration::from_mins(5);

/// What is known of the claims of one owner while the owner is not there.
#[derive(Debug, Default)]
pub struct Ownerless {
    /// Claims that were there when their owner went, and so are of no backup.
    left: BTreeSet<Uid>,
    /// Since when they have no owner.
    since: Option<Duration>,
}

impl Ownerless {
    /// The owner went, and these claims were there.
    pub fn owner_went<'a>(&mut self, claims: impl Iterator<Item = &'a Uid>) {
        self.left.extend(claims.cloned());
        self.since = None;
    }

    /// The owner is there, or none of the claims lacks it.
    pub fn owner_is_there(&mut self) {
        self.since = None;
    }

    /// A claim is shown; `before`: the one that had its name until now. The time begins anew with another claim.
    pub fn claim_shown(&mut self, before: Option<&Uid>, uid: &Uid) {
        if before == Some(uid) {
            return;
        }
        self.since = None;
        if let Some(before) = before {
            self.claim_went(before);
        }
    }

    /// A claim is gone.
    pub fn claim_went(&mut self, uid: &Uid) {
        self.left.remove(uid);
    }

    /// Whether the claim was there when its owner went.
    #[must_use]
    pub fn outlived_its_owner(&self, uid: &Uid) -> bool {
        self.left.contains(uid)
    }

    /// When the claims have waited long enough. The API server did not have their owner at the time `read`.
    pub fn end(&mut self, read: Duration) -> Duration {
        *self.since.get_or_insert(read) + ORPHANED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_begins_anew_with_another_claim_and_when_the_owner_was_there() {
        let (one, other) = (Uid::from("one"), Uid::from("other"));
        let mut all = Ownerless::default();
        assert_eq!((all.end(s(10)), all.end(s(20))), (s(310), s(310)));
        all.claim_shown(Some(&one), &one);
        assert_eq!(all.end(s(30)), s(310));
        all.claim_shown(Some(&one), &other);
        assert_eq!(all.end(s(40)), s(340));
        all.owner_is_there();
        assert_eq!(all.end(s(50)), s(350));
    }

    #[test]
    fn who_was_there_when_the_owner_went_is_known_until_it_goes() {
        let (one, other) = (Uid::from("one"), Uid::from("other"));
        let mut all = Ownerless::default();
        all.owner_went([&one].into_iter());
        all.claim_shown(None, &other);
        assert_eq!((all.outlived_its_owner(&one), all.outlived_its_owner(&other)), (true, false));
        all.claim_shown(Some(&one), &other);
        assert!(!all.outlived_its_owner(&one));
    }
}
