//! The regular look at all entries of a pool: what is ours and belongs to nobody here, and what people deleted or changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::names::{Key, Uid};

use super::call::{Entry, Mark};

/// Delay between two looks.
pub(super) const EVERY: Duration = Duration::from_mins(10);
/// After a call whose effect is unknown, the next look comes after this time at the latest: the call may have its effect late.
pub(super) const SOON: Duration = Duration::from_mins(1);
/// An entry that belongs to nobody is deleted only if it was seen for this long.
pub(super) const GRACE: Duration = Duration::from_mins(2);

/// An `IPAddress` of a pool, as shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) mark: Mark,
    /// The object is of a claim, and is not being deleted.
    pub(super) stands: bool,
    /// It is being let go: nothing is put back for it.
    pub(super) goes: bool,
    /// When it was shown first.
    pub(super) since: Duration,
}

/// The look before a pool goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    No,
    Due,
    Taken,
}

/// The looks at a pool.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) due: Duration,
    /// Whether the look that a pool needs before it goes was taken, since the last claim asked for something.
    pub(super) last: Last,
    /// When the list under way was asked for.
    pub(super) asked: Option<Duration>,
    /// The entries that belong to nobody, by number, and since when they were seen.
    pub(super) suspects: BTreeMap<Box<str>, (Entry, Duration)>,
    /// The entries whose deletion was asked for because they belong to nobody, or are one too many: no claim gets one of them.
    pub(super) doomed: BTreeSet<Box<str>>,
    /// The addresses of bound claims that have no entry of theirs.
    pub(super) missing: Vec<(Key, IpAddr)>,
    /// How many addresses the pool's subnets have, and how many of them have entries.
    pub(super) size: Option<(u64, u64)>,
}

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// New suspects, to be reported.
    pub(super) new: Vec<Entry>,
    /// Suspects of which it must be asked whether the claim is gone: the grace is over.
    pub(super) doubtful: Vec<Entry>,
    /// Other entries of a claim that has its address: left by a call whose answer was lost.
    pub(super) surplus: Vec<Entry>,
    /// Some other entries of such claims have not been seen for long enough.
    pub(super) surplus_waits: bool,
    /// Objects whose entry is gone.
    pub(super) missing: Vec<Mark>,
    /// Entries that belong to an object here and bear another mark, or none.
    pub(super) rewrite: Vec<(Entry, Mark)>,
}

impl Audit {
    pub(super) const fn new(now: Duration) -> Self {
        Self {
            due: now,
            last: Last::No,
            asked: None,
            suspects: BTreeMap::new(),
            doomed: BTreeSet::new(),
            missing: Vec::new(),
            size: None,
        }
    }

    /// Compares all entries with the objects and claims here. `claims`: the uids of all claims.
    pub(super) fn look(
        &mut self,
        now: Duration,
        entries: &[Entry],
        objects: &[Shown],
        claims: &HashSet<Uid>,
    ) -> Findings {
        let mut found = Findings::default();
        let Some(asked) = self.asked.take() else { return found };
        let by_address: HashMap<IpAddr, &Shown> =
            objects.iter().filter_map(|one| Some((one.mark.address?, one))).collect();
        let by_claim: HashSet<&Uid> = objects.iter().filter(|one| one.stands).map(|one| &one.mark.claim).collect();
        let before = std::mem::take(&mut self.suspects);
        for entry in entries.iter().filter(|entry| entry.ours) {
            let Some(claim) = &entry.claim else { continue };
            if by_address.contains_key(&entry.address) {
                continue;
            }
            let surplus = by_claim.contains(claim);
            if claims.contains(claim) && !surplus {
                continue;
            }
            let since = before.get(&entry.id).map(|(_, since)| *since);
            let over = since.is_some_and(|since| since + GRACE <= now);
            match (surplus, since) {
                (true, _) if over => found.surplus.push(entry.clone()),
                (true, _) => found.surplus_waits = true,
                (false, None) => found.new.push(entry.clone()),
                (false, Some(_)) if over => found.doubtful.push(entry.clone()),
                _ => {}
            }
            self.suspects.insert(entry.id.clone(), (entry.clone(), since.unwrap_or(now)));
        }
        let there: HashMap<IpAddr, &Entry> = entries.iter().map(|entry| (entry.address, entry)).collect();
        self.missing.clear();
        // An entry is made before its object: a list that was asked for after the object was shown has it.
        for one in objects.iter().filter(|one| one.stands && !one.goes && one.since <= asked) {
            let Some(address) = one.mark.address else { continue };
            match there.get(&address) {
                Some(entry) if entry.claim.as_ref() == Some(&one.mark.claim) => {}
                Some(entry) if entry.is_named(&one.mark) => found.rewrite.push(((*entry).clone(), one.mark.clone())),
                _ => {
                    self.missing.push((one.mark.name.clone(), address));
                    found.missing.push(one.mark.clone());
                }
            }
        }
        found
    }
}
