//! The work of a command: about one unit for each byte that it touches, and a fixed number for each command, file and nested
//! shell. It is counted, so that a caller can let a command use a part of a processor only, and bounded for what cannot be
//! interrupted.

use crate::limits::{STEP_WORK, TIME_SLICE_WORK};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Work of one single command.
pub(super) const COMMAND_WORK: usize = 2_000;
/// Work of starting a nested shell.
pub(super) const SHELL_WORK: usize = 10_000;
/// Work of appending to a buffer, beside its bytes.
pub(super) const PUSH_WORK: usize = 32;
/// Work of finding one path.
pub(super) const PATH_WORK: usize = 500;

/// Why a command was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Killed {
    /// Its memory, or that of its container, its namespace or the simulation, would exceed the limit.
    #[error("Killed: out of the memory that a simulated container may use")]
    Memory,
    /// One command, or a substitution or nested shell, did more work than one step may.
    #[error("Killed: one command did more work than a simulated container may")]
    Work,
}

/// Counts the work of a command line. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct WorkMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Work of the current step.
    step: AtomicU64,
    total: AtomicU64,
    /// 1 for [`Killed::Memory`], 2 for [`Killed::Work`].
    killed: AtomicU8,
}

impl WorkMeter {
    /// Counts work. Returns false if the command is killed.
    pub(super) fn spend(&self, units: usize) -> bool {
        let units = units as u64;
        self.0.total.fetch_add(units, Ordering::Relaxed);
        if self.0.step.fetch_add(units, Ordering::Relaxed).saturating_add(units) > STEP_WORK {
            self.kill(Killed::Work);
        }
        self.killed().is_none()
    }

    pub(super) fn begin_step(&self) {
        self.0.step.store(0, Ordering::Relaxed);
    }

    /// Whether the current step has used its time slice.
    pub(super) fn is_slice_used(&self) -> bool {
        self.0.step.load(Ordering::Relaxed) > TIME_SLICE_WORK
    }

    /// Kills the command; the first reason counts.
    pub(super) fn kill(&self, why: Killed) {
        let code = match why {
            Killed::Memory => 1,
            Killed::Work => 2,
        };
        let _ = self.0.killed.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Why the command was killed, if it was.
    pub fn killed(&self) -> Option<Killed> {
        match self.0.killed.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Killed::Memory),
            _ => Some(Killed::Work),
        }
    }

    /// All work so far.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }
}
