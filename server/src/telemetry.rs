//! Logging to standard error, filtered by RUST_LOG; only warnings and errors if that is unset. The apiserver
//! serves metrics.

mod peer_warnings;

use clap::ValueEnum;
use peer_warnings::PeerWarnings;
use std::io::IsTerminal as _;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// Starts logging for the process. Further calls have no effect, so that tests may call it freely.
pub(crate) fn init(format: LogFormat) {
    init_at(format, "warn");
}

/// Starts logging, with `level` as the filter if RUST_LOG is unset.
pub(crate) fn init_at(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // Colour codes only for terminals.
        .with_ansi(std::io::stderr().is_terminal());
    let written = tracing_subscriber::registry().with(filter).with(PeerWarnings::default());
    let _ = match format {
        LogFormat::Text => written.with(lines.compact()).try_init(),
        LogFormat::Json => written.with(lines.json().flatten_event(true).with_current_span(false)).try_init(),
    };
}

/// Milliseconds since `began`, for log fields.
pub(crate) fn millis(began: Instant) -> f64 {
    began.elapsed().as_micros() as f64 / 1000.0
}
