//! Signals: the first one requests an orderly end, the second one ends the process at once. `wiring`
//! implements the orderly end.

use anyhow::Context;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time limit of an orderly end; tasks that still run are dropped then. No data is lost: acknowledged writes
/// are on disk.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Handlers of SIGINT and SIGTERM.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    has_terminated: bool,
}

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaughtSignal {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signals {
    /// Installs the handlers: from now on the signals do not end the process by themselves.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            has_terminated: false,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> CaughtSignal {
        let caught = tokio::select! {
            biased;
            _ = self.terminate.recv() => CaughtSignal::Terminate,
            _ = self.interrupt.recv() => CaughtSignal::Interrupt,
        };
        self.has_terminated |= caught == CaughtSignal::Terminate;
        caught
    }

    /// Whether SIGTERM was received.
    pub(crate) fn has_terminated(&self) -> bool {
        self.has_terminated
    }
}

impl CaughtSignal {
    /// The exit code of a process that this signal ended, as shells report it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
