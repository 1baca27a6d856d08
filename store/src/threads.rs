//! The threads of a store with a log: one evaluates, one logs, one delivers, one does the background's work. How they start,
//! what each leaves behind however it ends, and how all are brought to an end.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::alarm::AlarmChange;
use crate::checkpoint::Background;
use crate::committer::Committer;
use crate::core::Core;
use crate::disk::real::DirLock;
use crate::feed::Wait;
use crate::group::Group;
use crate::keeper::{Keeper, Spent};
use crate::log::Log;
use crate::pipe::{Call, Pipe};
use crate::queue::{Job, Queue};
use crate::request::{Refused, Request};

/// What the threads share.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) queue: Queue,
    pub(crate) pipe: Pipe,
    /// Belongs to whom the pipe says; the lock is never waited for.
    log: Mutex<Log>,
}

/// The threads, to be ended.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// Until the store is closed.
    running: Mutex<Option<Running>>,
}

struct Running {
    writer: JoinHandle<()>,
    log: JoinHandle<()>,
    watch: JoinHandle<()>,
    background: JoinHandle<()>,
    _lock: Option<DirLock>,
}

impl Threads {
    pub(crate) fn start(
        core: Arc<Core>,
        committer: Committer,
        log: Log,
        background: Background,
        lock: Option<DirLock>,
    ) -> io::Result<Self> {
        let queue = Queue::new(&core.limits);
        let pipe = Pipe::new(&core.limits);
        let shared = Arc::new(Shared { core, queue, pipe, log: Mutex::new(log) });
        let keeper = Keeper::new(shared.core.clone(), background);
        let running = Running {
            writer: spawn("kstore-writer", &shared, move |shared| shared.evaluate(committer))?,
            log: spawn("kstore-log", &shared, Shared::log)?,
            watch: spawn("kstore-watch", &shared, Shared::deliver)?,
            background: spawn("kstore-background", &shared, move |shared| shared.background(keeper))?,
            _lock: lock,
        };
        Ok(Self { shared, running: Mutex::new(Some(running)) })
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.shared.queue
    }

    /// Lets the background look what there is to do.
    pub(crate) fn nudge(&self) {
        self.shared.core.feed.nudge();
    }

    /// Lets the threads finish what they have and waits for them. One of them cannot do that: for it (a waker that it calls
    /// may drop the last handle) another thread waits.
    pub(crate) fn close(&self) {
        self.shared.queue.close();
        let mut running = self.running.lock();
        let Some(threads) = running.take() else { return };
        let shared = self.shared.clone();
        if threads.has(thread::current().id()) {
            let closing = thread::Builder::new().name("kstore-close".to_owned());
            if let Err(error) = closing.spawn(move || threads.join(&shared)) {
                tracing::error!(%error, "nobody waits for the store's threads to end");
            }
        } else {
            threads.join(&shared);
        }
    }
}

impl Running {
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
    /// Logs a group on the thread that has the log, and gives the log back.
    pub(crate) fn step(&self, group: &mut Group) -> io::Result<()> {
        let mut log = self.log.lock();
        log.step(group)?;
        log.feed(&self.core.feed);
        self.pipe.leave(log.deadline());
        Ok(())
    }

    fn evaluate(&self, mut committer: Committer) {
        let _ending = Leaving { shared: self, leave: Self::leave_writer };
        if let Err(error) = committer.serve(self) {
            self.core.fail("the log cannot be written", &error);
        }
    }

    /// Nothing more is evaluated.
    fn leave_writer(&self) {
        self.queue.abandon();
        if self.core.has_failed() {
            self.pipe.break_off();
        } else {
            self.pipe.close();
        }
    }

    fn log(&self) {
        let _ending = Leaving { shared: self, leave: Self::leave_log };
        if let Err(error) = self.serve_log() {
            self.core.fail("the log cannot be written", &error);
        }
    }

    fn serve_log(&self) -> io::Result<()> {
        let (mut group, mut deadline) = (Group::default(), self.log.lock().deadline());
        loop {
            let call = self.pipe.take(&mut group, deadline);
            let mut log = self.log.lock();
            match call {
                Call::Group => log.step(&mut group)?,
                Call::Deadline => {}
                Call::Closed if self.core.has_failed() => return Ok(()),
                Call::Closed => {
                    log.finish()?;
                    log.feed(&self.core.feed);
                    return Ok(());
                }
            }
            let idle = log.visit()?;
            log.feed(&self.core.feed);
            if idle {
                self.core.feed.nudge();
            }
            deadline = log.deadline();
        }
    }

    /// Nothing more is logged.
    fn leave_log(&self) {
        self.pipe.break_off();
        self.queue.abandon();
        self.core.feed.close();
    }

    fn deliver(&self) {
        let _ending = Leaving { shared: self, leave: Self::leave_watch };
        let mut more = true;
        while more {
            more = self.core.hub.wait();
            self.core.deliver();
        }
    }

    /// Nothing more is delivered. If that is too early, the store has failed, and all watches know.
    fn leave_watch(&self) {}

    fn background(&self, keeper: Keeper) {
        let _ending = Leaving { shared: self, leave: Self::leave_background };
        if let Err(error) = self.serve_background(keeper) {
            self.core.fail("the history engine is of no use", &error);
        }
    }

    fn serve_background(&self, mut keeper: Keeper) -> Result<(), Spent> {
        let mut wait = Wait::Not;
        loop {
            let work = self.core.feed.take(wait);
            let closed = work.closed;
            wait = keeper.turn(work)?;
            if closed {
                return Ok(());
            }
            if let Some(change) = keeper.alarm_change()
                && !self.change_alarms(change)
            {
                wait = keeper.change_again(change);
            }
        }
    }

    /// Changes the alarms through the queue, as everyone does, but does not wait for it. False if there is no room now.
    fn change_alarms(&self, change: AlarmChange) -> bool {
        let (reply, _) = oneshot::channel();
        let request = Request::Alarm(change);
        !matches!(self.queue.push(Job { request, bytes: 0, reply }), Err(Refused::Busy))
    }

    /// The engine is given nothing more.
    fn leave_background(&self) {
        if self.core.has_failed() {
            self.queue.abandon();
        }
        self.core.feed.break_off();
    }
}

/// What a thread leaves behind, also if it panicked: nobody waits for one that is gone.
struct Leaving<'a> {
    shared: &'a Shared,
    leave: fn(&Shared),
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.core.fail("one of its threads panicked", &"see above");
        }
        (self.leave)(self.shared);
    }
}
