//! The writer thread of a durable store: takes queued requests and evaluates them on staged state while the log
//! thread syncs the previous group.

use crate::runtime::group::Group;
use crate::runtime::queue::Job;
use crate::runtime::threads::Shared;
use crate::runtime::writer::Writer;
use std::io;

/// Evaluates queued requests into groups. The thread `kstore-writer` owns it.
pub(crate) struct WriterThread {
    writer: Writer,
    group: Group,
}

/// Up to this many requests, the writer thread writes the log itself if nothing else is in progress. Handing a
/// small group to the log thread would cost more than evaluating the next requests meanwhile could gain.
const ALONE: usize = 4;

impl WriterThread {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer, group: Group::default() }
    }

    /// Evaluates jobs into the group that is logged next, until their changes reach the bytes that a group may hold.
    /// Remaining jobs stay in `jobs`, in order.
    pub(crate) fn evaluate(&mut self, jobs: &mut Vec<Job>) -> &mut Group {
        let most = self.writer.core.limits.commit_bytes;
        jobs.reverse();
        while self.group.bytes() < most
            && let Some(job) = jobs.pop()
        {
            let first = self.group.commits.len();
            let answer = self.writer.execute(&job.request);
            self.writer.hand_over(&mut self.group);
            self.group.add_answer(job.reply, answer, first);
        }
        jobs.reverse();
        &mut self.group
    }

    /// Runs until the queue is closed and empty, or until this thread's write to the log fails.
    pub(crate) fn serve(&mut self, shared: &Shared) -> io::Result<()> {
        let Shared { core, queue, log_handover, .. } = shared;
        let mut jobs = Vec::new();
        while queue.take(&mut jobs) {
            while !jobs.is_empty() {
                if core.has_failed() {
                    return Ok(());
                }
                let alone = jobs.len() <= ALONE;
                let group = self.evaluate(&mut jobs);
                if alone && jobs.is_empty() && queue.is_empty() && log_handover.try_acquire_log() {
                    shared.step(group)?;
                } else {
                    log_handover.put(group);
                }
            }
        }
        Ok(())
    }
}
