//! What the lab tells the person who watches: one line an event, on standard error.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Prints one line.
pub fn line(text: impl std::fmt::Display) {
    // Nobody may read any more, for example after the terminal was closed: no reason to panic, as eprintln would.
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Runs `work`; when it takes longer than a second says what is going on, and again every ten seconds.
pub fn while_busy<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let start = Instant::now();
            let mut pause = Duration::from_secs(1);
            while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(pause) {
                line(format_args!("{what} ... {} s", start.elapsed().as_secs()));
                pause = Duration::from_secs(10);
            }
        });
        let result = work();
        drop(done);
        result
    })
}
