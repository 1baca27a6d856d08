//! What callers wait for the background to do: the physical part of a compaction, and winning back space. Not the work itself
//! (see `checkpoint`).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Revision;
use crate::core::Core;
use crate::error::{CompactError, Stopped};

/// See the module.
#[derive(Debug)]
pub(crate) struct Chores {
    list: Mutex<List>,
    /// Something was done, or the store ends.
    changed: Notify,
}

#[derive(Debug)]
struct List {
    /// What compaction up to this revision makes superfluous is gone for good.
    swept: Revision,
    /// Callers that wait for more than that.
    in_a_hurry: usize,
    /// How often winning back space was asked for, and how many of those askings were answered.
    asked: u64,
    answered: u64,
    /// How the last one went.
    outcome: Result<(), String>,
    /// Why nothing of this can be done any more, if the engine is given nothing more until the next start.
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
    /// Wakes everyone who waits, to look again.
    pub(crate) fn ring(&self) {
        self.changed.notify_waiters();
    }

    /// Everything superfluous up to `revision` is gone for good.
    pub(crate) fn swept(&self, revision: Revision) {
        self.list.lock().swept = revision;
        self.ring();
    }

    /// Nothing of this can be done before the next start: whoever waits for it, now or later, is told why.
    pub(crate) fn fail(&self, reason: String) {
        self.list.lock().failed.get_or_insert(reason);
        self.ring();
    }

    /// Why nothing of this can be done any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.list.lock().failed.clone()
    }

    /// Whether somebody waits for a sweep beyond what [`Chores::swept`] said.
    pub(crate) fn is_hurried(&self) -> bool {
        self.list.lock().in_a_hurry > 0
    }

    /// The newest wish to win back space that was not answered.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let list = self.list.lock();
        (list.asked > list.answered).then_some(list.asked)
    }

    /// Answers all wishes up to `wish`.
    pub(crate) fn answer(&self, wish: u64, outcome: Result<(), String>) {
        let mut list = self.list.lock();
        list.answered = wish;
        list.outcome = outcome;
        drop(list);
        self.ring();
    }

    /// Wishes for space to be won back; resolves when the wish is answered.
    pub(crate) fn ask(&self) -> u64 {
        let mut list = self.list.lock();
        list.asked += 1;
        list.asked
    }

    /// Waits for the answer to a wish.
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

/// A caller that waits for a sweep. While there is one, sweeps are made durable at once.
pub(crate) struct Hurry(Arc<Core>);

impl Hurry {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.chores.list.lock().in_a_hurry += 1;
        Self(core)
    }

    /// Resolves when everything superfluous up to `revision` is gone for good, or will not be before the next start.
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
