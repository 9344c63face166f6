//! Lines of the log on their way out.
//!
//! Standard error is a pipe to the container runtime. If nobody reads it (a full or frozen disk), a write to it waits for ever, and who
//! waits no longer renews a Lease. So a thread of its own writes the lines, and lines that do not fit are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// So many lines wait at most.
const WAITING: usize = 4096;
/// A program that ends waits so long for its last lines to be written.
const LAST: Duration = Duration::from_secs(1);

/// Where lines are written to. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    queue: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    /// All before this is written: drop it.
    Done(SyncSender<()>),
}

impl Lines {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, orders) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        thread::Builder::new().name("log".into()).spawn(move || write(&orders, out, &counted))?;
        Ok(Self { queue, dropped })
    }

    /// Waits until all lines are written, for a second at most.
    pub(super) fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Order::Done(done)).is_ok() {
            // An error says that it was dropped: the lines are written. Or the second is over.
            let _ = written.recv_timeout(LAST);
        }
    }
}

impl Write for Lines {
    /// Takes one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Order::Write(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(orders: &Receiver<Order>, mut out: impl Write, dropped: &AtomicU64) {
    for order in orders {
        let line = match order {
            Order::Write(line) => line,
            Order::Done(told) => {
                drop(told);
                continue;
            }
        };
        // Nobody could be told of an error here.
        let _ = out.write_all(&line).and_then(|()| out.flush());
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "log lines were dropped: for a while nobody read standard error");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Says that a write has begun, and writes nothing until it is let go on.
    struct Stuck {
        begun: Sender<()>,
        go_on: Receiver<()>,
        out: io::PipeWriter,
    }

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.begun.send(()).ok();
            // An error says that all writes may go on.
            let _ = self.go_on.recv();
            self.out.write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_logs_does_not_wait_for_a_reader() {
        let (mut reader, out) = io::pipe().unwrap();
        let ((begun, has_begun), (free, go_on)) = (channel(), channel());
        let mut lines = Lines::start(Stuck { begun, go_on, out }).unwrap();
        lines.write_all(b"0\n").unwrap();
        has_begun.recv().unwrap();
        let dropped = 10;
        for _ in 0..WAITING + dropped {
            lines.write_all(b"1\n").unwrap();
        }
        assert_eq!(lines.dropped.load(Ordering::Relaxed), u64::try_from(dropped).unwrap());
        let read = thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        drop(free);
        // The end of the lines ends their thread, once all of them are written.
        drop(lines);
        assert_eq!(
            read.join().unwrap(),
            format!("0\n{}", "1\n".repeat(WAITING)),
            "lines that were not dropped are written"
        );
    }

    #[test]
    fn the_last_lines_are_written() {
        let (mut reader, out) = io::pipe().unwrap();
        let mut lines = Lines::start(out).unwrap();
        lines.write_all(b"the end\n").unwrap();
        lines.finish();
        let mut text = [0; 8];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"the end\n");
    }
}
