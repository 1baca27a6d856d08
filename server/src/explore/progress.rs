//! The progress of a search on standard error: one line that changes on a terminal, else a line every ten seconds.

use kstore_explore::progress::SharedProgress;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Pause between two lines on a terminal.
const TERMINAL: Duration = Duration::from_millis(250);
/// Pause between two lines elsewhere.
const LOG: Duration = Duration::from_secs(10);

/// Shows the progress until it is ended.
pub(super) fn show(progress: SharedProgress, budget: Duration) -> AbortOnDropHandle<()> {
    let is_terminal = std::io::stderr().is_terminal();
    let pause = if is_terminal { TERMINAL } else { LOG };
    AbortOnDropHandle::new(tokio::spawn(async move {
        let begin = Instant::now();
        loop {
            tokio::time::sleep(pause).await;
            let line = progress.get().line(begin.elapsed(), budget);
            // Standard error may be closed.
            let _ = match is_terminal {
                true => write!(std::io::stderr(), "\r\x1b[2K{line}"),
                false => writeln!(std::io::stderr(), "{line}"),
            };
        }
    }))
}

/// Ends the line.
pub(super) fn end(shown: AbortOnDropHandle<()>) {
    shown.abort();
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}
