//! What goes from the log to the background: published commits, bounded by bytes, and the wish for a prepared log file.
//! The background is not woken for every commit: that would cost a small write as much as its sync.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use crate::commit::Commit;

/// See the module.
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Something came.
    filled: Condvar,
    /// Something was taken.
    drained: Condvar,
    /// At so many bytes the background is woken.
    batch: usize,
    /// At so many the giver waits.
    most: usize,
}

#[derive(Default)]
struct Inner {
    commits: Vec<Arc<Commit>>,
    bytes: usize,
    prepare: bool,
    /// What is there is to be taken now, however little it is; or there is something else to do.
    nudged: bool,
    closed: bool,
    /// The background is gone; nothing is taken any more.
    broken: bool,
}

/// How long the background waits for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all: it has something to do.
    Not,
    /// Until then.
    Until(Instant),
    /// Until there is work.
    Long,
}

/// What the background is woken for.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) commits: Vec<Arc<Commit>>,
    pub(crate) prepare: bool,
    /// Nothing more comes.
    pub(crate) closed: bool,
}

impl Feed {
    pub(crate) fn new(batch: usize, most: usize) -> Self {
        Self { inner: Mutex::default(), filled: Condvar::new(), drained: Condvar::new(), batch, most }
    }

    /// Puts commits in; waits while the feed is over its bound already. They are taken when there are enough of them, when
    /// one compacts or changes an alarm, or at [`Feed::nudge`].
    pub(crate) fn push(&self, commits: Vec<Arc<Commit>>, prepare: bool) {
        let mut inner = self.inner.lock();
        while inner.bytes > self.most && !inner.broken {
            self.drained.wait(&mut inner);
        }
        inner.bytes += commits.iter().map(|commit| commit.cost()).sum::<usize>();
        inner.nudged |= commits.iter().any(|commit| commit.compacted.is_some() || commit.alarms.is_some());
        inner.commits.extend(commits);
        inner.prepare |= prepare;
        let wake = inner.is_wanted(self.batch);
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Takes everything there is. Waits until that is worth it, but no longer than `wait` says.
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
        inner.nudged = false;
        drop(inner);
        self.drained.notify_one();
        work
    }

    /// Wakes whoever takes: what is there is to be taken, however little it is, or there is something else to do.
    pub(crate) fn nudge(&self) {
        self.inner.lock().nudged = true;
        self.filled.notify_one();
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Nothing more is taken.
    pub(crate) fn break_off(&self) {
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
        self.bytes >= batch || self.nudged || self.prepare || self.closed
    }
}
