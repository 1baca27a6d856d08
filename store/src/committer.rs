//! The write path of a store with a log: take a group, evaluate it, one write, one sync, publish, answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Durability;
use crate::commit::Commit;
use crate::core::Core;
use crate::feed::Feed;
use crate::invariants;
use crate::queue::{Job, Queue, Wake};
use crate::request::Answer;
use crate::wal::Wal;
use crate::writer::Writer;

/// See the module. Owned by one thread.
pub(crate) struct Committer {
    writer: Writer,
    wal: Wal,
    /// Sync at this interval, not per group.
    relaxed: Option<Duration>,
    /// When the next sync is due, if something is unsynced.
    due: Option<Instant>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    /// Published but not yet synced: the engine must not be ahead of the log.
    held: Vec<Arc<Commit>>,
}

impl Committer {
    pub(crate) fn new(writer: Writer, wal: Wal, durability: Durability) -> Self {
        let relaxed = match durability {
            Durability::Relaxed { interval } => Some(interval),
            Durability::Sync | Durability::Memory => None,
        };
        Self { writer, wal, relaxed, due: None, answers: Vec::new(), held: Vec::new() }
    }

    fn core(&self) -> &Arc<Core> {
        &self.writer.core
    }

    /// Does a group of jobs and answers them. On an error nothing was published or answered; the store must stop.
    /// Returns what was published.
    pub(crate) fn group(&mut self, jobs: &mut Vec<Job>) -> io::Result<Vec<Arc<Commit>>> {
        for job in jobs.drain(..) {
            let answer = self.writer.execute(&job.request);
            self.answers.push((job.reply, answer));
        }
        if !self.writer.group().is_empty() {
            self.log()?;
        }
        let commits = self.writer.publish();
        for (reply, answer) in self.answers.drain(..) {
            // Whoever asked may have gone; what was done stays done.
            let _ = reply.send(answer);
        }
        Ok(commits)
    }

    fn log(&mut self) -> io::Result<()> {
        let bytes = self.wal.append(self.writer.group())?;
        match self.relaxed {
            None => self.sync()?,
            Some(interval) => {
                self.due.get_or_insert_with(|| Instant::now() + interval);
            }
        }
        let metrics = &self.core().metrics;
        metrics.groups.add(1);
        metrics.log_bytes.add(bytes as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.wal.sync()?;
        self.due = None;
        self.core().metrics.syncs.add(1);
        Ok(())
    }

    pub(crate) fn wants_spare(&self) -> bool {
        self.wal.wants_spare()
    }

    /// Syncs what is unsynced and notes a clean end.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.wal.mark_clean()
    }

    /// The thread: runs until the queue is closed or the disk fails. Afterwards nobody waits for it.
    pub(crate) fn run(mut self, queue: &Queue, feed: &Feed) {
        let core = self.core().clone();
        let _ending = Ending { core: &core, queue, feed };
        if let Err(error) = self.serve(queue, feed) {
            core.fail("the log cannot be written", &error);
        }
    }

    fn serve(&mut self, queue: &Queue, feed: &Feed) -> io::Result<()> {
        let core = self.core().clone();
        let mut jobs = Vec::new();
        let mut asked = false;
        loop {
            match queue.take(&mut jobs, self.due) {
                Wake::Jobs if core.has_failed() => return Err(io::Error::other("the background failed")),
                Wake::Jobs => {
                    let commits = self.group(&mut jobs)?;
                    if !commits.is_empty() {
                        core.hub.ring();
                        self.held.extend(commits);
                    }
                    if self.due.is_some_and(|due| due <= Instant::now()) {
                        self.sync()?;
                    }
                }
                Wake::Deadline => self.sync()?,
                Wake::Closed => {
                    self.finish()?;
                    feed.push(std::mem::take(&mut self.held), false, core.limits.feed_bytes);
                    return Ok(());
                }
            }
            if !self.held.is_empty() && !self.wal.has_unsynced() {
                invariants::log_covers(self.wal.synced_seq(), &self.held);
                // Asked once per segment.
                let wants = self.wants_spare();
                feed.push(std::mem::take(&mut self.held), wants && !asked, core.limits.feed_bytes);
                asked = wants;
            }
        }
    }
}

/// Lets nobody wait for a writer that is gone, also if it panicked.
struct Ending<'a> {
    core: &'a Core,
    queue: &'a Queue,
    feed: &'a Feed,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.core.fail("the writer panicked", &"see above");
        }
        self.queue.abandon();
        self.feed.close();
    }
}
