//! The threads of a store with a log: the writer evaluates, one logs, one delivers, one runs the background worker. Starts
//! them, ends them, and cleans up however each one ends.

use crate::background::supervisor::{LogBudgetExceeded, Supervisor};
use crate::background::worker::BackgroundWorker;
use crate::disk::real::DirLock;
use crate::engine::Engine;
use crate::engine::feed::Wait;
use crate::published::core::Core;
use crate::runtime::group::Group;
use crate::runtime::log::Log;
use crate::runtime::log_handover::{LogHandover, WakeReason};
use crate::runtime::queue::{Job, Queue};
use crate::runtime::request::{Rejection, Request};
use crate::runtime::writer_thread::WriterThread;
use crate::types::alarm::AlarmChange;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

/// The state that the store's threads share.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) queue: Queue,
    pub(crate) log_handover: LogHandover,
    /// The log. `log_handover` decides which thread owns it, so the lock is never contended.
    log: Mutex<Log>,
}

/// Handle to the running threads.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// The join handles; none after the store was closed.
    running: Mutex<Option<ThreadHandles>>,
}

struct ThreadHandles {
    writer: JoinHandle<()>,
    log: JoinHandle<()>,
    watch: JoinHandle<()>,
    background: JoinHandle<()>,
    _lock: Option<DirLock>,
}

impl Threads {
    pub(crate) fn start(
        core: Arc<Core>,
        writer: WriterThread,
        log: Log,
        background: BackgroundWorker,
        lock: Option<DirLock>,
    ) -> io::Result<Self> {
        let queue = Queue::new(&core.limits);
        let log_handover = LogHandover::new(&core.limits);
        let shared = Arc::new(Shared { core, queue, log_handover, log: Mutex::new(log) });
        let supervisor = Supervisor::new(shared.core.clone(), background);
        let running = ThreadHandles {
            writer: spawn("kstore-writer", &shared, move |shared| shared.write(writer))?,
            log: spawn("kstore-log", &shared, Shared::log)?,
            watch: spawn("kstore-watch", &shared, Shared::deliver)?,
            background: spawn("kstore-background", &shared, move |shared| shared.background(supervisor))?,
            _lock: lock,
        };
        Ok(Self { shared, running: Mutex::new(Some(running)) })
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.shared.queue
    }

    /// Wakes the background worker, which checks for work.
    pub(crate) fn wake(&self) {
        self.shared.core.feed.wake();
    }

    /// Lets the threads finish their work and waits for them. One of them may call this itself, when a waker that it
    /// calls drops the last handle. It cannot wait for itself, so another thread is started that waits.
    pub(crate) fn close(&self) {
        self.shared.queue.close();
        let mut running = self.running.lock();
        let Some(threads) = running.take() else { return };
        let shared = self.shared.clone();
        if threads.has(thread::current().id()) {
            let closing = thread::Builder::new().name("kstore-close".to_owned());
            if let Err(error) = closing.spawn(move || threads.join(&shared)) {
                tracing::error!(%error, "cannot start a thread that waits for the store's threads");
            }
        } else {
            threads.join(&shared);
        }
    }
}

impl ThreadHandles {
    fn has(&self, thread: thread::ThreadId) -> bool {
        let all = [&self.writer, &self.log, &self.watch, &self.background];
        all.iter().any(|own| own.thread().id() == thread)
    }

    fn join(self, shared: &Shared) {
        let join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        };
        join(self.writer);
        join(self.log);
        shared.core.hub.stop();
        join(self.watch);
        shared.core.close();
        join(self.background);
        shared.core.engine.close();
    }
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))
}

impl Shared {
    /// Logs a group on the thread that owns the log, and releases the log.
    pub(crate) fn step(&self, group: &mut Group) -> io::Result<()> {
        let mut log = self.log.lock();
        log.step(group)?;
        log.feed(&self.core.feed);
        self.log_handover.release_log(log.deadline());
        Ok(())
    }

    fn write(&self, mut writer: WriterThread) {
        let _ending = ThreadExitGuard { shared: self, on_exit: Self::on_writer_exit };
        if let Err(error) = writer.serve(self) {
            self.core.fail("the log cannot be written", &error);
        }
    }

    /// Cleans up after the writer thread: no more requests are evaluated.
    fn on_writer_exit(&self) {
        self.queue.abandon();
        if self.core.has_failed() {
            self.log_handover.close_consumer();
        } else {
            self.log_handover.close();
        }
    }

    fn log(&self) {
        let _ending = ThreadExitGuard { shared: self, on_exit: Self::on_log_exit };
        if let Err(error) = self.serve_log() {
            self.core.fail("the log cannot be written", &error);
        }
    }

    fn serve_log(&self) -> io::Result<()> {
        let (mut group, mut deadline) = (Group::default(), self.log.lock().deadline());
        loop {
            let call = self.log_handover.take(&mut group, deadline);
            let mut log = self.log.lock();
            match call {
                WakeReason::Group => log.step(&mut group)?,
                WakeReason::Deadline => {}
                WakeReason::Closed if self.core.has_failed() => return Ok(()),
                WakeReason::Closed => {
                    log.finish()?;
                    log.feed(&self.core.feed);
                    return Ok(());
                }
            }
            let idle = log.run_due_work()?;
            log.feed(&self.core.feed);
            if idle {
                self.core.feed.wake();
            }
            deadline = log.deadline();
        }
    }

    /// Cleans up after the log thread: no more groups are logged.
    fn on_log_exit(&self) {
        self.log_handover.close_consumer();
        self.queue.abandon();
        self.core.feed.close();
    }

    fn deliver(&self) {
        let _ending = ThreadExitGuard { shared: self, on_exit: Self::on_delivery_exit };
        let mut more = true;
        while more {
            more = self.core.hub.wait();
            self.core.deliver();
        }
    }

    /// Cleans up after the delivery thread: nothing to do. If it ends early, the store has failed and has ended all
    /// watches.
    fn on_delivery_exit(&self) {}

    fn background(&self, supervisor: Supervisor) {
        let _ending = ThreadExitGuard { shared: self, on_exit: Self::on_background_exit };
        if let Err(error) = self.serve_background(supervisor) {
            self.core.fail("the history engine is of no use", &error);
        }
    }

    fn serve_background(&self, mut supervisor: Supervisor) -> Result<(), LogBudgetExceeded> {
        let mut wait = Wait::Not;
        loop {
            let work = self.core.feed.take(wait);
            let closed = work.closed;
            wait = supervisor.run_once(work)?;
            if closed {
                return Ok(());
            }
            if let Some(change) = supervisor.alarm_change()
                && !self.change_alarms(change)
            {
                wait = supervisor.requeue_alarm_change(change);
            }
        }
    }

    /// Queues a change of the alarms, without waiting for the answer. Returns false if the queue is full.
    fn change_alarms(&self, change: AlarmChange) -> bool {
        let (reply, _) = oneshot::channel();
        let request = Request::Alarm(change);
        !matches!(self.queue.push(Job { request, bytes: 0, reply }), Err(Rejection::Busy))
    }

    /// Cleans up after the background thread: the engine gets nothing more.
    fn on_background_exit(&self) {
        if self.core.has_failed() {
            self.queue.abandon();
        }
        self.core.feed.close_consumer();
    }
}

/// Guard that cleans up when a thread ends, also after a panic, so that no other thread waits for it.
struct ThreadExitGuard<'a> {
    shared: &'a Shared,
    on_exit: fn(&Shared),
}

impl Drop for ThreadExitGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.core.fail("one of its threads panicked", &"see above");
        }
        (self.on_exit)(self.shared);
    }
}
