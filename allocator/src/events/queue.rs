//! Which Event is written next. Warnings come first, and have a budget of their own: whoever describes an exhausted claim must
//! see why, however busy the allocator is. Each object has a budget too, as in client-go's `EventCorrelator`.
//!
//! Nobody waits long: an Event whose turn does not come soon is listed in one Event on its pool, with the others of its kind.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mooring_allocator_core::block::Block;

use super::{Note, Regarding};

/// Longest queue of each kind of Event; further Events are dropped.
const LONGEST: [usize; 2] = [1024, 64];
/// Number of Events of each kind that may be written at once ...
const BURST: [u32; 2] = [200, 25];
/// ... and the interval after which one more is allowed.
const TOKEN: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];
/// Number of Events about one object that may be written at once ...
const OBJECT_BURST: u32 = 25;
/// ... and the interval after which one more is allowed. Both as in client-go's `defaultSpamBurst` and `defaultSpamQPS`.
const OBJECT_TOKEN: Duration = Duration::from_mins(5);
/// Number of objects whose budgets are remembered.
const OBJECTS: usize = 4096;
/// While writes wait, check again after this delay.
const BUSY: Duration = Duration::from_millis(100);
/// An Event waits so long for the end of all writes, and then takes its turn among them.
const PATIENCE: Duration = Duration::from_secs(1);
/// An Event that was not written so long after it was queued is listed in one on its pool.
const LATE: Duration = Duration::from_secs(2);
/// An Event that lists others waits so long for more of its kind.
const LIST_AFTER: Duration = Duration::from_secs(2);
/// The most such Events at a time.
const LISTS: usize = 25;
/// The longest list of objects in such an Event, in bytes: the API server allows 1024 for the whole text.
const NAMES: usize = 900;

const WARNING: usize = 0;
const NORMAL: usize = 1;

/// A budget: a burst, and one more after each interval.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    left: u32,
    filled: Duration,
}

impl Tokens {
    const fn full(burst: u32, now: Duration) -> Self {
        Self { left: burst, filled: now }
    }

    fn fill(&mut self, burst: u32, every: Duration, now: Duration) {
        let fresh = now.saturating_sub(self.filled).as_nanos() / every.as_nanos();
        let fresh = u32::try_from(fresh).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(fresh).min(burst);
        self.filled = if self.left == burst { now } else { self.filled + every.saturating_mul(fresh) };
    }

    /// Takes one; otherwise the time until there is one.
    fn take(&mut self, burst: u32, every: Duration, now: Duration) -> Result<(), Duration> {
        self.fill(burst, every, now);
        if self.left == 0 {
            return Err((self.filled + every).saturating_sub(now));
        }
        self.left -= 1;
        Ok(())
    }
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Write this Event.
    Write(Box<Note>),
    /// Look again after this time.
    Wait(Duration),
    /// Nothing waits.
    Idle,
}

