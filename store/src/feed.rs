//! What goes from the writer to the background: published commits, bounded by bytes, and the wish for a prepared log file.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::commit::Commit;

/// See the module.
#[derive(Default)]
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Something came.
    filled: Condvar,
    /// Something was taken.
    drained: Condvar,
}

#[derive(Default)]
struct Inner {
    commits: Vec<Arc<Commit>>,
    bytes: usize,
    prepare: bool,
    nudged: bool,
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
    /// Puts commits in; waits while more than `most` bytes are there already.
    pub(crate) fn push(&self, commits: Vec<Arc<Commit>>, prepare: bool, most: usize) {
        let mut inner = self.inner.lock();
        while inner.bytes > most && !inner.broken {
            self.drained.wait(&mut inner);
        }
        inner.bytes += commits.iter().map(|commit| commit.cost()).sum::<usize>();
        inner.commits.extend(commits);
        inner.prepare |= prepare;
        drop(inner);
        self.filled.notify_one();
    }

    /// Takes everything; waits for something unless `idle` is false.
    pub(crate) fn take(&self, wait: bool) -> Work {
        let mut inner = self.inner.lock();
        while wait && inner.commits.is_empty() && !inner.prepare && !inner.nudged && !inner.closed {
            self.filled.wait(&mut inner);
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

    /// Wakes whoever takes: there is something else to do.
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
        self.inner.lock().broken = true;
        self.drained.notify_all();
    }
}
