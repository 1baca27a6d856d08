//! What goes from the log to the background: published commits, bounded by bytes, and the wish for a prepared log file.
//! The background is not woken for every commit: that would cost a small write as much as its sync.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

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
    urgent: bool,
    closed: bool,
    /// The background is gone; nothing is taken any more.
    broken: bool,
}

/// What the background is woken for.
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
    /// one compacts, or at [`Feed::flush`].
    pub(crate) fn push(&self, commits: Vec<Arc<Commit>>, prepare: bool) {
        let mut inner = self.inner.lock();
        while inner.bytes > self.most && !inner.broken {
            self.drained.wait(&mut inner);
        }
        inner.bytes += commits.iter().map(|commit| commit.cost()).sum::<usize>();
        inner.urgent |= commits.iter().any(|commit| commit.compacted.is_some());
        inner.commits.extend(commits);
        inner.prepare |= prepare;
        let wake = inner.is_wanted(self.batch);
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Lets what is there be taken. Says nothing about when.
    pub(crate) fn flush(&self) {
        let mut inner = self.inner.lock();
        inner.urgent |= !inner.commits.is_empty();
        drop(inner);
        self.filled.notify_one();
    }

    /// Takes everything; if `wait`, waits until it is worth it.
    pub(crate) fn take(&self, wait: bool) -> Work {
        let mut inner = self.inner.lock();
        while wait && !inner.is_wanted(self.batch) {
            self.filled.wait(&mut inner);
        }
        let work = Work {
            commits: std::mem::take(&mut inner.commits),
            prepare: std::mem::take(&mut inner.prepare),
            closed: inner.closed,
        };
        inner.bytes = 0;
        inner.urgent = false;
        drop(inner);
        self.drained.notify_one();
        work
    }

    /// Wakes whoever takes: there is something else to do.
    pub(crate) fn nudge(&self) {
        self.inner.lock().urgent = true;
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
        self.bytes >= batch || self.urgent || self.prepare || self.closed
    }
}
