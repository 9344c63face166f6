//! The log: on standard error, as text or JSON.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::settings::{LogFormat, LogLevel, LogSettings};

/// Starts the log. A second call changes nothing.
pub fn init(settings: LogSettings) {
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = match settings.format {
        LogFormat::Text => layer.with_target(false).with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer.with_filter(filter(settings.level))).try_init();
    if let Err(error) = started {
        tracing::debug!(%error, "the log runs already");
    }
}

/// The level is for Mooring; libraries are heard from `warn` on, and in full at `trace` only.
fn filter(level: LogLevel) -> Targets {
    let ours = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let theirs = if level == LogLevel::Trace { LevelFilter::DEBUG } else { ours.min(LevelFilter::WARN) };
    Targets::new().with_default(theirs).with_target("mooring_agent", ours)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_do_not_chatter() {
        let info = filter(LogLevel::Debug);
        assert!(info.would_enable("mooring_agent::core", &Level::DEBUG));
        assert!(info.would_enable("kube_client", &Level::WARN));
        assert!(!info.would_enable("kube_client", &Level::INFO));
        assert!(!filter(LogLevel::Error).would_enable("hyper", &Level::WARN));
    }
}
