//! The loop around the background worker, which keeps the store running when the engine fails. Commits that the engine
//! does not take wait in the backlog and in the window, the log keeps all of them, and reads go on. `worker`
//! does the work.
//!
//! What an engine's error means:
//! - A full disk may be temporary. The work is retried after a pause, and the alarm stops writers from filling the
//!   disk further.
//! - After any other error the engine gets nothing more until the next start, because its content is unknown; it is
//!   still read. Status, metrics and health checks report it, and callers that wait for the engine's work get an error.
//! - If the engine's content is damaged, the alarm stops the writers.
//!
//! In each case the log grows. Above its budget the store stops, since memory holds that much and the next start reads
//! it.

use crate::Alarm;
use crate::background::worker::BackgroundWorker;
use crate::disk::space::{DiskSpace, is_full};
use crate::engine::EngineError;
use crate::engine::feed::{Wait, Work};
use crate::published::core::Core;
use crate::types::alarm::AlarmChange;
use crate::types::commit::Commit;
use std::io;
use std::sync::Arc;
use tokio::time::Instant;

/// Runs the background worker, retries it after errors, and raises alarms.
pub(crate) struct Supervisor {
    core: Arc<Core>,
    background: BackgroundWorker,
    /// Published commits that the engine has not taken.
    backlog: Vec<Arc<Commit>>,
    /// Bytes of the backlog, including commits that it dropped because only the log keeps them.
    backlog_bytes: u64,
    /// The next log file is requested.
    prepare: bool,
    /// When to retry, after the engine refused work.
    retry: Option<Instant>,
    /// The engine has failed and gets nothing more until the next start.
    given_up: bool,
    alarm_change: Option<AlarmChange>,
}

/// The log has used up its budget while the engine takes no commits.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes of log are not in the engine, more than its budget of {budget}")]
pub(crate) struct LogBudgetExceeded {
    bytes: u64,
    budget: u64,
}

impl Supervisor {
    pub(crate) fn new(core: Arc<Core>, mut background: BackgroundWorker) -> Self {
        let backlog = background.take_backlog();
        let backlog_bytes = backlog.iter().map(|commit| commit.cost() as u64).sum();
        Self {
            core,
            background,
            backlog,
            backlog_bytes,
            prepare: false,
            retry: None,
            given_up: false,
            alarm_change: None,
        }
    }

    /// Takes queued work over and does a bounded part of it. Returns how long to wait before the next call.
    pub(crate) fn run_once(&mut self, work: Work) -> Result<Wait, LogBudgetExceeded> {
        self.backlog_bytes += work.commits.iter().map(|commit| commit.cost() as u64).sum::<u64>();
        self.backlog.extend(work.commits);
        self.prepare |= work.prepare;
        let wait = match self.retry {
            Some(retry) if !work.closed && Instant::now() < retry => Wait::Until(retry),
            Some(_) | None => self.attempt(work.closed),
        };
        if self.core.take_damage_report() {
            self.alarm_change = Some(AlarmChange::Raise(Alarm::Corrupt));
        }
        if self.alarm_change.is_none() {
            self.alarm_change = self.core.disk_space().and_then(DiskSpace::take_alarm_change);
        }
        let wait = self.poll_disk_recovery(wait);
        let (bytes, budget) =
            (self.backlog_bytes + self.background.log_bytes_since_checkpoint(), self.budget());
        if bytes > budget { Err(LogBudgetExceeded { bytes, budget }) } else { Ok(wait) }
    }

    fn budget(&self) -> u64 {
        self.core.limits.log_budget_bytes
    }

    /// Takes the change to the alarms that the caller should request from the writer.
    pub(crate) fn alarm_change(&mut self) -> Option<AlarmChange> {
        self.alarm_change.take()
    }

    /// Keeps an alarm change that the caller could not request, and tries again after the retry interval.
    pub(crate) fn requeue_alarm_change(&mut self, change: AlarmChange) -> Wait {
        self.alarm_change = Some(change);
        Wait::Until(Instant::now() + self.core.limits.engine_retry)
    }

    /// While low free space keeps the alarm raised, polls whether there is enough again, because the system sends no
    /// notification.
    fn poll_disk_recovery(&mut self, wait: Wait) -> Wait {
        if !self.core.visible().state.alarms.is_disk_low() {
            return wait;
        }
        if self.alarm_change.is_none() && !self.core.is_low() {
            self.alarm_change = Some(AlarmChange::DiskRecovered);
        }
        let next = Instant::now() + self.core.limits.engine_retry;
        match wait {
            Wait::Not => Wait::Not,
            Wait::Until(deadline) => Wait::Until(deadline.min(next)),
            Wait::Long => Wait::Until(next),
        }
    }

    fn attempt(&mut self, last: bool) -> Wait {
        self.retry = None;
        if self.prepare && !last {
            match self.background.prepare() {
                Ok(()) => self.prepare = false,
                Err(error) => self.on_prepare_failed(&error),
            }
        }
        if self.given_up {
            self.backlog.clear();
            return self.retry.map_or(Wait::Long, Wait::Until);
        }
        match self.try_work(last) {
            Ok(true) => Wait::Not,
            Ok(false) => {
                let due = self.background.next_due();
                Wait::Until(self.retry.map_or(due, |retry| retry.min(due)))
            }
            Err(error) => {
                self.on_engine_refused(&error, "the history engine refuses");
                self.retry.map_or(Wait::Long, Wait::Until)
            }
        }
    }

    fn try_work(&mut self, last: bool) -> Result<bool, EngineError> {
        self.background.absorb(&self.backlog)?;
        self.backlog.clear();
        self.backlog_bytes = 0;
        if last {
            self.background.repair_known_damage()?;
            return self.background.checkpoint().map(|()| false);
        }
        self.background.checkpoint_if_due()?;
        Ok(self.background.work()? || self.background.scrub()? || self.background.pack()?)
    }

    /// Handles a failure to prepare the next log file: until it succeeds, the log stays in its current file.
    fn on_prepare_failed(&mut self, error: &io::Error) {
        tracing::warn!(%error, "cannot prepare the next log file; retrying later");
        if is_full(error) {
            self.alarm_change = Some(self.core.out_of_space());
        }
        self.retry = Some(Instant::now() + self.core.limits.engine_retry);
    }

    fn on_engine_refused(&mut self, error: &EngineError, what: &str) {
        tracing::error!(%error, "{what}; the store continues with its log alone, up to {} bytes", self.budget());
        match error {
            EngineError::Io(source) if is_full(source) => {
                self.alarm_change = Some(self.core.out_of_space());
                self.retry = Some(Instant::now() + self.core.limits.engine_retry);
            }
            EngineError::Io(_) => self.give_up(error),
            EngineError::Damaged(_) | EngineError::Corrupt(_) => {
                self.core.report_unconfined_damage();
                self.give_up(error);
            }
        }
    }

    /// Stops giving work to the engine until the next start.
    fn give_up(&mut self, error: &EngineError) {
        self.given_up = true;
        let budget = self.budget();
        self.core.background_waiters.fail(format!(
            "the history engine failed ({error}); the log holds every change since, and at {budget} bytes the store stops: \
             check the disk and restart"
        ));
    }
}
