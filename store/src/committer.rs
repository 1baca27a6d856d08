//! The evaluating thread of a store with a log: takes what is queued and evaluates it on staged state, also while the log
//! is busy with what came before.

use std::io;

use crate::group::Group;
use crate::queue::Job;
use crate::threads::Shared;
use crate::writer::Writer;

/// See the module. Owned by one thread.
pub(crate) struct Committer {
    writer: Writer,
    group: Group,
}

/// So many requests are logged by the evaluating thread itself if nothing else is under way: a hand-over to the other
/// thread would cost them more than evaluating the next ones meanwhile could gain.
const ALONE: usize = 4;

impl Committer {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer, group: Group::default() }
    }

    /// Evaluates jobs into a group, which goes through the log next: all of them, unless what they change is more than a group may
    /// hold. The others are left, in order.
    pub(crate) fn evaluate(&mut self, jobs: &mut Vec<Job>) -> &mut Group {
        let most = self.writer.core.limits.commit_bytes;
        jobs.reverse();
        while self.group.bytes() < most
            && let Some(job) = jobs.pop()
        {
            let first = self.group.commits.len();
            let answer = self.writer.execute(&job.request);
            self.writer.hand_over(&mut self.group);
            self.group.answer(job.reply, answer, first);
        }
        jobs.reverse();
        &mut self.group
    }

    /// Runs until the queue is closed and empty, or the log fails under this thread.
    pub(crate) fn serve(&mut self, shared: &Shared) -> io::Result<()> {
        let Shared { core, queue, pipe, .. } = shared;
        let mut jobs = Vec::new();
        while queue.take(&mut jobs) {
            while !jobs.is_empty() {
                if core.has_failed() {
                    return Ok(());
                }
                let alone = jobs.len() <= ALONE;
                let group = self.evaluate(&mut jobs);
                if alone && jobs.is_empty() && queue.is_empty() && pipe.enter() {
                    shared.step(group)?;
                } else {
                    pipe.put(group);
                }
            }
        }
        Ok(())
    }
}
