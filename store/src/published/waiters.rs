//! Waiters for background work: callers that wait for physical compaction or defragmentation. `background::worker`
//! does the work.

use crate::Revision;
use crate::published::core::Core;
use crate::types::error::{CompactError, Stopped};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// The requests for background work, and the notification for the callers that wait for it.
#[derive(Debug)]
pub(crate) struct BackgroundWaiters {
    state: Mutex<WaiterState>,
    /// Notified when work was done or the store ends.
    changed: Notify,
}

#[derive(Debug)]
struct WaiterState {
    /// All records superseded by compaction up to this revision are removed durably.
    swept: Revision,
    /// Number of callers that wait for a later sweep.
    sweep_waiters: usize,
    /// How many defragmentations were requested; the request's number is its ticket.
    requested: u64,
    /// The newest completed request.
    completed: u64,
    /// The result of the last defragmentation.
    outcome: Result<(), String>,
    /// Why the engine accepts no work until the next start, if it failed.
    failed: Option<String>,
}

impl Default for BackgroundWaiters {
    fn default() -> Self {
        let swept = Revision::NEVER_COMPACTED;
        let state = WaiterState {
            swept,
            sweep_waiters: 0,
            requested: 0,
            completed: 0,
            outcome: Ok(()),
            failed: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl BackgroundWaiters {
    /// Wakes all waiters, which then check their conditions.
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Records that every superseded record up to `revision` is removed durably.
    pub(crate) fn record_sweep(&self, revision: Revision) {
        self.state.lock().swept = revision;
        self.notify();
    }

    /// Fails all current and later waiters with `reason`: the engine accepts no work until the next start.
    pub(crate) fn fail(&self, reason: String) {
        self.state.lock().failed.get_or_insert(reason);
        self.notify();
    }

    /// Why the engine accepts no work until the next start, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Whether a caller waits for a sweep beyond the revision last given to [`BackgroundWaiters::record_sweep`].
    pub(crate) fn has_sweep_waiters(&self) -> bool {
        self.state.lock().sweep_waiters > 0
    }

    /// The newest defragmentation request that is not answered.
    pub(crate) fn pending_defragment(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.requested > state.completed).then_some(state.requested)
    }

    /// Answers all defragmentation requests up to `ticket`.
    pub(crate) fn complete_defragment(&self, ticket: u64, outcome: Result<(), String>) {
        let mut state = self.state.lock();
        state.completed = ticket;
        state.outcome = outcome;
        drop(state);
        self.notify();
    }

    /// Requests a defragmentation. Returns the request's number for [`BackgroundWaiters::wait_defragmented`].
    pub(crate) fn request_defragment(&self) -> u64 {
        let mut state = self.state.lock();
        state.requested += 1;
        state.requested
    }

    /// Waits until the defragmentation request with this number is answered.
    pub(crate) async fn wait_defragmented(
        &self,
        core: &Core,
        ticket: u64,
    ) -> Result<Result<(), String>, Stopped> {
        self.wait(core, |state| match &state.failed {
            _ if state.completed >= ticket => Some(state.outcome.clone()),
            Some(reason) => Some(Err(reason.clone())),
            None => None,
        })
        .await
    }

    async fn wait<T>(&self, core: &Core, ready: impl Fn(&WaiterState) -> Option<T>) -> Result<T, Stopped> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(value) = ready(&self.state.lock()) {
                return Ok(value);
            }
            core.check_serving()?;
            changed.await;
        }
    }
}

/// A caller that waits for physical compaction. While one exists, the background makes sweeps durable at once.
pub(crate) struct SweepWaiter(Arc<Core>);

impl SweepWaiter {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.background_waiters.state.lock().sweep_waiters += 1;
        Self(core)
    }

    /// Waits until every superseded record up to `revision` is removed durably, or cannot be before the next start.
    pub(crate) async fn swept(self, revision: Revision) -> Result<(), CompactError> {
        let swept = self.0.background_waiters.wait(&self.0, |state| match &state.failed {
            _ if state.swept >= revision => Some(Ok(())),
            Some(_) => Some(Err(CompactError::NotRemoved)),
            None => None,
        });
        swept.await?
    }
}

impl Drop for SweepWaiter {
    fn drop(&mut self) {
        self.0.background_waiters.state.lock().sweep_waiters -= 1;
    }
}
