//! Brings requests to the writer: on the caller's thread in memory, through a bounded queue to `threads` otherwise.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::error::Stopped;
use crate::queue::Job;
use crate::request::{Answer, Refused, Request};
#[cfg(test)]
use crate::stepped::{Pending, Stepped};
use crate::threads::Threads;
use crate::writer::Writer;

/// See the module.
pub(crate) struct Driver {
    core: Arc<Core>,
    mode: Mode,
}

enum Mode {
    /// No log: the caller's thread does everything.
    Memory(Mutex<Writer>),
    /// A log, but no threads; until the store is closed.
    #[cfg(test)]
    Stepped(Box<Mutex<Option<Stepped>>>),
    Threads(Threads),
}

impl Driver {
    pub(crate) fn in_memory(writer: Writer) -> Self {
        Self { core: writer.core.clone(), mode: Mode::Memory(Mutex::new(writer)) }
    }

    #[cfg(test)]
    pub(crate) fn stepped(core: Arc<Core>, stepped: Stepped) -> Self {
        Self { core, mode: Mode::Stepped(Box::new(Mutex::new(Some(stepped)))) }
    }

    pub(crate) fn threads(core: Arc<Core>, threads: Threads) -> Self {
        Self { core, mode: Mode::Threads(threads) }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whether closing may take a while.
    pub(crate) fn has_threads(&self) -> bool {
        matches!(self.mode, Mode::Threads(_))
    }

    /// Resolves when the answer may go out: when what it says and what it was judged by is durable. The request is done even
    /// if the future is dropped.
    pub(crate) async fn submit(&self, request: Request, bytes: usize) -> Result<Answer, Refused> {
        if self.core.serving().is_err() {
            return Err(Refused::Stopped);
        }
        match &self.mode {
            Mode::Memory(writer) => submit_in_memory(writer, &request).map_err(|Stopped| Refused::Stopped),
            #[cfg(test)]
            Mode::Stepped(stepped) => {
                let mut answers = stepped.lock().as_mut().ok_or(Refused::Stopped)?.act(vec![request])?;
                Ok(answers.pop().expect("a request has an answer"))
            }
            Mode::Threads(threads) => {
                let (reply, answer) = oneshot::channel();
                let pushed = threads.queue().push(Job { request, bytes: bytes + 64, reply });
                pushed.inspect_err(|_| self.core.metrics.busy.add(1))?;
                answer.await.map_err(|_| Refused::Stopped)
            }
        }
    }

    #[cfg(test)]
    fn step<T>(&self, step: impl FnOnce(&mut Stepped) -> T) -> Result<T, Refused> {
        self.core.serving().map_err(|Stopped| Refused::Stopped)?;
        match &self.mode {
            Mode::Stepped(stepped) => stepped.lock().as_mut().map(step).ok_or(Refused::Stopped),
            Mode::Memory(_) | Mode::Threads(_) => unreachable!("only a stepped store is stepped"),
        }
    }

    /// Does several requests as one group.
    #[cfg(test)]
    pub(crate) fn submit_group(&self, requests: Vec<Request>) -> Result<Vec<Answer>, Refused> {
        self.step(|stepped| stepped.act(requests))?
    }

    /// Evaluates several requests as one group that waits for [`Driver::log_group`].
    #[cfg(test)]
    pub(crate) fn evaluate_group(&self, requests: Vec<Request>) -> Result<Vec<Pending>, Refused> {
        self.step(|stepped| stepped.evaluate(requests))
    }

    /// Logs the group that waits longest; false if none waits.
    #[cfg(test)]
    pub(crate) fn log_group(&self) -> Result<bool, Refused> {
        self.step(Stepped::log)
    }

    /// Ends the store in order: what is queued is done, synced and checkpointed, what was published is delivered. Returns
    /// when the threads are gone and the directory is free. Later calls do nothing.
    pub(crate) fn close(&self) {
        self.core.refuse();
        match &self.mode {
            Mode::Memory(_) => self.core.close(),
            #[cfg(test)]
            Mode::Stepped(stepped) => {
                self.core.close();
                let stepped = stepped.lock().take();
                stepped.into_iter().for_each(Stepped::finish);
            }
            Mode::Threads(threads) => threads.close(),
        }
    }
}

fn submit_in_memory(writer: &Mutex<Writer>, request: &Request) -> Result<Answer, Stopped> {
    let mut writer = writer.lock();
    let answer = writer.execute(request);
    writer.commit_in_memory()?;
    Ok(answer)
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close();
    }
}
