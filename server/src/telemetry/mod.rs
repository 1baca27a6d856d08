//! Logging to standard error, filtered by RUST_LOG; only warnings and errors if that is unset. The apiserver
//! serves metrics.

mod peer_warnings;

use peer_warnings::PeerWarnings;
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    let color = has_color(format, std::io::stderr().is_terminal(), no_color.as_deref(), term.as_deref());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(color);
    let written = tracing_subscriber::registry().with(filter).with(PeerWarnings::default());
    let _ = match format {
        LogFormat::Text => written.with(lines.compact()).try_init(),
        LogFormat::Json => written.with(lines.json().flatten_event(true).with_current_span(false)).try_init(),
    };
}

/// Whether log lines have colour: text on a terminal that knows colour, unless the user declines it. `no_color`
/// and `term` are the values of `NO_COLOR` (any value but the empty one declines) and `TERM`. The rule is that
/// of clap, so that `--help` and the log agree.
fn has_color(format: LogFormat, is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let declined = no_color.is_some_and(|value| !value.is_empty());
    let is_capable = term.is_some_and(|term| term != "dumb");
    format == LogFormat::Text && is_terminal && is_capable && !declined
}

/// Milliseconds since `began`, for log fields.
pub(crate) fn millis(began: Instant) -> f64 {
    began.elapsed().as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_on_a_capable_terminal_has_color_and_no_color_declines_it() {
        const XTERM: Option<&str> = Some("xterm-256color");
        let cases = [
            (LogFormat::Text, true, None, XTERM, true),
            (LogFormat::Text, true, Some(""), XTERM, true),
            (LogFormat::Text, true, Some("1"), XTERM, false),
            (LogFormat::Text, true, Some("0"), XTERM, false),
            (LogFormat::Text, true, None, Some("dumb"), false),
            (LogFormat::Text, true, None, None, false),
            (LogFormat::Text, false, None, XTERM, false),
            (LogFormat::Json, true, None, XTERM, false),
            (LogFormat::Json, false, None, XTERM, false),
        ];
        for (format, is_terminal, no_color, term, color) in cases {
            let decided = has_color(format, is_terminal, no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(decided, color, "{format:?} {is_terminal} NO_COLOR={no_color:?} TERM={term:?}");
        }
    }
}
