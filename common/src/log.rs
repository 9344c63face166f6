//! The log: on standard error, as text or JSON.

mod lines;

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use self::lines::Lines;

/// The log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// What is logged.
    pub level: LogLevel,
    /// How.
    pub format: LogFormat,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// And what should be looked at.
    Warn,
    /// And what changed.
    Info,
    /// And why.
    Debug,
    /// And every frame, and what the libraries say.
    Trace,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object in each line.
    Json,
}

/// The words for log levels.
pub const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// The words for forms of the log.
pub const LOG_FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The log of a program that runs. When it is dropped, the last lines are written.
#[derive(Debug)]
#[must_use = "the last lines are written when it is dropped"]
pub struct Log {
    lines: Lines,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines.finish();
    }
}

/// Starts the log of a program, by the name of its crate. A second call changes nothing.
///
/// # Errors
///
/// No thread can be started.
pub fn init(program: &'static str, settings: LogSettings) -> io::Result<Log> {
    let lines = Lines::start(io::stderr())?;
    let writer = lines.clone();
    let layer = fmt::layer().with_writer(move || writer.clone());
    let layer = match settings.format {
        LogFormat::Text => layer.with_target(false).with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer.with_filter(filter(program, settings.level))).try_init();
    if let Err(error) = started {
        tracing::debug!(%error, "log is set up already; this setup is ignored");
    }
    Ok(Log { lines })
}

/// The level applies to Mooring. Libraries are logged from `warn` on, and in full at `trace` only.
fn filter(program: &'static str, level: LogLevel) -> Targets {
    let ours = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let theirs = if level == LogLevel::Trace { LevelFilter::DEBUG } else { ours.min(LevelFilter::WARN) };
    let targets = Targets::new().with_default(theirs).with_target(program, ours).with_target("mooring_common", ours);
    // kube warns of each watch that breaks. The program logs this itself, with the reason and the remedy.
    if level < LogLevel::Debug { targets.with_target("kube_client", LevelFilter::ERROR) } else { targets }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_do_not_chatter() {
        let info = filter("mooring_agent", LogLevel::Debug);
        assert!(info.would_enable("mooring_agent::core", &Level::DEBUG));
        assert!(info.would_enable("mooring_common::api::servers", &Level::DEBUG));
        assert!(info.would_enable("kube_client", &Level::WARN));
        assert!(!info.would_enable("kube_client", &Level::INFO));
        assert!(!filter("mooring_agent", LogLevel::Info).would_enable("kube_client", &Level::WARN));
        assert!(!filter("mooring_agent", LogLevel::Error).would_enable("hyper", &Level::WARN));
    }
}
