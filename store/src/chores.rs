//! Waiters for background work: callers that wait for physical compaction or defragmentation. `checkpoint` does the
//! work.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Revision;
use crate::core::Core;
use crate::error::{CompactError, Stopped};

/// The requests for background work, and the notification for the callers that wait for it.
#[derive(Debug)]
pub(crate) struct Chores {
    list: Mutex<List>,
    /// Notified when work was done or the store ends.
    changed: Notify,
}

#[derive(Debug)]
struct List {
    /// All records superseded by compaction up to this revision are removed durably.
    swept: Revision,
    /// Number of callers that wait for a later sweep.
    in_a_hurry: usize,
    /// How many defragmentations were requested; the request's number is its ticket.
    asked: u64,
    /// The newest request that was answered.
    answered: u64,
    /// The result of the last defragmentation.
    outcome: Result<(), String>,
    /// Why the engine accepts no work until the next start, if it failed.
    failed: Option<String>,
}

impl Default for Chores {
    fn default() -> Self {
        let swept = Revision::NEVER_COMPACTED;
        let list = List { swept, in_a_hurry: 0, asked: 0, answered: 0, outcome: Ok(()), failed: None };
        Self { list: Mutex::new(list), changed: Notify::new() }
    }
}

impl Chores {
    /// Wakes all waiters, which then check their conditions.
    pub(crate) fn ring(&self) {
        self.changed.notify_waiters();
    }

    /// Records that every superseded record up to `revision` is removed durably.
    pub(crate) fn swept(&self, revision: Revision) {
        self.list.lock().swept = revision;
        self.ring();
    }

    /// Fails all current and later waiters with `reason`: the engine accepts no work until the next start.
    pub(crate) fn fail(&self, reason: String) {
        self.list.lock().failed.get_or_insert(reason);
        self.ring();
    }

    /// Why the engine accepts no work until the next start, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.list.lock().failed.clone()
    }

    /// Whether a caller waits for a sweep beyond the revision last given to [`Chores::swept`].
    pub(crate) fn is_hurried(&self) -> bool {
        self.list.lock().in_a_hurry > 0
    }

    /// The newest defragmentation request that is not answered.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let list = self.list.lock();
        (list.asked > list.answered).then_some(list.asked)
    }

    /// Answers all defragmentation requests up to `wish`.
    pub(crate) fn answer(&self, wish: u64, outcome: Result<(), String>) {
        let mut list = self.list.lock();
        list.answered = wish;
        list.outcome = outcome;
        drop(list);
        self.ring();
    }

    /// Requests a defragmentation. Returns the request's number for [`Chores::answered`].
    pub(crate) fn ask(&self) -> u64 {
        let mut list = self.list.lock();
        list.asked += 1;
        list.asked
    }

    /// Waits until the defragmentation request with this number is answered.
    pub(crate) async fn answered(&self, core: &Core, wish: u64) -> Result<Result<(), String>, Stopped> {
        self.wait(core, |list| match &list.failed {
            _ if list.answered >= wish => Some(list.outcome.clone()),
            Some(reason) => Some(Err(reason.clone())),
            None => None,
        })
        .await
    }

    async fn wait<T>(&self, core: &Core, ready: impl Fn(&List) -> Option<T>) -> Result<T, Stopped> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(value) = ready(&self.list.lock()) {
                return Ok(value);
            }
            core.serving()?;
            changed.await;
        }
    }
}

/// A caller that waits for physical compaction. While one exists, the background makes sweeps durable at once.
pub(crate) struct Hurry(Arc<Core>);

impl Hurry {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.chores.list.lock().in_a_hurry += 1;
        Self(core)
    }

    /// Waits until every superseded record up to `revision` is removed durably, or cannot be before the next start.
    pub(crate) async fn swept(self, revision: Revision) -> Result<(), CompactError> {
        let swept = self.0.chores.wait(&self.0, |list| match &list.failed {
            _ if list.swept >= revision => Some(Ok(())),
            Some(_) => Some(Err(CompactError::NotRemoved)),
            None => None,
        });
        swept.await?
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.chores.list.lock().in_a_hurry -= 1;
    }
}