/// The waiting Events. `now` is on a clock that only goes forward.
#[derive(Debug)]
pub(super) struct Queue {
    /// Warnings, and all others, and when each was queued.
    lanes: [VecDeque<(Note, Duration)>; 2],
    budgets: [Tokens; 2],
    objects: HashMap<Regarding, Tokens>,
    /// The Events that are not written one by one, by reason and pool.
    left_out: HashMap<(Cow<'static, str>, Regarding), LeftOut>,
    /// How many of those that were queued are listed instead, since somebody asked.
    late: u64,
}

/// Events of one reason that are not written one by one.
#[derive(Debug)]
struct LeftOut {
    /// When the first was left out.
    since: Duration,
    count: u64,
    /// The objects of the first few, and how many these are.
    names: String,
    named: u64,
}

/// What a list says of an Event: the object, and its address, with which the texts about allocation and release begin.
fn listed(note: &Note, pool: &Regarding) -> String {
    let about = &note.regarding;
    let name = if about.namespace == pool.namespace {
        about.name.clone()
    } else {
        format!("{}/{}", about.namespace, about.name)
    };
    let first = note.text.split(' ').next().unwrap_or_default();
    match Block::read(first) {
        Some(block) => format!("{name} ({block})"),
        None => name,
    }
}

impl Queue {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            lanes: Default::default(),
            budgets: BURST.map(|burst| Tokens::full(burst, now)),
            objects: HashMap::new(),
            left_out: HashMap::new(),
            late: 0,
        }
    }

    /// Adds an Event. Returns whether it was taken; one that was not is listed in an Event on its pool.
    pub(super) fn push(&mut self, note: Note, now: Duration) -> bool {
        let lane = if note.warning { WARNING } else { NORMAL };
        if self.lanes[lane].len() < LONGEST[lane] && self.object_has_budget(&note.regarding, now) {
            self.lanes[lane].push_back((note, now));
            return true;
        }
        self.leave_out(note, now);
        false
    }

    fn leave_out(&mut self, mut note: Note, now: Duration) {
        let Some(pool) = note.pool.take() else { return };
        let name = listed(&note, &pool);
        let entry = self.left_out.entry((note.reason, pool));
        let left_out = entry.or_insert_with(|| LeftOut { since: now, count: 0, names: String::new(), named: 0 });
        left_out.count += 1;
        // No shorter name behind one that does not fit: the first ones are listed.
        if left_out.named + 1 == left_out.count && left_out.names.len() + name.len() < NAMES {
            left_out.names += if left_out.named > 0 { ", " } else { "" };
            left_out.names += &name;
            left_out.named += 1;
        }
    }

    /// Lists the Events that have waited too long for their turn.
    fn leave_late_ones_out(&mut self, now: Duration) {
        let is_late = |(note, since): &(Note, Duration)| note.pool.is_some() && *since + LATE <= now;
        if self.lanes[NORMAL].front().is_none_or(|(_, since)| *since + LATE > now) {
            return;
        }
        let (late, rest) = std::mem::take(&mut self.lanes[NORMAL]).into_iter().partition::<VecDeque<_>, _>(is_late);
        self.lanes[NORMAL] = rest;
        self.late += u64::try_from(late.len()).unwrap_or(u64::MAX);
        for (note, _) in late {
            self.leave_out(note, now);
        }
    }

    /// How many of the Events that were taken are listed instead, since the last time.
    pub(super) const fn take_late(&mut self) -> u64 {
        std::mem::replace(&mut self.late, 0)
    }

    fn object_has_budget(&mut self, object: &Regarding, now: Duration) -> bool {
        if self.objects.len() >= OBJECTS && !self.objects.contains_key(object) {
            self.objects.retain(|_, tokens| {
                tokens.fill(OBJECT_BURST, OBJECT_TOKEN, now);
                tokens.left < OBJECT_BURST / 2
            });
        }
        let tokens = self.objects.entry(object.clone()).or_insert_with(|| Tokens::full(OBJECT_BURST, now));
        tokens.take(OBJECT_BURST, OBJECT_TOKEN, now).is_ok()
    }

    /// The next Event. `busy`: writes for claims wait, and all but warnings give way to them for a while.
    pub(super) fn next(&mut self, busy: bool, now: Duration) -> Next {
        self.leave_late_ones_out(now);
        let mut wait = None;
        for lane in [WARNING, NORMAL] {
            let Some((_, since)) = self.lanes[lane].front() else { continue };
            if busy && lane == NORMAL && *since + PATIENCE > now {
                wait = Some(wait.map_or(BUSY, |time: Duration| time.min(BUSY)));
                continue;
            }
            match self.budgets[lane].take(BURST[lane], TOKEN[lane], now) {
                Ok(()) => {
                    if let Some((note, _)) = self.lanes[lane].pop_front() {
                        return Next::Write(Box::new(note));
                    }
                }
                Err(time) => wait = Some(wait.map_or(time, |other: Duration| other.min(time))),
            }
        }
        wait.map_or(Next::Idle, Next::Wait)
    }

    /// The lists that are due: one Event for each reason and pool. Otherwise when one is; None: there is none.
    pub(super) fn lists(&mut self, now: Duration) -> Result<Vec<Note>, Option<Duration>> {
        let due = |left_out: &LeftOut| left_out.since + LIST_AFTER;
        let Some(first) = self.left_out.values().map(due).min() else { return Err(None) };
        if first > now {
            return Err(Some(first.saturating_sub(now)));
        }
        let mut all: Vec<_> = self.left_out.iter().filter(|(_, one)| due(one) <= now).collect();
        all.sort_by_key(|(_, one)| one.since);
        let all: Vec<_> = all.into_iter().take(LISTS).map(|(key, _)| key.clone()).collect();
        let lists = all.into_iter().filter_map(|key| {
            let LeftOut { count, names, named, .. } = self.left_out.remove(&key)?;
            let (reason, regarding) = key;
            let more = if count > named { format!(", and {} more", count - named) } else { String::new() };
            let text = format!("{count} more Events like this one, claims came first: {names}{more}");
            Some(Note { regarding, pool: None, warning: false, reason, action: "Summarize", text })
        });
        Ok(lists.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn note(object: &str, warning: bool, text: &str) -> Note {
        let regarding = Regarding {
            group: "g",
            version: "v1",
            kind: "IPAddressClaim",
            namespace: "n".into(),
            name: object.into(),
            uid: String::new(),
        };
        let pool = Some(Regarding { kind: "InClusterIPPool", name: "p".into(), ..regarding.clone() });
        Note { regarding, pool, warning, reason: "R".into(), action: "A", text: text.into() }
    }

    /// The names of the objects whose Events are written now.
    fn written(queue: &mut Queue, busy: bool, now: Duration) -> Vec<String> {
        let next = || match queue.next(busy, now) {
            Next::Write(note) => Some(note.regarding.name),
            Next::Wait(_) | Next::Idle => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_warning_comes_first_however_many_allocations_there_are_and_writes_wait() {
        let mut queue = Queue::new(START);
        for number in 0..1000 {
            queue.push(note(&format!("c{number}"), false, ""), START);
        }
        assert_eq!(written(&mut queue, false, START).len(), 25, "a burst");
        assert!(queue.push(note("exhausted", true, ""), START));
        assert_eq!(written(&mut queue, true, START), ["exhausted"]);
        assert_eq!(queue.next(true, START), Next::Wait(BUSY));
        assert_eq!(written(&mut queue, false, START + Duration::from_secs(1)).len(), 10, "ten a second");
        let told = queue.lists(START + Duration::from_secs(2)).unwrap();
        assert!(told[0].text.starts_with("936 more Events"), "{told:?}");
    }

    #[test]
    fn however_long_writes_wait_each_event_is_written_or_listed_within_five_seconds() {
        for many in [1, 20, 60, 200, 5000] {
            let mut queue = Queue::new(START);
            let mut missing = HashSet::new();
            for number in 0..many {
                missing.insert(format!("c{number}"));
                queue.push(note(&format!("c{number}"), false, "10.0.0.7 out of it"), START);
            }
            let mut listed = 0;
            for tick in 0..=50 {
                let now = START + Duration::from_millis(100) * tick;
                for name in written(&mut queue, true, now) {
                    assert!(missing.remove(&name));
                }
                for list in queue.lists(now).unwrap_or_default() {
                    assert!(list.text.len() <= 1024 && list.text.contains(" (10.0.0.7)"), "{}", list.text);
                    listed += list.text.split(' ').next().unwrap().parse::<usize>().unwrap();
                }
            }
            assert_eq!((missing.len(), queue.next(true, START + LATE * 3)), (listed, Next::Idle), "{many}");
            assert_eq!(many <= 20, listed == 0, "{many}: a few are written one by one, though late");
        }
    }

    #[test]
    fn a_list_names_the_objects_and_all_pools_have_theirs() {
        let mut queue = Queue::new(START);
        for number in 0..3000 {
            let mut one = note(&format!("c{number}"), false, "fd00::7/64 out of it");
            let pool = one.pool.as_mut().unwrap();
            pool.name = format!("p{}", number % 30);
            pool.namespace = if number % 2 == 0 { String::new() } else { "n".into() };
            queue.push(one, START);
        }
        let late = START + LATE;
        let _ = queue.next(true, late);
        let end = late + LIST_AFTER;
        let lists: Vec<Note> = std::iter::from_fn(|| queue.lists(end).ok()).flatten().collect();
        assert_eq!(lists.len(), 30, "also where there are more pools than lists at a time");
        for list in lists {
            let name = if list.regarding.namespace.is_empty() { ": n/c" } else { ": c" };
            assert!(list.text.contains(name) && list.text.contains("more"), "{}", list.text);
        }
        assert_eq!(queue.left_out.len(), 0);
    }

    #[test]
    fn each_of_hundreds_of_exhausted_claims_has_its_warning_within_a_minute() {
        let mut queue = Queue::new(START);
        for number in 0..1000 {
            assert!(queue.push(note(&format!("c{number}"), true, ""), START));
        }
        let all: Vec<String> =
            (0..60).flat_map(|second| written(&mut queue, true, START + Duration::from_secs(second))).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(queue.next(false, START), Next::Idle);
    }

    #[test]
    fn an_object_that_is_never_quiet_leaves_the_others_their_turn() {
        let mut queue = Queue::new(START);
        for number in 0..2000 {
            queue.push(note("loud", true, &format!("{number}")), START);
        }
        assert!(queue.push(note("other", true, ""), START));
        let all = written(&mut queue, false, START);
        assert_eq!((all.len(), all.last().map(String::as_str)), (26, Some("other")));
        assert!(!queue.push(note("loud", true, "again"), START + Duration::from_mins(4)));
        assert!(queue.push(note("loud", true, "again"), START + Duration::from_mins(5)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut queue = Queue::new(START);
        for number in 0..100_000 {
            queue.push(note(&format!("c{number}"), number % 2 == 0, ""), START);
        }
        assert!(queue.objects.len() <= OBJECTS && queue.lanes.iter().map(VecDeque::len).sum::<usize>() <= 1088);
        assert!(queue.left_out.values().all(|one| one.names.len() <= NAMES + 2));
    }
}
