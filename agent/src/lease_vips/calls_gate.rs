//! The gate that calls for Leases pass: who waits there, and what counts as an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::clock;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::gate::{End, Gate, Pass, Verdict};
use crate::api::{ApiError, Failure};

/// A gate for calls of one kind. Clones share the gate.
#[derive(Clone, Default)]
pub(super) struct CallsGate(Arc<Mutex<Gate<oneshot::Sender<Verdict>>>>);

/// Whether the last call of one kind for one Lease was answered. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl CallsGate {
    /// Makes a call when the gate lets it through, or at once if the last one of `of` was answered. `call` is told how much of the time
    /// `within` is left: half of it at least. None: the API is away, and the call was never sent.
    pub(super) async fn pass<T, Fut>(
        &self,
        of: &Answered,
        within: Duration,
        call: impl FnOnce(Duration) -> Fut,
    ) -> Option<Result<T, ApiError>>
    where
        Fut: Future<Output = Result<T, ApiError>>,
    {
        let began = Instant::now();
        let pass = if of.0.load(Ordering::Relaxed) { self.goes() } else { self.asks(began, within / 2).await? };
        let mut running = Running { gate: self, pass, end: End::Unused };
        let result = call(within.saturating_sub(began.elapsed())).await;
        let is_answered = !result.as_ref().is_err_and(is_away);
        of.0.store(is_answered, Ordering::Relaxed);
        running.end = if is_answered { End::Answered } else { End::Away };
        Some(result)
    }

    async fn asks(&self, began: Instant, waits: Duration) -> Option<Pass> {
        let now = clock::boottime();
        let (tell, told) = oneshot::channel();
        self.deliver(|gate| gate.ask(now, now + waits, tell));
        match timeout_at(began + waits, told).await {
            Ok(Ok(Verdict::Go(pass))) => Some(pass),
            _ => None,
        }
    }

    fn goes(&self) -> Pass {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).goes(clock::boottime())
    }

    /// Tells those who wait what came of `event`. Who has gone meanwhile leaves the pass to the next.
    fn deliver(
        &self,
        event: impl FnOnce(&mut Gate<oneshot::Sender<Verdict>>) -> Vec<(oneshot::Sender<Verdict>, Verdict)>,
    ) {
        // A panic elsewhere leaves nothing half done here.
        let mut gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut verdicts = event(&mut gate);
        while let Some((who, verdict)) = verdicts.pop() {
            if let Err(Verdict::Go(pass)) = who.send(verdict) {
                verdicts.extend(gate.ended(clock::boottime(), pass, End::Unused));
            }
        }
    }
}

/// A call that is under way. It may be dropped before it ends.
struct Running<'a> {
    gate: &'a CallsGate,
    pass: Pass,
    end: End,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.gate.deliver(|gate| gate.ended(clock::boottime(), self.pass, self.end));
    }
}

/// Whether the API did not answer. An internal error (500) is an answer: it may be about that one Lease, as of a webhook that is for
/// its namespace alone.
fn is_away(error: &ApiError) -> bool {
    match error {
        ApiError::Away(away) => {
            !away.tries.iter().any(|one| matches!(one.failure, Failure::Server { code: 500, .. } | Failure::TooLong(_)))
        }
        error => !error.answered(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Away, Try};

    const LONG: Duration = Duration::from_secs(20);

    fn away(failures: &[Failure]) -> ApiError {
        let tries = failures.iter().map(|failure| Try { server: "a".into(), failure: failure.clone() }).collect();
        ApiError::Away(Away { tries, after: Duration::ZERO, maybe_applied: false })
    }

    fn says(code: u16) -> Failure {
        Failure::Server { code, message: String::new() }
    }

    #[test]
    fn what_is_about_one_lease_is_an_answer() {
        for error in [away(&[]), away(&[Failure::Refused]), away(&[says(503)]), away(&[says(429), Failure::Refused])] {
            assert!(is_away(&error), "{error}");
        }
        let conflict = ApiError::Conflict { what: String::new(), message: String::new() };
        for error in [away(&[says(500)]), away(&[Failure::Refused, says(500)]), conflict] {
            assert!(!is_away(&error), "{error}");
        }
    }

    #[tokio::test]
    async fn who_waits_fails_with_the_call_that_finds_out() {
        let (gate, new) = (CallsGate::default(), Answered::default());
        let fails = || async { Err::<(), _>(away(&[Failure::Refused])) };
        assert!(gate.pass(&new, LONG, |_| fails()).await.is_some());
        let (end, ended) = oneshot::channel::<()>();
        let probe = gate.pass(&new, LONG, |_| async {
            let _ = ended.await;
            fails().await
        });
        let waits = gate.pass(&new, LONG, |_| async { panic!("sent though the API is away") });
        let (probe, waits, ()) = tokio::join!(probe, waits, async {
            tokio::task::yield_now().await;
            let _ = end.send(());
        });
        assert!(probe.is_some_and(|result: Result<(), _>| result.is_err()));
        assert_eq!(waits, None::<Result<(), _>>);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_half_the_time() {
        let (gate, new) = (CallsGate::default(), Answered::default());
        let _ = gate.pass(&new, LONG, |_| async { Err::<(), _>(away(&[])) }).await;
        let hangs = gate.pass(&new, LONG, |_| std::future::pending::<Result<(), _>>());
        let began = Instant::now();
        let waits = gate.pass(&new, Duration::from_secs(2), |_| async { Ok(()) });
        tokio::select! {
            biased;
            _ = hangs => panic!("it hangs"),
            waited = waits => assert_eq!((waited, began.elapsed()), (None, Duration::from_secs(1))),
        }
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_gives_its_pass_back() {
        let (gate, new) = (CallsGate::default(), Answered::default());
        for _ in 0..1_000 {
            let hangs = gate.pass(&new, LONG, |_| std::future::pending::<Result<(), _>>());
            tokio::select! {
                biased;
                _ = hangs => panic!("it hangs"),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(gate.pass(&new, LONG, |_| async { Ok(()) }).await, Some(Ok(())));
    }

    /// Calls of one Lease get no answer, for ever, and are tried again all the time. Those of others are answered.
    #[tokio::test]
    async fn a_lease_that_is_not_answered_keeps_no_other_waiting() {
        let (gate, bad, good) = (CallsGate::default(), Answered::default(), Answered::default());
        assert_eq!(gate.pass(&good, LONG, |_| async { Ok(()) }).await, Some(Ok(())));
        for _ in 0..100 {
            let _ = gate.pass(&bad, LONG, |_| async { Err::<(), _>(away(&[says(503)])) }).await;
            assert_eq!(gate.pass(&good, LONG, |_| async { Ok(()) }).await, Some(Ok(())));
        }
        // Nor does one whose calls hang.
        let hangs = gate.pass(&bad, LONG, |_| std::future::pending::<Result<(), _>>());
        let goes = gate.pass(&good, LONG, |_| async { Ok(()) });
        tokio::select! {
            biased;
            _ = hangs => panic!("it hangs"),
            result = goes => assert_eq!(result, Some(Ok(()))),
        }
    }
}
