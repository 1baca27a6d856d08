//! A store with a log and without threads: every step on the caller's thread, so that a test sees the same steps every
//! time, and can stop between evaluation and log. Tests only.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::checkpoint::Background;
use crate::committer::Committer;
use crate::core::Core;
use crate::engine::EngineError;
use crate::group::Group;
use crate::log::Log;
use crate::queue::Job;
use crate::request::{Answer, Refused, Request};

/// See the module.
pub(crate) struct Stepped {
    core: Arc<Core>,
    committer: Committer,
    log: Log,
    background: Background,
    /// Evaluated, not yet logged.
    waiting: VecDeque<Group>,
}

/// An answer that has not come yet.
pub(crate) type Pending = oneshot::Receiver<Answer>;

impl Stepped {
    pub(crate) fn new(core: Arc<Core>, committer: Committer, log: Log, background: Background) -> Self {
        Self { core, committer, log, background, waiting: VecDeque::new() }
    }

    /// Evaluates requests as one group, which then waits for the log.
    pub(crate) fn evaluate(&mut self, requests: Vec<Request>) -> Vec<Pending> {
        let (mut jobs, mut answers) = (Vec::new(), Vec::new());
        for request in requests {
            let (reply, answer) = oneshot::channel();
            jobs.push(Job { request, bytes: 0, reply });
            answers.push(answer);
        }
        self.waiting.push_back(std::mem::take(self.committer.evaluate(&mut jobs)));
        answers
    }

    /// Logs the group that waits longest, and does all the work that follows. False if none waits.
    pub(crate) fn log(&mut self) -> bool {
        let Some(mut group) = self.waiting.pop_front() else { return false };
        if let Err(error) = self.try_log(&mut group) {
            self.core.fail("a step failed", &error);
            self.waiting.clear();
        }
        true
    }

    fn try_log(&mut self, group: &mut Group) -> Result<(), Box<dyn Display>> {
        fn boxed(error: impl Display + 'static) -> Box<dyn Display> {
            Box::new(error)
        }
        self.log.step(group).map_err(boxed)?;
        self.core.deliver();
        if let Some((commits, prepare)) = self.log.yielded() {
            if prepare {
                self.background.prepare().map_err(boxed)?;
            }
            self.background.absorb(&commits).map_err(boxed)?;
        }
        self.try_work().map_err(boxed)
    }

    /// Lets the background do what there is to do.
    pub(crate) fn work(&mut self) {
        if let Err(error) = self.try_work() {
            self.core.fail("a step failed", &error);
        }
    }

    fn try_work(&mut self) -> Result<(), EngineError> {
        while self.background.work()? {}
        Ok(())
    }

    /// Evaluates requests as one group and logs it, and all that waited before it.
    pub(crate) fn act(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>, Refused> {
        let answers = self.evaluate(requests);
        while self.log() {}
        answers.into_iter().map(|mut answer| answer.try_recv().map_err(|_| Refused::Stopped)).collect()
    }

    /// Notes a clean end and checkpoints.
    pub(crate) fn finish(mut self) {
        while self.log() {}
        if !self.core.has_failed() && self.log.finish().is_ok() {
            let _ = self.background.checkpoint();
        }
    }
}
