//! Dispatches requests to the writer: on the caller's thread in memory, otherwise through a bounded queue to `threads`.

use crate::Revision;
use crate::background::compact::Sweeper;
use crate::engine::memory::MemoryEngine;
use crate::published::core::Core;
use crate::runtime::queue::Job;
use crate::runtime::request::{Rejection, Request, Response};
#[cfg(test)]
use crate::runtime::stepped::{Pending, SteppedStore};
use crate::runtime::threads::Threads;
use crate::runtime::writer::Writer;
use crate::types::error::Stopped;
use crate::types::limits::JOB_BYTES;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Runs requests against the store, in the mode in which the store was opened.
pub(crate) struct Driver {
    core: Arc<Core>,
    mode: DriverMode,
}

enum DriverMode {
    /// No log: the calling thread evaluates and publishes.
    Memory(Box<Memory>),
    /// A log but no threads, for tests; none after the store was closed.
    #[cfg(test)]
    SteppedStore(Box<Mutex<Option<SteppedStore>>>),
    Threads(Threads),
}

/// The components of a store without a log and threads.
struct Memory {
    writer: Mutex<Writer>,
    sweeper: Mutex<Sweeper>,
    /// The core's engine, with its concrete type.
    engine: Arc<MemoryEngine>,
}

impl Driver {
    pub(crate) fn in_memory(writer: Writer, engine: Arc<MemoryEngine>, sweeper: Sweeper) -> Self {
        let core = writer.core.clone();
        let (writer, sweeper) = (Mutex::new(writer), Mutex::new(sweeper));
        Self { core, mode: DriverMode::Memory(Box::new(Memory { writer, sweeper, engine })) }
    }

