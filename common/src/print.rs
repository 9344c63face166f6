//! Printing for people and pipes. `println!` panics when the reader has gone away (`| head`).

use std::io::{self, Write as _};

/// Writes a line to standard output; false if the reader is gone.
#[must_use]
pub fn say(line: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// Writes a line to standard error. An error is ignored: there is no other place to report it.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
