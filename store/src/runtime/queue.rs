//! The bounded queue of requests before the writer thread, which sleeps while it is empty.

use crate::Limits;
use crate::runtime::request::{Rejection, Request, Response};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// A queued request with the sender for its answer.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) bytes: usize,
    pub(crate) reply: oneshot::Sender<Response>,
}

/// A bounded queue of jobs, by number and bytes.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wakeup: Condvar,
    max_jobs: usize,
    max_bytes: usize,
    group_jobs: usize,
    group_bytes: usize,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
    asleep: bool,
}

impl Queue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            inner: Mutex::default(),
            wakeup: Condvar::new(),
            max_jobs: limits.queue_jobs,
            max_bytes: limits.queue_bytes,
            group_jobs: limits.group_jobs,
            group_bytes: limits.group_bytes,
        }
    }

    /// Queues a job. Refuses it if the queue is full or closed.
    pub(crate) fn push(&self, job: Job) -> Result<(), Rejection> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Rejection::Stopped);
        }
        if inner.jobs.len() >= self.max_jobs || inner.bytes + job.bytes > self.max_bytes {
            return Err(Rejection::Busy);
        }
        inner.bytes += job.bytes;
        inner.jobs.push_back(job);
        let wake = std::mem::take(&mut inner.asleep);
        drop(inner);
        if wake {
            self.wakeup.notify_one();
        }
        Ok(())
    }

    /// Moves queued jobs, up to the size of a group, into `jobs`; sleeps while the queue is empty. Returns false when
    /// the queue is closed and empty.
    pub(crate) fn take(&self, jobs: &mut Vec<Job>) -> bool {
        let mut inner = self.inner.lock();
        while inner.jobs.is_empty() {
            if inner.closed {
                return false;
            }
            inner.asleep = true;
            self.wakeup.wait(&mut inner);
        }
        let mut bytes = 0;
        while jobs.len() < self.group_jobs && bytes < self.group_bytes {
            let Some(job) = inner.jobs.pop_front() else { break };
            bytes += job.bytes;
            jobs.push(job);
        }
        inner.bytes -= bytes;
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().jobs.is_empty()
    }

    /// Refuses new jobs; the queued jobs are still evaluated.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.wakeup.notify_all();
    }

    /// Refuses new jobs and drops the queued ones, which tells their callers that the store stopped.
    pub(crate) fn abandon(&self) {
        let jobs = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            inner.bytes = 0;
            std::mem::take(&mut inner.jobs)
        };
        drop(jobs);
        self.wakeup.notify_all();
    }
}
