//! Which Event is written next. Warnings come first, and have a budget of their own: whoever describes an exhausted claim must
//! see why, however busy the allocator is. Each object has a budget too, as in client-go's `EventCorrelator`.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::{Note, Regarding};

/// Longest queue of each kind of Event; further Events are dropped.
const LONGEST: [usize; 2] = [1024, 64];
/// Number of Events of each kind that may be written at once ...
const BURST: [u32; 2] = [200, 25];
/// ... and the interval after which one more is allowed.
const TOKEN: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
/// Number of Events about one object that may be written at once ...
const OBJECT_BURST: u32 = 25;
/// ... and the interval after which one more is allowed. Both as in client-go's `defaultSpamBurst` and `defaultSpamQPS`.
const OBJECT_TOKEN: Duration = Duration::from_mins(5);
/// Number of objects whose budgets are remembered.
const OBJECTS: usize = 4096;
/// While writes wait, check again after this delay.
const BUSY: Duration = Duration::from_millis(100);

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
    /// Warnings, and all others.
    lanes: [VecDeque<Note>; 2],
    budgets: [Tokens; 2],
    objects: HashMap<Regarding, Tokens>,
    /// The number of dropped Events, by reason and pool.
    left_out: HashMap<(Cow<'static, str>, Regarding), u64>,
    /// When the last Event was dropped.
    left_out_at: Duration,
}

impl Queue {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            lanes: Default::default(),
            budgets: BURST.map(|burst| Tokens::full(burst, now)),
            objects: HashMap::new(),
            left_out: HashMap::new(),
            left_out_at: now,
        }
    }

    /// Adds an Event. Returns whether it was taken; a dropped Event is counted on its pool.
    pub(super) fn push(&mut self, note: Note, now: Duration) -> bool {
        let lane = if note.warning { WARNING } else { NORMAL };
        if self.lanes[lane].len() < LONGEST[lane] && self.object_has_budget(&note.regarding, now) {
            self.lanes[lane].push_back(note);
            return true;
        }
        if let Some(pool) = note.pool {
            *self.left_out.entry((note.reason, pool)).or_default() += 1;
            self.left_out_at = now;
        }
        false
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

    /// The next Event. `busy`: writes for claims wait, and all but warnings come after them.
    pub(super) fn next(&mut self, busy: bool, now: Duration) -> Next {
        let mut wait = None;
        for lane in [WARNING, NORMAL] {
            if self.lanes[lane].is_empty() {
                continue;
            }
            if busy && lane == NORMAL {
                wait = Some(wait.map_or(BUSY, |time: Duration| time.min(BUSY)));
                continue;
            }
            match self.budgets[lane].take(BURST[lane], TOKEN[lane], now) {
                Ok(()) => {
                    if let Some(note) = self.lanes[lane].pop_front() {
                        return Next::Write(Box::new(note));
                    }
                }
                Err(time) => wait = Some(wait.map_or(time, |other: Duration| other.min(time))),
            }
        }
        wait.map_or(Next::Idle, Next::Wait)
    }

    /// What was dropped, if nothing was for this time: one Event for each reason and pool.
    pub(super) fn left_out(&mut self, quiet: Duration, now: Duration) -> Result<Vec<Note>, Option<Duration>> {
        if self.left_out.is_empty() {
            return Err(None);
        }
        let at = self.left_out_at + quiet;
        if at > now {
            return Err(Some(at.saturating_sub(now)));
        }
        let note = |((reason, pool), count)| {
            let text =
                format!("{count} more Events like this one, about single objects, were left out: claims came first");
            Note { regarding: pool, pool: None, warning: false, reason, action: "Summarize", text }
        };
        Ok(std::mem::take(&mut self.left_out).into_iter().map(note).collect())
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(written(&mut queue, false, START + Duration::from_secs(1)).len(), 4, "four a second");
        let told = queue.left_out(Duration::from_secs(2), START + Duration::from_secs(2)).unwrap();
        assert!(told[0].text.starts_with("936 more Events"), "{told:?}");
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
    }
}
