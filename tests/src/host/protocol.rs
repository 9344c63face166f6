//! The messages between the lab and a host's init: JSON, one object per line, over the init's standard input.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request of the lab.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The answer repeats this number.
    pub id: u64,
    /// What to do.
    pub op: Op,
}

/// What an init can do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Op {
    /// Execute a program.
    Start {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its environment, in addition to PATH and HOME.
        env: Vec<(String, String)>,
        /// Where its output goes.
        log: PathBuf,
    },
    /// Signal one process, by its PID on the host.
    Signal {
        /// The PID on the host.
        pid: i32,
        /// The signal's number.
        signal: i32,
    },
    /// Signal every process of the host but the init.
    SignalAll {
        /// The signal's number.
        signal: i32,
    },
}

/// An answer of an init. `at`: nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The host has booted; the first answer of all.
    Ready {
        /// When.
        at: u64,
    },
    /// A program runs.
    Started {
        /// The number of the request.
        id: u64,
        /// The PID on the host.
        pid: i32,
        /// When.
        at: u64,
    },
    /// The signal is sent.
    Done {
        /// The number of the request.
        id: u64,
        /// When.
        at: u64,
    },
    /// The request failed. Before `Ready`: the host could not boot.
    Failed {
        /// The number of the request.
        id: u64,
        /// Why.
        error: String,
    },
    /// A process ended.
    Exited {
        /// The PID on the host.
        pid: i32,
        /// How, in words.
        how: String,
        /// When it was noticed.
        at: u64,
    },
}
