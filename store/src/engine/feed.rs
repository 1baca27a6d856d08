//! The queue from the log to the background worker: published commits, bounded by bytes, and the request for a prepared
//! log file. A single commit does not wake the worker, because waking it would cost a small write as much as its sync.

use crate::types::commit::Commit;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use tokio::time::Instant;

/// A bounded queue of published commits. The log pushes, the background worker takes.
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Notified when something was pushed.
    filled: Condvar,
    /// Notified when the queue was taken.
    drained: Condvar,
    /// Queued bytes at which the worker is woken.
    batch: usize,
    /// Queued bytes above which the pushing thread waits.
    most: usize,
}

#[derive(Default)]
struct Inner {
    commits: Vec<Arc<Commit>>,
    bytes: usize,
    prepare: bool,
    /// The worker should take the queue now, however little is queued, or has other work.
    wake_requested: bool,
    closed: bool,
    /// The worker has ended; nothing is taken any more.
    broken: bool,
}

/// How long the background waits for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Do not wait: the worker has something to do.
    Not,
    /// Wait until this time.
    Until(Instant),
    /// Wait until there is work.
    Long,
}

/// The queued commits and requests that [`Feed::take`] returns.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) commits: Vec<Arc<Commit>>,
    pub(crate) prepare: bool,
    /// The feed is closed: no more commits follow.
    pub(crate) closed: bool,
}

impl Feed {
    pub(crate) fn new(batch: usize, most: usize) -> Self {
        Self { inner: Mutex::default(), filled: Condvar::new(), drained: Condvar::new(), batch, most }
    }

    /// Queues commits; waits while the feed is over its bound already. The worker takes them when there are enough,
    /// when one compacts or changes an alarm, or after [`Feed::wake`].
    pub(crate) fn push(&self, commits: Vec<Arc<Commit>>, prepare: bool) {
        let mut inner = self.inner.lock();
        while inner.bytes > self.most && !inner.broken {
            self.drained.wait(&mut inner);
        }
        inner.bytes += commits.iter().map(|commit| commit.cost()).sum::<usize>();
        inner.wake_requested |=
            commits.iter().any(|commit| commit.compacted.is_some() || commit.alarms.is_some());
        inner.commits.extend(commits);
        inner.prepare |= prepare;
        let wake = inner.is_wanted(self.batch);
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Takes everything that is queued. Waits until enough is queued, but no longer than `wait` says.
    pub(crate) fn take(&self, wait: Wait) -> Work {
        let mut inner = self.inner.lock();
        while !inner.is_wanted(self.batch) {
            match wait {
                Wait::Not => break,
                Wait::Until(deadline) => {
                    if self.filled.wait_until(&mut inner, deadline.into_std()).timed_out() {
                        break;
                    }
                }
                Wait::Long => self.filled.wait(&mut inner),
            }
        }
        let work = Work {
            commits: std::mem::take(&mut inner.commits),
            prepare: std::mem::take(&mut inner.prepare),
            closed: inner.closed,
        };
        inner.bytes = 0;
        inner.wake_requested = false;
        drop(inner);
        self.drained.notify_one();
        work
    }

    /// Wakes the worker, which takes what is queued, however little, or has other work to do.
    pub(crate) fn wake(&self) {
        self.inner.lock().wake_requested = true;
        self.filled.notify_one();
    }

    /// Closes the feed: no more commits follow.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Ends the taking side: pushes do not wait any more.
    pub(crate) fn close_consumer(&self) {
        let commits = {
            let mut inner = self.inner.lock();
            inner.broken = true;
            std::mem::take(&mut inner.commits)
        };
        drop(commits);
        self.drained.notify_all();
    }
}

impl Inner {
    fn is_wanted(&self, batch: usize) -> bool {
        self.bytes >= batch || self.wake_requested || self.prepare || self.closed
    }
}
