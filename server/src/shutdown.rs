//! Signals: the first asks for an orderly end, the second ends at once. Not what an orderly end is: that is `wiring`.

use anyhow::Context;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// An orderly end may take this long; what has not ended by then is dropped. The store loses nothing: what was answered
/// is on disk.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// SIGINT and SIGTERM.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// Which of them came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caught {
    /// Ctrl-C.
    Interrupt,
    /// A polite kill.
    Terminate,
}

impl Signals {
    /// From now on the signals no longer end the process by themselves.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: of(SignalKind::interrupt())?, terminate: of(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Caught {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Caught::Terminate,
            _ = self.interrupt.recv() => Caught::Interrupt,
        }
    }
}

impl Caught {
    /// The exit code of a process that this signal ended, as shells say it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
