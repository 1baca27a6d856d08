//! The hand-over between evaluation and log: one bounded group collects what was evaluated while the log was busy, and
//! is logged next. The hand-over also decides which thread owns the log: the log thread, or the writer thread when
//! nothing is in progress.

use crate::Limits;
use crate::runtime::group::Group;
use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

/// The group that waits for the log, and the ownership of the log.
pub(crate) struct LogHandover {
    inner: Mutex<Inner>,
    /// Wakes the log thread: a group waits, or a deadline was set.
    filled: Condvar,
    /// Wakes the writer thread: the waiting group was taken.
    drained: Condvar,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Inner {
    waiting: Group,
    /// Whether a thread owns the log.
    busy: bool,
    /// When the log has work to do even if no group waits, such as a due sync.
    deadline: Option<Instant>,
    sleep: LogThreadState,
    /// The writer thread has ended; no more groups follow.
    closed: bool,
    /// The log has ended; nothing is taken any more.
    broken: bool,
}

/// Whether the log thread is awake, or what it waits for.
#[derive(Clone, Copy, Default)]
enum LogThreadState {
    /// The thread is awake.
    #[default]
    Awake,
    /// The thread waits for a group, without a deadline.
    Indefinite,
    /// The thread waits for a group until this time.
    Until(Instant),
}

/// Why the log thread was woken. It owns the log then, except in the case of `Closed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// A group was taken.
    Group,
    /// The deadline has passed.
    Deadline,
    /// The hand-over is closed and no group waits.
    Closed,
}

impl LogHandover {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            inner: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            most: limits.group_jobs,
            most_bytes: limits.group_bytes,
        }
    }

    /// Whether this thread now owns the log and must flush it. Only possible while no thread owns it and no group
    /// waits.
    pub(crate) fn try_acquire_log(&self) -> bool {
        let mut inner = self.inner.lock();
        let free = !inner.busy && !inner.broken && inner.waiting.is_empty();
        inner.busy |= free;
        free
    }

    /// Releases the log, whose next work without a group is due at `deadline`.
    pub(crate) fn release_log(&self, deadline: Option<Instant>) {
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.deadline = deadline;
        let early = match (inner.sleep, deadline) {
            (LogThreadState::Awake, _) | (_, None) => false,
            (LogThreadState::Indefinite, Some(_)) => true,
            (LogThreadState::Until(until), Some(deadline)) => deadline < until,
        };
        if early {
            inner.sleep = LogThreadState::Awake;
            self.filled.notify_one();
        }
    }

    /// Appends a group to the waiting one; blocks while the waiting one has reached its bound. Does nothing if the log
    /// has ended: dropping the group tells its callers that the store stopped.
    pub(crate) fn put(&self, group: &mut Group) {
        let mut inner = self.inner.lock();
        while !inner.broken && (inner.waiting.len() >= self.most || inner.waiting.bytes() >= self.most_bytes)
        {
            self.drained.wait(&mut inner);
        }
        if inner.broken {
            drop(inner);
            *group = Group::default();
            return;
        }
        inner.waiting.append(group);
        let wake = !matches!(std::mem::take(&mut inner.sleep), LogThreadState::Awake);
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Releases the log, then waits for a group or a deadline. `group` must be empty and receives the waiting group.
    pub(crate) fn take(&self, group: &mut Group, deadline: Option<Instant>) -> WakeReason {
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.deadline = deadline;
        let call = loop {
            if !inner.waiting.is_empty() {
                std::mem::swap(&mut inner.waiting, group);
                break WakeReason::Group;
            }
            if inner.closed || inner.broken {
                return WakeReason::Closed;
            }
            let over = inner.deadline.filter(|deadline| !inner.busy && *deadline <= Instant::now());
            if over.is_some() {
                break WakeReason::Deadline;
            }
            self.sleep(&mut inner);
        };
        inner.busy = true;
        drop(inner);
        self.drained.notify_one();
        call
    }

    /// Puts the log thread to sleep. While the writer thread owns the log there is no deadline: it sets one when it
    /// releases the log.
    fn sleep(&self, inner: &mut parking_lot::MutexGuard<'_, Inner>) {
        match inner.deadline.filter(|_| !inner.busy) {
            None => {
                inner.sleep = LogThreadState::Indefinite;
                self.filled.wait(inner);
            }
            Some(deadline) => {
                inner.sleep = LogThreadState::Until(deadline);
                self.filled.wait_until(inner, deadline.into_std());
            }
        }
        inner.sleep = LogThreadState::Awake;
    }

    /// Closes the hand-over; the log still takes the waiting group.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Ends the log's side and drops the waiting group, which tells its callers that the store stopped.
    pub(crate) fn close_consumer(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.broken = true;
            std::mem::take(&mut inner.waiting)
        };
        drop(waiting);
        self.filled.notify_one();
        self.drained.notify_one();
    }
}
