//! A store with a log but without threads, for tests. Every step runs on the caller's thread, so that a test sees the
//! same steps every time and can stop between evaluation and log.

use crate::background::supervisor::Supervisor;
use crate::background::worker::BackgroundWorker;
use crate::engine::feed::{Wait, Work};
use crate::published::core::Core;
use crate::runtime::group::Group;
use crate::runtime::log::Log;
use crate::runtime::queue::Job;
use crate::runtime::request::{Rejection, Request, Response};
use crate::runtime::writer_thread::WriterThread;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The components of a store that a test drives step by step.
pub(crate) struct SteppedStore {
    core: Arc<Core>,
    writer: WriterThread,
    log: Log,
    supervisor: Supervisor,
    /// Groups that are evaluated but not logged.
    waiting: VecDeque<Group>,
}

/// Receiver of an answer.
pub(crate) type Pending = oneshot::Receiver<Response>;

impl SteppedStore {
    pub(crate) fn new(core: Arc<Core>, writer: WriterThread, log: Log, background: BackgroundWorker) -> Self {
        let supervisor = Supervisor::new(core.clone(), background);
        Self { core, writer, log, supervisor, waiting: VecDeque::new() }
    }

    /// Evaluates requests as one group, which then waits for the log.
    pub(crate) fn evaluate(&mut self, requests: Vec<Request>) -> Vec<Pending> {
        let (mut jobs, mut answers) = (Vec::new(), Vec::new());
        for request in requests {
            let (reply, answer) = oneshot::channel();
            jobs.push(Job { request, bytes: 0, reply });
            answers.push(answer);
        }
        while !jobs.is_empty() {
            self.waiting.push_back(std::mem::take(self.writer.evaluate(&mut jobs)));
        }
        answers
    }

    /// Logs the oldest waiting group and does all work that follows. Returns false if none waits.
    pub(crate) fn log(&mut self) -> bool {
        let Some(mut group) = self.waiting.pop_front() else { return false };
        if let Err(error) = self.try_log(&mut group) {
            self.core.fail("a step failed", &error);
            self.waiting.clear();
        }
        true
    }

    fn try_log(&mut self, group: &mut Group) -> io::Result<()> {
        self.log.step(group)?;
        self.core.deliver();
        let (commits, prepare) = self.log.take_synced().unwrap_or_default();
        self.run_background(Work { commits, prepare, closed: false });
        Ok(())
    }

    /// Runs the background worker until it has nothing to do.
    pub(crate) fn work(&mut self) {
        self.run_background(Work::default());
        while self.log() {}
    }

    fn run_background(&mut self, work: Work) {
        let mut wait = self.supervisor.run_once(work);
        while matches!(wait, Ok(Wait::Not)) {
            wait = self.supervisor.run_once(Work::default());
        }
        if let Err(error) = wait {
            self.core.fail("the history engine is of no use", &error);
        }
        if let Some(change) = self.supervisor.alarm_change() {
            self.evaluate(vec![Request::Alarm(change)]);
        }
    }

    /// Evaluates requests as one group, and logs it and all groups before it.
    pub(crate) fn act(&mut self, requests: Vec<Request>) -> Result<Vec<Response>, Rejection> {
        let answers = self.evaluate(requests);
        while self.log() {}
        answers.into_iter().map(|mut answer| answer.try_recv().map_err(|_| Rejection::Stopped)).collect()
    }

    /// Closes the log cleanly and checkpoints.
    pub(crate) fn finish(mut self) {
        while self.log() {}
        if !self.core.has_failed() && self.log.finish().is_ok() {
            self.run_background(Work { closed: true, ..Work::default() });
        }
    }
}