    /// Runs `read` on the components of a store in memory, while no write and no removal is in progress. None if the
    /// store is on disk.
    pub(crate) fn with_memory<T>(
        &self,
        read: impl FnOnce(&Writer, &MemoryEngine, &Sweeper) -> T,
    ) -> Option<T> {
        match &self.mode {
            DriverMode::Memory(memory) => {
                let sweeper = memory.sweeper.lock();
                let writer = memory.writer.lock();
                Some(read(&writer, &memory.engine, &sweeper))
            }
            #[cfg(test)]
            DriverMode::SteppedStore(_) => None,
            DriverMode::Threads(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn stepped(core: Arc<Core>, stepped: SteppedStore) -> Self {
        Self { core, mode: DriverMode::SteppedStore(Box::new(Mutex::new(Some(stepped)))) }
    }

    pub(crate) fn threads(core: Arc<Core>, threads: Threads) -> Self {
        Self { core, mode: DriverMode::Threads(threads) }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whether closing may block on threads.
    pub(crate) fn has_threads(&self) -> bool {
        matches!(self.mode, DriverMode::Threads(_))
    }

    /// Runs a request and returns its answer after the answer and all commits that it depends on are durable. The store
    /// completes the request even if the future is dropped.
    pub(crate) async fn submit(&self, request: Request, bytes: usize) -> Result<Response, Rejection> {
        if self.core.check_serving().is_err() {
            return Err(Rejection::Stopped);
        }
        let _pending = self.core.metrics.requests_pending.begin();
        match &self.mode {
            DriverMode::Memory(memory) => {
                memory.submit(&self.core, &request).await.map_err(|Stopped| Rejection::Stopped)
            }
            #[cfg(test)]
            DriverMode::SteppedStore(stepped) => {
                let mut answers = stepped.lock().as_mut().ok_or(Rejection::Stopped)?.act(vec![request])?;
                Ok(answers.pop().expect("a request has an answer"))
            }
            DriverMode::Threads(threads) => {
                let (reply, answer) = oneshot::channel();
                let pushed = threads.queue().push(Job { request, bytes: bytes + JOB_BYTES, reply });
                pushed.inspect_err(|_| self.core.metrics.busy.add(1))?;
                answer.await.map_err(|_| Rejection::Stopped)
            }
        }
    }

    #[cfg(test)]
    fn step<T>(&self, step: impl FnOnce(&mut SteppedStore) -> T) -> Result<T, Rejection> {
        self.core.check_serving().map_err(|Stopped| Rejection::Stopped)?;
        match &self.mode {
            DriverMode::SteppedStore(stepped) => stepped.lock().as_mut().map(step).ok_or(Rejection::Stopped),
            DriverMode::Memory(_) | DriverMode::Threads(_) => unreachable!("only a stepped store is stepped"),
        }
    }

    /// Runs several requests as one group.
    #[cfg(test)]
    pub(crate) fn submit_group(&self, requests: Vec<Request>) -> Result<Vec<Response>, Rejection> {
        self.step(|stepped| stepped.act(requests))?
    }

    /// Evaluates several requests as one group, which stays pending until [`Driver::log_group`].
    #[cfg(test)]
    pub(crate) fn evaluate_group(&self, requests: Vec<Request>) -> Result<Vec<Pending>, Rejection> {
        self.step(|stepped| stepped.evaluate(requests))
    }

    /// Logs the oldest pending group. Returns false if none is pending.
    #[cfg(test)]
    pub(crate) fn log_group(&self) -> Result<bool, Rejection> {
        self.step(SteppedStore::log)
    }

    /// Wakes the background worker, which checks for work.
    pub(crate) fn wake(&self) {
        match &self.mode {
            // A store in memory has nothing to defragment.
            DriverMode::Memory(_) => {
                self.core
                    .background_waiters
                    .pending_defragment()
                    .into_iter()
                    .for_each(|ticket| self.core.background_waiters.complete_defragment(ticket, Ok(())));
            }
            #[cfg(test)]
            DriverMode::SteppedStore(stepped) => stepped.lock().iter_mut().for_each(SteppedStore::work),
            DriverMode::Threads(threads) => threads.wake(),
        }
    }

    /// Closes the store in order: queued requests are evaluated, synced and checkpointed, and published commits are
    /// delivered. Returns after the threads have ended and the directory is unlocked. Later calls do nothing.
    pub(crate) fn close(&self) {
        self.core.stop_accepting();
        match &self.mode {
            DriverMode::Memory(_) => self.core.close(),
            #[cfg(test)]
            DriverMode::SteppedStore(stepped) => {
                self.core.close();
                let stepped = stepped.lock().take();
                stepped.into_iter().for_each(SteppedStore::finish);
            }
            DriverMode::Threads(threads) => threads.close(),
        }
    }
}

impl Memory {
    async fn submit(&self, core: &Core, request: &Request) -> Result<Response, Stopped> {
        let (answer, compacted) = {
            let mut writer = self.writer.lock();
            let _ending = PanicGuard(core);
            let before = writer.compacted();
            let answer = writer.execute(request);
            writer.commit_in_memory()?;
            let after = writer.compacted();
            (answer, (after > before).then_some(after))
        };
        match compacted {
            // Requested, or made to bound the history.
            Some(revision) => self.sweep(core, revision).await?,
            // The caller that compacted may have been cancelled, or cannot keep up with the writers.
            None if core.has_excess_history() => {
                self.sweep_step(core)?;
            }
            None => {}
        }
        Ok(answer)
    }

    /// Runs physical compaction step by step and yields between steps. If the caller is cancelled, the next call
    /// continues.
    async fn sweep(&self, core: &Core, revision: Revision) -> Result<(), Stopped> {
        self.sweeper.lock().want(revision);
        while self.sweep_step(core)? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn sweep_step(&self, core: &Core) -> Result<bool, Stopped> {
        let mut sweeper = self.sweeper.lock();
        let more = sweeper.step(core).map_err(|error| {
            core.fail("the engine failed", &error);
            Stopped
        })?;
        core.update_usage(0);
        if !more {
            core.set_swept(sweeper.done());
            core.background_waiters.record_sweep(sweeper.done());
        }
        Ok(more)
    }
}

/// Guard that stops the store when the writer panics, because the staged state is then incomplete.
struct PanicGuard<'a>(&'a Core);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the writer panicked", &"see above");
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close();
    }
}
