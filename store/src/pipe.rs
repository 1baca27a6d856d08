//! Between evaluation and the log: what was evaluated while the log was busy waits here, bounded, and goes into the log as
//! one group. Also says who has the log: its own thread, or the evaluating one when nothing is under way.

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use crate::Limits;
use crate::group::Group;

/// See the module.
pub(crate) struct Pipe {
    inner: Mutex<Inner>,
    /// For the log's thread: something waits, or a deadline was set.
    filled: Condvar,
    /// For the evaluating thread: what waited was taken.
    drained: Condvar,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Inner {
    waiting: Group,
    /// Someone has the log.
    busy: bool,
    /// The log wants to be visited then, even if nothing waits.
    deadline: Option<Instant>,
    sleep: Sleep,
    /// Nothing more comes.
    closed: bool,
    /// The log is gone; nothing is taken any more.
    broken: bool,
}

/// What the log's thread waits for.
#[derive(Clone, Copy, Default)]
enum Sleep {
    /// It is awake.
    #[default]
    Awake,
    /// For groups.
    Deep,
    /// For groups, at most until then.
    Until(Instant),
}

/// What the log's thread is woken for. It has the log, except at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A group was taken.
    Group,
    /// The deadline is over.
    Deadline,
    /// Nothing more comes, and nothing waits.
    Closed,
}

impl Pipe {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            inner: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            most: limits.group_jobs,
            most_bytes: limits.group_bytes,
        }
    }

    /// Has the caller the log from now on? Only if nobody has it and nothing waits for it.
    pub(crate) fn enter(&self) -> bool {
        let mut inner = self.inner.lock();
        let free = !inner.busy && !inner.broken && inner.waiting.is_empty();
        inner.busy |= free;
        free
    }

    /// Gives the log back, which wants to be visited at `deadline`.
    pub(crate) fn leave(&self, deadline: Option<Instant>) {
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.deadline = deadline;
        let early = match (inner.sleep, deadline) {
            (Sleep::Awake, _) | (_, None) => false,
            (Sleep::Deep, Some(_)) => true,
            (Sleep::Until(until), Some(deadline)) => deadline < until,
        };
        if early {
            inner.sleep = Sleep::Awake;
            self.filled.notify_one();
        }
    }

    /// Puts a group in behind what waits; waits while that is as large as a group may be. Does nothing if the log is gone:
    /// the group's callers learn that the store stopped when it is dropped.
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
        let wake = !matches!(std::mem::take(&mut inner.sleep), Sleep::Awake);
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Gives the log back, then waits for something to do with it. `group` is empty and receives what waits.
    pub(crate) fn take(&self, group: &mut Group, deadline: Option<Instant>) -> Call {
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.deadline = deadline;
        let call = loop {
            if !inner.waiting.is_empty() {
                std::mem::swap(&mut inner.waiting, group);
                break Call::Group;
            }
            if inner.closed || inner.broken {
                return Call::Closed;
            }
            let over = inner.deadline.filter(|deadline| !inner.busy && *deadline <= Instant::now());
            if over.is_some() {
                break Call::Deadline;
            }
            self.sleep(&mut inner);
        };
        inner.busy = true;
        drop(inner);
        self.drained.notify_one();
        call
    }

    /// The log's thread sleeps. While the other one has the log there is no deadline: it brings one back.
    fn sleep(&self, inner: &mut parking_lot::MutexGuard<'_, Inner>) {
        match inner.deadline.filter(|_| !inner.busy) {
            None => {
                inner.sleep = Sleep::Deep;
                self.filled.wait(inner);
            }
            Some(deadline) => {
                inner.sleep = Sleep::Until(deadline);
                self.filled.wait_until(inner, deadline.into_std());
            }
        }
        inner.sleep = Sleep::Awake;
    }

    /// Nothing more comes; what waits is still taken.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// Nothing is taken any more; what waits is dropped, so that its callers learn that the store stopped.
    pub(crate) fn break_off(&self) {
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
